use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = { x = [Shard(0)] }, out = [Shard(0)])]
fn f(x: &Tensor) -> Result<Tensor> {
    x.relu()
}

fn main() {}
