//! Collectives on plain tensors, through communicators, against the same sums and concatenations on one device.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{DType, Device, Tensor};
use local_map::prelude::*;
use local_map::{Error, Result};
use support::{counting, elements, launched, on_ranks, patient, wide};

const ALL: &[usize] = &[1, 2, 3, 4];

const DTYPES: [DType; 10] = [
    DType::U8,
    DType::U32,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::BF16,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::F8E4M3,
];

fn all(world: &World) -> Result<Communicator> {
    world.mesh([("dp", world.size())])?.communicator(&["dp"])
}

/// Runs the test on each of these numbers of ranks, with the group of all of them.
fn in_group(ns: &[usize], test: impl Fn(Communicator) -> Result<()> + Sync) {
    on_ranks(ns, |world| test(all(&world)?));
}

/// Ones and twos, so that products and sums over four ranks are exact in eight bits.
fn of_rank(rank: usize, shape: &[usize], dtype: DType) -> Tensor {
    let values = elements(&counting(shape)).into_iter().map(|i| f64::from((i as usize + rank).is_multiple_of(3)) + 1.0);
    let x = Tensor::from_vec(values.collect::<Vec<f64>>(), shape, &Device::Cpu).unwrap();
    x.to_dtype(dtype).unwrap()
}

fn of_ranks(n: usize, shape: &[usize], dtype: DType) -> Vec<Tensor> {
    (0..n).map(|rank| of_rank(rank, shape, dtype)).collect()
}

/// The tensors next to each other, as numbers; candle joins wide floats of any shape.
fn joined(parts: &[Tensor], dim: usize) -> Vec<f64> {
    let parts: Vec<Tensor> = parts.iter().map(wide).collect();
    elements(&Tensor::cat(&parts, dim).unwrap())
}

/// The fold of the ranks' elements in rank order, rounded to the element type once.
fn folded(parts: &[Tensor], op: ReduceOp) -> Vec<f64> {
    let pick = |a: f64, b: f64| match op {
        Sum | Avg => a + b,
        Prod => a * b,
        Max | Any => a.max(b),
        Min | All => a.min(b),
    };
    let join = |a: Vec<f64>, b: Vec<f64>| a.into_iter().zip(b).map(|(a, b)| pick(a, b)).collect();
    let fold = parts.iter().map(elements).reduce(join).unwrap();
    let over = if op == Avg { parts.len() as f64 } else { 1.0 };
    let values: Vec<f64> = fold.into_iter().map(|x| x / over).collect();
    elements(&Tensor::new(values, &Device::Cpu).unwrap().to_dtype(parts[0].dtype()).unwrap())
}

fn ops_of(dtype: DType) -> &'static [ReduceOp] {
    match dtype {
        DType::U8 | DType::U32 => &[Sum, Max, Min, Prod, Any, All],
        dtype if dtype.is_int() => &[Sum, Max, Min, Prod],
        _ => &[Sum, Avg, Max, Min, Prod],
    }
}

fn bits(x: &Tensor) -> Vec<u32> {
    let values: Vec<f32> = x.flatten_all().unwrap().to_vec1().unwrap();
    values.into_iter().map(f32::to_bits).collect()
}

// Reductions.

#[test]
fn every_operation_on_every_dtype_is_the_fold_over_ranks() {
    in_group(ALL, |group| {
        let (n, me) = (group.size(), group.position());
        for dtype in DTYPES {
            for &op in ops_of(dtype) {
                let y = group.all_reduce(&of_rank(me, &[5, 7], dtype), op)?;
                assert_eq!((y.dtype(), y.dims()), (dtype, &[5, 7][..]));
                let expected = folded(&of_ranks(n, &[5, 7], dtype), op);
                assert_eq!(elements(&y), expected, "{op} of {dtype:?} on {n}");
            }
        }
        Ok(())
    });
}

#[test]
fn truth_values_combine_by_any_and_all() {
    in_group(&[4], |group| {
        let me = group.position() as u8;
        // Nobody, one, all but one, everybody.
        let mine = Tensor::new(&[0, u8::from(me == 2), u8::from(me != 1), 1], &Device::Cpu)?;
        assert_eq!(elements(&group.all_reduce(&mine, Any)?), [0.0, 1.0, 1.0, 1.0]);
        assert_eq!(elements(&group.all_reduce(&mine, All)?), [0.0, 0.0, 0.0, 1.0]);
        Ok(())
    });
}

