//! Plain candle code between local pieces and labelled results, differentiated: equal to the unsharded function.
#![allow(clippy::unwrap_used)]

mod support;

use candle_core::{DType, Device, Result, Tensor, Var};
use local_map::prelude::*;
use support::{launched, on_ranks, said};

fn vector(values: &[f64]) -> Tensor {
    Tensor::new(values, &Device::Cpu).unwrap()
}

fn close(a: &Tensor, b: &Tensor) {
    assert_eq!(a.dims(), b.dims());
    let off = (a - b).unwrap().abs().unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap();
    assert!(off < 1e-9, "off by {off}");
}

fn waves(rows: usize, columns: usize, phase: f64) -> Tensor {
    let values: Vec<f64> = (0..rows * columns).map(|i| (i as f64 * 0.7 + phase).sin()).collect();
    Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap()
}

/// The sum of a distributed tensor, weighted so that no two elements have the same cotangent.
fn weighted(y: &DTensor) -> local_map::Result<DTensor> {
    #[local_map(in = [[Replicate]], out = [Replicate])]
    fn of_one_axis(y: &Tensor) -> Result<Tensor> {
        weighted_sum(y)
    }
    #[local_map(in = [[Replicate, Replicate]], out = [Replicate, Replicate])]
    fn of_two_axes(y: &Tensor) -> Result<Tensor> {
        weighted_sum(y)
    }
    let everywhere = vec![Replicate; y.mesh().axis_count()];
    let whole = y.reshard(&everywhere)?;
    match everywhere.len() {
        1 => of_one_axis(&whole)?.reshard(&everywhere),
        _ => of_two_axes(&whole)?.reshard(&everywhere),
    }
}

fn weighted_sum(y: &Tensor) -> Result<Tensor> {
    let weights: Vec<f64> = (0..y.elem_count()).map(|i| 1.0 + (i as f64).cos()).collect();
    (y * Tensor::from_vec(weights, y.shape(), y.device())?)?.sum_all()
}

/// Plain code over local pieces, with the label of its result.
type Plain<'a> = &'a (dyn Fn(&[Tensor]) -> Result<Tensor> + Sync);

/// Checks the value and all gradients of a distributed `local` against one device's `whole`, from the locals of `inputs`.
fn check(
    axes: &[(&str, usize)],
    inputs: &[(Tensor, Vec<Placement>)],
    whole: Plain<'_>,
    local: impl Fn(&DeviceMesh, &[DTensor]) -> local_map::Result<DTensor> + Sync,
) {
    let vars: Vec<Var> = inputs.iter().map(|(x, _)| Var::from_tensor(x).unwrap()).collect();
    let expected = whole(&vars.iter().map(|v| v.as_tensor().clone()).collect::<Vec<_>>()).unwrap();
    let oracle = weighted_sum(&expected).unwrap().backward().unwrap();
    launched(axes.iter().map(|(_, n)| n).product(), |world| {
        let mesh = world.mesh(axes.iter().copied())?;
        let leaf = |(x, p): &(Tensor, Vec<Placement>)| DTensor::shard(x, &mesh, p)?.requires_grad();
        let leaves: Vec<DTensor> = inputs.iter().map(leaf).collect::<local_map::Result<_>>()?;
        let y = local(&mesh, &leaves)?;
        assert!(y.needs_grad());
        close(&y.full()?, &expected);
        let gradients = weighted(&y)?.backward()?;
        for (leaf, var) in leaves.iter().zip(&vars) {
            let gradient = gradients.get(leaf).unwrap();
            assert_eq!(gradient.spec()?, leaf.spec()?);
            close(&gradient.full()?, oracle.get(var).unwrap());
        }
        Ok(())
    });
}

const AXES: [&[(&str, usize)]; 5] = [&[("a", 1)], &[("a", 2)], &[("a", 3)], &[("a", 4)], &[("a", 2), ("b", 2)]];

/// The same placement on every axis.
fn everywhere(axes: &[(&str, usize)], placement: Placement) -> Vec<Placement> {
    vec![placement; axes.len()]
}

