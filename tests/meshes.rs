//! Results that live on another mesh than their region, and the gradients that come back from there.
#![allow(clippy::unwrap_used)]

#[path = "meshes/rules.rs"]
mod rules;
mod support;

use std::time::Duration;

use candle_core::{DType, Device, Result, Tensor, Var};
use local_map::prelude::*;
use local_map::{Error, Launch};

/// Every rank's value. What waits here for a rank that does not come waits in vain, and not for long.
fn launched<T: Send>(n: usize, program: impl Fn(World) -> local_map::Result<T> + Sync) -> Vec<T> {
    Launch::new(n).deadline(Duration::from_secs(20)).run(program).unwrap()
}

/// Fixed numbers in this shape, no two of them equal.
fn wave(shape: &[usize], start: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let values = (start..start + count).map(|i| (i as f64 * 0.7).sin() + i as f64 * 0.01).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

#[track_caller]
fn assert_close(given: &Tensor, expected: &Tensor) {
    assert_eq!(given.dims(), expected.dims());
    let difference = (given - expected).unwrap().abs().unwrap().flatten_all().unwrap();
    let worst = difference.to_vec1::<f64>().unwrap().into_iter().fold(0.0, f64::max);
    assert!(worst < 1e-9, "{given} is not {expected}");
}

/// The gradient of a leaf must be this, on every rank of its mesh; a rank outside must have none.
#[track_caller]
fn assert_gradient(gradients: &Gradients, leaf: &DTensor, expected: &Tensor) {
    match leaf.is_absent() {
        true => assert!(gradients.get(leaf).is_none()),
        false => {
            let gradient = gradients.get(leaf).unwrap();
            assert_eq!(gradient.placements(), leaf.placements());
            assert_close(&gradient.full().unwrap(), expected);
        }
    }
}

/// The value of the tensor where it is.
#[track_caller]
fn assert_value(x: &DTensor, expected: &Tensor) {
    if !x.is_absent() {
        assert_close(&x.full().unwrap(), expected);
    }
}

fn grid(world: &World) -> local_map::Result<DeviceMesh> {
    world.mesh([("dp", 2), ("tp", 2)])
}

fn over(world: &World, ranks: &[usize]) -> local_map::Result<DeviceMesh> {
    world.bind(Mesh::over(ranks, [("n", ranks.len())])?)
}

fn leaf(whole: &Tensor, mesh: &DeviceMesh, placements: &[Placement]) -> local_map::Result<DTensor> {
    DTensor::shard(whole, mesh, placements)?.requires_grad()
}

/// The gradients of the function of whole tensors, by candle.
fn oracle<const N: usize>(inputs: [&Tensor; N], f: impl Fn([&Tensor; N]) -> Result<Tensor>) -> (Tensor, [Tensor; N]) {
    let vars = inputs.map(|x| Var::from_tensor(x).unwrap());
    let value = f(vars.each_ref().map(Var::as_tensor)).unwrap();
    let gradients = value.sum_all().unwrap().backward().unwrap();
    let of = |x: &Var| gradients.get(x.as_tensor()).cloned().unwrap_or(x.zeros_like().unwrap());
    (value.detach(), vars.each_ref().map(of))
}

// Chains: a region on the whole mesh, then regions, arithmetic and reshards on a part of it.

#[local_map(
    in = [[Shard(0), Replicate], [Replicate, Shard(1)], _],
    out = [[Shard(0, ragged)] on row, [Shard(0), Replicate]],
)]
fn columns_on_row(x: &Tensor, w: &Tensor, row: &DeviceMesh, ctx: &Region) -> Result<(Tensor, Tensor)> {
    let columns = ctx.all_reduce(&x.matmul(w)?.tanh()?.sum(0)?, "dp", Sum)?;
    Ok((columns, x.sqr()?))
}

#[local_map(in = [[Shard(0)], [Shard(0)]], out = [Partial(Sum)])]
fn weighted(s: &Tensor, p: &Tensor) -> Result<Tensor> {
    (s.sqr()? * p)?.sum_all()
}

#[local_map(in = [[Shard(0), Replicate]], out = [Partial(Sum), Partial(Avg)])]
fn total(x: &Tensor) -> Result<Tensor> {
    x.sum_all()
}

