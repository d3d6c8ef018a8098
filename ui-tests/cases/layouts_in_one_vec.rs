use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn f(x: &Tensor) -> Result<Tensor> {
    x.relu()
}

#[local_map(in = [[Shard(0)]], out = [Replicate])]
fn g(x: &Tensor) -> Result<Tensor> {
    x.relu()
}

fn both(x: &DTensor) -> Result<Vec<DTensor>> {
    Ok(vec![f(x)?, g(x)?])
}

fn main() {}