#[test]
fn squares_of_a_shard_a_replica_and_an_addend() {
    for axes in AXES {
        // Even, uneven and empty pieces.
        for rows in [8, 7, 5, 3, 1] {
            let x = waves(rows, 3, 0.5);
            let squares: Plain<'_> = &|x| x[0].sqr();
            let square = |mesh: &DeviceMesh, x: &[DTensor]| {
                let (local, shape) = (x[0].to_local()?.sqr()?, x[0].shape()?.to_vec());
                Sources::new(x).from_local_of(local, mesh, x[0].placements(), &shape)
            };
            check(axes, &[(x.clone(), everywhere(axes, Shard(0)))], squares, square);
            check(axes, &[(x.clone(), everywhere(axes, Replicate))], squares, square);
            let total: Plain<'_> = &|x| x[0].sqr()?.sum(0);
            check(axes, &[(x.clone(), everywhere(axes, Shard(0)))], total, |mesh, x| {
                let local = x[0].to_local()?.sqr()?.sum(0)?;
                Sources::new(x).from_local(local, mesh, &everywhere(axes, Partial(Sum)))
            });
            check(axes, &[(x.clone(), everywhere(axes, Replicate))], total, |mesh, x| {
                let local = x[0].to_local()?.sqr()?.sum(0)?;
                Sources::new(x).from_local(local, mesh, &everywhere(axes, Partial(Avg)))
            });
            check(axes, &[(x, everywhere(axes, Shard(0)))], squares, |mesh, x| {
                Sources::new(x).from_local_ragged(x[0].to_local()?.sqr()?, mesh, x[0].placements())
            });
        }
    }
}

#[test]
fn pieces_of_any_lengths_get_back_what_they_gave() {
    for n in 1..=4 {
        let x = (waves(n, 2, 0.5), vec![Shard(0)]);
        // The last rank keeps nothing of its row, the others keep it twice.
        let kept = |x: &Tensor, rank: usize| match rank + 1 == n {
            true => x.narrow(0, 0, 0),
            false => Tensor::cat(&[x, &x.sqr()?], 0),
        };
        let whole = |x: &[Tensor]| {
            let rows = (0..n).map(|rank| kept(&x[0].narrow(0, rank, 1)?, rank)).collect::<Result<Vec<_>>>()?;
            Tensor::cat(&rows, 0)
        };
        if n > 1 {
            check(&[("a", n)], &[x], &whole, |mesh, x| {
                let local = kept(&x[0].to_local()?, mesh.world().rank())?;
                Sources::new(x).from_local_ragged(local, mesh, &[Shard(0)])
            });
        }
    }
}

#[test]
fn a_mean_of_local_means_divides_by_the_ranks() {
    for n in 1..=4 {
        let x = (waves(12, 1, 0.0), vec![Shard(0)]);
        check(&[("a", n)], &[x], &|x| x[0].sqr()?.mean_all(), |mesh, x| {
            Sources::new(x).from_local(x[0].to_local()?.sqr()?.mean_all()?, mesh, &[Partial(Avg)])
        });
    }
}

/// The gradient of `x`, cut into shards on two ranks, of the largest element.
fn of_the_largest(x: &[f64]) -> Vec<f64> {
    let all = launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&vector(x), &mesh, &[Shard(0)])?.requires_grad()?;
        let y = Sources::new([&x]).from_local(x.to_local()?.max(0)?, &mesh, &[Partial(Max)])?;
        Ok(y.backward()?.get(&x).unwrap().full()?.to_vec1::<f64>()?)
    });
    assert_eq!(all[0], all[1]);
    all[0].clone()
}

#[test]
fn the_largest_gets_the_gradient_and_ties_share_it() {
    assert_eq!(of_the_largest(&[1.0, 2.0, 3.0, 4.0]), [0.0, 0.0, 0.0, 1.0]);
    assert_eq!(of_the_largest(&[4.0, 1.0, 3.0, 4.0]), [0.5, 0.0, 0.0, 0.5]);
}

#[test]
fn each_rank_squares_its_own_part_of_a_replicated_source() {
    for n in [1, 2, 4] {
        check(&[("a", n)], &[(waves(8, 2, 0.0), vec![Replicate])], &|x| x[0].sqr(), |mesh, x| {
            let (rank, rows) = (mesh.world().rank(), 8 / n);
            let own = x[0].to_local()?.narrow(0, rank * rows, rows)?.sqr()?;
            Sources::new(x).from_local(own, mesh, &[Shard(0)])
        });
    }
}

