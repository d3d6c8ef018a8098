//! Region calls: the acceptance cases 1 to 22, with the unsharded function as the oracle.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::cell::Cell;
use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor};
use local_map::prelude::*;
use local_map::{Error, plan::Collective};
use support::{counting, elements, failure, launched, on_ranks, patient, said};

const ALL: &[usize] = &[1, 2, 3, 4];

fn mean_where(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    (x * mask)?.sum_all()? / mask.sum_all()?
}

#[local_map(in = [[Shard(0)], _], out = [Partial(Sum)])]
fn masked_mean(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    mean_where(x, mask)
}

/// Zeros and, in `range`, ones.
fn kept(len: usize, range: Range<usize>) -> Tensor {
    let values: Vec<f32> = (0..len).map(|i| f32::from(u8::from(range.contains(&i)))).collect();
    Tensor::new(values, &Device::Cpu).unwrap()
}

/// The masked means that ranks compute of `arange(len) + rank`, and their global value, on as many ranks as masks.
fn masked_means(len: usize, masks: &[Range<usize>]) -> Vec<(f64, f64)> {
    launched(masks.len(), |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let x = (counting(&[len]) + world.rank() as f64)?;
        let mask = kept(len, masks[world.rank()].clone());
        let mean = masked_mean(&DTensor::from_local(x.clone(), &mesh, &[Shard(0)])?, &mask)?;
        assert_eq!(mean.placements()[..], [Partial(Sum)]);
        let local = elements(&mean.to_local()?);
        assert_eq!(local, elements(&mean_where(&x, &mask)?));
        Ok((local[0], elements(&mean.full()?)[0]))
    })
}

#[test]
fn case_1_masked_mean_of_two_ranks_is_7_5() {
    assert_eq!(masked_means(10, &[1..3, 4..7]), [(1.5, 7.5), (6.0, 7.5)]);
}

#[test]
fn case_2_masked_mean_of_one_element_each_is_4() {
    assert_eq!(masked_means(4, &[1..2, 2..3]), [(1.0, 4.0), (3.0, 4.0)]);
}

#[test]
fn cases_1_and_2_masked_means_add_up_on_one_three_and_four_ranks() {
    assert_eq!(masked_means(10, std::slice::from_ref(&(1..3))), [(1.5, 1.5)]);
    let three: Vec<f64> = masked_means(9, &[1..3, 4..7, 0..9]).iter().map(|m| m.1).collect();
    assert_eq!(three, [1.5 + 6.0 + 6.0; 3]);
    let four: Vec<f64> = masked_means(5, &[0..1, 1..2, 2..3, 3..4]).iter().map(|m| m.1).collect();
    assert_eq!(four, [0.0 + 2.0 + 4.0 + 6.0; 4]);
}

#[local_map(in = [_, _], out = [Shard(0)], mesh = mesh)]
fn plus_one(x: &Tensor, mesh: &DeviceMesh) -> Result<Tensor> {
    x + 1.0
}

