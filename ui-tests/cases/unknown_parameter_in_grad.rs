use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = { weight: [Replicate] }, grad = { weigth: [Partial] }, out = [Shard(0)])]
fn product(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    x.matmul(weight)
}

fn main() {}
