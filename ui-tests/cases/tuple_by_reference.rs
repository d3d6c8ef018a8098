//! A tuple behind a reference is not taken apart.

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(out = [Shard(0)])]
fn f(pair: &(Tensor, f64)) -> Result<Tensor> {
    &pair.0 * pair.1
}

fn main() {}