#[test]
fn case_3_a_plain_input_on_a_given_mesh_becomes_distributed() {
    on_ranks(ALL, |world| {
        let n = world.size();
        let mesh = world.mesh([("dp", n)])?;
        let y = plus_one(&Tensor::ones(4, DType::F32, &Device::Cpu)?, &mesh)?;
        assert_eq!(y.shape()?, [4 * n]);
        assert_eq!(elements(&y.to_local()?), [2.0; 4]);
        assert_eq!(elements(&y.full()?), vec![2.0; 4 * n]);
        Ok(())
    });
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn first_of(xs: Vec<Tensor>) -> Result<Tensor> {
    Ok(xs[0].clone())
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn or_nothing(x: Option<&Tensor>) -> Result<Tensor> {
    x.map_or_else(|| Tensor::zeros(1, DType::F32, &Device::Cpu), |x| Ok(x.clone()))
}

#[test]
fn case_4_without_any_distributed_tensor_the_error_names_mesh() {
    let expected = |name: &str| {
        format!(
            "{name}: there is no mesh, because no distributed tensor is given\n  \
             add `mesh = ..` to the attribute"
        )
    };
    let error = first_of(Vec::new()).unwrap_err();
    assert_eq!(said(&error), expected("first_of"));
    assert!(matches!(Error::from(error), Error::Mesh(_)));
    assert_eq!(said(&or_nothing(None).unwrap_err()), expected("or_nothing"));
}

#[local_map(in = [[Replicate], [Replicate]], out = [[Replicate], _])]
fn sum_and_word(x: &Tensor, y: &Tensor) -> Result<(Tensor, &'static str)> {
    Ok(((x + y)?, "hello"))
}

#[test]
fn case_5_one_result_is_distributed_and_the_other_a_word() {
    on_ranks(ALL, |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let x = DTensor::from_local(counting(&[3]), &mesh, &[Replicate])?;
        let (sum, word) = sum_and_word(&x, &x)?;
        assert_eq!((sum.placements()[0], word), (Replicate, "hello"));
        assert_eq!(elements(&sum.full()?), [0.0, 2.0, 4.0]);
        Ok(())
    });
}

/// The scaled rows, and the weights as the body saw them.
#[local_map(in = [[Shard(0)], _], out = [[Shard(0)], _])]
fn scaled(x: &Tensor, by: &Tensor) -> Result<(Tensor, Tensor)> {
    Ok((x.broadcast_mul(by)?, by.clone()))
}

#[test]
fn case_6_a_plain_tensor_beside_a_distributed_one_is_untouched() {
    on_ranks(ALL, |world| {
        // On four ranks the last one has no rows.
        let (x, by) = (counting(&[5, 3]), counting(&[3]));
        let mesh = world.mesh([("dp", world.size())])?;
        let (y, seen) = scaled(&DTensor::shard(&x, &mesh, &[Shard(0)])?, &by)?;
        assert_eq!(elements(&seen), elements(&by));
        assert_eq!(elements(&y.full()?), elements(&x.broadcast_mul(&by)?));
        Ok(())
    });
}

#[local_map(in = [[Replicate]], out = [[Replicate], _], reshard)]
fn seen_whole(x: &Tensor) -> Result<(Tensor, Vec<f64>)> {
    Ok((x.clone(), elements(x)))
}

#[test]
fn case_7_a_reshard_shows_the_whole_tensor_to_every_body() {
    let seen = launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let local = (counting(&[4]) + world.rank() as f64)?;
        let x = DTensor::from_local(local, &mesh, &[Shard(0)])?;
        Ok(seen_whole(&x)?.1)
    });
    let whole = vec![0.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0];
    assert_eq!(seen, [whole.clone(), whole]);
}

#[test]
fn case_7_uneven_and_partial_inputs_are_resharded_too() {
    on_ranks(ALL, |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        for placement in [Shard(0), Shard(-1), Partial(Sum), Partial(Max), Replicate] {
            let x = DTensor::shard(&counting(&[5, 2]), &mesh, &[placement])?;
            assert_eq!(seen_whole(&x)?.1, elements(&counting(&[5, 2])), "{placement}");
        }
        Ok(())
    });
}

#[local_map(in = [[Replicate], [Shard(0)]], out = [Replicate])]
fn whole_and_rows(w: &Tensor, _x: &Tensor) -> Result<Tensor> {
    Ok(w.clone())
}

/// Calls on rank 0 with a wrong input; nobody else calls, so that any communication would be an error of its own.
fn refused_on_rank_0(n: usize, call: impl Fn(World) -> Result<Option<String>> + Sync) -> String {
    let messages = patient(n).run(|world| match world.rank() {
        0 => call(world),
        _ => Ok(None),
    });
    messages.unwrap().swap_remove(0).expect("rank 0 has a message")
}

#[test]
fn case_8_a_misplaced_input_is_an_error_before_any_communication() {
    let message = refused_on_rank_0(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&counting(&[4]), &mesh, &[Shard(0)])?;
        Ok(whole_and_rows(&x, &x).err().map(|e| said(&e)))
    });
    let lines = [
        "whole_and_rows: argument `w` is not placed as `in` requires",
        "  mesh (dp=2)",
        "  - w: f32[4] is (Shard(0)), required (Replicate): axis `dp` differs",
        "  add `reshard` to the attribute, or call w.reshard(..) first",
    ];
    assert_eq!(message, lines.join("\n"));
}