#[test]
fn nan_on_any_rank_wins_max_and_min() {
    in_group(&[2, 3, 4], |group| {
        for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64, DType::F8E4M3] {
            for op in [Max, Min] {
                // Each rank brings the NaN of one element; nobody that of the last.
                let value = |at: usize| {
                    if at == group.position() { f64::NAN } else { 2.0 }
                };
                let values: Vec<f64> = (0..=group.size()).map(value).collect();
                let mine = Tensor::new(values, &Device::Cpu)?.to_dtype(dtype)?;
                let y = elements(&group.all_reduce(&mine, op)?);
                let (last, rest) = y.split_last().unwrap();
                assert!(rest.iter().all(|x| x.is_nan()), "{op} of {dtype:?}: {y:?}");
                assert_eq!(*last, 2.0);
            }
        }
        Ok(())
    });
}

#[test]
fn infinities_and_negative_numbers_are_ordinary_to_max_and_min() {
    in_group(&[3], |group| {
        let mine = [[-1.0, f64::NEG_INFINITY, 5.0], [-3.0, -2.0, f64::INFINITY], [-2.0, -9.0, 0.0]];
        let mine = Tensor::new(&mine[group.position()], &Device::Cpu)?;
        assert_eq!(elements(&group.all_reduce(&mine, Max)?), [-1.0, -2.0, f64::INFINITY]);
        assert_eq!(elements(&group.all_reduce(&mine, Min)?), [-3.0, f64::NEG_INFINITY, 0.0]);
        Ok(())
    });
}

/// What rank 0 alone is told; the others make no call, so that communication would be an error of its own.
fn refused(call: impl Fn(&Communicator) -> Result<()> + Sync) -> Error {
    let outcome = patient(2).run(|world| match world.rank() {
        0 => Ok::<_, Error>(Some(call(&all(&world)?).unwrap_err())),
        _ => Ok(None),
    });
    outcome.unwrap().swap_remove(0).unwrap()
}

#[test]
fn integer_averages_are_refused_before_communication() {
    for dtype in [DType::U8, DType::U32, DType::I16, DType::I32, DType::I64] {
        let x = of_rank(0, &[3], dtype);
        let reduced = refused(|group| group.all_reduce(&x, Avg).map(drop));
        let scattered = refused(|group| group.reduce_scatter(&x, 0, Avg).map(drop));
        for error in [reduced, scattered] {
            assert!(matches!(error, Error::DType(_)));
            let message = error.to_string();
            assert!(message.contains(&format!("(Avg) of {}[3] at tests/collectives.rs:", dtype.as_str())), "{message}");
            assert!(message.contains("would truncate"), "{message}");
        }
    }
}

#[test]
fn truth_values_of_other_types_are_refused_before_communication() {
    for op in [Any, All] {
        let error = refused(|group| group.all_reduce(&counting(&[3]), op).map(drop));
        assert!(matches!(error, Error::DType(_)));
        assert!(error.to_string().contains("truth values, which are u8 or u32, not f32"), "{error}");
    }
}

#[test]
fn integer_sums_and_products_wrap_around() {
    in_group(&[2], |group| {
        let pair = |a: i64, b: i64| Tensor::new(&[[a, b][group.position()]], &Device::Cpu).unwrap();
        let reduced = |x: Tensor, dtype: DType, op: ReduceOp| -> Result<i64> {
            let y = group.all_reduce(&x.to_dtype(dtype)?, op)?;
            Ok(y.to_dtype(DType::I64)?.to_vec1()?[0])
        };
        assert_eq!(reduced(pair(200, 100), DType::U8, Sum)?, 44);
        assert_eq!(reduced(pair(16, 17), DType::U8, Prod)?, 16);
        assert_eq!(reduced(pair(u32::MAX.into(), 2), DType::U32, Sum)?, 1);
        assert_eq!(reduced(pair(i16::MAX.into(), 1), DType::I16, Sum)?, i64::from(i16::MIN));
        assert_eq!(reduced(pair(i32::MIN.into(), -1), DType::I32, Sum)?, i64::from(i32::MAX));
        assert_eq!(reduced(pair(i64::MAX, 2), DType::I64, Sum)?, i64::MIN + 1);
        Ok(())
    });
}

/// Numbers whose sum depends on the order of addition.
fn rough(rank: usize, len: usize) -> Vec<f32> {
    let hash = |i: usize| (i + 1).wrapping_mul(rank + 3).wrapping_mul(0x9e37_79b9) % 1_000_003;
    (0..len).map(|i| (hash(i) as f32 - 5e5) * 10f32.powi((i % 7) as i32 - 3)).collect()
}

fn sequential_sum(n: usize, len: usize) -> Vec<u32> {
    let add = |a: Vec<f32>, b: Vec<f32>| a.into_iter().zip(b).map(|(a, b)| a + b).collect();
    let sum = (0..n).map(|rank| rough(rank, len)).reduce(add).unwrap();
    sum.into_iter().map(f32::to_bits).collect()
}

