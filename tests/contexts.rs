//! Bodies that communicate through the region context, and their gradients.
#![allow(clippy::unwrap_used)]

mod support;

use candle_core::{DType, Device, Result, Tensor};
use local_map::Launch;
use local_map::prelude::*;
use support::{launched, vector};

/// The gradient of `x` under `loss`, whole.
fn gradient<T: Into<DTensor>>(
    n: usize,
    x: &[f64],
    placement: Placement,
    loss: impl Fn(&DTensor) -> Result<T> + Sync,
) -> Vec<f64> {
    let all = launched(n, |world| {
        let mesh = world.mesh([("dp", n)])?;
        let x = DTensor::shard(&vector(x), &mesh, &[placement])?.requires_grad()?;
        let loss: DTensor = loss(&x)?.into();
        let gradients = loss.reshard(&[Replicate])?.backward()?;
        Ok(gradients.get(&x).unwrap().full()?.to_vec1::<f64>()?)
    });
    assert!(all.iter().all(|g| *g == all[0]), "{all:?}");
    all[0].clone()
}

const X: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

#[local_map(in = [[Shard(0)]], out = [Replicate])]
fn energy_everywhere(x: &Tensor, ctx: &Region) -> Result<Tensor> {
    Ok(ctx.all_reduce(&x.sqr()?.sum_all()?, "dp", Sum)?)
}

#[local_map(in = [[Shard(0)]], out = [Replicate])]
fn largest_everywhere(ctx: &Region, x: &Tensor) -> Result<Tensor> {
    Ok(ctx.all_reduce(&x.max(0)?, "dp", Max)?)
}

