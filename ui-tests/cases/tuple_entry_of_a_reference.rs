//! A tuple behind a reference is not taken apart.

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [([Shard(0)], [Shard(0)])], out = [Shard(0)])]
fn sum(pair: &(Tensor, Tensor)) -> Result<Tensor> {
    &pair.0 + &pair.1
}

fn main() {}
