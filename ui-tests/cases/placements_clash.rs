//! A chain of regions whose placements clash does not compile.

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn energy(x: &Tensor) -> Result<Tensor> {
    x.sqr()?.sum_all()
}

#[local_map(in = [[Replicate], _], out = [Replicate])]
fn scaled(loss: &Tensor, by: f64) -> Result<Tensor> {
    loss * by
}

fn step(x: &DTensor) -> Result<()> {
    scaled(&energy(x)?, 0.5)?;
    Ok(())
}

fn main() {}