#[test]
fn a_replicated_weight_gets_the_sum_over_the_data() {
    let product: Plain<'_> = &|x| x[0].matmul(&x[1])?.sqr();
    for (axes, cut, whole) in [
        (AXES[0], vec![Shard(0)], vec![Replicate]),
        (AXES[1], vec![Shard(0)], vec![Replicate]),
        (AXES[2], vec![Shard(0)], vec![Replicate]),
        (AXES[3], vec![Shard(0)], vec![Replicate]),
        (AXES[4], vec![Shard(0), Replicate], vec![Replicate, Replicate]),
        (AXES[4], vec![Shard(0), Shard(0)], vec![Replicate, Replicate]),
    ] {
        for rows in [8, 5, 1] {
            let inputs = [(waves(rows, 3, 0.0), cut.clone()), (waves(3, 2, 1.0), whole.clone())];
            check(axes, &inputs, product, |mesh, x| {
                let local = x[0].to_local()?.matmul(&x[1].to_local()?)?.sqr()?;
                Sources::new(x).from_local_of(local, mesh, x[0].placements(), &[rows, 2])
            });
        }
    }
}

#[test]
fn columns_of_a_weight_on_a_second_axis_equal_one_device() {
    let inputs = [(waves(5, 3, 0.0), vec![Shard(0), Replicate]), (waves(3, 3, 1.0), vec![Replicate, Shard(1)])];
    check(AXES[4], &inputs, &|x| x[0].matmul(&x[1])?.sqr(), |mesh, x| {
        let local = x[0].to_local()?.matmul(&x[1].to_local()?)?.sqr()?;
        Sources::new(x).from_local_of(local, mesh, &[Shard(0), Shard(1)], &[5, 3])
    });
}

/// The placements of two factors and of their product on one axis.
const PRODUCTS: [[Placement; 3]; 8] = [
    [Shard(0), Replicate, Shard(0)],
    [Replicate, Shard(1), Shard(1)],
    [Shard(1), Shard(0), Partial(Sum)],
    [Replicate, Replicate, Replicate],
    [Replicate, Replicate, Partial(Avg)],
    [Partial(Sum), Replicate, Partial(Sum)],
    [Replicate, Partial(Sum), Partial(Sum)],
    [Partial(Avg), Replicate, Partial(Avg)],
];

fn check_product(axes: &[(&str, usize)], rows: &[[Placement; 3]], sizes: [usize; 3]) {
    let [m, k, n] = sizes;
    let inputs = [(m, k), (k, n)].map(|(rows, columns)| (waves(rows, columns, 0.4), everywhere(axes, Replicate)));
    let nth = |which: usize| rows.iter().map(|row| row[which]).collect::<Vec<_>>();
    check(axes, &inputs, &|x| x[0].matmul(&x[1]), |mesh, x| {
        let (a, b) = (x[0].reshard(&nth(0))?, x[1].reshard(&nth(1))?);
        let local = a.to_local()?.contiguous()?.matmul(&b.to_local()?.contiguous()?)?;
        Sources::new([&a, &b]).from_local_of(local, mesh, &nth(2), &[m, n])
    });
}

#[test]
fn products_under_all_placements_on_one_axis_and_on_two() {
    for sizes in [[8, 4, 4], [5, 3, 7], [1, 2, 1]] {
        for a in PRODUCTS {
            AXES[..4].iter().for_each(|axes| check_product(axes, &[a], sizes));
            PRODUCTS.iter().for_each(|b| check_product(AXES[4], &[a, *b], sizes));
        }
    }
}

#[test]
fn a_partial_tensor_through_plain_code_is_the_identity_and_not_doubled() {
    for op in [Sum, Avg] {
        for axes in AXES {
            check(axes, &[(waves(3, 2, 0.0), everywhere(axes, Replicate))], &|x| x[0].sqr(), |mesh, x| {
                let squares = Sources::new(x).from_local(x[0].to_local()?.sqr()?, mesh, x[0].placements())?;
                let addends = squares.reshard(&everywhere(axes, Partial(op)))?;
                let same = Sources::new([&addends]).from_local(addends.to_local()?, mesh, addends.placements())?;
                let halves = (same.to_local()? * 0.5)?;
                let half = Sources::new([&same]).from_local(halves, mesh, same.placements())?;
                &half + &half
            });
        }
    }
}

