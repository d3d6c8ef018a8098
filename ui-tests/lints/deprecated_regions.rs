#![deny(deprecated)]

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[deprecated = "use `g`"]
#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
pub fn f(x: &Tensor) -> Result<Tensor> {
    x.relu()
}

pub fn caller(x: &DTensor) -> Result<()> {
    f(x)?;
    Ok(())
}

fn main() {}