#[local_map(in = [[Replicate, Shard(1)], [Replicate, Replicate]], out = [Replicate, Shard(1)])]
fn pair(x: &Tensor, _y: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[test]
fn case_8_all_misplaced_inputs_are_listed_at_once() {
    let message = refused_on_rank_0(4, |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let x = DTensor::shard(&counting(&[4, 6]), &mesh, &[Shard(0), Shard(0)])?;
        let y = DTensor::shard(&counting(&[3]), &mesh, &[Replicate, Partial(Max)])?;
        Ok(pair(&x, &y).err().map(|e| said(&e)))
    });
    let lines = [
        "pair: arguments `x`, `_y` are not placed as `in` requires",
        "  mesh (dp=2, tp=2)",
        "  - x: f32[4, 6] is (Shard(0), Shard(0)), required (Replicate, Shard(1)): axes `dp`, `tp` differ",
        "  - _y: f32[3] is (Replicate, Partial(Max)), required (Replicate, Replicate): axis `tp` differs",
        "  add `reshard` to the attribute, or call x.reshard(..) first",
    ];
    assert_eq!(message, lines.join("\n"));
}

#[test]
fn case_8_an_entry_for_another_number_of_axes_is_an_error() {
    let message = refused_on_rank_0(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&counting(&[4, 6]), &mesh, &[Replicate])?;
        Ok(pair(&x, &x).err().map(|e| said(&e)))
    });
    assert!(message.contains("x: f32[4, 6] is (Replicate), "), "{message}");
    let required = "required (Replicate, Shard(1)), which speaks of 2 mesh axes, but the mesh has 1";
    assert!(message.contains(required), "{message}");
}

#[local_map(in = [[Shard(0)]], out = _)]
fn local_rows(x: &Tensor) -> Result<Tensor> {
    x * 2.0
}

#[test]
fn case_9_a_tensor_without_an_entry_is_a_plain_local_one() {
    on_ranks(ALL, |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let x = DTensor::shard(&counting(&[5]), &mesh, &[Shard(0)])?;
        let y: Tensor = local_rows(&x)?;
        assert_eq!(elements(&y), elements(&(x.to_local()? * 2.0)?));
        assert!(!y.track_op(), "a plain result has no graph");
        Ok(())
    });
}

#[local_map(in = [[Shard(0)], [Shard(0)]], out = [Shard(0)])]
fn added(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x + y
}

#[test]
fn case_10_inputs_on_two_meshes_are_an_error_that_names_both() {
    let message = refused_on_rank_0(2, |world| {
        let (rows, columns) = (world.mesh([("dp", 2)])?, world.mesh([("tp", 2)])?);
        let x = DTensor::shard(&counting(&[4]), &rows, &[Shard(0)])?;
        let y = DTensor::shard(&counting(&[4]), &columns, &[Shard(0)])?;
        Ok(added(&x, &y).err().map(|e| said(&e)))
    });
    let lines = [
        "added: the arguments live on different meshes",
        "  - `x`: mesh (dp=2)",
        "  - `y`: mesh (tp=2)",
        "  put all arguments on one mesh: the same ranks in the same order, and the same axis names",
    ];
    assert_eq!(message, lines.join("\n"));
}

#[test]
fn case_10_equal_meshes_that_were_made_apart_are_one() {
    on_ranks(ALL, |world| {
        let mesh = || world.mesh([("dp", world.size())]);
        let x = DTensor::shard(&counting(&[5]), &mesh()?, &[Shard(0)])?;
        let y = DTensor::shard(&counting(&[5]), &mesh()?, &[Shard(0)])?;
        assert_eq!(elements(&added(&x, &y)?.full()?), [0.0, 2.0, 4.0, 6.0, 8.0]);
        Ok(())
    });
}

#[local_map(in = [[Shard(0)], _], out = [Shard(0)], mesh = mesh)]
fn on_mesh(x: &Tensor, mesh: &DeviceMesh) -> Result<Tensor> {
    Ok(x.clone())
}

#[test]
fn case_11_a_mesh_in_another_order_is_never_a_silent_relabel() {
    let message = refused_on_rank_0(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let other = world.bind(Mesh::over(&[1, 0], [("dp", 2)])?)?;
        let x = DTensor::shard(&counting(&[4]), &mesh, &[Shard(0)])?;
        assert!(on_mesh(&x, &mesh).is_ok());
        Ok(on_mesh(&x, &other).err().map(|e| said(&e)))
    });
    let lines = [
        "on_mesh: the arguments live on different meshes",
        "  - `mesh`: mesh (dp=2; ranks 1, 0)",
        "  - `x`: mesh (dp=2)",
        "  put all arguments on one mesh: the same ranks in the same order, and the same axis names",
    ];
    assert_eq!(message, lines.join("\n"));
}