#[test]
fn a_loss_of_plain_code_that_names_no_sources_is_told_of_them() {
    on_ranks(&[2], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&vector(&[1.0, 2.0, 3.0]), &mesh, &[Shard(0)])?.requires_grad()?;
        let energy = x.to_local()?.sqr()?.sum_all()?;
        let error = DTensor::from_local(energy, &mesh, &[Partial(Sum)])?.backward().err().unwrap().to_string();
        assert!(
            error.ends_with("where plain code computed it from local pieces, name their tensors in `Sources`"),
            "{error}"
        );
        Ok(())
    });
}

#[test]
fn plain_code_follows_a_region_and_is_followed_by_one() {
    #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
    fn square(x: &Tensor) -> Result<Tensor> {
        x.sqr()
    }
    for n in 1..=4 {
        check(&[("a", n)], &[(waves(5, 2, 0.0), vec![Shard(0)])], &|x| (x[0].sqr()? * 3.0)?.sqr(), |mesh, x| {
            let squares = square(&x[0])?;
            let tripled = (squares.to_local()? * 3.0)?;
            let tripled = Sources::new([&squares]).from_local_of(tripled, mesh, &[Shard(0)], &[5, 2])?;
            square(&tripled)?.reshard(&[Shard(0)])
        });
    }
}

#[test]
fn a_label_of_the_gradient_overrides_the_table() {
    let squares: Plain<'_> = &|x| x[0].sqr();
    for n in 1..=4 {
        let x = [(waves(3, 2, 0.0), vec![Replicate])];
        // The value is one n-th of the sum, but every rank computes the whole gradient.
        check(&[("a", n)], &x, squares, |mesh, x| {
            let whole = x[0].to_local()?.sqr()?;
            let local = (&whole + (whole.detach() * (1.0 / n as f64 - 1.0))?)?;
            Sources::new(x).grad(0, &[Replicate]).from_local(local, mesh, &[Partial(Sum)])
        });
        check(&[("a", n)], &x, squares, |mesh, x| {
            let local = x[0].to_local()?.sqr()?;
            Sources::new(x).grad(0, &[Replicate]).grad(0, &[Partial(Sum)]).from_local(local, mesh, &[Replicate])
        });
    }
}

#[test]
fn a_rank_that_uses_no_source_contributes_zeros() {
    for n in 2..=4 {
        launched(n, |world| {
            let mesh = world.mesh([("dp", n)])?;
            let x = DTensor::shard(&waves(2 * n, 1, 0.0), &mesh, &[Shard(0)])?.requires_grad()?;
            let w = Param::new(&DTensor::shard(&vector(&[3.0]), &mesh, &[Replicate])?)?;
            let unused = DTensor::shard(&vector(&[3.0]), &mesh, &[Replicate])?.requires_grad()?;
            let local = match world.rank() {
                0 => x.to_local()?.broadcast_mul(&w.to_local()?)?.sum_all()?,
                _ => Tensor::new(0f64, &Device::Cpu)?,
            };
            let y = Sources::new([&x, &w, &unused]).from_local(local, &mesh, &[Partial(Sum)])?;
            let gradients = y.backward()?;
            let mut expected = vec![0.0; 2 * n];
            expected[..2].fill(3.0);
            close(&gradients.get(&x).unwrap().full()?.flatten_all()?, &vector(&expected));
            close(&gradients.get(&w).unwrap().full()?, &waves(2, 1, 0.0).sum(0)?);
            assert_eq!(gradients.get(&unused).unwrap().full()?.to_vec1::<f64>()?, [0.0]);
            Ok(())
        });
    }
}

#[test]
fn two_results_that_share_a_part_of_the_computation_add_up() {
    on_ranks(&[1, 2, 3], |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let x = DTensor::shard(&vector(&[1.0, 2.0, 3.0, 4.0]), &mesh, &[Shard(0)])?.requires_grad()?;
        let shared = x.to_local()?.sqr()?;
        let sources = Sources::new([&x]);
        let once = sources.from_local(shared.sum_all()?, &mesh, &[Partial(Sum)])?;
        let twice = sources.from_local((&shared * 2.0)?.sum_all()?, &mesh, &[Partial(Sum)])?;
        let gradients = (&once + &twice)?.backward()?;
        assert_eq!(gradients.get(&x).unwrap().full()?.to_vec1::<f64>()?, [6.0, 12.0, 18.0, 24.0]);
        Ok(())
    });
}