#[test]
fn an_all_reduce_inside_a_body_equals_one_device() {
    for n in [1, 2, 4] {
        assert_eq!(gradient(n, &X, Shard(0), energy_everywhere), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(gradient(n, &X, Shard(0), largest_everywhere), [0.0, 0.0, 0.0, 1.0]);
    }
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn square_with_context(x: &Tensor, ctx: &Region) -> Result<Tensor> {
    assert!(ctx.size("dp")? > ctx.coordinate("dp")?);
    x.sqr()
}

#[local_map(in = [[Replicate]], out = [Replicate], grad = [[Partial(Sum)]])]
fn square_with_label(x: &Tensor, _ctx: &Region) -> Result<Tensor> {
    x.sqr()
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn total(x: &Tensor) -> Result<Tensor> {
    x.sum_all()
}

#[test]
fn a_replicated_input_of_a_body_with_a_context_is_not_counted_once_per_rank() {
    for n in 1..=4 {
        assert_eq!(gradient(n, &X, Replicate, |x| total(&square_with_context(x)?)), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(gradient(n, &X, Replicate, |x| total(&square_with_label(x)?)), [2.0, 4.0, 6.0, 8.0]);
    }
}

/// A fixed tensor of this shape, another one on every rank.
fn weights(like: &Tensor, rank: usize) -> Result<Tensor> {
    let values: Vec<f64> = (0..like.elem_count()).map(|i| ((i + 31 * rank) as f64 * 0.9).cos()).collect();
    Tensor::from_vec(values, like.shape(), like.device())
}

/// Every collective, by number: each is linear in `x`, which has `2 n` rows on each of `n` ranks.
fn collective(ctx: &Region, x: &Tensor, which: usize) -> Result<Tensor> {
    let (me, n) = (ctx.coordinate("dp")?, ctx.size("dp")?);
    // Rank r brings r + 1 rows, and sends r + 1 to every rank.
    let lens: Vec<usize> = (1..=n).collect();
    Ok(match which {
        0 => ctx.all_reduce(x, "dp", Sum)?,
        1 => ctx.all_reduce(x, "dp", Avg)?,
        2 => ctx.all_gather(x, "dp", 0)?,
        3 => ctx.all_gather(x, "dp", 1)?,
        4 => ctx.all_gather_varying(&x.narrow(0, 0, me + 1)?, "dp", 0, &lens)?,
        5 => ctx.reduce_scatter(x, "dp", 1, Sum)?,
        6 => ctx.reduce_scatter(x, "dp", 0, Avg)?,
        7 => ctx.all_to_all(x, "dp")?,
        8 => {
            ctx.all_to_all_varying(&Tensor::cat(&vec![x.narrow(0, 0, me + 1)?; n], 0)?, "dp", &vec![me + 1; n], &lens)?
        }
        9 => ctx.shift(x, "dp", 1)?,
        10 => ctx.shift(x, "dp", -2)?,
        11 => ctx.permute(x, "dp", &[(n - 1, 0)])?,
        12 => ctx.broadcast(x, "dp", n / 2)?,
        // Several in a row, the first used twice.
        _ => {
            let gathered = ctx.all_gather(x, "dp", 0)?;
            let scattered = ctx.reduce_scatter(&(&gathered * 2.0)?, "dp", 0, Sum)?;
            (ctx.shift(&scattered, "dp", 1)? + (x + gathered.narrow(0, 0, x.dims()[0])?)?)?
        }
    })
}

#[local_map(in = [[Shard(0)], _], out = [Partial(Sum)])]
fn weighted(x: &Tensor, which: usize, ctx: &Region) -> Result<Tensor> {
    let y = collective(ctx, x, which)?;
    let w = weights(&y, ctx.coordinate("dp")?)?;
    (y * w)?.sum_all()
}

/// For a linear function the value at any point is the product of the point with the gradient, wherever that was taken.
#[test]
fn every_collective_is_differentiated_by_its_true_transpose() {
    for n in 1..=4 {
        for which in 0..14 {
            launched(n, |world| {
                let mesh = world.mesh([("dp", n)])?;
                let at = |phase: f64| -> local_map::Result<DTensor> {
                    let rows = 2 * n * n;
                    let values: Vec<f64> = (0..rows * 3).map(|i| (i as f64 * 1.3 + phase).sin()).collect();
                    DTensor::shard(&Tensor::from_vec(values, (rows, 3), &Device::Cpu)?, &mesh, &[Shard(0)])
                };
                let x = at(0.0)?.requires_grad()?;
                let gradients = weighted(&x, which)?.backward()?;
                let gradient = gradients.get(&x).unwrap().full()?;
                for phase in [0.0, 1.0, 2.0] {
                    let point = at(phase)?;
                    let value: f64 = weighted(&point, which)?.full()?.to_scalar()?;
                    let product: f64 = (point.full()? * &gradient)?.sum_all()?.to_scalar()?;
                    assert!((value - product).abs() < 1e-9, "{n} ranks, collective {which}: {value} is not {product}");
                }
                Ok(())
            });
        }
    }
}

/// Rank 0 multiplies by what it reduces; the others ignore it, and have no local graph behind it.
#[test]
fn ranks_whose_bodies_differ_still_meet_in_the_backward_pass() {
    #[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
    fn uneven(x: &Tensor, ctx: &Region) -> Result<Tensor> {
        let first = ctx.all_reduce(&x.sum_all()?, "dp", Sum)?;
        let second = ctx.all_reduce(&x.sqr()?.sum_all()?, "dp", Sum)?;
        match ctx.coordinate("dp")? {
            0 => second + first,
            1 => first * 3.0,
            _ => Tensor::new(0f64, x.device()),
        }
    }
    // The loss is sum(x^2) + 4 sum(x).
    for n in [2, 4] {
        assert_eq!(gradient(n, &X, Shard(0), uneven), [6.0, 8.0, 10.0, 12.0]);
    }
    assert_eq!(gradient(3, &[1.0], Shard(0), uneven), [6.0], "two ranks have empty shards");
}

#[local_map(in = [[Shard(0)], [Replicate], _], out = [Shard(0)])]
fn dropped(x: &Tensor, w: &Tensor, keep: f64, ctx: &Region) -> Result<Tensor> {
    drop_out(x, w, keep, ctx)
}

#[local_map(in = [[Shard(0)], [Replicate], _], out = [Shard(0)], recompute)]
fn dropped_again(x: &Tensor, w: &Tensor, keep: f64, ctx: &Region) -> Result<Tensor> {
    drop_out(x, w, keep, ctx)
}

/// A product whose elements are kept or dropped by the rank's own seed, scaled by a mean over all ranks.
fn drop_out(x: &Tensor, w: &Tensor, keep: f64, ctx: &Region) -> Result<Tensor> {
    let y = x.broadcast_mul(w)?.sqr()?;
    let seed = ctx.rank_seed();
    let kept: Vec<f64> = (0..y.elem_count()).map(|i| f64::from(u8::from((seed >> (i % 64)) & 1 == 1)) * keep).collect();
    let kept = Tensor::from_vec(kept, y.shape(), y.device())?;
    let mean = ctx.all_reduce(&y.sum_all()?, "dp", Sum)?;
    (y * kept)?.broadcast_mul(&mean)
}

#[test]
fn running_the_body_again_gives_the_same_gradients_with_the_same_seeds() {
    #[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
    fn sum(x: &Tensor) -> Result<Tensor> {
        x.sum_all()
    }
    for n in 1..=3 {
        launched(n, |world| {
            let both = [dropped, dropped_again].map(|region| -> local_map::Result<(f64, Vec<f64>, Vec<f64>)> {
                // A mesh of its own counts its calls from the start.
                let mesh = world.mesh([("dp", n)])?;
                let x = DTensor::shard(&vector(&[0.5, -1.0, 2.0, 1.5, 3.0]), &mesh, &[Shard(0)])?.requires_grad()?;
                let w = Param::new(&DTensor::shard(&vector(&[1.5]), &mesh, &[Replicate])?)?;
                let loss = sum(&region(&x, &w, 2.0)?)?;
                let value = loss.full()?.to_scalar()?;
                let gradients = loss.backward()?;
                let of = |t: &DTensor| gradients.get(t).unwrap().full()?.to_vec1::<f64>();
                Ok((value, of(&x)?, of(&w)?))
            });
            let [kept, again] = both.map(local_map::Result::unwrap);
            assert_eq!(kept, again);
            assert!(kept.2[0] != 0.0);
            Ok(())
        });
    }
}

#[test]
fn seeds_differ_by_rank_and_call_and_repeat_from_run_to_run() {
    #[local_map(in = [[Replicate]], out = _)]
    fn seeds(_x: &Tensor, ctx: &Region) -> Result<(u64, u64)> {
        Ok((ctx.shared_seed(), ctx.rank_seed()))
    }
    let run = |seed: u64| {
        Launch::new(2).seed(seed).run(|world| -> Result<_> {
            let mesh = world.mesh([("dp", 2)])?;
            let x = DTensor::shard(&Tensor::zeros(1, DType::F32, &Device::Cpu)?, &mesh, &[Replicate])?;
            Ok([seeds(&x)?, seeds(&x)?])
        })
    };
    let ranks = run(7).unwrap();
    assert_eq!(ranks, run(7).unwrap());
    assert_ne!(ranks, run(8).unwrap());
    assert_eq!(ranks[0].map(|s| s.0), ranks[1].map(|s| s.0), "the shared seed is shared");
    let mut all: Vec<u64> = ranks.iter().flatten().map(|s| s.1).collect();
    all.extend(ranks[0].map(|s| s.0));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 6);
}

#[test]
fn a_wrong_gradient_label_is_an_error_that_names_the_argument() {
    #[local_map(in = [[Replicate]], out = [Replicate], grad = [[Shard(0)]])]
    fn square(x: &Tensor) -> Result<Tensor> {
        x.sqr()
    }
    #[local_map(in = [[Replicate], _], out = [Partial(Sum)], grad = [[Replicate], _], check)]
    fn drifting(x: &Tensor, by: f64) -> Result<Tensor> {
        (x.sum_all()? * by)?.sum_all()
    }
    launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&vector(&X), &mesh, &[Replicate])?.requires_grad()?;
        let shape = total(&square(&x)?)?.backward().err().unwrap().to_string();
        assert!(shape.starts_with("square: the gradient of argument `x` does not fit its label"), "{shape}");
        let drift = drifting(&x, world.rank() as f64)?.backward().err().unwrap().to_string();
        assert!(drift.starts_with("drifting: the gradient of argument `x`: it is labelled Replicate"), "{drift}");
        Ok(())
    });
}