#[local_map(in = [[Shard(-1)]], out = [Shard(-1)])]
fn last_dim(x: &Tensor) -> Result<Tensor> {
    x * 3.0
}

#[local_map(in = [[Shard(5)]], out = [Shard(5)])]
fn sixth_dim(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[test]
fn case_12_shard_minus_1_of_three_dims_is_shard_2() {
    on_ranks(ALL, |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        for given in [Shard(2), Shard(-1)] {
            let y = last_dim(&DTensor::shard(&counting(&[2, 3, 5]), &mesh, &[given])?)?;
            assert_eq!(y.placements()[..], [Shard(2)]);
            assert_eq!(y.shape()?, [2, 3, 5]);
            assert_eq!(elements(&y.full()?), elements(&(counting(&[2, 3, 5]) * 3.0)?));
        }
        Ok(())
    });
}

#[test]
fn case_12_a_dim_out_of_range_is_an_error_before_any_communication() {
    let message = refused_on_rank_0(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&counting(&[4, 4]), &mesh, &[Shard(0)])?;
        Ok(sixth_dim(&x).err().map(|e| said(&e)))
    });
    let lines = [
        "sixth_dim: argument `x` is not placed as `in` requires",
        "  mesh (dp=2)",
        "  - x: f32[4, 4] is (Shard(0)), required (Shard(5)), but it has 2 dimensions",
        "  correct the attribute's `in`, or give a tensor and a mesh that it fits",
    ];
    assert_eq!(message, lines.join("\n"));
}

#[local_map(in = [[Shard(1)], [Shard(0)]], out = [Partial(Sum)])]
fn inner_product(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.matmul(w)
}

fn inner_product_is_exact(world: &World, [m, k, n]: [usize; 3]) -> local_map::Result<()> {
    let (x, w) = (counting(&[m, k]), counting(&[k, n]));
    let mesh = world.mesh([("tp", world.size())])?;
    let (xs, ws) = (DTensor::shard(&x, &mesh, &[Shard(1)])?, DTensor::shard(&w, &mesh, &[Shard(0)])?);
    let y = inner_product(&xs, &ws)?;
    let collectives: Vec<Collective> = y.explain(&[Replicate])?.collectives().collect();
    let expected: &[Collective] = if world.size() > 1 { &[Collective::AllReduce] } else { &[] };
    assert_eq!(collectives, expected);
    assert_eq!(elements(&y.full()?), elements(&x.matmul(&w)?));
    Ok(())
}

#[test]
fn case_13_a_contracted_matmul_is_made_whole_by_one_all_reduce() {
    on_ranks(ALL, |world| inner_product_is_exact(&world, [16, 8, 12]));
}

#[test]
fn case_13_a_rank_with_nothing_to_contract_adds_zeros() {
    on_ranks(ALL, |world| inner_product_is_exact(&world, [3, 5, 7]));
}

#[local_map(in = [[Shard(0)], [Replicate]], out = [Shard(0)])]
fn rows_times(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.matmul(w)
}

#[test]
fn case_14_a_matmul_of_rows_needs_nobody_else() {
    for (n, rows) in [(1, 16), (2, 16), (3, 16), (4, 16), (4, 7)] {
        let row_0 = patient(n).run(|world| -> Result<Option<Vec<f64>>> {
            // Only rank 0 calls: a collective would find the others gone.
            if world.rank() != 0 {
                return Ok(None);
            }
            let mesh = world.mesh([("dp", world.size())])?;
            let x = DTensor::shard(&counting(&[rows, 8]), &mesh, &[Shard(0)])?;
            let w = DTensor::shard(&counting(&[8, 12]), &mesh, &[Replicate])?;
            let y = rows_times(&x, &w)?;
            assert_eq!(y.shape()?, [rows, 12]);
            Ok(Some(elements(&y.to_local()?.get(0)?)))
        });
        let expected = elements(&counting(&[rows, 8]).matmul(&counting(&[8, 12])).unwrap());
        assert_eq!(row_0.unwrap()[0].as_deref(), Some(&expected[..12]));
    }
}

#[test]
fn case_15_five_rows_on_two_ranks_multiply_to_five_rows() {
    on_ranks(ALL, |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let (x, w) = (counting(&[5, 4]), counting(&[4, 8]));
        let xs = DTensor::shard(&x, &mesh, &[Shard(0)])?;
        let y = rows_times(&xs, &DTensor::shard(&w, &mesh, &[Replicate])?)?;
        assert_eq!(y.shape()?, [5, 8]);
        assert_eq!(elements(&y.full()?), elements(&x.matmul(&w)?));
        Ok(())
    });
}