#[test]
fn a_source_that_is_given_twice_gets_its_gradient_once() {
    on_ranks(&[1, 2], |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let x = DTensor::shard(&vector(&[1.0, 2.0]), &mesh, &[Replicate])?.requires_grad()?;
        let local = (x.to_local()? * x.to_local()?)?.sum_all()?;
        let y = Sources::new([&x, &x.clone()]).from_local(local.clone(), &mesh, &[Replicate])?;
        assert_eq!(y.backward()?.get(&x).unwrap().full()?.to_vec1::<f64>()?, [2.0, 4.0]);
        let conflict = Sources::new([&x, &x]).grad(1, &[Replicate]).from_local(local, &mesh, &[Replicate]);
        let conflict = conflict.err().unwrap().to_string();
        assert!(conflict.starts_with("from_local: the label of the gradient of source 1 does not fit"), "{conflict}");
        Ok(())
    });
}

#[test]
fn a_body_that_reaches_an_attached_local_reports_its_gradient_as_local() {
    #[local_map(in = [[Shard(0)], _], out = [Partial(Sum)])]
    fn dot(x: &Tensor, plain: &Tensor) -> Result<Tensor> {
        (x * plain)?.sum_all()
    }
    #[local_map(in = [[Shard(0)], _], out = [Partial(Sum)], recompute)]
    fn dot_again(x: &Tensor, plain: Tensor) -> Result<Tensor> {
        (x * plain)?.sum_all()
    }
    launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let leaf = |values: &[f64]| DTensor::shard(&vector(values), &mesh, &[Shard(0)])?.requires_grad();
        let (x, other) = (leaf(&[1.0, 2.0])?, leaf(&[3.0, 4.0])?);
        for again in [false, true] {
            let plain = other.to_local()?;
            let loss = if again { dot_again(&x, plain)? } else { dot(&x, &plain)? };
            let gradients = loss.backward()?;
            assert_eq!(gradients.get(&x).unwrap().full()?.to_vec1::<f64>()?, [3.0, 4.0]);
            assert!(gradients.get(&other).is_none());
            let local = gradients.local(&other.var()?).unwrap().to_vec1::<f64>()?;
            assert_eq!(local, [1.0 + world.rank() as f64]);
            // Both an argument and reached beside it: one gradient, not two.
            let squares = if again { dot_again(&x, x.to_local()?)? } else { dot(&x, &x.to_local()?)? };
            assert_eq!(squares.backward()?.get(&x).unwrap().full()?.to_vec1::<f64>()?, [2.0, 4.0]);
        }
        Ok(())
    });
}

#[test]
fn nothing_is_recorded_without_need() {
    launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let constant = DTensor::shard(&vector(&[1.0, 2.0]), &mesh, &[Shard(0)])?;
        let x = constant.requires_grad()?;
        let label = |source: &DTensor, local: Tensor| Sources::new([source]).from_local(local, &mesh, &[Shard(0)]);
        assert!(!constant.to_local()?.is_variable());
        assert!(!label(&constant, constant.to_local()?)?.needs_grad());
        assert!(!no_grad(|| label(&x, x.to_local()?))?.needs_grad());
        assert!(!no_grad(|| x.to_local())?.is_variable());
        assert!(!x.full()?.track_op());
        assert!(!label(&x, x.to_local()?.to_dtype(DType::U32)?)?.needs_grad());
        assert!(!Sources::new::<DTensor>([]).from_local(x.to_local()?, &mesh, &[Shard(0)])?.needs_grad());
        assert!(!DTensor::from_local(x.to_local()?, &mesh, &[Shard(0)])?.needs_grad());
        // A piece taken under `no_grad` is a constant.
        let frozen = no_grad(|| x.to_local())?;
        let total = Sources::new([&x, &constant]).from_local(
            ((x.to_local()? * frozen)? + constant.to_local()?)?.sum_all()?,
            &mesh,
            &[Partial(Sum)],
        )?;
        let gradients = total.backward()?;
        assert_eq!(gradients.get(&x).unwrap().full()?.to_vec1::<f64>()?, [1.0, 2.0]);
        assert!(gradients.get(&constant).is_none());
        Ok(())
    });
}

