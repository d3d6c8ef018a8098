//! Placements that the compiler knows: where layouts come from, where they are forgotten, and that they are true.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use candle_core::{Device, Tensor};
use local_map::prelude::*;
use local_map::{Error, Result};

type Batch = DTensor<(Shard<0>,)>;
type Whole = DTensor<(Replicate,)>;
type Addends = DTensor<(Partial,)>;

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn doubled(x: &Tensor) -> Result<Tensor> {
    Ok((x * 2.0)?)
}

#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn total(x: &Tensor) -> Result<Tensor> {
    Ok(x.sum_all()?)
}

#[local_map(in = [[Replicate]], out = [Replicate], reshard)]
fn rooted(x: &Tensor) -> Result<Tensor> {
    Ok(x.sqrt()?)
}

/// `0.0, 1.0, ..` on a mesh of all ranks, of which the compiler knows nothing.
fn counting(world: &World, len: usize) -> Result<DTensor> {
    let mesh = world.mesh([("dp", world.size())])?;
    DTensor::shard(&Tensor::arange(0f32, len as f32, &Device::Cpu)?, &mesh, &[Shard(0)])
}

/// What takes tensors of all layouts.
fn values<L>(x: &DTensor<L>) -> Result<Vec<f32>> {
    Ok(x.as_dyn().full()?.flatten_all()?.to_vec1()?)
}

#[track_caller]
fn on_ranks<T: Send>(program: impl Fn(&World) -> Result<T> + Sync) {
    for n in 1..=4 {
        launch(n, |world| program(&world).map(drop)).unwrap();
    }
}

#[test]
fn chains_carry_their_layouts_and_values() {
    on_ranks(|world| {
        let x = counting(world, 5)?;
        let twice: Batch = doubled(&doubled(&x)?)?;
        let sum: Addends = total(&twice)?;
        assert_eq!(**sum.placements(), [Partial(Sum)]);
        let root: Whole = rooted(&sum)?;
        assert_eq!(values(&root)?, [40f32.sqrt()]);
        Ok(())
    });
}

#[test]
fn a_layout_is_checked_by_cast_and_made_by_reshard_to() {
    on_ranks(|world| {
        let x = counting(world, 5)?;
        let rows: Batch = x.cast()?;
        let whole: Whole = rows.reshard_to()?;
        assert_eq!(**whole.placements(), [Replicate]);
        assert_eq!(values(&whole)?, values(&rows)?);
        let same = whole.reshard_to::<(Dyn,)>()?;
        assert_eq!(same.placements(), whole.placements(), "`Dyn` leaves the axis as it is");
        whole.cast::<(Dyn,)>()?;
        Ok(())
    });
}

#[test]
fn a_wrong_cast_says_what_is_and_what_is_required() {
    launch(2, |world| -> Result<()> {
        let x = counting(&world, 5)?;
        let error = x.cast::<(Partial<Max>,)>().unwrap_err();
        assert!(matches!(error, Error::Placement(_)));
        let text = error.to_string();
        for part in ["mesh (dp=2)", "f32[5]", "(Shard(0))", "required (Partial(Max))", "reshard_to"] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        assert!(x.cast::<(Shard<0>, Replicate)>().is_err(), "another number of axes");
        assert!(x.cast::<(Shard<1>,)>().is_err());
        assert!(x.reshard_to::<(Replicate, Replicate)>().is_err());
        Ok(())
    })
    .unwrap();
}