#[test]
fn sums_are_bitwise_the_sequential_fold_in_rank_order() {
    // Lengths around the block of a reduction and around what one rank computes of it.
    for len in [1, 15, 17, 1023, 1025, 5003] {
        in_group(ALL, |group| {
            let mine = Tensor::new(rough(group.position(), len), &Device::Cpu)?;
            assert_eq!(bits(&group.all_reduce(&mine, Sum)?), sequential_sum(group.size(), len));
            Ok(())
        });
    }
}

#[test]
fn scattered_sums_are_bitwise_the_chunks_of_the_sequential_fold() {
    in_group(ALL, |group| {
        let mine = Tensor::new(rough(group.position(), 5003), &Device::Cpu)?;
        let chunk = group.reduce_scatter(&mine, 0, Sum)?;
        let whole = group.all_gather_varying(&chunk, 0, &chunks(5003, group.size()))?;
        assert_eq!(bits(&whole), sequential_sum(group.size(), 5003));
        Ok(())
    });
}

/// Ceil-chunk lengths.
fn chunks(len: usize, n: usize) -> Vec<usize> {
    let c = len.div_ceil(n);
    (0..n).map(|r| len.min((r + 1) * c) - len.min(r * c)).collect()
}

#[test]
fn reduce_scatter_cuts_uneven_dims_by_the_ceil_rule() {
    assert_eq!(chunks(5, 4), [2, 2, 1, 0]);
    in_group(ALL, |group| {
        let (n, me) = (group.size(), group.position());
        for (shape, dim) in [([5, 3], 0), ([3, 5], 1), ([1, 2], 0), ([6, 4], 1)] {
            for dtype in DTYPES {
                let y = group.reduce_scatter(&of_rank(me, &shape, dtype), dim, Sum)?;
                let lens = chunks(shape[dim], n);
                let sum = Tensor::new(folded(&of_ranks(n, &shape, dtype), Sum), &Device::Cpu)?.reshape(&shape)?;
                let expected =
                    sum.narrow(dim, lens[..me].iter().sum::<usize>().min(shape[dim] - lens[me]), lens[me])?;
                assert_eq!((y.dtype(), y.dims()), (dtype, expected.dims()));
                assert_eq!(elements(&y), elements(&expected), "{dtype:?}{shape:?} on {n}");
            }
        }
        Ok(())
    });
}

// Movements.

#[test]
fn all_gather_concatenates_along_any_dim_for_every_dtype() {
    in_group(ALL, |group| {
        for dtype in DTYPES {
            for dim in 0..3 {
                let y = group.all_gather(&of_rank(group.position(), &[2, 3, 5], dtype), dim)?;
                let parts = of_ranks(group.size(), &[2, 3, 5], dtype);
                assert_eq!((y.dtype(), y.dims()[dim]), (dtype, group.size() * [2, 3, 5][dim]));
                assert_eq!(elements(&y), joined(&parts, dim), "{dtype:?} along {dim}");
            }
        }
        Ok(())
    });
}

#[test]
fn all_gather_of_different_lengths_keeps_them_even_where_some_are_zero() {
    for lens in [vec![3, 0, 1, 2], vec![0, 0, 0, 5], vec![0; 4]] {
        for dim in 0..2 {
            in_group(ALL, |group| {
                let lens = &lens[..group.size()];
                let shape = |rank: usize| {
                    if dim == 0 { [lens[rank], 2] } else { [2, lens[rank]] }
                };
                let part = |rank: usize| of_rank(rank, &shape(rank), DType::F32);
                let y = group.all_gather_varying(&part(group.position()), dim, lens)?;
                let parts: Vec<Tensor> = (0..lens.len()).map(part).filter(|x| x.elem_count() > 0).collect();
                assert_eq!(y.dims()[dim], lens.iter().sum::<usize>());
                let expected = if parts.is_empty() { Vec::new() } else { joined(&parts, dim) };
                assert_eq!(elements(&y), expected, "{lens:?} along {dim}");
                Ok(())
            });
        }
    }
}

#[test]
fn all_to_all_transposes_the_runs_of_rows() {
    in_group(ALL, |group| {
        let (n, me) = (group.size(), group.position());
        for dtype in DTYPES {
            let parts = of_ranks(n, &[2 * n, 3], dtype);
            let y = group.all_to_all(&parts[me])?;
            let mine: Vec<Tensor> = parts.iter().map(|x| x.narrow(0, 2 * me, 2).unwrap()).collect();
            assert_eq!((y.dtype(), y.dims()), (dtype, &[2 * n, 3][..]));
            assert_eq!(elements(&y), joined(&mine, 0), "{dtype:?}");
        }
        Ok(())
    });
}

#[test]
fn all_to_all_twice_is_the_identity() {
    in_group(ALL, |group| {
        let x = (counting(&[group.size() * 3, 2]) + group.position() as f64)?;
        assert_eq!(elements(&group.all_to_all(&group.all_to_all(&x)?)?), elements(&x));
        Ok(())
    });
}

