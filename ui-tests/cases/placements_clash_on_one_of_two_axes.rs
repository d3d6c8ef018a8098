//! Of two mesh axes only the one that clashes is blamed.

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [[Shard(0), Replicate]], out = [Shard(0), Partial(Max)])]
fn f(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[local_map(in = [_, [Shard(0), Shard(1)]], out = _)]
fn g(n: usize, w: &Tensor) -> Result<usize> {
    Ok(n + w.rank())
}

fn step(x: &DTensor) -> Result<()> {
    g(1, &f(x)?)?;
    Ok(())
}

fn main() {}
