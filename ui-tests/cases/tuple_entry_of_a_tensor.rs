//! A parameter that is no tuple has no elements to place.

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [([Shard(0)], _)], out = [Shard(0)])]
fn f(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

fn main() {}