/// How many rows go from rank to rank; the last column and the second row are empty.
const ROWS: [[usize; 4]; 4] = [[1, 2, 3, 0], [0, 0, 0, 0], [2, 0, 1, 0], [0, 4, 0, 0]];

#[test]
fn all_to_all_of_different_counts_moves_each_run_to_its_rank() {
    in_group(ALL, |group| {
        let (n, me) = (group.size(), group.position());
        let send = |rank: usize| &ROWS[rank][..n];
        let bring = |rank: usize| (counting(&[send(rank).iter().sum(), 2]) + 100.0 * rank as f64).unwrap();
        let receive: Vec<usize> = (0..n).map(|from| send(from)[me]).collect();
        let y = group.all_to_all_varying(&bring(me), send(me), &receive)?;
        let mut expected: Vec<f64> = Vec::new();
        for (from, &count) in receive.iter().enumerate() {
            let start: usize = send(from)[..me].iter().sum();
            expected.extend(&elements(&bring(from))[2 * start..2 * (start + count)]);
        }
        assert_eq!(y.dims(), [receive.iter().sum(), 2]);
        assert_eq!(elements(&y), expected);
        Ok(())
    });
}

#[test]
fn counts_that_disagree_are_an_error_on_all_ranks_that_names_the_pair() {
    let messages = launched(3, |world| {
        let (group, me) = (all(&world)?, world.rank());
        // Rank 2 expects one row too many of rank 1.
        let receive = if me == 2 { [1, 2, 1] } else { [1, 1, 1] };
        let error = group.all_to_all_varying(&counting(&[3, 5]), &[1, 1, 1], &receive).unwrap_err();
        assert!(matches!(error, Error::Mismatch(_)));
        assert_eq!(elements(&group.all_reduce(&counting(&[2]), Sum)?), [0.0, 3.0], "the group still works");
        Ok(error.to_string())
    });
    for message in messages {
        let (head, rest) = message.split_once('\n').unwrap();
        assert!(head.starts_with("all-to-all of f32[5] per row at tests/collectives.rs:"), "{message}");
        assert!(head.ends_with(": ranks expect other lengths than their peers send"), "{message}");
        let offender = rest.lines().next().unwrap();
        assert_eq!(offender, "  - rows: rank 1 sends 1 to rank 2, which expects 2");
    }
}

#[test]
fn broadcast_hands_out_the_tensor_of_any_root() {
    in_group(ALL, |group| {
        for root in 0..group.size() {
            for dtype in DTYPES {
                let y = group.broadcast(&of_rank(group.position(), &[3, 5], dtype), root)?;
                assert_eq!(elements(&y), elements(&of_rank(root, &[3, 5], dtype)), "{dtype:?}");
            }
        }
        Ok(())
    });
}

#[test]
fn gather_gives_the_root_all_and_the_others_none() {
    in_group(ALL, |group| {
        for root in 0..group.size() {
            for (dim, dtype) in DTYPES.into_iter().flat_map(|d| [(0, d), (1, d)]) {
                let y = group.gather(&of_rank(group.position(), &[2, 3], dtype), dim, root)?;
                assert_eq!(y.is_some(), group.position() == root);
                let expected = joined(&of_ranks(group.size(), &[2, 3], dtype), dim);
                assert!(y.is_none_or(|y| elements(&y) == expected), "{dtype:?} along {dim}");
            }
        }
        Ok(())
    });
}

#[test]
fn scatter_cuts_the_tensor_of_the_root_by_the_ceil_rule() {
    in_group(ALL, |group| {
        for (root, dtype) in (0..group.size()).flat_map(|root| DTYPES.map(|d| (root, d))) {
            let whole = of_rank(7, &[5, 3], dtype);
            let given = (group.position() == root).then_some(&whole);
            let part = group.scatter(given, dtype, &[5, 3], root)?;
            let lens = chunks(5, group.size());
            assert_eq!((part.dtype(), part.dims()), (dtype, &[lens[group.position()], 3][..]));
            let back = group.all_gather_varying(&part, 0, &lens)?;
            assert_eq!(elements(&back), elements(&whole));
        }
        Ok(())
    });
}

#[test]
fn scatter_ignores_what_others_than_the_root_give() {
    in_group(&[2], |group| {
        let mine = (counting(&[2]) + 10.0 * group.position() as f64)?;
        let part = group.scatter(Some(&mine), DType::F32, &[2], 1)?;
        assert_eq!(elements(&part), [10.0 + group.position() as f64]);
        Ok(())
    });
}

