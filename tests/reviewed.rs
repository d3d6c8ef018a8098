//! Faults that a review found, each by its symptom.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::error::Error as _;
use std::fmt;

use candle_core::{DType, Device, Result, Tensor};
use local_map::prelude::*;
use local_map::{Error, Launch};
use support::{counting, elements, failure, launched, on_ranks, patient, said};

fn typed(values: &[f64], dtype: DType) -> Tensor {
    Tensor::new(values, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

fn replicated(world: &World, values: &[f64], dtype: DType) -> local_map::Result<DTensor> {
    DTensor::from_local(typed(values, dtype), &world.mesh([("dp", world.size())])?, &[Replicate])
}

// Arithmetic.

#[test]
fn integers_are_not_divided_or_scaled_to_zero() {
    on_ranks(&[2], |world| {
        let x = replicated(&world, &[4.0, 6.0], DType::I64)?;
        for (outcome, why) in [
            (&x / 2.0, "division of i64 elements would not be exact\n"),
            (&x * 0.5, ": 0.5 is not a number of this type\n"),
            (&x + 0.5, ": 0.5 is not a number of this type\n"),
            (&x * f64::NAN, ": NaN is not a number of this type\n"),
            (&x * 2f64.powi(63), ": 9223372036854776000 is not a number of this type\n"),
        ] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::DType(_)) && error.to_string().contains(why), "{error}");
        }
        assert_eq!(elements(&(&x * -3.0)?.to_local()?), [-12.0, -18.0]);
        assert_eq!(elements(&(&x - 5.0)?.to_local()?), [-1.0, 1.0]);
        Ok(())
    });
}

#[test]
fn unsigned_integers_are_not_left_as_they_are_by_a_negative_number() {
    on_ranks(&[2], |world| {
        let x = replicated(&world, &[4.0, 6.0], DType::U8)?;
        for outcome in [&x - 1.0, &x * -1.0, &x + 256.0, -&x] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::DType(_)), "{error}");
        }
        assert_eq!(elements(&(&x + 249.0)?.to_local()?), [253.0, 255.0]);
        assert_eq!(elements(&(&x * 2.0)?.to_local()?), [8.0, 12.0]);
        Ok(())
    });
}

#[test]
fn signed_integers_are_negated_without_a_panic() {
    on_ranks(&[2], |world| {
        for dtype in [DType::I16, DType::I32, DType::I64] {
            let negative = (-&replicated(&world, &[4.0, -6.0], dtype)?)?;
            assert_eq!(elements(&negative.to_local()?), [-4.0, 6.0]);
        }
        Ok(())
    });
}

#[test]
fn operands_that_differ_are_told_in_what() {
    on_ranks(&[2], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = replicated(&world, &[1.0, 2.0], DType::F32)?;
        let told = |other: &DTensor| (&x + other).unwrap_err();
        let dtype = told(&replicated(&world, &[1.0, 2.0], DType::F64)?);
        assert!(matches!(dtype, Error::DType(_)), "{dtype}");
        let shape = told(&replicated(&world, &[1.0], DType::F32)?);
        assert!(matches!(shape, Error::Shape(_)), "{shape}");
        let placement = told(&DTensor::shard(&counting(&[2]), &mesh, &[Shard(0)])?);
        assert!(matches!(placement, Error::Placement(_)), "{placement}");
        assert_eq!(
            placement.to_string(),
            "addition: the operands are not placed alike on `dp`\n  mesh (dp=2)\n  \
             - left: f32[2] as (Replicate)\n  - right: f32[2] as (Shard(0))\n  \
             reshard one of them to the placements of the other first"
        );
        Ok(())
    });
}

#[local_map(in = [[Shard(0)], _], out = [Shard(0, ragged)])]
fn first_rows(x: &Tensor, rows: usize) -> Result<Tensor> {
    x.narrow(0, 0, rows)
}

#[test]
fn operands_of_different_ragged_lengths_are_told_to_rebalance() {
    on_ranks(&[2], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&counting(&[8]), &mesh, &[Shard(0)])?;
        let (rows, other) = (1 + 2 * world.rank(), 3 - 2 * world.rank());
        let (a, b) = (first_rows(&x, rows)?, first_rows(&x, other)?);
        let error = (&a + &b).unwrap_err().to_string();
        assert!(
            error.starts_with("addition: the operands are placed alike, but cut into different lengths"),
            "{error}"
        );
        assert!(error.ends_with("\n  call `rebalance` on those that are ragged first"), "{error}");
        assert_eq!((&a.rebalance()? + &b.rebalance()?)?.shape()?, [4]);
        Ok(())
    });
}

