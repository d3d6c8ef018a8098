#![deny(unused_must_use)]

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[must_use = "it changes nothing"]
#[local_map(in = [[Shard(0)]], out = _)]
pub fn length(x: &Tensor) -> Result<usize> {
    Ok(x.elem_count())
}

pub fn caller(x: &DTensor) {
    length(x);
}

fn main() {}
