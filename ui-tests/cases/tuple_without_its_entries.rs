//! One list does not say how the elements of a tuple are placed.

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn f(pair: (Tensor, f64)) -> Result<Tensor> {
    pair.0 * pair.1
}

fn main() {}
