//! A tuple has one entry per element.

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [([Shard(0)], _, _)], out = [Shard(0)])]
fn f(pair: (Tensor, f64)) -> Result<Tensor> {
    pair.0 * pair.1
}

fn main() {}
