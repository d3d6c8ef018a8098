//! An axis that the function names is named in the message.

use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(axes = (data, tensor), in = [{ data: Shard(0) }], out = { data: Shard(0), tensor: Partial(Sum) })]
fn up(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[local_map(axes = (data, tensor), in = { x: { data: Shard(0), tensor: Replicate } }, out = { data: Shard(0) })]
fn down(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

fn step(x: &DTensor) -> Result<()> {
    down(&up(x)?)?;
    Ok(())
}

fn main() {}
