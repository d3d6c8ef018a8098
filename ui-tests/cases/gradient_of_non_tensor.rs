use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(out = [Shard(0)], grad = [[Shard(0)], [Replicate]])]
fn f(x: &Tensor, scale: f64) -> Result<Tensor> {
    x * scale
}

fn main() {}