#[test]
fn barrier_lets_nobody_pass_before_all_have_come() {
    for &n in ALL {
        let come = AtomicUsize::new(0);
        in_group(&[n], |group| {
            for round in 1..=50 {
                come.fetch_add(1, Ordering::SeqCst);
                group.barrier()?;
                assert!(come.load(Ordering::SeqCst) >= round * n);
            }
            Ok(())
        });
    }
}

// Layouts of inputs.

#[test]
fn empty_tensors_take_part_in_everything() {
    in_group(ALL, |group| {
        let (n, me) = (group.size(), group.position());
        for shape in [vec![0], vec![0, 3], vec![3, 0], vec![2, 0, 4]] {
            let x = counting(&shape);
            assert_eq!(group.all_reduce(&x, Max)?.dims(), shape);
            assert_eq!(group.all_gather(&x, 0)?.dims()[0], n * shape[0]);
            assert_eq!(group.reduce_scatter(&x, 0, Sum)?.dims()[0], chunks(shape[0], n)[me]);
            assert_eq!(group.broadcast(&x, n - 1)?.dims(), shape);
            assert_eq!(group.gather(&x, 0, 0)?.map(|y| y.elem_count()).unwrap_or(0), 0);
            assert_eq!(group.scatter(Some(&x), DType::F32, &shape, 0)?.elem_count(), 0);
        }
        assert_eq!(group.all_to_all(&counting(&[0, 3]))?.dims(), [0, 3]);
        assert_eq!(group.all_to_all(&counting(&[2 * n, 0]))?.dims(), [2 * n, 0]);
        assert_eq!(group.all_to_all_varying(&counting(&[0, 3]), &vec![0; n], &vec![0; n])?.dims(), [0, 3]);
        Ok(())
    });
}

#[test]
fn scalars_reduce_and_broadcast() {
    in_group(ALL, |group| {
        let mine = Tensor::new(group.position() as f64 + 1.0, &Device::Cpu)?;
        let n = group.size() as f64;
        assert_eq!(group.all_reduce(&mine, Sum)?.to_scalar::<f64>()?, n * (n + 1.0) / 2.0);
        assert_eq!(group.broadcast(&mine, 0)?.to_scalar::<f64>()?, 1.0);
        Ok(())
    });
}

/// The same elements in a layout with strides and an offset: transposed, narrowed, reversed dims, broadcast.
fn awkward(rank: usize) -> Vec<Tensor> {
    let x = (counting(&[4, 4, 6]) + 1000.0 * rank as f64).unwrap();
    let narrowed = x.narrow(0, 1, 2).unwrap();
    let column = x.narrow(2, 3, 1).unwrap();
    vec![
        x.t().unwrap(),
        x.permute((2, 1, 0)).unwrap(),
        narrowed.clone(),
        narrowed.transpose(0, 2).unwrap().narrow(1, 1, 3).unwrap(),
        x.narrow(2, 1, 4).unwrap(),
        column.broadcast_as((4, 4, 4)).unwrap(),
        // An empty view at the very end of its storage.
        x.narrow(0, 3, 1).unwrap().narrow(0, 1, 0).unwrap(),
    ]
}

#[test]
fn strided_and_offset_inputs_give_the_same_as_packed_ones() {
    in_group(ALL, |group| {
        let (n, me) = (group.size(), group.position());
        for (i, x) in awkward(me).iter().enumerate() {
            let packed: Vec<Tensor> = (0..n).map(|rank| awkward(rank)[i].force_contiguous().unwrap()).collect();
            assert_eq!(elements(&group.all_reduce(x, Sum)?), folded(&packed, Sum), "layout {i}");
            assert_eq!(elements(&group.all_gather(x, 1)?), joined(&packed, 1), "layout {i}");
            assert_eq!(elements(&group.broadcast(x, n - 1)?), elements(&packed[n - 1]), "layout {i}");
            let scattered = group.reduce_scatter(x, 1, Sum)?;
            assert_eq!(elements(&scattered), elements(&group.reduce_scatter(&packed[me], 1, Sum)?), "layout {i}");
            let part = group.scatter(Some(x), DType::F32, x.dims(), 0)?;
            let same = group.scatter(Some(&packed[me]), DType::F32, x.dims(), 0)?;
            assert_eq!(elements(&part), elements(&same), "layout {i}");
        }
        Ok(())
    });
}

#[test]
fn strided_rows_are_sent_and_exchanged_in_row_major_order() {
    in_group(&[2, 4], |group| {
        let (n, me) = (group.size(), group.position());
        let x = (counting(&[3, 4]).t()? + 100.0 * me as f64)?.narrow(0, 0, 4)?;
        assert_eq!(elements(&group.all_to_all(&x)?), elements(&group.all_to_all(&x.force_contiguous()?)?));
        group.send(&x, (me + 1) % n)?;
        let from = (me + n - 1) % n;
        let got = group.recv(DType::F32, &[4, 3], from)?;
        assert_eq!(elements(&got), elements(&(counting(&[3, 4]).t()? + 100.0 * from as f64)?));
        Ok(())
    });
}

