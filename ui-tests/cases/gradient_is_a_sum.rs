use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(out = [Shard(0)], in = [[Shard(0)], [Replicate]], grad = [_, [Partial(Avg)]])]
fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.matmul(w)
}

fn main() {}
