use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(out = [Shard(0)], in = [[Shard(0)], [Replicate]], grad = [[Shard(0)]])]
fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.matmul(w)
}

fn main() {}