// Groups.

#[test]
fn groups_along_each_axis_of_a_mesh_and_over_both_reduce_their_own_ranks() {
    let sums = launched(4, |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let mine = Tensor::new(10f64.powi(world.rank() as i32), &Device::Cpu)?;
        let sum = |axes: &[&str]| mesh.communicator(axes)?.all_reduce(&mine, Sum)?.to_scalar::<f64>();
        Ok([sum(&["dp"])?, sum(&["tp"])?, sum(&["dp", "tp"])?, sum(&["tp", "dp"])?, sum(&[])?])
    });
    let all = [1111.0; 3];
    for (rank, sums) in sums.iter().enumerate() {
        let (dp, tp) = ([101.0, 1010.0][rank % 2], [11.0, 1100.0][rank / 2]);
        assert_eq!((sums[0], sums[1], &sums[2..]), (dp, tp, &all[..]));
    }
}

#[test]
fn positions_follow_the_order_of_the_axes() {
    let gathered = launched(4, |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let mine = Tensor::new(&[world.rank() as f64], &Device::Cpu)?;
        let rows = mesh.communicator(&["dp", "tp"])?;
        let columns = mesh.communicator(&["tp", "dp"])?;
        assert_eq!(rows.position(), world.rank());
        Ok([elements(&rows.all_gather(&mine, 0)?), elements(&columns.all_gather(&mine, 0)?)])
    });
    let expected = [vec![0.0, 1.0, 2.0, 3.0], vec![0.0, 2.0, 1.0, 3.0]];
    assert!(gathered.iter().all(|g| *g == expected), "{gathered:?}");
}

#[test]
fn groups_of_a_sub_mesh_are_those_of_the_mesh() {
    on_ranks(&[4], |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let mine = Tensor::new(world.rank() as f64, &Device::Cpu)?;
        let of_mesh = mesh.communicator(&["tp"])?.all_reduce(&mine, Sum)?;
        let of_sub = mesh.sub(&["tp"])?.communicator(&[])?.all_reduce(&mine, Sum)?;
        assert_eq!(elements(&of_mesh), elements(&of_sub));
        Ok(())
    });
}

#[test]
fn two_thousand_small_all_reduces_finish() {
    in_group(&[4], |group| {
        for round in 0..2000 {
            let mine = Tensor::new(&[(round + group.position()) as i64], &Device::Cpu)?;
            let sum: Vec<i64> = group.all_reduce(&mine, Sum)?.to_vec1()?;
            assert_eq!(sum, [4 * round as i64 + 6]);
        }
        Ok(())
    });
}

#[test]
fn mixed_collectives_on_overlapping_groups_finish() {
    on_ranks(&[4], |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let groups = [&["dp"][..], &["tp"], &[]].map(|axes| mesh.communicator(axes).unwrap());
        for round in 0..200 {
            let group = &groups[round % 3];
            let x = counting(&[4]);
            assert_eq!(elements(&group.all_reduce(&x, Avg)?), elements(&x));
            assert_eq!(group.all_gather(&x, 0)?.dims(), [4 * group.size()]);
            group.barrier()?;
        }
        Ok(())
    });
}

// From rank to rank.

#[test]
fn messages_arrive_in_the_order_in_which_they_were_sent() {
    in_group(&[3], |group| {
        let number = |i: usize| Tensor::new(i as f64, &Device::Cpu);
        if group.position() < 2 {
            (0..100).try_for_each(|i| group.send(&number(100 * group.position() + i)?, 2))?;
            return Ok(());
        }
        // The second sender's messages wait until they are asked for.
        for from in [1, 0] {
            for i in 0..100 {
                let got = group.recv(DType::F64, &[], from)?;
                assert_eq!(got.to_scalar::<f64>()?, (100 * from + i) as f64);
            }
        }
        Ok(())
    });
}

#[test]
fn both_ranks_may_send_before_they_receive() {
    in_group(&[2], |group| {
        let peer = 1 - group.position();
        for dtype in DTYPES {
            group.send(&of_rank(group.position(), &[3, 5], dtype), peer)?;
            let got = group.recv(dtype, &[3, 5], peer)?;
            assert_eq!((got.dtype(), elements(&got)), (dtype, elements(&of_rank(peer, &[3, 5], dtype))));
        }
        group.send(&counting(&[0, 3]), peer)?;
        assert_eq!(group.recv(DType::F32, &[0, 3], peer)?.dims(), [0, 3]);
        Ok(())
    });
}

