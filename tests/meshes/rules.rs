//! What holds around results on another mesh: recording, verification, refusals, layers, plain code.

use super::*;
use crate::support::said;

#[test]
fn without_recording_a_result_elsewhere_needs_no_gradient_on_any_rank() {
    launched(5, |world| {
        let (mesh, row) = (grid(&world)?, over(&world, &[0, 1])?);
        let x = leaf(&wave(&[4], 0), &mesh, &[Replicate, Replicate])?;
        let y = cubed_on(&x, &row)?;
        assert_eq!((y.needs_grad(), y.is_absent()), (world.rank() < 4, world.rank() > 1));
        no_grad(|| {
            assert!(!cubed_on(&x, &row)?.needs_grad());
            assert!(!scored(&y)?.needs_grad());
            assert!(!(&y * 2.0)?.needs_grad());
            assert!(!(&y + &y)?.needs_grad());
            assert!(!y.reshard(&[Replicate])?.needs_grad());
            assert!(!y.reshard(&[Shard(0)])?.needs_grad());
            assert!(!y.rebalance()?.needs_grad());
            local_map::Result::Ok(())
        })
    });
}

#[test]
fn a_second_backward_pass_is_an_error_on_every_rank_that_runs_the_region() {
    launched(5, |world| {
        let (mesh, row) = (grid(&world)?, over(&world, &[0, 1])?);
        let x = leaf(&wave(&[4], 0), &mesh, &[Replicate, Replicate])?;
        let loss = scored(&cubed_on(&x, &row)?)?;
        loss.backward()?;
        let again = loss.backward().map(|gradients| gradients.len());
        match world.rank() {
            4 => assert_eq!(again.unwrap(), 0),
            _ => assert!(again.unwrap_err().to_string().starts_with("backward: a part of the tape was used up")),
        }
        Ok(())
    });
}

#[test]
fn a_rank_outside_the_mesh_of_the_region_gets_the_absent_result_of_the_other() {
    launched(5, |world| {
        let (mesh, row) = (grid(&world)?, over(&world, &[1, 3])?);
        let x = leaf(&wave(&[4], 0), &mesh, &[Replicate, Replicate])?;
        let y = cubed_on(&x, &row)?;
        assert_eq!((y.mesh(), y.placements().to_vec()), (&row, vec![Replicate]));
        assert_eq!(y.is_absent(), [0, 2, 4].contains(&world.rank()));
        assert_eq!(scored(&y)?.backward()?.len(), usize::from(world.rank() < 4));
        Ok(())
    });
}

#[test]
fn gradients_of_the_ranks_of_the_mesh_add_up_over_two_passes() {
    let x = wave(&[3], 0);
    let (_, [dx]) = oracle([&x], |[x]| weighed(&x.powf(3.0)?)? * 2.0);
    launched(4, |world| {
        let (mesh, row) = (grid(&world)?, over(&world, &[2, 3])?);
        let x = leaf(&x, &mesh, &[Replicate, Replicate])?;
        let mut total = scored(&cubed_on(&x, &row)?)?.backward()?;
        total.add(scored(&cubed_on(&x, &row)?)?.backward()?)?;
        assert_gradient(&total, &x, &dx);
        Ok(())
    });
}

#[local_map(in = [[Shard(0), Replicate], _], out = [Replicate] on mesh)]
fn squares_on(x: &Tensor, mesh: DeviceMesh) -> Result<Tensor> {
    x.sqr()
}

#[test]
fn a_mesh_that_is_the_regions_own_changes_nothing() {
    launched(2, |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 1)])?;
        let x = leaf(&wave(&[3, 2], 0), &mesh, &[Shard(0), Replicate])?;
        // The length of uneven pieces is that of the input, which another mesh would not say.
        let y = same_rows(&x, &mesh)?;
        assert_eq!(y.shape()?, [3, 2]);
        let flat = world.mesh([("dp", 2)])?;
        let y = rows_trusted(&x, &flat)?;
        assert_eq!(y.shape()?, [if world.rank() == 0 { 4 } else { 2 }, 2]);
        assert!(matches!(squares_on(&x, mesh).unwrap_err(), candle_core::Error::Io(_)));
        Ok(())
    });
}

#[local_map(in = [[Shard(0), Replicate], _], out = [Shard(0), Replicate] on mesh)]
fn same_rows(x: &Tensor, mesh: &DeviceMesh) -> Result<Tensor> {
    x.sqr()
}

