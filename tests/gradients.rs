//! Gradients of the global function: the right values of hand-worked cases.
#![allow(clippy::unwrap_used)]

mod support;

use candle_core::{Device, Result, Tensor};
use local_map::prelude::*;
use support::{launched, vector};

/// The gradient of `x`, cut as `placement`, of what `loss` makes of it; whole, from every rank.
fn gradient<T: Into<DTensor>>(
    ranks: usize,
    x: &[f64],
    placement: Placement,
    loss: impl Fn(&DTensor) -> Result<T> + Sync,
) -> Vec<f64> {
    let all = launched(ranks, |world| {
        let mesh = world.mesh([("dp", ranks)])?;
        let x = DTensor::shard(&vector(x), &mesh, &[placement])?.requires_grad()?;
        let loss: DTensor = loss(&x)?.into();
        let gradients = loss.reshard(&[Replicate])?.backward()?;
        let gradient = gradients.get(&x).unwrap();
        assert_eq!(gradient.spec()?, x.spec()?);
        Ok(gradient.full()?.to_vec1::<f64>()?)
    });
    assert!(all.iter().all(|g| *g == all[0]), "{all:?}");
    all[0].clone()
}

const X: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn energy(x: &Tensor) -> Result<Tensor> {
    x.sqr()?.sum_all()
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn square(x: &Tensor) -> Result<Tensor> {
    x.sqr()
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn square_whole(x: &Tensor) -> Result<Tensor> {
    x.sqr()
}

#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn total(x: &Tensor) -> Result<Tensor> {
    x.sum_all()
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn total_whole(x: &Tensor) -> Result<Tensor> {
    x.sum_all()
}

#[local_map(in = [[Shard(0)]], out = [Partial(Avg)])]
fn mean_square(x: &Tensor) -> Result<Tensor> {
    x.sqr()?.mean_all()
}

#[local_map(in = [[Shard(0)]], out = [Partial(Max)])]
fn largest(x: &Tensor) -> Result<Tensor> {
    x.max(0)
}

#[local_map(in = [[Replicate], _, _], out = [Shard(0)])]
fn square_own_half(x: &Tensor, start: usize, len: usize) -> Result<Tensor> {
    x.narrow(0, start, len)?.sqr()
}

#[test]
fn sums_of_squares_give_twice_the_input() {
    let twice = [2.0, 4.0, 6.0, 8.0];
    for n in 1..=4 {
        assert_eq!(gradient(n, &X, Shard(0), energy), twice);
        assert_eq!(gradient(n, &X, Shard(0), |x| total(&square(x)?)), twice);
        assert_eq!(gradient(n, &X, Replicate, |x| total_whole(&square_whole(x)?)), twice);
        assert_eq!(gradient(n, &X, Replicate, |x| total(&square_whole(x)?.reshard(&[Shard(0)])?)), twice);
        assert_eq!(gradient(n, &X, Shard(0), |x| energy(&x.reshard(&[Replicate])?.reshard(&[Shard(0)])?)), twice);
    }
}

#[test]
fn each_rank_squares_its_own_half_of_a_replicated_input() {
    let own = |x: &DTensor| {
        let (rank, half) = (x.mesh().world().rank(), 4 / x.mesh().size());
        total(&square_own_half(x, rank * half, half)?)
    };
    for n in [1, 2, 4] {
        assert_eq!(gradient(n, &X, Replicate, own), [2.0, 4.0, 6.0, 8.0]);
    }
}

#[test]
fn a_mean_of_local_means_divides_by_the_ranks() {
    assert_eq!(gradient(2, &X, Shard(0), mean_square), [0.5, 1.0, 1.5, 2.0]);
}

#[test]
fn the_maximum_gets_the_gradient_and_ties_share_it() {
    assert_eq!(gradient(2, &X, Shard(0), largest), [0.0, 0.0, 0.0, 1.0]);
    assert_eq!(gradient(2, &[4.0, 1.0, 3.0, 4.0], Shard(0), largest), [0.5, 0.0, 0.0, 0.5]);
}

#[local_map(in = [[Shard(0)], [Replicate]], out = [Partial(Avg)])]
fn mean_of_squares(h: &Tensor, w: &Tensor) -> Result<Tensor> {
    h.matmul(&w.unsqueeze(1)?)?.sqr()?.mean_all()
}

#[test]
fn a_replicated_weight_gets_the_sum_over_the_data() {
    launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let h = Tensor::new(&[[1f64, 2.0], [3.0, 4.0]], &Device::Cpu)?;
        let h = DTensor::shard(&h, &mesh, &[Shard(0)])?.requires_grad()?;
        let w = Param::new(&DTensor::shard(&vector(&[1.0, 0.5]), &mesh, &[Replicate])?)?;
        let loss = mean_of_squares(&h, &w)?.reshard(&[Replicate])?;
        assert_eq!(loss.to_local()?.to_scalar::<f64>()?, 14.5);
        let gradients = loss.backward()?;
        assert_eq!(gradients.get(&h).unwrap().full()?.to_vec2::<f64>()?, [[2.0, 1.0], [5.0, 2.5]]);
        assert_eq!(gradients.get(&w).unwrap().full()?.to_vec1::<f64>()?, [17.0, 24.0]);
        Ok(())
    });
}