#[test]
fn another_dtype_or_shape_than_was_sent_is_an_error_that_names_both_lines() {
    in_group(&[2], |group| {
        let sent = line!() + 2;
        if group.position() == 0 {
            (0..3).try_for_each(|_| group.send(&counting(&[2]), 1))?;
            return Ok(());
        }
        for (dtype, shape) in [(DType::F64, vec![2]), (DType::F32, vec![2, 1])] {
            let received = line!() + 1;
            let error = group.recv(dtype, &shape, 0).unwrap_err();
            assert!(matches!(error, Error::Mismatch(_)));
            let message = error.to_string();
            let sender = format!("  - rank 0: send and receive of f32[2] at tests/collectives.rs:{sent}:");
            let typed = format!("{}{shape:?}", dtype.as_str());
            let receiver = format!("  - rank 1: send and receive of {typed} at tests/collectives.rs:{received}:");
            assert!(message.contains(&sender) && message.contains(&receiver), "{message}");
        }
        assert_eq!(elements(&group.recv(DType::F32, &[2], 0)?), [0.0, 1.0], "the group still works");
        Ok(())
    });
}

#[test]
fn a_message_is_a_copy_that_later_writes_do_not_reach() {
    in_group(&[2], |group| {
        if group.position() == 0 {
            let buffer = Tensor::zeros(3, DType::F32, &Device::Cpu)?;
            group.send(&buffer, 1)?;
            buffer.const_set(candle_core::scalar::Scalar::F32(9.0))?;
            return group.barrier();
        }
        group.barrier()?;
        assert_eq!(elements(&group.recv(DType::F32, &[3], 0)?), [0.0; 3]);
        Ok(())
    });
}

// Arguments that cannot be right are an error on the rank that gives them, before communication.

/// What was called and what does not fit, without the place and the advice.
fn words(error: Error) -> (String, String) {
    assert!(matches!(error, Error::Shape(_)), "{error}");
    let message = error.to_string();
    let (call, rest) = message.split_once(" at tests/collectives.rs:").expect("the place is named");
    let (headline, rest) = rest.split_once("\n  - ").expect("an offender is named");
    assert!(headline.ends_with(": an argument does not fit"), "{message}");
    let (offender, advice) = rest.split_once("\n  ").expect("there is advice");
    assert!(!advice.is_empty(), "{message}");
    (call.to_owned(), offender.to_owned())
}

fn refused_words(call: impl Fn(&Communicator) -> Result<()> + Sync) -> (String, String) {
    words(refused(call))
}

fn said(call: &str, offender: &str) -> (String, String) {
    (call.to_owned(), offender.to_owned())
}

#[test]
fn a_root_outside_the_group_is_an_error() {
    let x = counting(&[2]);
    let wrong = "root 2 is not one of 2 positions";
    assert_eq!(refused_words(|g| g.broadcast(&x, 2).map(drop)), said("broadcast of f32[2]", wrong));
    assert_eq!(refused_words(|g| g.gather(&x, 0, 2).map(drop)), said("gather of f32[2]", wrong));
    let scatter = |g: &Communicator| g.scatter(Some(&x), DType::F32, &[2], 2).map(drop);
    assert_eq!(refused_words(scatter), said("scatter of f32[2]", wrong));
}

#[test]
fn a_peer_outside_the_group_and_oneself_are_errors() {
    let x = counting(&[2]);
    let (call, beyond, oneself) =
        ("send and receive of f32[2]", "peer 2 is not one of 2 positions", "peer 0 is this rank itself");
    assert_eq!(refused_words(|g| g.send(&x, 2)), said(call, beyond));
    assert_eq!(refused_words(|g| g.send(&x, 0)), said(call, oneself));
    assert_eq!(refused_words(|g| g.recv(DType::F32, &[2], 2).map(drop)), said(call, beyond));
    assert_eq!(refused_words(|g| g.recv(DType::F32, &[2], 0).map(drop)), said(call, oneself));
}

#[test]
fn a_dim_that_the_tensor_does_not_have_is_an_error() {
    let x = counting(&[2, 3]);
    let wrong = "dim 2 is not one of 2";
    let offender = |call: &(dyn Fn(&Communicator) -> Result<()> + Sync)| refused_words(call).1;
    assert_eq!(offender(&|g| g.all_gather(&x, 2).map(drop)), wrong);
    assert_eq!(offender(&|g| g.all_gather_varying(&x, 2, &[2, 2]).map(drop)), wrong);
    assert_eq!(offender(&|g| g.reduce_scatter(&x, 2, Sum).map(drop)), wrong);
    assert_eq!(offender(&|g| g.gather(&x, 2, 0).map(drop)), wrong);
    let scalar = Tensor::new(1f32, &Device::Cpu).unwrap();
    let none = "dim 0 is not one of 0";
    assert_eq!(offender(&|g| g.all_to_all(&scalar).map(drop)), none);
    assert_eq!(offender(&|g| g.all_gather(&scalar, 0).map(drop)), none);
    assert_eq!(offender(&|g| g.scatter(Some(&scalar), DType::F32, &[], 0).map(drop)), none);
}

