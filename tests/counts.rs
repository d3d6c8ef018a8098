//! How often ranks communicate: no more than the table of reshards implies, and not at all where it says so.
#![allow(clippy::unwrap_used)]

mod support;

use std::borrow::Borrow;

use candle_core::{Device, Result, Tensor};
use local_map::prelude::*;
use support::{launched, on_ranks};

/// What `f` gives, and how often this rank communicated meanwhile.
fn counted<T>(world: &World, f: impl FnOnce() -> local_map::Result<T>) -> local_map::Result<(T, u64)> {
    let before = world.collectives();
    let value = f()?;
    Ok((value, world.collectives() - before))
}

fn backward(world: &World, loss: &impl Borrow<DTensor>) -> local_map::Result<(Gradients, u64)> {
    counted(world, || loss.borrow().backward())
}

fn waves(rows: usize, columns: usize) -> Tensor {
    let values: Vec<f64> = (0..rows * columns).map(|i| (i as f64 * 0.7).sin()).collect();
    Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap()
}

fn placed(mesh: &DeviceMesh, shape: [usize; 2], placements: &[Placement]) -> local_map::Result<DTensor> {
    DTensor::shard(&waves(shape[0], shape[1]), mesh, placements)
}

fn leaf(mesh: &DeviceMesh, shape: [usize; 2], placements: &[Placement]) -> local_map::Result<DTensor> {
    placed(mesh, shape, placements)?.requires_grad()
}

#[test]
fn every_row_of_the_reshard_table_is_one_collective_or_none() {
    let rows = [
        (Shard(0), Replicate, 1),
        (Shard(0), Shard(1), 1),
        (Replicate, Shard(0), 0),
        (Partial(Sum), Replicate, 1),
        (Partial(Avg), Replicate, 1),
        (Partial(Max), Replicate, 1),
        (Partial(Sum), Shard(1), 1),
        (Replicate, Partial(Sum), 0),
        (Replicate, Partial(Avg), 0),
        (Replicate, Partial(Max), 0),
        (Replicate, Partial(Prod), 0),
        (Shard(0), Partial(Sum), 0),
        (Partial(Sum), Partial(Avg), 0),
        (Partial(Avg), Partial(Sum), 0),
        (Partial(Sum), Partial(Max), 1),
        (Shard(1), Shard(1), 0),
    ];
    on_ranks(&[1, 2, 3, 4], |world| {
        let mesh = world.mesh([("a", world.size())])?;
        for (from, to, count) in rows {
            let x = placed(&mesh, [5, 4], &[from])?;
            let (_, n) = counted(&world, || x.reshard(&[to]))?;
            let expected = if world.size() == 1 { 0 } else { count };
            assert_eq!(n, expected, "{from} to {to} on {} ranks", world.size());
        }
        Ok(())
    });
}

#[test]
fn addends_over_two_axes_are_reduced_by_one_all_reduce() {
    launched(4, |world| {
        let mesh = world.mesh([("a", 2), ("b", 2)])?;
        for (from, to) in [
            ([Partial(Sum), Partial(Sum)], [Replicate, Replicate]),
            ([Shard(0), Shard(0)], [Replicate, Replicate]),
            ([Shard(0), Partial(Sum)], [Replicate, Replicate]),
            ([Partial(Sum), Partial(Sum)], [Shard(0), Shard(1)]),
        ] {
            let x = placed(&mesh, [5, 4], &from)?;
            assert_eq!(counted(&world, || x.reshard(&to))?.1, 1, "{from:?} to {to:?}");
        }
        // Along one axis of the two only.
        let x = placed(&mesh, [5, 4], &[Replicate, Shard(0)])?;
        assert_eq!(counted(&world, || x.reshard(&[Shard(1), Shard(0)]))?.1, 0);
        Ok(())
    });
}

#[test]
fn collectives_sends_and_barriers_count_one_each_and_a_group_of_one_nothing() {
    launched(2, |world| {
        let mesh = world.mesh([("a", 2), ("b", 1)])?;
        let (group, alone) = (mesh.communicator(&["a"])?, mesh.communicator(&["b"])?);
        let x = waves(2, 2);
        let one = |f: &dyn Fn() -> local_map::Result<()>| counted(&world, f).map(|(_, n)| assert_eq!(n, 1));
        one(&|| group.all_reduce(&x, Sum).map(drop))?;
        one(&|| group.all_gather(&x, 0).map(drop))?;
        one(&|| group.all_to_all(&x).map(drop))?;
        one(&|| group.broadcast(&x, 1).map(drop))?;
        one(&|| group.barrier())?;
        one(&|| match group.position() {
            0 => group.send(&x, 1),
            _ => group.recv(x.dtype(), x.dims(), 0).map(drop),
        })?;
        let nothing = counted(&world, || {
            alone.all_reduce(&x, Sum)?;
            alone.barrier()
        })?;
        assert_eq!(nothing.1, 0);
        // All handles of a rank's world count together; the ranks count apart.
        assert_eq!(mesh.world().collectives(), world.collectives());
        if world.rank() == 0 {
            assert_eq!(world.collectives(), 6);
        }
        Ok(())
    });
}