#[test]
fn what_does_not_commute_with_a_reduction_is_told_why() {
    on_ranks(&[2], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let partial = |op| DTensor::from_local(counting(&[2]), &mesh, &[Partial(op)]);
        let (largest, product) = (partial(Max)?, partial(Prod)?);
        for (outcome, why) in [
            (&largest * -1.0, "scaling does not commute with Max: a negative factor would turn it into Min"),
            (&partial(Min)? / 2.0, "division does not commute with Min: a negative factor would turn it into Max"),
            (-&largest, "negation would turn Max into Min"),
            (&largest + &largest, "addition does not commute with Max: the operands must be reduced before"),
            (&product * 2.0, "scaling does not commute with Prod: it would apply to every rank's factor"),
        ] {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        Ok(())
    });
}

#[test]
fn owned_operands_and_numbers_on_the_left_compute_the_same() {
    on_ranks(&[2], |world| {
        let x = replicated(&world, &[1.0, 2.0], DType::F32)?;
        let y = ((2.0 * &x)? - (-x.clone())?)? + &x;
        assert_eq!(elements(&(y? / 2.0)?.to_local()?), [2.0, 4.0]);
        Ok(())
    });
}

// Absent tensors.

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn same(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[test]
fn a_rank_outside_the_mesh_does_not_make_up_a_shape() {
    on_ranks(&[3], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let outside = world.rank() == 2;
        let local = if outside { typed(&[], DType::U8) } else { counting(&[2, 3]) };
        let x = DTensor::from_local(local, &mesh, &[Shard(1)])?;
        assert_eq!((x.is_absent(), x.spec().is_err()), (outside, outside));
        assert_eq!(x.placements()[..], [Shard(1)]);
        let fitting = DTensor::from_local(counting(&[2]), &mesh, &[Shard(0), Replicate]);
        assert!(matches!(fitting, Err(Error::Placement(_))), "on every rank");
        Ok(())
    });
}

#[test]
fn a_rank_outside_the_mesh_gets_an_absent_tensor_from_one_rank() {
    on_ranks(&[3], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let whole = counting(&[3]);
        let x = DTensor::shard_from(1, (world.rank() == 1).then_some(&whole), &mesh, &[Shard(0)])?;
        assert_eq!(x.is_absent(), world.rank() == 2);
        assert!(DTensor::shard_from(2, Some(&whole), &mesh, &[Shard(0)]).is_err(), "on every rank");
        assert!(DTensor::shard_from(1, Some(&whole), &mesh, &[]).is_err(), "on every rank");
        Ok(())
    });
}

#[test]
fn absent_tensors_are_not_resharded_or_added_to_nonsense() {
    on_ranks(&[3], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = same(&DTensor::shard(&counting(&[4]), &mesh, &[Shard(0)])?)?;
        assert!(x.reshard(&[Shard(0), Replicate]).is_err(), "on every rank");
        let whole = x.reshard(&[Replicate])?;
        assert!(matches!(&x + &whole, Err(Error::Placement(_))), "on every rank");
        assert_eq!((&x + &x)?.is_absent(), world.rank() == 2);
        assert_eq!(x.rebalance()?.is_absent(), world.rank() == 2);
        Ok(())
    });
}

// Verification.

#[local_map(in = [[Shard(0)], _], out = [Shard(0)], check)]
fn copies(x: &Tensor, count: usize) -> Result<Vec<Tensor>> {
    Ok(vec![x.clone(); count])
}

#[local_map(in = [[Shard(0)], _], out = [[Replicate], [Shard(0)]], check)]
fn maybe(x: &Tensor, given: bool) -> Result<(Option<Tensor>, Tensor)> {
    Ok((given.then(|| x.zeros_like()).transpose()?, x.clone()))
}

#[test]
fn ranks_that_return_different_numbers_of_tensors_do_not_hang() {
    let messages = launched(3, |world| {
        let mesh = world.mesh([("dp", 3)])?;
        let x = DTensor::shard(&counting(&[6]), &mesh, &[Shard(0)])?;
        assert_eq!(copies(&x, 2)?.len(), 2);
        assert_eq!(copies(&x, 0)?.len(), 0);
        let list = Error::from(copies(&x, 1 + world.rank() / 2).unwrap_err());
        let option = Error::from(maybe(&x, world.rank() == 0).unwrap_err());
        assert!(matches!((&list, &option), (Error::Mismatch(_), Error::Mismatch(_))), "{list}\n{option}");
        Ok([list.to_string(), option.to_string()])
    });
    let advice = "  return equally many on every rank, empty tensors where there is no data";
    let list = [
        "copies: the result: the ranks returned different numbers of tensors",
        "  mesh (dp=3)",
        "  - 1: ranks 0, 1",
        "  - 2: rank 2",
        advice,
    ];
    let option = [
        "maybe: result 0: the ranks returned different numbers of tensors",
        "  mesh (dp=3)",
        "  - 0: ranks 1, 2",
        "  - 1: rank 0",
        advice,
    ];
    assert_eq!(messages, vec![[list.join("\n"), option.join("\n")]; 3]);
}

// Messages.