/// A multi-layer perceptron cut along its hidden dimension, as Megatron does.
#[local_map(in = [[Replicate], [Shard(1)], [Shard(0)]], out = [Partial(Sum)])]
fn mlp(x: &Tensor, up: &Tensor, down: &Tensor) -> Result<Tensor> {
    plain_mlp(x, up, down)
}

fn plain_mlp(x: &Tensor, up: &Tensor, down: &Tensor) -> Result<Tensor> {
    x.matmul(up)?.relu()?.matmul(down)
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn energy_whole(x: &Tensor) -> Result<Tensor> {
    x.sqr()?.sum_all()
}

fn waves(rows: usize, columns: usize, phase: f64) -> Tensor {
    let values: Vec<f64> = (0..rows * columns).map(|i| (i as f64 * 0.7 + phase).sin()).collect();
    Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap()
}

fn close(a: &Tensor, b: &Tensor) {
    assert_eq!(a.dims(), b.dims());
    let off = (a - b).unwrap().abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar::<f64>().unwrap();
    assert!(off < 1e-9, "off by {off}");
}

#[test]
fn two_stacked_tensor_parallel_layers_equal_one_device() {
    let tensors = [waves(3, 4, 0.0), waves(4, 7, 1.0), waves(7, 4, 2.0), waves(4, 5, 3.0), waves(5, 2, 4.0)];
    let vars: Vec<candle_core::Var> = tensors.iter().map(|t| candle_core::Var::from_tensor(t).unwrap()).collect();
    let hidden = plain_mlp(&vars[0], &vars[1], &vars[2]).unwrap();
    let loss = plain_mlp(&hidden, &vars[3], &vars[4]).unwrap().sqr().unwrap().sum_all().unwrap();
    let oracle = loss.backward().unwrap();
    for n in 1..=4 {
        launched(n, |world| {
            let mesh = world.mesh([("tp", n)])?;
            let cut = [Replicate, Shard(1), Shard(0), Shard(1), Shard(0)];
            let params = tensors.iter().zip(cut).map(|(t, p)| Param::new(&DTensor::shard(t, &mesh, &[p])?));
            let params: Vec<Param> = params.collect::<local_map::Result<_>>()?;
            let hidden = mlp(&params[0], &params[1], &params[2])?.reshard(&[Replicate])?;
            let out = mlp(&hidden, &params[3], &params[4])?.reshard(&[Replicate])?;
            let gradients = energy_whole(&out)?.backward()?;
            for (param, var) in params.iter().zip(&vars) {
                close(&gradients.get(param).unwrap().full()?, oracle.get(var).unwrap());
            }
            Ok(())
        });
    }
}

#[test]
fn data_and_tensor_parallel_axes_together_equal_one_device() {
    #[local_map(
        in = [[Shard(0), Replicate], [Replicate, Shard(1)], [Replicate, Shard(0)]],
        out = [Shard(0), Partial(Sum)],
    )]
    fn mlp(x: &Tensor, up: &Tensor, down: &Tensor) -> Result<Tensor> {
        plain_mlp(x, up, down)
    }
    #[local_map(in = [[Shard(0), Replicate]], out = [Partial(Sum), Replicate], reshard)]
    fn energy(x: &Tensor) -> Result<Tensor> {
        x.sqr()?.sum_all()
    }
    for rows in [4, 3, 1] {
        let tensors = [waves(rows, 4, 0.0), waves(4, 5, 1.0), waves(5, 2, 2.0)];
        let vars: Vec<candle_core::Var> = tensors.iter().map(|t| candle_core::Var::from_tensor(t).unwrap()).collect();
        let loss = plain_mlp(&vars[0], &vars[1], &vars[2]).unwrap().sqr().unwrap().sum_all().unwrap();
        let oracle = loss.backward().unwrap();
        launched(4, |world| {
            let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
            let cut = [[Shard(0), Replicate], [Replicate, Shard(1)], [Replicate, Shard(0)]];
            let params = tensors.iter().zip(&cut).map(|(t, p)| Param::new(&DTensor::shard(t, &mesh, p)?));
            let params: Vec<Param> = params.collect::<local_map::Result<_>>()?;
            let gradients = energy(&mlp(&params[0], &params[1], &params[2])?)?.backward()?;
            for (param, var) in params.iter().zip(&vars) {
                close(&gradients.get(param).unwrap().full()?, oracle.get(var).unwrap());
            }
            Ok(())
        });
    }
}

