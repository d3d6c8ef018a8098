use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn masked_mean(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    (x * mask)?.sum_all()? / mask.sum_all()?
}

fn main() {}