#[test]
fn a_rank_outside_the_mesh_gets_an_absent_result() {
    launched(3, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&vector(&[1.0, 2.0]), &mesh, &[Shard(0)])?.requires_grad()?;
        let local = if x.is_absent() { vector(&[]) } else { x.to_local()?.sqr()? };
        let y = Sources::new([&x]).from_local(local, &mesh, &[Shard(0)])?;
        assert_eq!(y.is_absent(), world.rank() == 2);
        assert_eq!(y.placements()[..], [Shard(0)]);
        Ok(())
    });
}

/// The message of what must fail, before any communication.
fn refused(world: &World, result: local_map::Result<DTensor>, before: u64) -> String {
    assert_eq!(world.collectives(), before);
    said(&result.err().unwrap())
}

#[test]
fn wrong_sources_and_labels_are_refused_before_anything_happens() {
    launched(2, |world| {
        let (mesh, other) = (world.mesh([("dp", 2)])?, world.mesh([("tp", 2)])?);
        let x = DTensor::shard(&vector(&[1.0, 2.0]), &mesh, &[Shard(0)])?.requires_grad()?;
        let far = DTensor::shard(&vector(&[1.0, 2.0]), &other, &[Shard(0)])?;
        let max = Sources::new([&x]).from_local(x.to_local()?, &mesh, &[Partial(Max)])?;
        let (local, before) = (x.to_local()?, world.collectives());
        let to = |sources: &Sources<'_>, p: Placement| {
            refused(&world, sources.from_local_ragged(local.clone(), &mesh, &[p]), before)
        };
        let messages = [
            to(&Sources::new([&x, &far]), Shard(0)),
            to(&Sources::new([&x, &max]), Shard(0)),
            to(&Sources::new([&x]), Partial(Prod)),
            to(&Sources::new([&x]).grad(1, &[Shard(0)]), Shard(0)),
            to(&Sources::new([&x]).grad(0, &[Partial(Avg)]), Shard(0)),
            to(&Sources::new([&x]).grad(0, &[Shard(1)]), Shard(0)),
        ];
        let expected = [
            "from_local: the sources live on different meshes than the result\n  \
             - the result: mesh (dp=2)\n  - source 0: mesh (dp=2)\n  - source 1: mesh (tp=2)\n  \
             put all sources and the result on one mesh: the same ranks in the same order, and the same axis names",
            "from_local: source 1 cannot be differentiated\n  mesh (dp=2)\n  - it is (Partial(Max))\n  \
             reshard it first, or label the result under `no_grad`",
            "from_local: the result cannot be differentiated\n  mesh (dp=2)\n  - it is (Partial(Prod))\n  \
             reduce it otherwise, or label it under `no_grad`",
            "from_local: the label of the gradient of source 1 does not fit\n  mesh (dp=2)\n  - sources given: 1\n  \
             count the sources from 0, in the order in which they are given",
            "from_local: the label of the gradient of source 0 does not fit\n  mesh (dp=2)\n  \
             - it is (Partial(Avg))\n  the ranks' parts of a gradient add up: give `Partial(Sum)`",
            "from_local: the gradient of source 0: f64[2] cannot be placed as (Shard(1))\n  mesh (dp=2)\n  \
             - axis `dp`: Shard(1), but the tensor has 1 dimensions",
        ];
        assert_eq!(messages, expected);
        Ok(())
    });
}

#[test]
fn a_gradient_that_does_not_fit_its_label_names_the_source() {
    launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&vector(&[1.0, 2.0]), &mesh, &[Shard(0)])?.requires_grad()?;
        let y =
            Sources::new([&x]).grad(0, &[Replicate]).from_local(x.to_local()?.sum_all()?, &mesh, &[Partial(Sum)])?;
        let message = y.backward().err().unwrap().to_string();
        assert!(message.starts_with("from_local: the gradient of source 0 does not fit its label"), "{message}");
        Ok(())
    });
}