#[test]
fn lengths_that_do_not_fit_the_tensor_or_the_group_are_errors() {
    let x = counting(&[3, 2]);
    let offender = |call: &(dyn Fn(&Communicator) -> Result<()> + Sync)| refused_words(call).1;
    assert_eq!(offender(&|g| g.all_to_all(&x).map(drop)), "3 rows do not divide by 2 ranks");
    let gather = |lens: &'static [usize]| offender(&|g| g.all_gather_varying(&x, 0, lens).map(drop));
    assert_eq!(gather(&[3]), "lengths given: 1, ranks: 2");
    assert_eq!(gather(&[2, 3]), "dim 0 is 3, but `lens` says 2");
    let exchange = |send: &'static [usize], receive: &'static [usize]| {
        offender(&|g| g.all_to_all_varying(&x, send, receive).map(drop))
    };
    assert_eq!(exchange(&[1, 1], &[1, 1]), "it has 3 rows, but `send` adds up to 2");
    assert_eq!(exchange(&[1, 1, 1], &[1, 1]), "lengths given: 3, ranks: 2");
    assert_eq!(exchange(&[1, 2], &[1]), "lengths given: 1, ranks: 2");
}

#[test]
fn a_root_that_has_not_what_it_scatters_is_an_error() {
    let x = counting(&[3]);
    let offender = |call: &(dyn Fn(&Communicator) -> Result<()> + Sync)| refused_words(call).1;
    assert_eq!(offender(&|g| g.scatter(None, DType::F32, &[3], 0).map(drop)), "the root has no tensor");
    assert_eq!(offender(&|g| g.scatter(Some(&x), DType::F64, &[3], 0).map(drop)), "the root has f32[3]");
    assert_eq!(offender(&|g| g.scatter(Some(&x), DType::F32, &[4], 0).map(drop)), "the root has f32[3]");
}

/// Results are shared by ranks, so several inputs of one call may be one storage: a thread that locked it twice would wait for
/// ever behind a writer that came in between.
#[test]
fn a_writer_beside_the_readers_of_a_shared_result_ends_nobody() {
    let done = std::sync::atomic::AtomicUsize::new(0);
    launched(3, |world| {
        let (everybody, mesh) = (all(&world)?, world.mesh([("dp", 2)])?);
        let shared = everybody.all_reduce(&counting(&[64]), Sum)?;
        if world.rank() == 2 {
            while done.load(std::sync::atomic::Ordering::Relaxed) < 2 {
                shared.zero_set()?;
            }
            return Ok(());
        }
        let pair = mesh.communicator(&["dp"])?;
        for _ in 0..500 {
            pair.all_reduce(&shared, Sum)?;
        }
        done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    });
}

#[test]
fn two_threads_of_one_rank_cannot_stand_for_two_ranks() {
    let messages = launched(2, |world| {
        let group = all(&world)?;
        if world.rank() == 1 {
            // Rank 0 sends only after one of its threads was refused.
            group.recv(DType::F32, &[1], 0)?;
            group.barrier()?;
            return Ok(Vec::new());
        }
        Ok(std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| {
                scope.spawn(|| match group.barrier() {
                    Ok(()) => None,
                    Err(refused) => {
                        group.send(&counting(&[1]), 1).unwrap();
                        Some(refused.to_string())
                    }
                })
            });
            threads.into_iter().filter_map(|t| t.join().unwrap()).collect()
        }))
    });
    assert_eq!(messages[0].len(), 1);
    assert!(messages[0][0].contains("rank 0 is in another collective of this group already"), "{}", messages[0][0]);
}

#[test]
fn lengths_that_no_memory_holds_are_errors_not_the_end_of_the_process() {
    const HUGE: usize = 1 << 50;
    let x = counting(&[2]);
    assert!(refused(|g| g.all_gather_varying(&x, 0, &[2, HUGE]).map(drop)).to_string().contains("no memory"));
    assert!(refused(|g| g.all_gather_varying(&x, 0, &[2, usize::MAX]).map(drop)).to_string().contains("add up"));
    assert!(refused(|g| g.all_to_all_varying(&x, &[1, 1], &[1, usize::MAX]).map(drop)).to_string().contains("add up"));
    assert!(refused(|g| g.scatter(None, DType::F32, &[HUGE], 1).map(drop)).to_string().contains("no memory"));
    let shape = [usize::MAX, 8];
    assert!(refused(|g| g.scatter(None, DType::F32, &shape, 1).map(drop)).to_string().contains("addressed"));
}