#[test]
fn uses_on_an_invariant_axis_and_on_another_add_up() {
    // d/dx of sum(x^2) + 3 * sum(x^2) / 2.
    let both = |x: &DTensor| {
        let whole = total_whole(&square_whole(x)?)?;
        let parts = total(&square(&x.reshard(&[Shard(0)])?)?)?.reshard(&[Replicate])?;
        Ok((&whole + &(&parts * 1.5)?)?)
    };
    for n in 1..=4 {
        assert_eq!(gradient(n, &X, Replicate, both), [5.0, 10.0, 15.0, 20.0]);
    }
}

#[test]
fn an_empty_shard_and_an_untouched_input_give_zeros() {
    #[local_map(in = [[Shard(0)], _], out = [Partial(Sum)])]
    fn maybe(x: &Tensor, touches: bool) -> Result<Tensor> {
        if touches { x.sum_all() } else { Tensor::new(0f64, x.device()) }
    }
    let only_rank_0 = |x: &DTensor| maybe(x, x.mesh().world().rank() == 0);
    assert_eq!(gradient(2, &X, Shard(0), only_rank_0), [1.0, 1.0, 0.0, 0.0]);
    assert_eq!(gradient(2, &[3.0], Shard(0), energy), [6.0]);
}

#[test]
fn a_tape_is_used_up_and_says_so() {
    launched(1, |world| {
        let mesh = world.mesh([("dp", 1)])?;
        let x = DTensor::shard(&vector(&X), &mesh, &[Shard(0)])?.requires_grad()?;
        let loss = energy(&x)?;
        loss.backward()?;
        let again = loss.backward().err().unwrap().to_string();
        assert!(again.contains("used up"), "{again}");
        let plain = energy(&DTensor::shard(&vector(&X), &mesh, &[Shard(0)])?)?.backward().err().unwrap();
        assert!(plain.to_string().contains("needs a gradient"), "{plain}");
        let many = square(&x)?.backward().err().unwrap();
        assert!(many.to_string().contains("one element"), "{many}");
        assert!(!no_grad(|| energy(&x))?.needs_grad());
        Ok(())
    });
}

#[test]
fn undifferentiable_reductions_are_refused_when_they_are_recorded() {
    #[local_map(in = [[Shard(0)]], out = [Partial(Prod)])]
    fn product(x: &Tensor) -> Result<Tensor> {
        x.sum_all()
    }
    launched(1, |world| {
        let mesh = world.mesh([("dp", 1)])?;
        let x = DTensor::shard(&vector(&X), &mesh, &[Shard(0)])?;
        assert!(product(&x).is_ok());
        let error = product(&x.requires_grad()?).err().unwrap().to_string();
        assert!(error.starts_with("product: a result cannot be differentiated"), "{error}");
        assert!(x.reshard(&[Partial(Sum)])?.requires_grad().is_err());
        Ok(())
    });
}

#[test]
fn ten_thousand_regions_in_a_chain_do_not_overflow_a_stack() {
    launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
        fn same(x: &Tensor) -> Result<Tensor> {
            Ok(x.clone())
        }
        let x = DTensor::shard(&vector(&X), &mesh, &[Shard(0)])?.requires_grad()?;
        let mut y = x.clone();
        for _ in 0..10_000 {
            y = same(&y)?.erase();
        }
        let gradients = energy(&y)?.backward()?;
        assert_eq!(gradients.get(&x).unwrap().full()?.to_vec1::<f64>()?, [2.0, 4.0, 6.0, 8.0]);
        Ok(())
    });
}