#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn energy(x: &Tensor) -> Result<Tensor> {
    x.sqr()?.sum_all()
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn square(x: &Tensor) -> Result<Tensor> {
    x.sqr()
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn energy_whole(x: &Tensor) -> Result<Tensor> {
    x.sqr()?.sum_all()
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn square_whole(x: &Tensor) -> Result<Tensor> {
    x.sqr()
}

#[local_map(in = [[Shard(0)]], out = [Partial(Avg)])]
fn mean_square(x: &Tensor) -> Result<Tensor> {
    x.sqr()?.mean_all()
}

#[local_map(in = [[Shard(0)]], out = [Partial(Max)])]
fn largest(x: &Tensor) -> Result<Tensor> {
    x.flatten_all()?.max(0)
}

#[local_map(in = [[Shard(0)], [Replicate]], out = [Shard(0)])]
fn project(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.matmul(w)
}

#[local_map(in = [[Replicate], _, _], out = [Shard(0)])]
fn square_own_part(x: &Tensor, start: usize, len: usize) -> Result<Tensor> {
    x.narrow(0, start, len)?.sqr()
}

/// A multi-layer perceptron cut along its hidden dimension, as Megatron does.
#[local_map(in = [[Replicate], [Shard(1)], [Shard(0)]], out = [Partial(Sum)])]
fn mlp(x: &Tensor, up: &Tensor, down: &Tensor) -> Result<Tensor> {
    x.matmul(up)?.relu()?.matmul(down)
}

/// How often the forward and the backward pass of `loss` communicate, for a leaf with this placement on two ranks. The value is
/// made whole, which may be one more.
fn passes<T: Into<DTensor>>(placement: Placement, loss: impl Fn(&DTensor) -> Result<T> + Sync) -> [u64; 2] {
    let all = launched(2, |world| {
        let x = leaf(&world.mesh([("dp", 2)])?, [4, 4], &[placement])?;
        let (loss, forward) = counted(&world, || {
            let loss: DTensor = loss(&x)?.into();
            loss.reshard(&[Replicate])
        })?;
        let (gradients, backward) = backward(&world, &loss)?;
        assert!(gradients.get(&x).is_some());
        Ok([forward, backward])
    });
    assert_eq!(all[0], all[1]);
    all[0]
}

#[test]
fn sharded_data_reduces_the_value_and_nothing_in_backward() {
    assert_eq!(passes(Shard(0), energy), [1, 0]);
    assert_eq!(passes(Shard(0), |x| energy(&square(x)?)), [1, 0]);
    assert_eq!(passes(Shard(0), mean_square), [1, 0]);
}

#[test]
fn replicated_regions_communicate_in_neither_pass() {
    assert_eq!(passes(Replicate, energy_whole), [0, 0]);
    assert_eq!(passes(Replicate, |x| energy_whole(&square_whole(x)?)), [0, 0]);
}

#[test]
fn a_replicated_input_that_each_rank_uses_a_part_of_is_reduced_once() {
    let own = |x: &DTensor| energy(&square_own_part(x, 2 * x.mesh().world().rank(), 2)?);
    assert_eq!(passes(Replicate, own), [1, 1]);
}

#[test]
fn a_maximum_finds_where_it_is_by_two_all_reduces() {
    assert_eq!(passes(Shard(0), largest), [1, 2]);
}

#[test]
fn an_all_reduce_in_a_body_is_its_own_transpose() {
    #[local_map(in = [[Shard(0)]], out = [Replicate])]
    fn energy_everywhere(x: &Tensor, ctx: &Region) -> Result<Tensor> {
        Ok(ctx.all_reduce(&x.sqr()?.sum_all()?, "dp", Sum)?)
    }
    assert_eq!(passes(Shard(0), energy_everywhere), [1, 1]);
}

#[test]
fn cutting_a_replica_is_gathered_back_and_gathering_a_shard_is_reduced_or_free() {
    // Its gradient arrives as a shard and is wanted whole.
    assert_eq!(passes(Replicate, |x| energy(&x.reshard(&[Shard(0)])?)), [1, 1]);
    // It arrives whole and is wanted as a shard: a view.
    assert_eq!(passes(Shard(0), |x| energy_whole(&x.reshard(&[Replicate])?)), [1, 0]);
    // It arrives as it is wanted.
    assert_eq!(passes(Shard(0), |x| energy(&x.reshard(&[Replicate])?.reshard(&[Shard(0)])?)), [2, 0]);
    assert_eq!(passes(Replicate, |x| energy_whole(&x.reshard(&[Shard(0)])?.reshard(&[Replicate])?)), [1, 0]);
}

#[test]
fn a_replicated_weight_is_reduced_once_and_sharded_data_never() {
    on_ranks(&[2, 3, 4], |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let (x, w) = (leaf(&mesh, [5, 3], &[Shard(0)])?, leaf(&mesh, [3, 2], &[Replicate])?);
        let (y, forward) = counted(&world, || Ok(project(&x, &w)?))?;
        assert_eq!(forward, 0);
        assert_eq!(backward(&world, &energy(&y)?)?.1, 1);
        // Without the weight's gradient there is nothing to do.
        let constant = placed(&mesh, [3, 2], &[Replicate])?;
        assert_eq!(backward(&world, &energy(&project(&x, &constant)?)?)?.1, 0);
        Ok(())
    });
}

#[test]
fn two_uses_that_each_give_addends_are_reduced_once() {
    on_ranks(&[2, 3], |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let (x, w) = (placed(&mesh, [4, 3], &[Shard(0)])?, leaf(&mesh, [3, 3], &[Replicate])?);
        let twice = energy(&project(&project(&x, &w)?, &w)?)?;
        assert_eq!(backward(&world, &twice)?.1, 1);
        let sum = (&energy(&project(&x, &w)?)? + &energy(&project(&x, &w)?)?)?;
        assert_eq!(backward(&world, &sum)?.1, 1);
        Ok(())
    });
}

