use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(out = [Shard(0)], redistribute_inputs)]
fn f(x: &Tensor) -> Result<Tensor> {
    x.relu()
}

fn main() {}
