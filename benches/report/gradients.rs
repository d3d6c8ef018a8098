//! W1b and W5: forward and backward.

use std::hint::black_box;

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor, Var};
use local_map::prelude::*;
use local_map::{Result, launch};

use crate::measure::{Samples, sample, slowest};
use crate::regions::{mixed, plain_mixed};
use crate::rows::Row;

fn plain_double(x: &Tensor) -> candle_core::Result<Tensor> {
    x * 2.0
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn double(x: &Tensor) -> candle_core::Result<Tensor> {
    plain_double(x)
}

#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn total(x: &Tensor) -> candle_core::Result<Tensor> {
    x.sum_all()
}

/// Doubles and adds up in one region, as the plain function does.
#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn double_total(x: &Tensor) -> candle_core::Result<Tensor> {
    plain_double(x)?.sum_all()
}

#[local_map(in = [[Shard(0)], [Shard(0)], [Shard(0)], _], out = [Partial(Sum)])]
fn mixed_total(a: &Tensor, b: &Tensor, c: &Tensor, s: f64) -> candle_core::Result<Tensor> {
    plain_mixed_total(a, b, c, s)
}

fn plain_mixed_total(a: &Tensor, b: &Tensor, c: &Tensor, s: f64) -> candle_core::Result<Tensor> {
    let (sum, difference) = plain_mixed(a, b, c, s)?;
    sum.sum_all()? + difference.sum_all()?
}

const CASES: [(&str, usize); 6] = [
    ("mul2 fwd+bwd, plain", 0),
    ("mul2 fwd+bwd", 0),
    ("mul2 fwd+bwd, sum in a region of its own", 0),
    ("3in1scalar2out fwd+bwd, plain", 3),
    ("3in1scalar2out fwd+bwd", 3),
    ("3in1scalar2out fwd+bwd, sums in regions of their own", 3),
];

/// One rank's samples of [`CASES`].
fn program(world: World) -> Result<[Samples; CASES.len()]> {
    let mesh = world.mesh([("dp", world.size())])?;
    let group = mesh.communicator(&[])?;
    let vars = [1f32, 2.0, 3.0].map(|n| Var::from_tensor(&Tensor::arange(n, n + 16.0, &Device::Cpu)?));
    let [x, y, z] = vars;
    let (x, y, z) = (x?, y?, z?);
    let leaf = |x: &Tensor| DTensor::from_local(x.clone(), &mesh, &[Shard(0)])?.requires_grad();
    let (a, b, c) = (leaf(&x)?, leaf(&y)?, leaf(&z)?);

    let mul2_plain = || -> Result<GradStore> { Ok(plain_double(black_box(&x))?.sum_all()?.backward()?) };
    let mul2 = || double_total(black_box(&a))?.backward();
    let mul2_apart = || total(&double(black_box(&a))?)?.backward();
    let mixed_plain = || -> Result<GradStore> { Ok(plain_mixed_total(black_box(&x), &y, &z, 2.0)?.backward()?) };
    let mixed_once = || mixed_total(black_box(&a), &b, &c, 2.0)?.backward();
    let mixed_apart = || -> Result<Gradients> {
        let (sum, difference) = mixed(black_box(&a), &b, &c, 2.0)?;
        (&total(&sum)? + &total(&difference)?)?.backward()
    };

    let same = |ours: &Gradients, theirs: &GradStore, leaves: &[(&DTensor, &Var)]| -> Result<()> {
        for (leaf, var) in leaves {
            let gradients = (ours.get(leaf), theirs.get(var));
            let (Some(ours), Some(theirs)) = gradients else { panic!("a gradient is missing") };
            assert_eq!(ours.to_local()?.to_vec1::<f32>()?, theirs.to_vec1::<f32>()?);
        }
        Ok(())
    };
    same(&mul2()?, &mul2_plain()?, &[(&a, &x)])?;
    same(&mul2_apart()?, &mul2_plain()?, &[(&a, &x)])?;
    let leaves = [(&a, &x), (&b, &y), (&c, &z)];
    same(&mixed_once()?, &mixed_plain()?, &leaves)?;
    same(&mixed_apart()?, &mixed_plain()?, &leaves)?;

    Ok([
        sample(&group, mul2_plain)?,
        sample(&group, mul2)?,
        sample(&group, mul2_apart)?,
        sample(&group, mixed_plain)?,
        sample(&group, mixed_once)?,
        sample(&group, mixed_apart)?,
    ])
}