#[test]
fn a_use_on_an_invariant_axis_and_another_one_are_reduced_once() {
    assert_eq!(
        passes(Replicate, |x| {
            let parts = energy(&square_own_part(x, 2 * x.mesh().world().rank(), 2)?)?.reshard(&[Replicate])?;
            Ok((&energy_whole(x)? + &parts)?)
        }),
        [1, 1]
    );
}

#[test]
fn a_megatron_pair_is_one_all_reduce_in_each_pass() {
    on_ranks(&[2, 3, 4], |world| {
        let mesh = world.mesh([("tp", world.size())])?;
        let x = leaf(&mesh, [3, 4], &[Replicate])?;
        let (up, down) = (leaf(&mesh, [4, 7], &[Shard(1)])?, leaf(&mesh, [7, 4], &[Shard(0)])?);
        let (y, forward) = counted(&world, || mlp(&x, &up, &down)?.reshard(&[Replicate]))?;
        let (loss, end) = counted(&world, || Ok(energy_whole(&y)?))?;
        // The all-reduce of the sum forward, of the gradient of `x` backward.
        assert_eq!([forward, end, backward(&world, &loss)?.1], [1, 0, 1]);
        // Its input needs no gradient: nothing is left to reduce.
        let constant = placed(&mesh, [3, 4], &[Replicate])?;
        let loss = energy_whole(&mlp(&constant, &up, &down)?.reshard(&[Replicate])?)?;
        assert_eq!(backward(&world, &loss)?.1, 0);
        Ok(())
    });
}

#[test]
fn two_stacked_tensor_parallel_layers_have_one_all_reduce_between_them_in_backward() {
    on_ranks(&[2, 3, 4], |world| {
        let mesh = world.mesh([("tp", world.size())])?;
        let weights =
            |up, down| Ok::<_, local_map::Error>((leaf(&mesh, up, &[Shard(1)])?, leaf(&mesh, down, &[Shard(0)])?));
        let ((up1, down1), (up2, down2)) = (weights([4, 7], [7, 4])?, weights([4, 5], [5, 2])?);
        for (x, first) in [(placed(&mesh, [3, 4], &[Replicate])?, 0), (leaf(&mesh, [3, 4], &[Replicate])?, 1)] {
            let (y, forward) = counted(&world, || {
                let hidden = mlp(&x, &up1, &down1)?.reshard(&[Replicate])?;
                mlp(&hidden, &up2, &down2)?.reshard(&[Replicate])
            })?;
            let (gradients, backward) = backward(&world, &energy_whole(&y)?)?;
            assert_eq!([forward, backward], [2, 1 + first]);
            assert!([&up1, &down1, &up2, &down2].iter().all(|w| gradients.get(w).is_some()));
        }
        Ok(())
    });
}

#[test]
fn addends_of_a_gradient_that_is_wanted_as_a_shard_take_one_collective() {
    on_ranks(&[2, 3, 4], |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let (x, w) = (placed(&mesh, [4, 6], &[Shard(0)])?, leaf(&mesh, [6, 3], &[Shard(0)])?);
        let (whole, gather) = counted(&world, || w.reshard(&[Replicate]))?;
        let loss = energy(&project(&x, &whole)?)?;
        assert_eq!([gather, backward(&world, &loss)?.1], [1, 1]);
        Ok(())
    });
}