#[local_map(in = [[Shard(0), Replicate], _], out = [Shard(0)] on mesh)]
fn rows_trusted(x: &Tensor, mesh: &DeviceMesh) -> Result<Tensor> {
    x.sqr()
}

// Verification.

#[local_map(in = [[Shard(0), Replicate], _], out = [[Replicate] on pair, [Replicate, Replicate]], check)]
fn own_and_common(x: &Tensor, pair: &DeviceMesh, ctx: &Region) -> Result<(Tensor, Tensor)> {
    let all = ctx.all_reduce(&x.sum_all()?, "dp", Sum)?;
    Ok(((&all + (ctx.coordinate("dp")? * 3) as f64)?, all))
}

#[test]
fn verification_compares_replicas_on_the_mesh_of_the_result_alone() {
    launched(4, |world| {
        let mesh = grid(&world)?;
        let x = leaf(&wave(&[5], 0), &mesh, &[Shard(0), Replicate])?;
        // Along `tp` the values agree, along `dp` they do not.
        let (y, common) = own_and_common(&x, &mesh.at("dp", 1)?)?;
        assert!(!common.is_absent() && y.is_absent() == (world.rank() < 2));
        let loss = y.backward()?;
        assert_gradient(&loss, &x, &Tensor::ones(5, DType::F64, &Device::Cpu)?);
        let differs = own_and_common(&x, &mesh.at("tp", 0)?).err().map(|error| said(&Error::from(error)));
        let expected = "own_and_common: result 0: it is labelled Replicate, but its replicas differ\n  \
                        mesh (dp=2; ranks 0, 2)\n  - axis `dp`: rank 0 and rank 2 hold different bits";
        match world.rank() {
            0 | 2 => assert!(differs.as_ref().unwrap().starts_with(expected), "{differs:?}"),
            _ => assert_eq!(differs, None),
        }
        Ok(())
    });
}

// Errors, before the body runs and anything is communicated.

#[local_map(in = [[Shard(0), Shard(1)], _, _], out = [[Replicate, Shard(0)] on a, [Shard(0), Shard(1)], [Shard(0)] on b])]
fn never(x: &Tensor, a: &DeviceMesh, b: &DeviceMesh) -> local_map::Result<(Tensor, Tensor, Tensor)> {
    panic!("the body ran on {x}, {a} and {b}")
}

/// What `never` says on every rank: only one comes at a time, so that nothing can have been communicated.
fn refusal(a: &[usize], b: &[usize]) -> Error {
    let mut all = launched(5, |world| {
        let mesh = grid(&world)?;
        let x = leaf(&wave(&[4, 4], 0), &mesh, &[Shard(0), Shard(1)])?;
        let (a, b) = (over(&world, a)?, over(&world, b)?);
        if world.rank() == 1 {
            return Ok(None);
        }
        Ok(never(&x, &a, &b).err())
    });
    all.remove(1);
    let texts: Vec<String> = all.iter().map(|error| error.as_ref().unwrap().to_string()).collect();
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    all.remove(0).unwrap()
}

#[test]
fn a_mesh_that_is_not_within_the_regions_is_refused_on_every_rank() {
    let error = refusal(&[0, 1], &[3, 4]);
    assert!(matches!(error, Error::Mesh(_)), "{error}");
    assert_eq!(
        said(&error),
        "never: result 2 cannot live on a mesh with ranks that do not run the region\n  mesh (dp=2, tp=2)\n  \
         - never: result 0: (Replicate, Shard(0)) speaks of 2 mesh axes, but mesh (n=2) has 1\n  \
         - never: result 2: it lives on mesh (n=2; ranks 3, 4), of which rank 4 is outside\n  \
         give, after `on`, a mesh all of whose ranks are in the region's mesh"
    );
}

#[test]
fn an_entry_with_another_number_of_axes_than_its_mesh_is_refused_on_every_rank() {
    let error = refusal(&[1, 0], &[2]);
    assert!(matches!(error, Error::Placement(_)), "{error}");
    assert_eq!(
        said(&error),
        "never: result 0 cannot be placed on its mesh\n  mesh (dp=2, tp=2)\n  \
         - never: result 0: (Replicate, Shard(0)) speaks of 2 mesh axes, but mesh (n=2; ranks 1, 0) has 1\n  \
         write one placement per axis of the mesh that stands after `on`"
    );
}

