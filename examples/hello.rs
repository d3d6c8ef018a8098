//! The smallest program: four ranks, one tensor in four pieces, one annotated function.
//!
//! Run it with `cargo run --example hello`.

use candle_core::{Device, Result, Tensor};
use local_map::prelude::*;

/// The mean of a tensor of which each rank has some rows: every rank divides its own sum by the global count, and the
/// addends make up the mean.
#[local_map(in = [[Shard(0)], _], out = [Partial(Sum)])]
fn mean(x: &Tensor, count: usize) -> Result<Tensor> {
    x.sum_all()? / count as f64
}

fn main() -> Result<()> {
    let lines = launch(4, |world| -> Result<String> {
        let mesh = world.mesh([("dp", 4)])?;
        let x = Tensor::arange(0f32, 10.0, &Device::Cpu)?;
        let x = DTensor::shard(&x, &mesh, &[Shard(0)])?;
        let mean = mean(&x, 10)?;
        let value: f32 = mean.full()?.to_scalar()?;
        let mine: Vec<f32> = x.to_local()?.to_vec1()?;
        Ok(format!("rank {}: has {mine:?}, knows that the mean is {value}", world.rank()))
    })?;
    println!("{}", lines.join("\n"));
    Ok(())
}
