//! What `#[local_map]` accepts: every form of function, parameter, result and placement, run on two ranks.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "language/functions.rs"]
mod functions;
#[path = "language/gradients.rs"]
mod gradients;
#[path = "language/parameters.rs"]
mod parameters;
#[path = "language/placements.rs"]
mod placements;
#[path = "language/results.rs"]
mod results;
#[path = "language/surroundings.rs"]
#[warn(clippy::pedantic, clippy::nursery)]
#[allow(clippy::cast_precision_loss, clippy::redundant_pub_crate)]
mod surroundings;
#[path = "language/tuples.rs"]
mod tuples;

use candle_core::{Device, Result, Tensor};
use local_map::prelude::*;

/// Runs `program` on two ranks, which must return the same, and returns that.
#[track_caller]
fn on_two<T: Send + PartialEq + std::fmt::Debug>(program: impl Fn(DeviceMesh) -> Result<T> + Sync) -> T {
    let values = launch(2, |world| -> Result<T> { program(world.mesh([("dp", 2)])?) }).unwrap();
    let [first, second] = <[T; 2]>::try_from(values).unwrap();
    assert_eq!(first, second, "the ranks must agree");
    first
}

/// `0.0, 1.0, ..` of the given length, cut into rows.
fn rows(mesh: &DeviceMesh, len: usize) -> Result<DTensor> {
    let whole = Tensor::arange(0f32, len as f32, &Device::Cpu)?;
    Ok(DTensor::shard(&whole, mesh, &[Shard(0)])?)
}

/// The same scalar or vector on every rank.
fn replicated(mesh: &DeviceMesh, values: &[f32]) -> Result<DTensor> {
    let whole = Tensor::new(values, &Device::Cpu)?;
    Ok(DTensor::shard(&whole, mesh, &[Replicate])?)
}

/// All elements of the global tensor.
fn all<L>(x: &DTensor<L>) -> Result<Vec<f32>> {
    x.as_dyn().full()?.flatten_all()?.to_vec1()
}
