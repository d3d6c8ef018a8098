use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(out = _, recompute)]
fn f(x: &Tensor) -> Result<impl Iterator<Item = usize>> {
    Ok(x.dims().to_vec().into_iter())
}

fn main() {}
