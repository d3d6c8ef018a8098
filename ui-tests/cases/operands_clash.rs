//! Tensors that are not placed alike cannot be added.

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [[Shard(0)]], out = [[Shard(0)], [Partial(Sum)]])]
fn f(x: &Tensor) -> Result<(Tensor, Tensor)> {
    Ok((x.clone(), x.sum(0)?))
}

fn step(x: &DTensor) -> Result<()> {
    let (a, b) = f(x)?;
    (&a + &b)?;
    Ok(())
}

fn main() {}