#[local_map(in = [[Replicate], [Shard(0)]], out = [Replicate])]
fn list(x: &Tensor, xs: Vec<Tensor>) -> Result<Tensor> {
    xs.iter().try_fold(x.clone(), |sum, x| sum + x.sum_all()?)
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn array(xs: [&Tensor; 2]) -> Result<Tensor> {
    xs[0] + xs[1]
}

#[test]
fn elements_of_lists_are_told_apart_in_messages() {
    on_ranks(&[1], |world| {
        let mesh = world.mesh([("dp", 1)])?;
        let x = |placement| DTensor::shard(&counting(&[4]), &mesh, &[placement]);
        let (good, bad) = (x(Shard(0))?, x(Replicate)?);
        let message = said(&list(&bad, vec![good.clone(), bad.clone(), bad.clone()]).unwrap_err());
        let lines = [
            "list: arguments `xs[1]`, `xs[2]` are not placed as `in` requires",
            "  mesh (dp=1)",
            "  - xs[1]: f32[4] is (Replicate), required (Shard(0)): axis `dp` differs",
            "  - xs[2]: f32[4] is (Replicate), required (Shard(0)): axis `dp` differs",
            "  add `reshard` to the attribute, or call xs[1].reshard(..) first",
        ];
        assert_eq!(message, lines.join("\n"));
        let message = said(&array([&good, &bad]).unwrap_err());
        assert!(message.starts_with("array: argument `xs[1]` is not placed"), "{message}");
        Ok(())
    });
}

/// The error of a step, caused by that of another.
#[derive(Debug)]
struct Step(&'static str, Option<Box<Step>>);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Step {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.1.as_deref().map(|step| step as _)
    }
}

fn failing(world: &World) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let group = world.mesh([("dp", 2)])?.communicator(&[])?;
    if world.rank() == 1 {
        return Err(Step("cannot load epoch 2", Some(Box::new(Step("no such file", None)))).into());
    }
    Ok(group.barrier()?)
}

#[test]
fn the_sources_of_a_cause_are_not_lost_in_a_launch() {
    let failed = failure(2, |world| failing(&world));
    assert!(failed.seen[0].1.ends_with("  - rank 1: cannot load epoch 2: no such file"), "{}", failed.seen[0].1);
    assert!(matches!(failed.cause.downcast_ref(), Some(Step("cannot load epoch 2", Some(_)))));
}

#[test]
fn the_cause_of_a_failed_rank_is_printed_once_by_who_prints_sources() {
    let error = patient(2).run(|world| failing(&world)).unwrap_err();
    let first = error.to_string();
    assert_eq!(first.lines().next(), Some("rank 1 failed: cannot load epoch 2: no such file"));
    assert!(error.source().is_none(), "a reporter would print it again");
}

#[test]
fn a_launch_of_more_ranks_than_can_be_is_an_error_instead_of_a_panic() {
    for ranks in [65_537, usize::MAX] {
        let error = Launch::new(ranks).run(|_| Ok::<(), Error>(())).unwrap_err();
        assert!(matches!(error, Error::Mesh(_)), "{error}");
        assert!(error.to_string().ends_with("plan with `World::fake`, which starts none"), "{error}");
    }
}

#[local_map(in = [[Replicate]], out = [Replicate], reshard)]
fn whole(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[test]
fn a_peer_that_fails_while_an_argument_is_resharded_is_reported_with_the_argument() {
    let failed = failure(2, |world| -> local_map::Result<()> {
        let x = DTensor::shard(&counting(&[4]), &world.mesh([("dp", 2)])?, &[Shard(0)])?;
        assert!(world.rank() == 0, "enough");
        whole(&x)?;
        Ok(())
    });
    assert_eq!(failed.rank, 1);
    assert!(failed.seen[0].1.starts_with("whole: argument `x`: all-gather of f32[4]"), "{}", failed.seen[0].1);
}

#[test]
fn the_only_axis_of_a_mesh_cannot_be_taken_out_and_the_message_says_so() {
    on_ranks(&[2], |world| {
        let error = world.mesh([("a", 2)])?.at("a", 0).unwrap_err().to_string();
        assert!(error.starts_with("axis `a` is the only one of the mesh, and `at` needs a second axis\n"), "{error}");
        Ok(())
    });
}

#[local_map(in = [[Shard(0)], [Shard(0)]], out = [Shard(0)])]
fn sum(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x + y
}

#[test]
fn tensors_of_two_launches_do_not_add_up() {
    let rows = |world: &World| DTensor::shard(&counting(&[4]), &world.mesh([("dp", 2)])?, &[Shard(0)]);
    let earlier = launched(2, |world| rows(&world));
    on_ranks(&[2], |world| {
        let (x, y) = (&rows(&world)?, &earlier[world.rank()]);
        let operator = (x + y).unwrap_err();
        let region = Error::from(sum(x, y).unwrap_err());
        for error in [operator, region] {
            assert!(matches!(error, Error::Mesh(_)), "{error}");
            assert!(error.to_string().contains("mesh (dp=2) of another launch\n"), "{error}");
        }
        assert_eq!(elements(&(x + &rows(&world)?)?.full()?), [0.0, 2.0, 4.0, 6.0]);
        Ok(())
    });
}
