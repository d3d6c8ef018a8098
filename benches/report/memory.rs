//! What `recompute` saves and costs: the peak memory and the time of a chain of regions, forward and backward.

use candle_core::{DType, Device, Tensor};
use local_map::prelude::*;
use local_map::{Result, launch};

use crate::keep::peak_of;
use crate::measure::{sample, slowest};
use crate::rows::Row;

const REGIONS: usize = 8;

/// A body that keeps five tensors of the size of its input for its backward pass.
fn waves(x: &Tensor) -> candle_core::Result<Tensor> {
    x.sin()?.exp()?.tanh()?.sqr()?.cos()
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)], dynamic)]
fn kept(x: &Tensor) -> candle_core::Result<Tensor> {
    waves(x)
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)], recompute, dynamic)]
fn run_again(x: &Tensor) -> candle_core::Result<Tensor> {
    waves(x)
}

#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn total(x: &Tensor) -> candle_core::Result<Tensor> {
    x.sum_all()
}

type Layer = fn(&DTensor) -> candle_core::Result<DTensor>;

/// The gradient of a chain of the layer.
fn chain(x: &DTensor, layer: Layer) -> Result<Vec<f32>> {
    let mut y = x.clone();
    for _ in 0..REGIONS {
        y = layer(&y)?;
    }
    let gradients = total(&y)?.backward()?;
    drop(y);
    let gradient = gradients.get(x).map(DTensor::to_local).transpose()?;
    Ok(gradient.map(|g| g.narrow(0, 0, 1)?.flatten_all()?.to_vec1()).transpose()?.unwrap_or_default())
}

pub(crate) fn recompute(rows: &mut Vec<Row>) -> Result<()> {
    for (name, layer) in [("8 regions, graphs kept", kept as Layer), ("8 regions, recompute", run_again)] {
        let measured = launch(1, |world| -> Result<_> {
            let mesh = world.mesh([("dp", 1)])?;
            let x = Tensor::full(0.3f32, (4096, 256), &Device::Cpu)?;
            let x = DTensor::shard(&x, &mesh, &[Shard(0)])?.requires_grad()?;
            assert_eq!(chain(&x, layer)?, chain(&x, kept)?, "the gradients are the same");
            let (gradient, peak) = peak_of(|| chain(&x, layer));
            gradient?;
            Ok((sample(&mesh.communicator(&[])?, || chain(&x, layer))?, peak))
        })?;
        let (samples, peaks): (Vec<_>, Vec<usize>) = measured.into_iter().unzip();
        let samples = slowest(samples);
        rows.push(Row {
            note: format!("peak {} MiB", peaks.into_iter().max().unwrap_or(0) >> 20),
            ..Row::new("memory", name, 1, "4MiB", DType::F32.as_str(), samples)
        });
    }
    Ok(())
}