#[test]
fn deferred_gradients_are_reduced_in_one_bucket_and_clipped_together() {
    #[local_map(in = [[Shard(0)], [Replicate], [Replicate]], out = [Partial(Sum)])]
    fn loss(x: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        (x.broadcast_mul(a)?.sum_all()? + (x.sum_all()? * b.sum_all()?)?)?.sum_all()
    }
    launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&vector(&X), &mesh, &[Shard(0)])?;
        let param =
            |values: &[f64]| Param::new(&DTensor::shard(&vector(values), &mesh, &[Replicate])?)?.defer_reduction();
        let (a, b) = (param(&[2.0])?, param(&[1.0, 1.0, 1.0])?);
        let mut gradients = loss(&x, &a, &b)?.backward()?;
        gradients.add(loss(&x, &a, &b)?.backward()?)?;
        assert_eq!(**gradients.get(&a).unwrap().placements(), [Partial(Sum)]);
        assert!(gradients.to_store([&a, &b]).is_err() && gradients.global_norm().is_err());
        gradients.reduce()?;
        // Two micro-batches of a sum of 10.
        assert_eq!(gradients.get(&a).unwrap().to_local()?.to_vec1::<f64>()?, [20.0]);
        assert_eq!(gradients.get(&b).unwrap().to_local()?.to_vec1::<f64>()?, [20.0; 3]);
        assert_eq!(gradients.clip_global_norm(20.0)?, 40.0);
        let store = gradients.to_store([&a, &b])?;
        assert_eq!(store.get(a.var()?.as_tensor()).unwrap().to_vec1::<f64>()?, [10.0]);
        Ok(())
    });
}

/// Two rows of rank 1, one of the others: lengths that follow no rule.
#[local_map(in = [[Shard(0)]], out = [Shard(0, ragged)], dynamic)]
fn some_rows(x: &Tensor, ctx: &Region) -> Result<Tensor> {
    let rows = if ctx.coordinate("dp")? == 1 { 2 } else { 1 };
    x.narrow(0, 0, rows)?.sqr()
}

#[local_map(in = [[Shard(0)]], out = [Partial(Sum)], dynamic)]
fn cubes(x: &Tensor) -> Result<Tensor> {
    x.powf(3.0)?.sum_all()
}

#[local_map(in = [[Replicate]], out = [Replicate], dynamic)]
fn weighed(x: &Tensor) -> Result<Tensor> {
    (x * Tensor::arange(1.0, x.dim(0)? as f64 + 1.0, x.device())?)?.sum_all()
}

/// The same, with a gradient that arrives in addends.
#[local_map(in = [[Replicate]], out = [Replicate], dynamic)]
fn weighed_with_context(x: &Tensor, _ctx: &Region) -> Result<Tensor> {
    (x * Tensor::arange(1.0, x.dim(0)? as f64 + 1.0, x.device())?)?.sum_all()
}

#[test]
fn a_ragged_result_gets_its_gradient_in_its_own_lengths_whatever_it_became() {
    let x: Vec<f64> = (1..=6).map(f64::from).collect();
    let kept = [0, 2, 3, 4];
    let of = |f: &dyn Fn(usize, f64) -> f64| -> Vec<f64> {
        (0..6).map(|i| kept.iter().position(|k| *k == i).map_or(0.0, |at| f(at, x[i]))).collect()
    };
    let weights = of(&|at, x| (at + 1) as f64 * 2.0 * x);
    let run = |loss: fn(&DTensor) -> Result<DTensor>| gradient(3, &x, Shard(0), |x| loss(&some_rows(x)?));
    assert_eq!(run(|y| weighed(&y.reshard(&[Replicate])?)), weights);
    assert_eq!(run(|y| weighed_with_context(&y.reshard(&[Replicate])?)), weights);
    assert_eq!(run(|y| weighed(&y.rebalance()?.reshard(&[Replicate])?)), weights);
    let sixth = of(&|_, x| 6.0 * x.powi(5));
    assert_eq!(run(cubes), sixth);
    assert_eq!(run(|y| cubes(&y.rebalance()?)), sixth);
    let sum: Vec<f64> = weights.iter().zip(&sixth).map(|(a, b)| a + b).collect();
    assert_eq!(run(|y| Ok((weighed(&y.reshard(&[Replicate])?)? + cubes(y)?.reshard(&[Replicate])?)?)), sum);
    assert_eq!(run(|y| Ok((cubes(y)?.reshard(&[Replicate])? + weighed(&y.reshard(&[Replicate])?)?)?)), sum);
    let twice: Vec<f64> = sixth.iter().map(|g| g * 2.0).collect();
    assert_eq!(run(|y| Ok((cubes(y)? + cubes(&y.rebalance()?)?)?)), twice);
}