pub(crate) fn w1b(ranks: usize, rows: &mut Vec<Row>) -> Result<()> {
    let mut cases: [Vec<Samples>; CASES.len()] = Default::default();
    for rank in launch(ranks, program)? {
        cases.iter_mut().zip(rank).for_each(|(case, samples)| case.push(samples));
    }
    let first = rows.len();
    for (at, ((name, plain), case)) in CASES.into_iter().zip(cases).enumerate() {
        let samples = slowest(case);
        let mut row = Row::new("W1b", name, ranks, "16", "f32", samples);
        if at != plain {
            row.note = format!("{:.3} us over plain", row.median() - rows[first + plain].median());
        }
        rows.push(row);
    }
    Ok(())
}

const TOKENS: usize = 8192;
const WIDTH: usize = 1024;

fn plain_masked(logits: &Tensor, mask: &Tensor) -> candle_core::Result<Tensor> {
    (logits * mask)?.sum_all()? / mask.sum_all()?
}

#[local_map(in = [[Shard(0)], [Shard(0)]], out = [Partial(Sum)])]
fn masked(logits: &Tensor, mask: &Tensor) -> candle_core::Result<Tensor> {
    plain_masked(logits, mask)
}

pub(crate) fn w5(ranks: usize, rows: &mut Vec<Row>) -> Result<()> {
    let samples = launch(ranks, |world| -> Result<[Samples; 2]> {
        let mesh = world.mesh([("dp", ranks)])?;
        let local = (TOKENS / ranks, WIDTH);
        let logits = Tensor::ones(local, DType::F32, &Device::Cpu)?;
        // Every fourth element, so that each rank's mean is that of ones and its gradient 1 / count.
        let kept: Vec<f32> = (0..local.0 * local.1).map(|i| f32::from(u8::from(i % 4 == 1))).collect();
        let mask = Tensor::from_vec(kept, local, &Device::Cpu)?;
        let var = Var::from_tensor(&logits)?;
        let plain_mask = mask.clone();
        let plain = || -> Result<GradStore> { Ok(plain_masked(black_box(&var), &plain_mask)?.backward()?) };
        let logits = DTensor::from_local(logits, &mesh, &[Shard(0)])?.requires_grad()?;
        let mask = DTensor::from_local(mask, &mesh, &[Shard(0)])?;
        let step = || -> Result<(DTensor, Gradients)> {
            let loss = masked(black_box(&logits), &mask)?.reshard(&[Replicate])?;
            let gradients = loss.backward()?;
            Ok((loss, gradients))
        };

        let (loss, gradients) = step()?;
        assert_eq!(loss.to_local()?.to_scalar::<f32>()?, ranks as f32);
        let Some(gradient) = gradients.get(&logits) else { panic!("the logits have a gradient") };
        let count = (local.0 * local.1 / 4) as f32;
        assert_eq!(gradient.to_local()?.narrow(0, 0, 1)?.flatten_all()?.to_vec1::<f32>()?[..2], [0.0, 1.0 / count]);
        drop(gradients);
        let group = mesh.communicator(&[])?;
        Ok([sample(&group, plain)?, sample(&group, step)?])
    })?;
    let (plain, ours): (Vec<Samples>, Vec<Samples>) = samples.into_iter().map(|[plain, ours]| (plain, ours)).unzip();
    for (case, samples) in [("masked loss fwd+bwd, plain, per rank", plain), ("masked loss fwd+bwd", ours)] {
        let samples = slowest(samples);
        rows.push(Row::new("W5", case, ranks, format!("{TOKENS}x{WIDTH}"), "f32", samples));
    }
    Ok(())
}