#[test]
fn what_the_compiler_cannot_know_is_checked_when_called() {
    launch(2, |world| -> Result<()> {
        let x = counting(&world, 4)?.reshard(&[Replicate])?;
        let error = doubled(&x).unwrap_err().to_string();
        assert!(error.contains("required (Shard(0))"), "{error}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn sums_keep_what_is_known_of_either_operand() {
    on_ranks(|world| {
        let x = counting(world, 5)?;
        let rows: Batch = doubled(&x)?;
        let sums: [Batch; 5] =
            [(&rows + &x)?, (&x + &rows)?, (&rows + &rows)?, (&rows - x.clone())?, (rows.clone() + &x)?];
        assert_eq!(values(&sums[0])?, [0.0, 3.0, 6.0, 9.0, 12.0]);
        assert_eq!(values(&sums[3])?, values(&x)?);
        let scaled: Batch = ((-&(2.0 * &rows)?)? / 4.0)?;
        assert_eq!(values(&scaled)?, values(&(&x * -1.0)?)?);
        let anyhow: DTensor = (&x + &x)?;
        assert_eq!(values(&anyhow)?, values(&rows)?);
        Ok(())
    });
}

#[test]
fn parameters_and_leaves_keep_their_layout() {
    on_ranks(|world| {
        let x: Batch = counting(world, 5)?.cast()?;
        let leaf: Batch = x.requires_grad()?;
        let param: Param<(Shard<0>,)> = Param::new(&x)?.defer_reduction()?;
        let loss = total(&(&doubled(&leaf)? + &doubled(&param)?)?)?;
        let gradients = loss.backward()?;
        assert_eq!(values(gradients.get(&leaf).unwrap())?, [2.0; 5]);
        assert_eq!(values(gradients.get(&param).unwrap())?, [2.0; 5]);
        assert_eq!(gradients.to_store([&param])?.get_ids().count(), usize::from(param.to_local()?.elem_count() > 0));
        Ok(())
    });
}

#[test]
fn collections_and_loops_hold_tensors_of_all_layouts() {
    on_ranks(|world| {
        let x = counting(world, 5)?;
        let (rows, sum) = (doubled(&x)?, total(&x)?);
        let all: Vec<DTensor> = vec![x.clone(), rows.clone().into(), sum.erase()];
        assert_eq!(all.iter().map(|x| x.placements().len()).sum::<usize>(), 3);
        let mut y = x;
        for _ in 0..3 {
            y = doubled(&y)?.erase();
        }
        assert_eq!(values(&y)?, [0.0, 8.0, 16.0, 24.0, 32.0]);
        let by_reference = |x: &DTensor| x.placements().len();
        assert_eq!(by_reference(&rows), 1, "a tensor with a layout derefs to one without");
        Ok(())
    });
}

#[local_map(in = [[Shard(0), Replicate, Replicate, Replicate]], out = [Shard(0), Replicate, Replicate, Partial(Max)])]
fn on_four_axes(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[local_map(
    in = [[Shard(0), Replicate, Replicate, Replicate, Replicate]],
    out = [Shard(0), Replicate, Replicate, Replicate, Replicate]
)]
fn on_five_axes(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[test]
fn meshes_of_up_to_four_axes_have_layouts_and_larger_ones_do_not() {
    launch(2, |world| -> Result<()> {
        let x = Tensor::arange(0f32, 3.0, &Device::Cpu)?;
        let four = world.mesh([("a", 2), ("b", 1), ("c", 1), ("d", 1)])?;
        let four = DTensor::shard(&x, &four, &[Shard(0), Replicate, Replicate, Replicate])?;
        let y: DTensor<(Shard<0>, Replicate, Replicate, Partial<Max>)> = on_four_axes(&four)?;
        assert_eq!(values(&y)?, [0.0, 1.0, 2.0]);
        let five = world.mesh([("a", 2), ("b", 1), ("c", 1), ("d", 1), ("e", 1)])?;
        let five = DTensor::shard(&x, &five, &[Shard(0), Replicate, Replicate, Replicate, Replicate])?;
        let y: DTensor = on_five_axes(&five)?;
        assert_eq!(values(&y)?, [0.0, 1.0, 2.0]);
        Ok(())
    })
    .unwrap();
}

#[local_map(in = [[Shard(-1)], [Shard(0)]], out = [[Shard(-1)], [Shard(0, ragged)]])]
fn from_the_end(x: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
    Ok((x.clone(), y.narrow(0, 0, y.dims()[0].min(1))?))
}

#[test]
fn dims_from_the_end_and_ragged_ones_are_known_at_run_time_only() {
    on_ranks(|world| {
        let x = counting(world, 5)?;
        let rows: Batch = x.cast()?;
        let (same, first): (DTensor<(Dyn,)>, DTensor<(Dyn,)>) = from_the_end(&rows, &rows)?;
        assert_eq!(values(&same)?, values(&x)?);
        let again: Batch = doubled(&first)?;
        assert_eq!(again.shape()?, first.shape()?);
        Ok(())
    });
}

#[test]
fn an_absent_result_has_its_layout() {
    launch(2, |world| -> Result<()> {
        let mesh = world.mesh([("dp", 1)])?;
        let x = DTensor::shard(&Tensor::arange(0f32, 3.0, &Device::Cpu)?, &mesh, &[Shard(0)])?;
        let y: Batch = doubled(&x)?;
        assert_eq!(y.is_absent(), world.rank() == 1);
        y.cast::<(Shard<0>,)>()?;
        assert!(y.cast::<(Replicate,)>().is_err());
        Ok(())
    })
    .unwrap();
}
