use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn f(x: &Tensor) -> Result<Tensor> {
    x.relu()
}

fn once(x: &DTensor) -> Result<DTensor> {
    f(x)
}

fn main() {}
