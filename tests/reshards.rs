//! Reshards against the oracle: the global tensor that the ranks' pieces make up never changes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use candle_core::{DType, Device, Tensor};
use local_map::prelude::*;
use local_map::{Launch, Result};
use proptest::prelude::*;

/// The value that one rank holds of each element, and how partial values combine.
struct Oracle {
    mesh: Mesh,
    shape: Vec<usize>,
}

type Axes = Vec<(&'static str, usize)>;

impl Oracle {
    fn new(axes: &Axes, shape: &[usize]) -> Oracle {
        let mesh = Mesh::new(axes.iter().copied()).unwrap();
        let shape = shape.to_vec();
        Oracle { mesh, shape }
    }

    fn spec(&self, placements: &[Placement], dtype: DType) -> Spec {
        Spec::new(self.mesh.clone(), placements, &self.shape, dtype).unwrap()
    }

    /// All coordinates, with the axes that `keep` refuses set to 0: one per group of equals.
    fn coords(&self, keep: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
        let zero = |c: &[usize]| c.iter().enumerate().all(|(axis, &i)| i == 0 || keep(axis));
        self.mesh.coords().filter(|c| zero(c)).map(|c| c.to_vec()).collect()
    }

    /// The global elements that the ranks' locals stand for: pieces assembled, then partial axes reduced, last axis first.
    fn global(&self, placements: &[Placement], dtype: DType, locals: &[Vec<f64>]) -> Vec<f64> {
        let spec = self.spec(placements, dtype);
        let partial = |axis: usize| matches!(placements[axis], Partial(_));
        let fulls: Vec<Vec<f64>> =
            self.coords(partial).into_iter().map(|addend| self.assemble(&spec, placements, &addend, locals)).collect();
        let op = placements.iter().find_map(|p| if let Partial(op) = p { Some(*op) } else { None });
        let averaged = placements.iter().zip(self.mesh.sizes());
        let divisor: usize = averaged.filter(|(p, _)| **p == Partial(Avg)).map(|(_, n)| n).product();
        let sum = fulls.into_iter().reduce(|a, b| a.iter().zip(b).map(|(x, y)| combine(op, *x, y)).collect()).unwrap();
        sum.into_iter().map(|x| x / divisor as f64).collect()
    }

    /// Puts the pieces of the ranks with these coordinates on the partial axes where they belong; replicas must be equal.
    fn assemble(&self, spec: &Spec, placements: &[Placement], addend: &[usize], locals: &[Vec<f64>]) -> Vec<f64> {
        let mut full = vec![None; self.shape.iter().product()];
        for (coord, local) in self.mesh.coords().zip(locals) {
            let same = |axis: usize| !matches!(placements[axis], Partial(_)) || coord[axis] == addend[axis];
            if !(0..coord.len()).all(same) {
                continue;
            }
            let places = positions(&self.shape, &spec.piece(&coord).offset(), &spec.piece(&coord).shape());
            assert_eq!(places.len(), local.len(), "the local shape follows the spec");
            for (at, value) in places.into_iter().zip(local) {
                let before = full[at].replace(*value);
                assert!(before.is_none_or(|b: f64| b.to_bits() == value.to_bits()), "replicas are equal");
            }
        }
        full.into_iter().map(|x| x.expect("pieces cover the tensor")).collect()
    }
}

fn combine(op: Option<ReduceOp>, a: f64, b: f64) -> f64 {
    match op {
        Some(Prod) => a * b,
        Some(Max | Any) => a.max(b),
        Some(Min | All) => a.min(b),
        _ => a + b,
    }
}

/// The row-major positions of a box in a tensor.
fn positions(shape: &[usize], offset: &[usize], extent: &[usize]) -> Vec<usize> {
    let mut all = vec![0];
    for ((&len, &start), &n) in shape.iter().zip(offset).zip(extent) {
        all = all.iter().flat_map(|base| (start..start + n).map(move |i| base * len + i)).collect();
    }
    all
}

fn launched<T: Send>(n: usize, program: impl Fn(World) -> Result<T> + Sync) -> Vec<T> {
    Launch::new(n).deadline(Duration::from_secs(60)).run(program).unwrap()
}

fn elements(x: &Tensor) -> Vec<f64> {
    x.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// What the rank with this number holds at first: small integers that averages of up to 8 ranks divide exactly.
fn seeded(rank: usize, coord: &[usize], from: &Spec, op: Option<ReduceOp>) -> Tensor {
    let piece = from.piece(coord);
    // Replicas must be equal, so the values depend on partial coordinates and global positions alone.
    let partial = coord.iter().zip(from.placements().iter());
    let addend = partial.filter(|(_, p)| matches!(p, Partial(_))).fold(7, |h, (c, _)| h * 5 + c);
    let value = |at: usize| {
        let h = (at + 1).wrapping_mul(addend).wrapping_mul(0x9e37_79b9) >> 7;
        match op {
            Some(Prod) => [-2.0, -1.0, 1.0, 2.0, 3.0][h % 5],
            Some(Any | All) => (h % 2) as f64,
            _ => (h % 19) as f64 * 48.0 - 432.0,
        }
    };
    let values: Vec<f64> = positions(from.shape(), &piece.offset(), &piece.shape()).into_iter().map(value).collect();
    let strided = Tensor::from_vec(values, piece.shape().as_slice(), &Device::Cpu).unwrap();
    let strided = strided.to_dtype(from.dtype()).unwrap();
    // Every other rank holds a transposed, so strided, tensor.
    match strided.rank() {
        0 | 1 => strided,
        n if rank.is_multiple_of(2) => {
            strided.transpose(0, n - 1).unwrap().contiguous().unwrap().transpose(0, n - 1).unwrap()
        }
        _ => strided,
    }
}

fn check(axes: &Axes, shape: &[usize], from: &[Placement], to: &[Placement], dtype: DType) {
    let oracle = Oracle::new(axes, shape);
    let op = from.iter().find_map(|p| if let Partial(op) = p { Some(*op) } else { None });
    let ranks = launched(oracle.mesh.size(), |world| {
        let mesh = world.mesh(axes.iter().copied())?;
        let spec = oracle.spec(from, dtype);
        let local = seeded(world.rank(), mesh.coordinate().unwrap(), &spec, op);
        let before = DTensor::from_local_of(local.clone(), &mesh, from, shape)?;
        let after = before.reshard(to)?;
        assert_eq!(after.spec()?, &oracle.spec(to, dtype));
        Ok((elements(&local), elements(&after.to_local()?), elements(&before.full()?)))
    });
    type Held = (Vec<f64>, Vec<f64>, Vec<f64>);
    let pick = |f: fn(&Held) -> &Vec<f64>| -> Vec<Vec<f64>> { ranks.iter().map(|r| f(r).clone()).collect() };
    let expected = oracle.global(from, dtype, &pick(|r| &r.0));
    assert_eq!(oracle.global(to, dtype, &pick(|r| &r.1)), expected, "{axes:?} {shape:?} {from:?} -> {to:?}");
    assert!(pick(|r| &r.2).iter().all(|full| *full == expected), "full() of {from:?}");
}

fn meshes() -> impl Strategy<Value = Axes> {
    prop_oneof![
        Just(vec![("a", 1)]),
        Just(vec![("a", 2)]),
        Just(vec![("a", 3)]),
        Just(vec![("a", 4)]),
        Just(vec![("a", 2), ("b", 2)]),
        Just(vec![("a", 2), ("b", 2)]),
        Just(vec![("a", 3), ("b", 2)]),
        Just(vec![("a", 2), ("b", 1), ("c", 2)]),
        Just(vec![("a", 2), ("b", 2), ("c", 2)]),
    ]
}

/// Placements of which all partial ones commute.
fn placements(axes: usize, rank: usize, ops: &'static [ReduceOp]) -> impl Strategy<Value = Vec<Placement>> {
    let op = proptest::sample::select(ops);
    (op, proptest::collection::vec((0usize..4, 0usize..8, any::<bool>()), axes)).prop_map(move |(op, picks)| {
        let pick = |(kind, dim, average): (usize, usize, bool)| match kind {
            0 => Replicate,
            1 if matches!(op, Sum | Avg) => Partial(if average { Avg } else { Sum }),
            1 => Partial(op),
            _ if rank == 0 => Replicate,
            _ => Shard((dim % rank) as i64 - if average { rank as i64 } else { 0 }),
        };
        picks.into_iter().map(pick).collect()
    })
}

type Case = (Axes, Vec<usize>, Vec<Placement>, Vec<Placement>);

fn cases(ops: &'static [ReduceOp]) -> impl Strategy<Value = Case> {
    let shape = proptest::collection::vec(prop_oneof![4 => 1usize..8, 1 => Just(0)], 0..4);
    (meshes(), shape).prop_flat_map(move |(mesh, shape)| {
        let (axes, rank) = (mesh.len(), shape.len());
        (Just(mesh), Just(shape), placements(axes, rank, ops), placements(axes, rank, ops))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_reshard_keeps_the_global_tensor((axes, shape, from, to) in cases(&[Sum, Avg, Max, Min, Prod])) {
        check(&axes, &shape, &from, &to, DType::F64);
    }

    #[test]
    fn truth_values_survive_any_reshard((axes, shape, from, to) in cases(&[Any, All])) {
        check(&axes, &shape, &from, &to, DType::U8);
    }
}

#[test]
fn partial_addends_reduce_to_the_table() {
    let table = [
        (Sum, [-3.0, 5.0, 6.0]),
        (Max, [-1.0, 3.0, 3.0]),
        (Min, [-2.0, 2.0, 3.0]),
        (Prod, [2.0, 6.0, 9.0]),
        (Avg, [-1.5, 2.5, 3.0]),
    ];
    for (op, expected) in table {
        let fulls = launched(2, |world| {
            let mesh = world.mesh([("dp", 2)])?;
            let addend = [[-1f32, 2.0, 3.0], [-2.0, 3.0, 3.0]][world.rank()];
            let x = DTensor::from_local(Tensor::new(&addend, &Device::Cpu)?, &mesh, &[Partial(op)])?;
            Ok(elements(&x.full()?))
        });
        assert_eq!(fulls, [expected, expected], "{op}");
    }
}

/// Ranks 0 to 3 of a 2x2 mesh hold these numbers.
fn on_2x2(numbers: [f64; 4], from: &[Placement]) -> Vec<Vec<f64>> {
    launched(4, |world| {
        let mesh = world.mesh([("a", 2), ("b", 2)])?;
        let local = Tensor::new(&[numbers[world.rank()]], &Device::Cpu)?;
        Ok(elements(&DTensor::from_local(local, &mesh, from)?.full()?))
    })
}

#[test]
fn two_partial_axes_reduce_as_one() {
    let numbers = [1.0, 2.0, 3.0, 4.0];
    assert_eq!(on_2x2(numbers, &[Partial(Sum), Partial(Sum)]), [[10.0]; 4]);
    assert_eq!(on_2x2(numbers, &[Partial(Sum), Partial(Avg)]), [[5.0]; 4]);
    assert_eq!(on_2x2(numbers, &[Partial(Max), Partial(Max)]), [[4.0]; 4]);
    assert_eq!(on_2x2(numbers, &[Shard(0), Partial(Sum)]), [[3.0, 7.0]; 4]);
}

#[test]
fn max_over_sum_is_refused_before_anything_moves() {
    let message = launched(1, |world| {
        let mesh = world.mesh([("a", 1), ("b", 1)])?;
        let local = Tensor::new(&[1f64], &Device::Cpu)?;
        Ok(DTensor::from_local(local, &mesh, &[Partial(Max), Partial(Sum)]).unwrap_err().to_string())
    });
    assert!(message[0].contains("do not commute"), "{}", message[0]);
}

#[test]
fn replicate_to_partial_and_back_is_the_identity_for_every_op() {
    for n in 1..=4 {
        for op in [Sum, Avg, Max, Min, Prod, Any, All] {
            let dtype = if matches!(op, Any | All) { DType::U8 } else { DType::F32 };
            let values = if dtype == DType::U8 { [0.0, 1.0, 5.0] } else { [-1.5, 0.0, 3.0] };
            let fulls = launched(n, |world| {
                let mesh = world.mesh([("a", n)])?;
                let x = Tensor::new(&values, &Device::Cpu)?.to_dtype(dtype)?;
                let there = DTensor::from_local(x, &mesh, &[Replicate])?.reshard(&[Partial(op)])?;
                Ok(elements(&there.reshard(&[Replicate])?.to_local()?))
            });
            assert_eq!(fulls, vec![values; n], "{op} on {n} ranks");
        }
    }
}

#[test]
fn integer_averages_are_refused_not_truncated() {
    let message = launched(1, |world| {
        let mesh = world.mesh([("a", 1)])?;
        let local = Tensor::new(&[3i64], &Device::Cpu)?;
        Ok(DTensor::from_local(local, &mesh, &[Partial(Avg)]).unwrap_err().to_string())
    });
    assert!(message[0].contains("would truncate"), "{}", message[0]);
}

#[test]
fn columns_gather_into_a_contiguous_tensor() {
    for n in 1..=4 {
        launched(n, |world| {
            let mesh = world.mesh([("tp", n)])?;
            let whole = Tensor::arange(0f32, 4.0 * 31.0 * 10.0, &Device::Cpu)?.reshape((4, 31, 10))?;
            let gathered = DTensor::shard(&whole, &mesh, &[Shard(1)])?.full()?;
            assert!(gathered.is_contiguous());
            assert_eq!(elements(&gathered), elements(&whole));
            Ok(())
        });
    }
}

#[test]
fn five_rows_nest_over_two_axes_and_gather_to_rows_0_to_4() {
    let rows = launched(4, |world| {
        let mesh = world.mesh([("a", 2), ("b", 2)])?;
        let whole = Tensor::arange(0f64, 15.0, &Device::Cpu)?.reshape((5, 3))?;
        let nested = DTensor::shard(&whole, &mesh, &[Shard(0), Shard(0)])?;
        assert_eq!(elements(&nested.full()?), elements(&whole));
        Ok(nested.to_local()?.dims()[0])
    });
    assert_eq!(rows, [2, 1, 1, 1]);
}

#[test]
fn scalars_reduce_and_cannot_be_sharded() {
    launched(2, |world| {
        let mesh = world.mesh([("a", 2)])?;
        let scalar = DTensor::from_local(Tensor::new(2f64, &Device::Cpu)?, &mesh, &[Partial(Sum)])?;
        assert_eq!(scalar.full()?.to_scalar::<f64>()?, 4.0);
        assert!(scalar.reshard(&[Shard(0)]).is_err());
        Ok(())
    });
}

#[test]
fn cutting_a_replicated_tensor_is_a_view_without_communication() {
    launched(2, |world| {
        let mesh = world.mesh([("a", 2)])?;
        let x = DTensor::from_local(Tensor::zeros((8, 8), DType::F32, &Device::Cpu)?, &mesh, &[Replicate])?;
        // Only one rank cuts: nothing waits for the other.
        if world.rank() == 0 {
            let part = x.reshard(&[Shard(1)])?.to_local()?;
            assert_eq!(part.stride(), [8, 1], "the strides of the whole show that it is a view");
        }
        Ok(())
    });
}

#[test]
fn one_rank_cuts_pieces_for_all() {
    for n in 1..=4 {
        for placement in [Shard(0), Shard(1), Replicate, Partial(Sum), Partial(Prod), Partial(Max)] {
            launched(n, |world| {
                let mesh = world.mesh([("a", n)])?;
                let whole = Tensor::arange(0i64, 35, &Device::Cpu)?.reshape((7, 5))?;
                let root = n - 1;
                let given = (world.rank() == root).then_some(&whole);
                let x = DTensor::shard_from(root, given, &mesh, &[placement])?;
                assert_eq!(elements(&x.full()?), elements(&whole), "{placement} on {n}");
                Ok(())
            });
        }
    }
}

#[test]
fn a_root_without_a_tensor_is_an_error_on_all_ranks() {
    launched(3, |world| {
        let mesh = world.mesh([("a", 3)])?;
        let error = DTensor::shard_from(1, None, &mesh, &[Shard(0)]).unwrap_err().to_string();
        assert!(error.contains("the root has no tensor"), "{error}");
        assert!(DTensor::shard_from(3, None, &mesh, &[Shard(0)]).is_err());
        Ok(())
    });
}

#[test]
fn arithmetic_is_right_on_placements_or_refused() {
    launched(2, |world| {
        let mesh = world.mesh([("a", 2)])?;
        let local = Tensor::new(&[1f64, 2.0], &Device::Cpu)?;
        let sums = DTensor::from_local(local.clone(), &mesh, &[Partial(Sum)])?;
        let maxima = DTensor::from_local(local, &mesh, &[Partial(Max)])?;
        assert_eq!(elements(&(&(&sums + &sums)? * 3.0)?.full()?), [12.0, 24.0]);
        assert_eq!(elements(&(-&(&sums - &(&sums / 2.0)?)?)?.full()?), [-1.0, -2.0]);
        assert_eq!(elements(&(&sums.reshard(&[Replicate])? + 1.0)?.full()?), [3.0, 5.0]);
        let why = (&sums + 1.0).unwrap_err().to_string();
        assert!(why.contains("would count once per rank"), "{why}");
        assert!((&maxima * 2.0).is_err() && (&maxima + &maxima).is_err() && (&sums + &maxima).is_err());
        Ok(())
    });
}

#[test]
fn ranks_that_see_another_mesh_or_other_lengths_are_told() {
    let other_mesh = Launch::new(6).deadline(Duration::from_secs(60)).run(|world| -> Result<String> {
        let axes = if world.rank() == 0 { [("a", 3), ("b", 2)] } else { [("a", 2), ("b", 3)] };
        let whole = Tensor::arange(0f64, 36.0, &Device::Cpu)?.reshape((6, 6))?;
        let x = DTensor::shard(&whole, &world.mesh(axes)?, &[Shard(0), Shard(1)])?;
        Ok(x.reshard(&[Shard(1), Shard(0)]).unwrap_err().to_string())
    });
    for message in other_mesh.unwrap() {
        assert!(message.contains("on mesh (a=3, b=2)") && message.contains("on mesh (a=2, b=3)"), "{message}");
    }
}

#[local_map(in = [[Replicate, Shard(0)]], out = [Shard(0), Shard(0)])]
fn same(x: &Tensor) -> candle_core::Result<Tensor> {
    x * 1.0
}

#[test]
fn an_axis_of_size_1_changes_nothing() {
    launched(2, |world| {
        let mesh = world.mesh([("dp", 1), ("tp", 2)])?;
        let whole = Tensor::arange(0f64, 5.0, &Device::Cpu)?;
        let x = DTensor::shard(&whole, &mesh, &[Replicate, Shard(0)])?;
        assert_eq!(x.explain(&[Shard(0), Shard(0)])?.collectives().count(), 0);
        let y = same(&x)?;
        assert_eq!(y.shape()?, [5], "the uneven cut is that of the input");
        assert_eq!(elements(&y.full()?), elements(&whole));
        Ok(())
    });
}

#[test]
fn ragged_lengths_that_follow_the_rule_are_the_rule() {
    #[local_map(in = [_, _], out = [Shard(0, ragged)], mesh = _mesh)]
    fn gathered(x: &Tensor, _mesh: &DeviceMesh) -> candle_core::Result<Tensor> {
        Ok(x.clone())
    }
    launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let mine = Tensor::ones(2, DType::F64, &Device::Cpu)?;
        let even = DTensor::from_local(mine.clone(), &mesh, &[Shard(0)])?;
        let ragged = gathered(&mine, &mesh)?;
        assert_eq!(ragged.spec()?, even.spec()?);
        assert_eq!(elements(&(&ragged + &even)?.full()?), [2.0; 4]);
        Ok(())
    });
}

#[test]
fn inputs_over_other_axes_do_not_meet_where_one_axis_has_size_1() {
    #[local_map(in = [[Shard(0), Shard(0)], [Replicate, Shard(0)]], out = [Shard(0), Shard(0)])]
    fn tokens_and_experts(x: &Tensor, _experts: &Tensor) -> candle_core::Result<Tensor> {
        x * 2.0
    }
    for (dp, ep) in [(2, 2), (1, 2), (1, 3), (2, 1)] {
        launched(dp * ep, |world| {
            let mesh = world.mesh([("dp", dp), ("ep", ep)])?;
            let tokens = Tensor::arange(0f64, 15.0, &Device::Cpu)?.reshape((5, 3))?;
            let experts = Tensor::zeros((8, 3), DType::F64, &Device::Cpu)?;
            let x = DTensor::shard(&tokens, &mesh, &[Shard(0), Shard(0)])?;
            let experts = DTensor::shard(&experts, &mesh, &[Replicate, Shard(0)])?;
            let doubled = tokens_and_experts(&x, &experts)?.full()?;
            assert_eq!(elements(&doubled), elements(&(tokens * 2.0)?));
            Ok(())
        });
    }
}