#[test]
fn a_ragged_leaf_gets_its_gradient_in_its_own_lengths() {
    launched(3, |world| {
        let mesh = world.mesh([("dp", 3)])?;
        let rows = [0, 3, 1][world.rank()];
        let local = Tensor::ones(rows, candle_core::DType::F64, &Device::Cpu)?;
        let x = DTensor::from_local_ragged(local, &mesh, &[Shard(0)])?.requires_grad()?;
        let gradients = weighed(&x.reshard(&[Replicate])?)?.backward()?;
        let gradient = gradients.get(&x).unwrap();
        assert_eq!(gradient.spec()?, x.spec()?);
        assert_eq!(gradient.full()?.to_vec1::<f64>()?, [1.0, 2.0, 3.0, 4.0]);
        Ok(())
    });
}

#[local_map(in = [[Shard(0), Shard(1)], [Shard(0), Replicate]], out = [Partial(Sum), Partial(Sum)])]
fn pairs_of_rows(x: &Tensor, scale: &Tensor) -> Result<Tensor> {
    x.broadcast_mul(scale)?.sqr()?.sum_all()
}

#[test]
fn deferred_gradients_of_ragged_leaves_are_cut_as_these_when_they_are_reduced() {
    let scale = Tensor::new(&[[1f64], [-2.0], [3.0], [0.5]], &Device::Cpu).unwrap();
    let x = Tensor::arange(0f64, 8.0, &Device::Cpu).unwrap().reshape((4, 2)).unwrap();
    // Of each row: twice the scale times the squares of the row.
    let squares = x.sqr().unwrap().sum_keepdim(1).unwrap();
    let expected = ((scale.clone() * squares).unwrap() * 2.0).unwrap();
    launched(4, |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let x = DTensor::shard(&x, &mesh, &[Shard(0), Shard(1)])?;
        // One row, and three: a ragged cut, which the region does not take.
        let (start, len) = [(0, 1), (1, 3)][world.rank() / 2];
        let leaf = || {
            let piece = DTensor::from_local_ragged(scale.narrow(0, start, len)?, &mesh, &[Shard(0), Replicate])?;
            Param::new(&piece)?.defer_reduction()
        };
        let (a, b) = (leaf()?, leaf()?);
        let loss = (pairs_of_rows(&x, &a.rebalance()?)? + pairs_of_rows(&x, &b.rebalance()?)?)?;
        let mut gradients = loss.backward()?;
        gradients.reduce()?;
        for leaf in [a, b] {
            let gradient = gradients.get(&leaf).unwrap();
            assert_eq!(gradient.spec()?, leaf.spec()?);
            assert_eq!(gradient.to_local()?.dims(), [len, 1]);
            assert_eq!(gradient.full()?.to_vec2::<f64>()?, expected.to_vec2::<f64>()?);
        }
        Ok(())
    });
}

#[test]
fn a_deferred_gradient_that_is_placed_otherwise_is_not_stepped_before_it_is_reduced() {
    launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let w = Param::new(&DTensor::shard(&vector(&X), &mesh, &[Shard(0)])?)?.defer_reduction()?;
        // The gradient of the whole is whole on every rank.
        let mut gradients = weighed(&w.reshard(&[Replicate])?)?.backward()?;
        assert_eq!(**gradients.get(&w).unwrap().placements(), [Replicate]);
        let error = gradients.to_store([&w]).err().unwrap().to_string();
        assert!(error.starts_with("a gradient is not placed as its parameter"), "{error}");
        gradients.reduce()?;
        assert_eq!(gradients.to_store([&w])?.get(w.var()?.as_tensor()).unwrap().dims(), [2]);
        Ok(())
    });
}