#[local_map(in = [[Shard(0), Shard(1)]], out = [Shard(0), Shard(1)])]
fn doubled(x: &Tensor) -> Result<Tensor> {
    x * 2.0
}

#[test]
fn case_15_nine_by_five_on_a_2x2_mesh_keeps_its_shape() {
    on_ranks(&[4], |world| {
        let mesh = world.mesh([("a", 2), ("b", 2)])?;
        let x = counting(&[9, 5]);
        let y = doubled(&DTensor::shard(&x, &mesh, &[Shard(0), Shard(1)])?)?;
        assert_eq!(y.shape()?, [9, 5]);
        assert_eq!(elements(&y.full()?), elements(&(x * 2.0)?));
        Ok(())
    });
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn same(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[test]
fn case_16_uneven_rows_are_cut_by_the_ceil_rule_and_survive_a_region() {
    let cut = |rows: usize| {
        launched(4, |world| {
            let mesh = world.mesh([("dp", 4)])?;
            let x = same(&DTensor::shard(&counting(&[rows, 2]), &mesh, &[Shard(0)])?)?;
            for to in [Replicate, Shard(1), Partial(Sum), Partial(Min), Shard(0)] {
                let back = x.reshard(&[to])?.reshard(&[Shard(0)])?;
                assert_eq!(elements(&back.to_local()?), elements(&x.to_local()?), "by {to}");
            }
            Ok(x.to_local()?.dims()[0])
        })
    };
    assert_eq!(cut(7), [2, 2, 2, 1]);
    assert_eq!(cut(6), [2, 2, 2, 0]);
    assert_eq!(cut(5), [2, 2, 1, 0]);
    assert_eq!(cut(3), [1, 1, 1, 0]);
}

#[local_map(in = [[Shard(0), Replicate], _], out = [[Shard(0), Replicate], [Shard(0), Replicate]], check)]
fn claimed(x: &Tensor, noise: f64) -> Result<(Tensor, Tensor)> {
    Ok((x.clone(), (x + noise)?))
}

/// The second result is claimed to be replicated on `tp`, where only this rank deviates.
fn claimed_with_noise_on(noisy: usize) -> Vec<Option<String>> {
    launched(4, |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let x = DTensor::shard(&counting(&[5]), &mesh, &[Shard(0), Replicate])?;
        let noise = if world.rank() == noisy { 0.5 } else { 0.0 };
        Ok(claimed(&x, noise).err().map(|e| said(&e)))
    })
}

#[test]
fn case_17_replicas_that_differ_are_found_by_check_on_all_ranks() {
    let lines = [
        "claimed: result 1: it is labelled Replicate, but its replicas differ",
        "  mesh (dp=2, tp=2)",
        "  - axis `tp`: rank 2 and rank 3 hold different bits",
        "  label it Partial or Shard, or make the body compute the same on every rank of the axis",
    ];
    assert_eq!(claimed_with_noise_on(3), vec![Some(lines.join("\n")); 4]);
}

#[test]
fn case_17_equal_replicas_pass_the_check() {
    assert_eq!(claimed_with_noise_on(usize::MAX), [None, None, None, None]);
}

#[local_map(in = [[Replicate], _], out = [Shard(0)], check)]
fn first_rows(x: &Tensor, rows: usize) -> Result<Tensor> {
    x.narrow(0, 0, rows)
}

// Fails until every rank compares the shapes before it looks at the pieces: rank 1 judges rank 0's piece by its own spec.
#[test]
fn case_17_pieces_of_different_tensors_are_found_by_check_on_all_ranks() {
    let messages = launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::from_local(counting(&[4]), &mesh, &[Replicate])?;
        Ok(said(&first_rows(&x, 2 + world.rank()).unwrap_err()))
    });
    let lines = [
        "first_rows: the result: the ranks do not agree on the shape",
        "  mesh (dp=2)",
        "  - rank 0 has a global shape of [4], rank 1 has [6]",
        "  make all ranks return pieces of one tensor",
    ];
    assert_eq!(messages, [lines.join("\n"), lines.join("\n")]);
}

