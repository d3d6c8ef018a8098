//! W6: one rank of a large world, on the fake engine.

use std::hint::black_box;

use candle_core::{DType, Device, Tensor};
use local_map::prelude::*;
use local_map::{Result, launch};

use crate::measure::{Samples, sample};
use crate::rows::Row;

type Axes = &'static [(&'static str, usize)];

const WORLDS: [(usize, &str, Axes); 5] = [
    (64, "1-D", &[("dp", 64)]),
    (4096, "1-D", &[("dp", 4096)]),
    (65_536, "1-D", &[("dp", 65_536)]),
    (65_536, "256x256", &[("dp", 256), ("tp", 256)]),
    (65_536, "16x64x64", &[("pp", 16), ("dp", 64), ("tp", 64)]),
];

pub(crate) fn w6(rows: &mut Vec<Row>) -> Result<()> {
    for (size, name, axes) in WORLDS {
        // The samples are taken on a launched rank; the world that is measured is a fake one.
        for measured in launch(1, |world| program(&world.mesh([("one", 1)])?.communicator(&[])?, size, axes))? {
            rows.extend(
                measured
                    .into_iter()
                    .map(|(case, samples)| Row::new("W6", format!("{case}, {name}"), size, "", "f32", samples)),
            );
        }
    }
    Ok(())
}

fn program(group: &Communicator, size: usize, axes: Axes) -> Result<Vec<(&'static str, Samples)>> {
    let world = World::fake(size - 1, size)?;
    let mesh = world.mesh(axes.iter().copied())?;
    let local = Tensor::zeros((4, 4), DType::F32, &Device::Cpu)?;
    let placed = |first: Placement| -> Vec<Placement> {
        let rest = axes.iter().skip(1).map(|_| Replicate);
        std::iter::once(first).chain(rest).collect()
    };
    let (shard, whole, sum) = (placed(Shard(0)), placed(Replicate), placed(Partial(Sum)));
    let sharded = DTensor::from_local(local.clone(), &mesh, &shard)?;
    let replicated = DTensor::from_local(local.clone(), &mesh, &whole)?;
    let partial = DTensor::from_local(local.clone(), &mesh, &sum)?;
    assert_eq!(sharded.shape()?, [4 * axes[0].1, 4]);
    let offset = || -> Result<()> {
        let spec = sharded.spec()?;
        black_box((spec.shape().len(), spec.piece(mesh.coordinate().unwrap_or_default()).offset()));
        Ok(())
    };
    Ok(vec![
        ("mesh", sample(group, || world.mesh(axes.iter().copied()))?),
        ("from_local", sample(group, || DTensor::from_local(local.clone(), &mesh, &shard))?),
        ("shape and offset", sample(group, offset)?),
        ("plan R->S0", sample(group, || replicated.explain(&shard))?),
        ("plan P->R", sample(group, || partial.explain(&whole))?),
    ])
}
