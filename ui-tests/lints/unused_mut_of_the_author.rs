#![deny(unused_mut)]

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [[Shard(0)], _], out = [Shard(0)])]
pub fn f(mut x: Tensor, mut by: f64) -> Result<Tensor> {
    x * by
}

fn main() {}