#[test]
fn a_chain_from_the_mesh_to_a_row_of_it_and_on_gives_the_gradients_of_one_device() {
    for (rows, columns) in [(6, 6), (5, 5), (1, 1), (3, 4)] {
        let (x, w, p) = (wave(&[rows, 4], 0), wave(&[4, columns], 3), wave(&[columns], 11));
        let (value, [dx, dw, dp]) = oracle([&x, &w, &p], |[x, w, p]| {
            let s = x.matmul(w)?.tanh()?.sum(0)?;
            let loss = (s.sqr()? * p)?.sum_all()?;
            (loss * 2.5)? - 1.0
        });
        launched(4, |world| {
            let mesh = grid(&world)?;
            let row = mesh.at("dp", 0)?;
            let x = leaf(&x, &mesh, &[Shard(0), Replicate])?;
            let w = leaf(&w, &mesh, &[Replicate, Shard(1)])?;
            let p = leaf(&p, &row, &[Shard(0)])?;
            let (s, _) = columns_on_row(&x, &w, &row)?;
            assert_eq!((s.is_absent(), s.needs_grad()), (world.rank() > 1, true));
            assert_eq!(s.mesh(), &row);
            // The same through arithmetic that is its own inverse, and through other placements and back.
            let s = ((&s * 2.0)?.reshard(&[Replicate])? / 4.0)?.rebalance()?;
            let s = (&s + &s)?.reshard(&[Shard(0)])?;
            let loss = (weighted(&s, &p)? * 2.5)?.reshard(&[Replicate])?;
            let loss = ((-(loss - 1.0)?)? * -1.0)?;
            assert_value(&loss, &value);
            let gradients = loss.backward()?;
            assert_gradient(&gradients, &x, &dx);
            assert_gradient(&gradients, &w, &dw);
            assert_gradient(&gradients, &p, &dp);
            assert_eq!(gradients.len(), if world.rank() > 1 { 2 } else { 3 });
            Ok(())
        });
    }
}

#[test]
fn the_norm_of_gradients_on_a_mesh_and_on_a_row_of_it_is_the_same_on_all_ranks() {
    let (w, p) = (wave(&[4, 5], 3), wave(&[5], 11));
    let x = wave(&[3, 4], 0);
    let (_, [dw, dp]) = oracle([&w, &p], |[w, p]| (x.matmul(w)?.tanh()?.sum(0)?.sqr()? * p)?.sum_all());
    let squares = |g: &Tensor| g.sqr().unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap();
    let norm = (squares(&dw) + squares(&dp)).sqrt();
    launched(4, |world| {
        let mesh = grid(&world)?;
        let row = mesh.at("dp", 0)?;
        let x = DTensor::shard(&x, &mesh, &[Shard(0), Replicate])?;
        // On the ranks of the row, its parameter is the first.
        let p = leaf(&p, &row, &[Shard(0)])?;
        let w = leaf(&w, &mesh, &[Replicate, Shard(1)])?;
        let mut gradients = weighted(&columns_on_row(&x, &w, &row)?.0, &p)?.backward()?;
        let given = gradients.clip_global_norm(norm / 2.0)?;
        assert!((given - norm).abs() < 1e-9, "{given} is not {norm}");
        assert_gradient(&gradients, &w, &(&dw / 2.0)?);
        assert_gradient(&gradients, &p, &(&dp / 2.0)?);
        Ok(())
    });
}

#[test]
fn the_result_on_the_mesh_itself_is_differentiated_as_ever_beside_one_elsewhere() {
    let (x, w) = (wave(&[5, 4], 0), wave(&[4, 3], 3));
    let (value, [dx]) = oracle([&x], |[x]| x.sqr()?.sum_all());
    launched(4, |world| {
        let mesh = grid(&world)?;
        let row = mesh.at("dp", 1)?;
        let x = leaf(&x, &mesh, &[Shard(0), Replicate])?;
        let w = DTensor::shard(&w, &mesh, &[Replicate, Shard(1)])?;
        let (_, squares) = columns_on_row(&x, &w, &row)?;
        assert_eq!(squares.shape()?, [5, 4]);
        let loss = total(&squares)?.reshard(&[Replicate, Replicate])?;
        assert_value(&loss, &value);
        assert_gradient(&loss.backward()?, &x, &dx);
        Ok(())
    });
}

// One rank, and all ranks in another order or shape.

#[local_map(in = [[Replicate, Replicate], _], out = [Replicate] on n)]
fn cubed_on(x: &Tensor, n: &DeviceMesh) -> Result<Tensor> {
    x.powf(3.0)
}

#[local_map(in = [[Shard(0), Shard(0)], _], out = [Shard(0, ragged)] on n)]
fn rows_on(x: &Tensor, n: DeviceMesh) -> Result<Tensor> {
    x.powf(3.0)
}