#[local_map(in = [[Shard(0), Replicate], [Replicate, Shard(1)]], out = [Shard(0), Shard(1)])]
fn grid_matmul(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.matmul(w)
}

#[test]
fn case_18_rows_by_columns_on_a_2x2_mesh_is_the_matmul() {
    for [m, k, n] in [[4, 3, 6], [5, 3, 7], [1, 2, 1]] {
        on_ranks(&[4], |world| {
            let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
            let (x, w) = (counting(&[m, k]), counting(&[k, n]));
            let xs = DTensor::shard(&x, &mesh, &[Shard(0), Replicate])?;
            let y = grid_matmul(&xs, &DTensor::shard(&w, &mesh, &[Replicate, Shard(1)])?)?;
            assert_eq!(y.placements()[..], [Shard(0), Shard(1)]);
            assert_eq!(elements(&y.full()?), elements(&x.matmul(&w)?));
            Ok(())
        });
    }
}

#[local_map(in = [[Shard(0)], _], out = [[Shard(0)], [Partial(Sum)]])]
fn watched(x: &Tensor, ran: &Cell<bool>) -> Result<(Tensor, Tensor)> {
    ran.set(true);
    Ok((x.clone(), x.sum_all()?))
}

#[test]
fn case_19_outside_the_mesh_the_body_does_not_run_and_results_are_absent() {
    on_ranks(&[3, 4], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let outside = world.rank() >= 2;
        let x = DTensor::shard(&counting(&[5]), &mesh, &[Shard(0)])?;
        let ran = Cell::new(false);
        let (same, sum) = watched(&x, &ran)?;
        assert_eq!((ran.get(), same.is_absent()), (!outside, outside));
        assert_eq!(sum.mesh(), &mesh);
        assert_eq!(same.placements()[..], [Shard(0)]);
        assert_eq!(sum.placements()[..], [Partial(Sum)]);
        Ok(())
    });
}

#[test]
fn case_19_absent_results_flow_through_further_regions_and_reshards() {
    on_ranks(&[3], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&counting(&[5]), &mesh, &[Shard(0)])?;
        let (y, _) = watched(&x, &Cell::new(false))?;
        let z = same(&y)?.reshard(&[Replicate])?.reshard(&[Shard(0)])?;
        let sum = added(&z, &same(&x)?)?;
        assert_eq!(sum.is_absent(), world.rank() == 2);
        assert_eq!(sum.placements()[..], [Shard(0)]);
        Ok(())
    });
}

#[local_map(in = [[Shard(1)]], out = [Shard(1)])]
fn columns(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

// Fails until the check of an absent input allows for dims that it cannot normalise.
#[test]
fn case_19_an_absent_tensor_is_not_refused_for_a_dim_counted_from_the_end() {
    on_ranks(&[3], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&counting(&[2, 5]), &mesh, &[Shard(1)])?;
        // How many dimensions an absent result has is not known, so Shard(-1) and Shard(1) may well be the same.
        let y = columns(&last_dim(&columns(&x)?)?)?;
        assert_eq!(y.is_absent(), world.rank() == 2);
        Ok(())
    });
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn flat(x: &Tensor) -> Result<Tensor> {
    x.flatten_all()
}

#[local_map(in = [[Shard(0)]], out = [Shard(0, ragged)])]
fn flat_ragged(x: &Tensor) -> Result<Tensor> {
    x.flatten_all()
}

#[test]
fn case_20_even_rows_flatten_to_an_even_vector() {
    on_ranks(&[1, 2, 4], |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let y = flat(&DTensor::shard(&counting(&[4, 3]), &mesh, &[Shard(0)])?)?;
        assert_eq!(y.shape()?, [12]);
        assert_eq!(elements(&y.full()?), elements(&counting(&[12])));
        Ok(())
    });
}

#[test]
fn case_20_uneven_rows_do_not_flatten_without_ragged() {
    let messages = launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&counting(&[5, 4]), &mesh, &[Shard(0)])?;
        Ok(said(&flat(&x).unwrap_err()))
    });
    let expected = [(12, 3), (8, 2)].map(|(has, expected)| {
        format!(
            "flat: the result, locally f32[{has}], cannot be placed as (Shard(0))\n  \
             mesh (dp=2)\n  \
             - dim 0: the input along these axes is cut unevenly, with {expected} here, but the result has {has}\n  \
             write `Shard(0, ragged)` in `out`: the ranks then exchange their lengths"
        )
    });
    assert_eq!(messages, expected);
}