// A layer.

#[derive(Distribute)]
struct Scale<T = DTensor> {
    #[place(Replicate, Shard(0))]
    by: T,
    home: Option<DeviceMesh>,
}

#[local_layer(in = [[Shard(0), Shard(1)]], out = [Partial(Sum)] on self.home.as_ref().unwrap())]
impl Scale<Tensor> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.broadcast_mul(&self.by)?.tanh()?.sum_all()
    }
}

#[test]
fn a_layer_may_say_where_its_result_lives() {
    let (x, by) = (wave(&[3, 5], 0), wave(&[5], 7));
    let (value, [dx, dby]) = oracle([&x, &by], |[x, by]| x.broadcast_mul(by)?.tanh()?.sum_all());
    launched(4, |world| {
        let mesh = grid(&world)?;
        let home = Some(over(&world, &[3, 2, 1, 0])?);
        let layer = Scale { by: leaf(&by, &mesh, &[Replicate, Shard(0)])?, home };
        let x = leaf(&x, &mesh, &[Shard(0), Shard(1)])?;
        let loss = layer.forward(&x)?.reshard(&[Replicate])?;
        assert_value(&loss, &value);
        let gradients = loss.backward()?;
        assert_gradient(&gradients, &x, &dx);
        assert_gradient(&gradients, &layer.by, &dby);
        Ok(())
    });
}

// Plain code and new leaves on a part of the mesh.

#[test]
fn plain_code_on_a_part_of_the_mesh_keeps_no_rank_waiting() {
    let x = wave(&[3, 2], 1);
    let (value, [dx]) = oracle([&x], |[x]| weighed(&x.powf(3.0)?.tanh()?));
    launched(4, |world| {
        let (mesh, pair) = (grid(&world)?, over(&world, &[2, 1])?);
        let x = leaf(&x, &mesh, &[Replicate, Replicate])?;
        let y = cubed_on(&x, &pair)?;
        let nothing = || Tensor::zeros(1, DType::F64, &Device::Cpu);
        let local = if y.is_absent() { nothing()? } else { y.to_local()?.tanh()? };
        let z = Sources::new([y.as_dyn()]).from_local(local, &pair, &[Replicate])?;
        assert!(z.needs_grad());
        let loss = scored(&z)?;
        assert_value(&loss, &value);
        assert_gradient(&loss.backward()?, &x, &dx);
        Ok(())
    });
}

#[test]
fn integers_of_plain_code_on_a_part_of_the_mesh_keep_no_rank_waiting() {
    let (x, y) = (wave(&[4], 1), wave(&[4], 2));
    let (_, [dy]) = oracle([&y], |[y]| y.powf(3.0)?.narrow(0, 0, 2)?.sum_all());
    launched(4, |world| {
        let (mesh, pair) = (grid(&world)?, over(&world, &[0, 3])?);
        let place = |x: &Tensor| leaf(x, &mesh, &[Replicate, Replicate]);
        let (x, y) = (place(&x)?, place(&y)?);
        let ids = Tensor::new(&[1u32, 0], &Device::Cpu)?;
        let ids = Sources::new([cubed_on(&x, &pair)?.as_dyn()]).from_local(ids, &pair, &[Replicate])?;
        assert!(ids.is_absent() || !ids.needs_grad());
        let gradients = picked(&cubed_on(&y, &pair)?, &ids)?.backward()?;
        assert_gradient(&gradients, &y, &dy);
        assert_gradient(&gradients, &x, &x.full()?.zeros_like()?);
        Ok(())
    });
}

#[test]
fn a_result_elsewhere_becomes_a_leaf_on_every_rank() {
    let x = wave(&[3], 1);
    launched(4, |world| {
        let (mesh, pair) = (grid(&world)?, over(&world, &[0, 3])?);
        let x = leaf(&x, &mesh, &[Replicate, Replicate])?;
        let y = cubed_on(&x, &pair)?.requires_grad()?;
        assert_eq!((y.is_leaf(), y.needs_grad()), (!y.is_absent(), !y.is_absent()));
        let gradients = scored(&y)?.backward()?;
        assert_eq!((gradients.get(&y).is_some(), gradients.get(&x).is_none()), (!y.is_absent(), true));
        Ok(())
    });
}