#[local_map(in = [[Shard(0), Shard(1)], _], out = [Partial(Sum)] on n)]
fn sum_on(x: &Tensor, n: &DeviceMesh) -> Result<Tensor> {
    x.powf(3.0)?.sum_all()
}

#[local_map(in = [[Shard(0), Shard(1)], _], out = [Partial(Avg)] on n)]
fn mean_on(x: &Tensor, n: &DeviceMesh) -> Result<Tensor> {
    x.powf(3.0)?.sum_all()
}

#[local_map(in = [[Shard(0), Shard(1)], _], out = [[Partial(Max)] on n])]
fn largest_on(x: &Tensor, n: &DeviceMesh) -> Result<Tensor> {
    x.flatten_all()?.max(0)
}

#[local_map(in = [[Shard(0), Replicate], _], out = [Partial(Min), Replicate] on n)]
fn least_on_grid(x: &Tensor, n: &DeviceMesh) -> Result<Tensor> {
    x.flatten_all()?.min(0)
}

/// Weighs every element, so that none has the gradient of another.
fn scored<L>(y: &DTensor<L>) -> local_map::Result<DTensor> {
    let y = y.as_dyn();
    let whole: Vec<Placement> = y.placements().iter().map(|_| Replicate).collect();
    Ok(score(&y.reshard(&whole)?)?.erase())
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn score(y: &Tensor) -> Result<Tensor> {
    weighed(y)
}

fn weighed(y: &Tensor) -> Result<Tensor> {
    (y * wave(y.dims(), 5))?.sum_all()
}

#[test]
fn a_replicated_input_gets_its_gradient_from_the_ranks_that_have_the_result() {
    let x = wave(&[3, 2], 1);
    let (value, [dx]) = oracle([&x], |[x]| weighed(&x.powf(3.0)?));
    for ranks in [&[0][..], &[3], &[1, 2], &[0, 1, 2, 3], &[3, 1, 0, 2], &[2, 0, 3]] {
        launched(4, |world| {
            let x = leaf(&x, &grid(&world)?, &[Replicate, Replicate])?;
            let loss = scored(&cubed_on(&x, &over(&world, ranks)?)?)?;
            assert_eq!(loss.is_absent(), !ranks.contains(&world.rank()));
            assert_value(&loss, &value);
            assert_gradient(&loss.backward()?, &x, &dx);
            Ok(())
        });
    }
}

#[test]
fn all_ranks_in_one_axis_give_values_and_gradients_of_one_device() {
    for shape in [[8, 4], [7, 3], [1, 5], [2, 1]] {
        let x = wave(&shape, 1);
        let cubes = oracle([&x], |[x]| weighed(&x.powf(3.0)?));
        let sum = oracle([&x], |[x]| weighed(&x.powf(3.0)?.sum_all()?));
        let mean = oracle([&x], |[x]| weighed(&(x.powf(3.0)?.sum_all()? / 4.0)?));
        let check = |loss: DTensor, x: &DTensor, (value, [dx]): &(Tensor, [Tensor; 1])| {
            assert_value(&loss, value);
            assert_gradient(&loss.backward()?, x, dx);
            local_map::Result::Ok(())
        };
        launched(4, |world| {
            let (mesh, flat) = (grid(&world)?, world.mesh([("all", 4)])?);
            let rows = leaf(&x, &mesh, &[Shard(0), Shard(0)])?;
            check(scored(&rows_on(&rows, flat.clone())?)?, &rows, &cubes)?;
            let blocks = leaf(&x, &mesh, &[Shard(0), Shard(1)])?;
            for flat in [flat, over(&world, &[2, 3, 0, 1])?] {
                check(scored(&sum_on(&blocks, &flat)?)?, &blocks, &sum)?;
                check(scored(&mean_on(&blocks, &flat)?)?, &blocks, &mean)?;
            }
            Ok(())
        });
    }
}

#[test]
fn pieces_are_ordered_as_the_mesh_of_the_result() {
    let x = wave(&[8, 2], 1);
    let turned = |x: &Tensor| Tensor::cat(&[6, 4, 2, 0].map(|at| x.narrow(0, at, 2).unwrap()), 0);
    let (value, [dx]) = oracle([&x], |[x]| weighed(&turned(&x.powf(3.0)?)?));
    launched(4, |world| {
        let x = leaf(&x, &grid(&world)?, &[Shard(0), Shard(0)])?;
        let loss = scored(&rows_on(&x, over(&world, &[3, 2, 1, 0])?)?)?;
        assert_value(&loss, &value);
        assert_gradient(&loss.backward()?, &x, &dx);
        Ok(())
    });
}

#[test]
fn a_maximum_on_another_mesh_sends_its_gradient_to_the_rank_that_has_it() {
    for at in [0, 3, 9, 15] {
        let mut values = wave(&[16], 1).to_vec1::<f64>().unwrap();
        values[at] = 9.0;
        let mut least = values.clone();
        least[at] = -9.0;
        let whole = |values| Tensor::from_vec(values, (4, 4), &Device::Cpu).unwrap();
        let (x, y) = (whole(values), whole(least));
        let expected: Vec<f64> = (0..16).map(|i| if i == at { 1.0 } else { 0.0 }).collect();
        let expected = whole(expected);
        launched(4, |world| {
            let mesh = grid(&world)?;
            let x = leaf(&x, &mesh, &[Shard(0), Shard(1)])?;
            let loss = largest_on(&x, &over(&world, &[1, 3, 0, 2])?)?.reshard(&[Replicate])?;
            assert_value(&loss, &Tensor::new(9.0, &Device::Cpu)?);
            assert_gradient(&loss.backward()?, &x, &expected);
            let y = leaf(&y, &mesh, &[Shard(0), Replicate])?;
            let turned = world.bind(Mesh::over(&[0, 1, 2, 3], [("b", 2), ("a", 2)])?)?;
            let loss = least_on_grid(&y, &turned)?.reshard(&[Replicate, Replicate])?;
            assert_value(&loss, &Tensor::new(-9.0, &Device::Cpu)?);
            assert_gradient(&loss.backward()?, &y, &expected);
            Ok(())
        });
    }
}

#[local_map(in = [[Shard(0), Replicate], _], out = [Partial(Max)] on row)]
fn largest_of_all_on(x: &Tensor, row: &DeviceMesh, ctx: &Region) -> Result<Tensor> {
    Ok(ctx.all_reduce(&x.flatten_all()?.max(0)?, "dp", Max)?)
}

#[test]
fn ties_are_shared_by_the_ranks_of_the_other_mesh_alone() {
    let x = wave(&[4], 1);
    let largest = x.max(0).unwrap().to_scalar::<f64>().unwrap();
    let expected = x.to_vec1::<f64>().unwrap().into_iter().map(|v| f64::from(u8::from(v == largest))).collect();
    let expected = Tensor::from_vec(expected, 4, &Device::Cpu).unwrap();
    launched(4, |world| {
        let mesh = grid(&world)?;
        let x = leaf(&x, &mesh, &[Shard(0), Replicate])?;
        let loss = largest_of_all_on(&x, &mesh.at("dp", 0)?)?.reshard(&[Replicate])?;
        assert_gradient(&loss.backward()?, &x, &expected);
        Ok(())
    });
}

// Two results on different meshes.

#[local_map(in = [[Shard(0), Replicate], _, _], out = [[Replicate] on pair, [Partial(Sum)] on one])]
fn twofold(x: &Tensor, pair: &DeviceMesh, one: &DeviceMesh, ctx: &Region) -> Result<(Tensor, Tensor)> {
    let all = ctx.all_gather_varying(x, "dp", 0, &[3, 2])?;
    Ok((all.powf(3.0)?.sum_all()?, all.exp()?.sum_all()?))
}

#[local_map(in = [[Replicate], _], out = [Replicate] on one)]
fn doubled_on(x: &Tensor, one: &DeviceMesh) -> Result<Tensor> {
    x * 2.0
}

#[test]
fn of_two_results_on_different_meshes_one_or_both_may_reach_the_loss() {
    let x = wave(&[5], 1);
    let (a, b) = (|x: &Tensor| x.powf(3.0)?.sum_all(), |x: &Tensor| x.exp()?.sum_all());
    let first = oracle([&x], |[x]| a(x));
    let second = oracle([&x], |[x]| b(x));
    let both = oracle([&x], |[x]| (a(x)? * 2.0)? - b(x)?);
    for (row, alone) in [(0, 0), (0, 1), (1, 2)] {
        launched(4, |world| {
            let mesh = grid(&world)?;
            let (pair, one) = (mesh.at("dp", row)?, over(&world, &[alone])?);
            let run = |which: usize, (value, [dx]): &(Tensor, [Tensor; 1])| {
                let x = leaf(&x, &mesh, &[Shard(0), Replicate])?;
                let (a, b) = twofold(&x, &pair, &one)?;
                let b = b.reshard(&[Replicate])?;
                let loss = match which {
                    0 => a.erase(),
                    1 => b,
                    _ => (doubled_on(&a, &one)? - b)?.erase(),
                };
                assert_value(&loss, value);
                assert_gradient(&loss.backward()?, &x, dx);
                local_map::Result::Ok(())
            };
            run(0, &first)?;
            run(1, &second)?;
            run(2, &both)
        });
    }
}

#[test]
fn disjoint_meshes_of_results_are_differentiated_one_after_the_other() {
    let x = wave(&[5], 1);
    let (_, [dx]) = oracle([&x], |[x]| x.powf(3.0)?.sum_all());
    let (_, [dy]) = oracle([&x], |[x]| x.exp()?.sum_all());
    launched(4, |world| {
        let mesh = grid(&world)?;
        let (pair, one) = (mesh.at("dp", 0)?, over(&world, &[3])?);
        let x = leaf(&x, &mesh, &[Shard(0), Replicate])?;
        let (a, _) = twofold(&x, &pair, &one)?;
        let (_, b) = twofold(&x, &pair, &one)?;
        assert_gradient(&a.backward()?, &x, &dx);
        assert_gradient(&b.backward()?, &x, &dy);
        Ok(())
    });
}

// Lists of results, integers among them, and bodies that run again.

#[local_map(in = [[Shard(0), Replicate], _], out = [[Replicate] on row, [Replicate] on row], recompute)]
fn powers_on(x: &Tensor, row: DeviceMesh, ctx: &Region) -> local_map::Result<(Vec<Tensor>, Option<Tensor>)> {
    // A body that runs again keeps all parameters, and the compiler misses a use of this one.
    let _ = &row;
    let total = ctx.all_reduce(&x.sum_all()?, "dp", Sum)?;
    let count = Tensor::new(x.dims1()? as i64, x.device())?;
    Ok((vec![total.sqr()?, count, total.powf(3.0)?], Some(total)))
}

#[test]
fn a_list_of_results_and_a_body_that_runs_again() {
    let x = wave(&[5], 1);
    let (value, [dx]) = oracle([&x], |[x]| {
        let total = x.sum_all()?;
        ((total.sqr()? * 3.0)? - total.powf(3.0)?)? + total
    });
    launched(4, |world| {
        let mesh = grid(&world)?;
        let x = leaf(&x, &mesh, &[Shard(0), Replicate])?;
        let (powers, total) = powers_on(&x, mesh.at("dp", 1)?)?;
        assert_eq!(powers.iter().map(DTensor::needs_grad).collect::<Vec<_>>(), [true, false, true]);
        let loss = (((&powers[0] * 3.0)? - &powers[2])? + total.unwrap())?;
        assert_value(&loss, &value);
        assert_gradient(&loss.backward()?, &x, &dx);
        Ok(())
    });
}

#[local_map(in = [[Shard(0)]], out = [[Shard(0)], [Replicate]])]
fn with_ids(x: &Tensor) -> Result<(Tensor, Tensor)> {
    Ok((x.sqr()?, Tensor::new(&[1u32, 0], x.device())?))
}

#[local_map(in = [[Replicate], [Replicate]], out = [Replicate])]
fn picked(x: &Tensor, ids: &Tensor) -> Result<Tensor> {
    x.index_select(ids, 0)?.sum_all()
}

#[test]
fn integers_of_a_region_on_a_part_of_the_mesh_keep_no_rank_waiting() {
    let (x, w, y) = (wave(&[6, 3], 1), wave(&[3, 4], 0), wave(&[4], 2));
    let (_, [dy]) = oracle([&y], |[y]| y.powf(3.0)?.narrow(0, 0, 2)?.sum_all());
    launched(4, |world| {
        let mesh = grid(&world)?;
        let row = mesh.at("dp", 0)?;
        let x = leaf(&x, &mesh, &[Shard(0), Replicate])?;
        let (s, _) = columns_on_row(&x, &DTensor::shard(&w, &mesh, &[Replicate, Shard(1)])?, &row)?;
        let (_, ids) = with_ids(&s)?;
        assert!(ids.is_absent() || !ids.needs_grad());
        let y = leaf(&y, &mesh, &[Replicate, Replicate])?;
        let loss = picked(&cubed_on(&y, &row)?, &(&ids * 1.0)?)?;
        let gradients = loss.backward()?;
        assert_gradient(&gradients, &y, &dy);
        // The ranks that cannot tell integers go through what made them, and so do the others: with zeros.
        assert_gradient(&gradients, &x, &x.full()?.zeros_like()?);
        Ok(())
    });
}

// What is not differentiated, or no longer, and ranks outside all meshes.
