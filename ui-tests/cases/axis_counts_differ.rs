use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [[Shard(0), Replicate], [Replicate, Shard(1)]], out = [Shard(0)])]
fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.matmul(w)
}

fn main() {}