#[test]
fn deferred_gradients_are_reduced_by_one_all_reduce_of_a_bucket() {
    #[local_map(in = [[Shard(0)], [Replicate], [Replicate], [Replicate]], out = [Partial(Sum)])]
    fn loss(x: &Tensor, a: &Tensor, b: &Tensor, c: &Tensor) -> Result<Tensor> {
        x.matmul(a)?.matmul(b)?.matmul(c)?.sqr()?.sum_all()
    }
    on_ranks(&[2, 3, 4], |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let x = placed(&mesh, [4, 3], &[Shard(0)])?;
        let param = |shape| Param::new(&placed(&mesh, shape, &[Replicate])?)?.defer_reduction();
        let [a, b, c] = [param([3, 2])?, param([2, 5])?, param([5, 1])?];
        let (mut gradients, first) = backward(&world, &loss(&x, &a, &b, &c)?)?;
        let (more, second) = backward(&world, &loss(&x, &a, &b, &c)?)?;
        let (_, adding) = counted(&world, || gradients.add(more))?;
        let (_, reducing) = counted(&world, || gradients.reduce())?;
        let (_, again) = counted(&world, || gradients.reduce())?;
        assert_eq!([first, second, adding, reducing, again], [0, 0, 0, 1, 0]);
        Ok(())
    });
}

#[test]
fn data_and_tensor_parallel_axes_reduce_each_along_its_own() {
    #[local_map(
        in = [[Shard(0), Replicate], [Replicate, Shard(1)], [Replicate, Shard(0)]],
        out = [Shard(0), Partial(Sum)],
    )]
    fn mlp(x: &Tensor, up: &Tensor, down: &Tensor) -> Result<Tensor> {
        x.matmul(up)?.relu()?.matmul(down)
    }
    #[local_map(in = [[Shard(0), Replicate]], out = [Partial(Sum), Replicate], reshard)]
    fn energy(x: &Tensor) -> Result<Tensor> {
        x.sqr()?.sum_all()
    }
    launched(4, |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let x = placed(&mesh, [4, 4], &[Shard(0), Replicate])?;
        let up = leaf(&mesh, [4, 6], &[Replicate, Shard(1)])?;
        let down = leaf(&mesh, [6, 2], &[Replicate, Shard(0)])?;
        // Forward the sum over `tp`, backward one over `dp` for each weight.
        let (loss, forward) = counted(&world, || Ok(energy(&mlp(&x, &up, &down)?)?))?;
        assert_eq!([forward, backward(&world, &loss)?.1], [1, 2]);
        Ok(())
    });
}

#[test]
fn outputs_that_are_not_used_and_inputs_that_need_no_gradient_cost_nothing() {
    #[local_map(in = [[Shard(0)], [Replicate], [Shard(0)]], out = [[Partial(Sum)], [Partial(Sum)]])]
    fn two(x: &Tensor, w: &Tensor, index: &Tensor) -> Result<(Tensor, Tensor)> {
        let picked = x.gather(&index.contiguous()?, 1)?;
        Ok((picked.sqr()?.sum_all()?, w.sqr()?.sum_all()?))
    }
    launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let (x, w) = (leaf(&mesh, [4, 2], &[Shard(0)])?, placed(&mesh, [2, 2], &[Replicate])?);
        let index = DTensor::shard(&Tensor::zeros((4, 1), candle_core::DType::U32, &Device::Cpu)?, &mesh, &[Shard(0)])?;
        let ((first, _), forward) = counted(&world, || Ok(two(&x, &w, &index)?))?;
        assert_eq!([forward, backward(&world, &first)?.1], [0, 0]);
        Ok(())
    });
}

#[test]
fn plain_code_between_local_pieces_communicates_as_a_region_would() {
    // Shards: nothing but the reduction of the value. A replica is reduced, as the ranks may have computed differently.
    let plain = |x: &DTensor, out: Placement| {
        let total = x.to_local()?.sqr()?.sum_all()?;
        Ok(Sources::new([x]).from_local(total, x.mesh(), &[out])?)
    };
    assert_eq!(passes(Shard(0), |x| plain(x, Partial(Sum))), [1, 0]);
    assert_eq!(passes(Replicate, |x| plain(x, Replicate)), [0, 1]);
    // Lengths are exchanged where they are ragged.
    let ragged = |x: &DTensor| {
        let squares = x.to_local()?.sqr()?;
        energy(&Sources::new([x]).from_local_ragged(squares, x.mesh(), &[Shard(0)])?)
    };
    assert_eq!(passes(Shard(0), ragged), [2, 0]);
}