#[test]
fn case_20_ragged_lengths_are_exchanged_and_kept() {
    on_ranks(ALL, |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let x = DTensor::shard(&counting(&[5, 4]), &mesh, &[Shard(0)])?;
        let y = flat_ragged(&x)?;
        assert_eq!(y.shape()?, [20]);
        assert_eq!(elements(&y.to_local()?), elements(&x.to_local()?));
        assert_eq!(elements(&y.full()?), elements(&counting(&[20])));
        let again = same(&y)?;
        assert_eq!(again.spec()?, y.spec()?, "a region that follows keeps the lengths");
        let balanced = again.rebalance()?;
        assert_eq!(balanced.spec()?, DTensor::shard(&counting(&[20]), &mesh, &[Shard(0)])?.spec()?);
        assert_eq!(elements(&balanced.full()?), elements(&counting(&[20])));
        Ok(())
    });
}

#[local_map(in = [[Shard(0)], [Shard(0)]], out = [Shard(0)])]
fn first(x: &Tensor, _y: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[local_map(in = [[Shard(0)], [Shard(0)]], out = [Shard(0, ragged)])]
fn first_ragged(x: &Tensor, _y: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

fn eight_and_seven(world: &World) -> local_map::Result<[DTensor; 2]> {
    let mesh = world.mesh([("dp", world.size())])?;
    let of = |rows: usize| DTensor::shard(&counting(&[rows]), &mesh, &[Shard(0)]);
    Ok([of(8)?, of(7)?])
}

#[test]
fn case_21_eight_and_seven_rows_leave_the_result_undecided_on_all_ranks() {
    on_ranks(&[2, 3, 4], |world| {
        let [eight, seven] = eight_and_seven(&world)?;
        for (x, y) in [(&eight, &seven), (&seven, &eight)] {
            let (len, n) = (x.to_local()?.dims()[0], world.size());
            let expected = format!(
                "first: the result, locally f32[{len}], cannot be placed as (Shard(0))\n  \
                 mesh (dp={n})\n  \
                 - dim 0: the inputs along these axes have different lengths, not all even\n  \
                 write `Shard(0, ragged)` in `out`: the ranks then exchange their lengths"
            );
            assert_eq!(said(&first(x, y).unwrap_err()), expected);
        }
        Ok(())
    });
}

#[test]
fn case_21_ragged_decides_between_eight_and_seven_rows() {
    on_ranks(ALL, |world| {
        let [eight, seven] = eight_and_seven(&world)?;
        assert_eq!(elements(&first_ragged(&eight, &seven)?.full()?), elements(&counting(&[8])));
        assert_eq!(elements(&first_ragged(&seven, &eight)?.full()?), elements(&counting(&[7])));
        Ok(())
    });
}

#[local_map(in = [[Shard(0)], _], out = [Partial(Sum)])]
fn total_or_error(x: &Tensor, fails: bool) -> Result<Tensor> {
    if fails {
        candle_core::bail!("no tokens for this expert");
    }
    x.sum_all()
}

#[test]
fn case_22_an_error_of_one_body_ends_the_others_at_once() {
    for n in 2..=4 {
        let failed = failure(n, |world| -> Result<()> {
            let mesh = world.mesh([("dp", n)])?;
            let x = DTensor::shard(&counting(&[5]), &mesh, &[Shard(0)])?;
            total_or_error(&x, world.rank() == 1)?.full().map(drop).map_err(|e| {
                assert!(matches!(e, Error::PeerFailed { rank: 1, .. }), "{e}");
                e.into()
            })
        });
        let cause = failed.cause.to_string();
        assert_eq!(failed.rank, 1);
        assert!(cause.starts_with("total_or_error: the body failed, called at tests/regions.rs:"), "{cause}");
        assert!(cause.ends_with("\nno tokens for this expert"), "{cause}");
        let others: Vec<usize> = failed.seen.iter().map(|(rank, _)| *rank).collect();
        assert_eq!(others, (0..n).filter(|r| *r != 1).collect::<Vec<_>>());
        for (_, message) in failed.seen {
            assert!(message.starts_with("all-reduce of f32[] from (Partial(Sum)) to (Replicate)"), "{message}");
            assert!(message.contains(": rank 1 failed\n  - rank 1: total_or_error: the body failed"), "{message}");
            assert!(message.ends_with("\n    no tokens for this expert"), "{message}");
        }
    }
}
