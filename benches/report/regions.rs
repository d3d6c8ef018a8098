//! W1: what a region call costs over the plain function.

use std::hint::black_box;

use candle_core::{Device, Tensor};
use local_map::prelude::*;
use local_map::{Result, launch};

use crate::measure::{Samples, sample, slowest};
use crate::rows::Row;

fn plain_identity(x: &Tensor) -> candle_core::Result<Tensor> {
    Ok(x.clone())
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn identity(x: &Tensor) -> candle_core::Result<Tensor> {
    plain_identity(x)
}

pub(crate) fn plain_mixed(a: &Tensor, b: &Tensor, c: &Tensor, s: f64) -> candle_core::Result<(Tensor, Tensor)> {
    Ok((((a * b)? + c)?, ((a - c)? * s)?))
}

#[local_map(in = [[Shard(0)], [Shard(0)], [Shard(0)], _], out = [[Shard(0)], [Shard(0)]])]
pub(crate) fn mixed(a: &Tensor, b: &Tensor, c: &Tensor, s: f64) -> candle_core::Result<(Tensor, Tensor)> {
    plain_mixed(a, b, c, s)
}

/// One rank's samples of the plain function and the region, for both functions.
fn program(world: World) -> Result<[Samples; 4]> {
    let mesh = world.mesh([("dp", world.size())])?;
    let group = mesh.communicator(&[])?;
    let x = Tensor::arange(0f32, 16.0, &Device::Cpu)?;
    let d = DTensor::from_local(x.clone(), &mesh, &[Shard(0)])?;

    let whole: Vec<f32> = (0..world.size()).flat_map(|_| (0..16).map(|i| i as f32)).collect();
    assert_eq!(identity(&d)?.full()?.to_vec1::<f32>()?, whole);
    let (sum, difference) = mixed(&d, &d, &d, 2.0)?;
    assert_eq!(sum.to_local()?.to_vec1::<f32>()?[3], 12.0);
    assert_eq!(difference.to_local()?.to_vec1::<f32>()?[3], 0.0);

    Ok([
        sample(&group, || Ok(plain_identity(black_box(&x))?))?,
        sample(&group, || Ok(identity(black_box(&d))?))?,
        sample(&group, || Ok(plain_mixed(&x, black_box(&x), &x, 2.0)?))?,
        sample(&group, || Ok(mixed(&d, black_box(&d), &d, 2.0)?))?,
    ])
}

pub(crate) fn w1(ranks: usize, rows: &mut Vec<Row>) -> Result<()> {
    let mut cases: [Vec<Samples>; 4] = Default::default();
    for rank in launch(ranks, program)? {
        cases.iter_mut().zip(rank).for_each(|(case, samples)| case.push(samples));
    }
    let mut plain = None;
    for (name, case) in
        ["identity, plain", "identity", "3in1scalar2out, plain", "3in1scalar2out"].into_iter().zip(cases)
    {
        let samples = slowest(case);
        let mut row = Row::new("W1", name, ranks, "16", "f32", samples);
        match plain.take() {
            None => plain = Some(row.median()),
            Some(plain) => row.note = format!("{:.3} us over plain", row.median() - plain),
        }
        rows.push(row);
    }
    Ok(())
}
