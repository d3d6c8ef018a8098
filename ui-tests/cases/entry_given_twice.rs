use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = { x: [Shard(0)], weight: [Replicate] }, out = [Shard(0)])]
fn product(x: &Tensor, #[place(Replicate)] weight: &Tensor) -> Result<Tensor> {
    x.matmul(weight)
}

fn main() {}
