//! A tensor of a one-axis mesh is given to a function that speaks of two axes.

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn f(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[local_map(in = [[Shard(0), Replicate]], out = _, reshard)]
fn g(x: &Tensor) -> Result<usize> {
    Ok(x.rank())
}

fn step(x: &DTensor) -> Result<()> {
    g(&f(x)?)?;
    Ok(())
}

fn main() {}
