//! What happens when ranks fail, leave, disagree or do not come, and what is said about it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use candle_core::{DType, Device, Tensor};
use local_map::plan::Collective;
use local_map::prelude::*;
use local_map::{Error, Launch, Result};
use support::{Failure, counting, elements, failure, launched, on_ranks, patient, said};

fn all(world: &World) -> Result<Communicator> {
    world.mesh([("dp", world.size())])?.communicator(&["dp"])
}

fn ranks_of(failure: &Failure) -> Vec<usize> {
    failure.seen.iter().map(|(rank, _)| *rank).collect()
}

// Panics, errors and returns: nobody waits for a rank that cannot come.

#[test]
fn a_panic_ends_those_who_wait_at_once_with_its_message() {
    let failed = failure(4, |world| {
        let group = all(&world)?;
        if world.rank() == 2 {
            panic!("boom {}", world.rank());
        }
        group.all_reduce(&counting(&[3]), Sum)
    });
    assert_eq!((failed.rank, failed.cause.to_string().as_str()), (2, "it panicked: boom 2"));
    assert_eq!(ranks_of(&failed), [0, 1, 3]);
    for (_, message) in &failed.seen {
        assert!(message.starts_with("all-reduce(Sum) of f32[3] at tests/failures.rs:"), "{message}");
        assert!(message.ends_with(": rank 2 failed\n  - rank 2: it panicked: boom 2"), "{message}");
    }
}

#[test]
fn a_panic_on_any_rank_in_the_middle_of_many_collectives_ends_the_launch() {
    for culprit in 0..4 {
        let failed = failure(4, |world| -> Result<()> {
            let group = all(&world)?;
            for round in 0.. {
                assert!(world.rank() != culprit || round < 20, "enough");
                group.all_reduce(&counting(&[3]), Sum)?;
            }
            Ok(())
        });
        assert_eq!((failed.rank, ranks_of(&failed).len()), (culprit, 3));
        assert_eq!(failed.cause.to_string(), "it panicked: enough");
    }
}

#[test]
fn a_panic_with_a_value_that_is_no_text_is_reported_too() {
    let failed = failure(2, |world| -> Result<()> {
        let group = all(&world)?;
        if world.rank() == 0 {
            std::panic::panic_any(7);
        }
        group.barrier()
    });
    assert_eq!(failed.cause.to_string(), "it panicked: a value that is no text");
}

#[derive(Debug, PartialEq)]
struct OutOfTokens(usize);

impl std::fmt::Display for OutOfTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tokens short", self.0)
    }
}

impl std::error::Error for OutOfTokens {}

type Boxed = Box<dyn std::error::Error + Send + Sync>;

#[test]
fn an_error_ends_those_who_wait_and_comes_back_typed() {
    let failed = failure(4, |world| -> std::result::Result<(), Boxed> {
        let group = all(&world)?;
        if world.rank() == 1 {
            return Err(OutOfTokens(3).into());
        }
        Ok(group.barrier()?)
    });
    assert_eq!(failed.rank, 1);
    assert_eq!(failed.cause.downcast_ref(), Some(&OutOfTokens(3)));
    assert_eq!(ranks_of(&failed), [0, 2, 3]);
}

#[test]
fn an_error_of_ours_comes_back_typed_through_candle() {
    let failed = failure(2, |world| -> candle_core::Result<()> {
        if world.rank() == 0 {
            world.mesh([("dp", 3)])?;
        }
        Ok(all(&world)?.barrier()?)
    });
    assert_eq!(failed.rank, 0);
    assert!(matches!(failed.cause.downcast_ref(), Some(Error::Mesh(_))), "{}", failed.cause);
}

#[test]
fn those_who_wait_see_peer_failed_with_rank_and_cause() {
    let failed = failure(4, |world| -> std::result::Result<(), String> {
        let group = all(&world).map_err(|e| e.to_string())?;
        if world.rank() == 3 {
            return Err("no data".to_owned());
        }
        match group.barrier() {
            Err(Error::PeerFailed { rank: 3, cause, .. }) if cause == "no data" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    assert_eq!((failed.rank, failed.cause.to_string().as_str()), (3, "no data"));
    assert_eq!(failed.seen, [], "the others were content");
}

#[test]
fn the_error_of_a_launch_names_the_culprit_and_then_the_others() {
    let error = patient(3).run(|world| -> std::result::Result<(), Boxed> {
        let group = all(&world)?;
        if world.rank() == 1 {
            return Err("no data\nfor epoch 2".into());
        }
        Ok(group.barrier()?)
    });
    let message = error.unwrap_err().to_string();
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines[..2], ["rank 1 failed: no data", "    for epoch 2"]);
    assert!(lines[2].starts_with("  - then ranks 0, 2: barrier"), "both saw the same: {message}");
    assert!(lines[2].ends_with(": rank 1 failed"), "{message}");
    assert_eq!(lines.len(), 3);
}

#[test]
fn the_first_culprit_is_kept_when_another_rank_fails_of_its_own() {
    let failed = failure(3, |world| -> std::result::Result<(), String> {
        let group = all(&world).map_err(|e| e.to_string())?;
        if world.rank() == 1 {
            return Err("first".to_owned());
        }
        group.barrier().map_err(|e| if world.rank() == 2 { "second".to_owned() } else { e.to_string() })
    });
    assert_eq!((failed.rank, failed.cause.to_string().as_str()), (1, "first"));
    assert_eq!(failed.seen[1], (2, "second".to_owned()));
}

#[test]
fn a_rank_that_has_returned_is_not_waited_for() {
    on_returned(|group| group.barrier());
    on_returned(|group| group.all_reduce(&counting(&[2]), Sum).map(drop));
    on_returned(|group| group.recv(DType::F32, &[2], 0).map(drop));
}

/// Rank 0 returns at once; the others make the call.
fn on_returned(call: impl Fn(&Communicator) -> Result<()> + Sync) {
    let outcome = patient(3).run(|world| {
        let group = all(&world)?;
        if world.rank() == 0 {
            return Ok(());
        }
        let error = call(&group).unwrap_err();
        assert!(matches!(error, Error::PeerReturned { rank: 0, .. }), "{error}");
        let message = error.to_string();
        let tail = ": rank 0 has already returned and can never arrive\n  \
                    make sure that every rank makes the same calls in the same order";
        assert!(message.ends_with(tail), "{message}");
        Ok::<(), Error>(())
    });
    outcome.unwrap();
}

#[test]
fn what_was_sent_before_returning_is_received() {
    let got = patient(2).run(|world| {
        let group = all(&world)?;
        if world.rank() == 0 {
            group.send(&counting(&[2]), 1)?;
            return Ok(Vec::new());
        }
        Ok::<_, Error>(elements(&group.recv(DType::F32, &[2], 0)?))
    });
    assert_eq!(got.unwrap()[1], [0.0, 1.0]);
}

#[test]
fn a_failure_does_not_disturb_groups_that_do_not_contain_it() {
    let done = Mutex::new(BTreeSet::new());
    let rank_1_knows = Barrier::new(3);
    let failed = failure(4, |world| -> std::result::Result<(), Boxed> {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let tp = mesh.communicator(&["tp"])?;
        if world.rank() == 0 {
            return Err("alone".into());
        }
        if world.rank() == 1 {
            let told = tp.barrier();
            rank_1_knows.wait();
            return Ok(told?);
        }
        rank_1_knows.wait();
        for _ in 0..50 {
            assert_eq!(elements(&tp.all_reduce(&counting(&[2]), Sum)?), [0.0, 2.0]);
        }
        done.lock().unwrap().insert(world.rank());
        Ok(())
    });
    assert_eq!((failed.rank, ranks_of(&failed)), (0, vec![1]));
    assert_eq!(done.into_inner().unwrap(), BTreeSet::from([2, 3]));
}

// Disagreement: an error on all ranks that names both lines, and a group that still works.

/// A call and its line.
type Called<T> = (u32, Result<T>);

/// On three ranks, the middle one makes the second call and the others the first.
fn disagree<T, U>(
    first: impl Fn(&Communicator) -> Called<T> + Sync,
    second: impl Fn(&Communicator) -> Called<U> + Sync,
) -> Vec<(u32, String)> {
    let told = patient(3).run(|world| {
        let group = all(&world)?;
        let (line, error) = match world.rank() {
            1 => with_error(second(&group)),
            _ => with_error(first(&group)),
        };
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        let sum = group.all_reduce(&counting(&[2]), Sum)?;
        assert_eq!(elements(&sum), [0.0, 3.0], "the group still works");
        Ok::<_, Error>((line, error.to_string()))
    });
    told.unwrap()
}

fn with_error<T>((line, outcome): Called<T>) -> (u32, Error) {
    (line, outcome.err().expect("the calls differ"))
}

/// Every rank was told of all calls with their lines, in these words.
fn assert_named(told: &[(u32, String)], first: &str, second: &str) {
    let place = |rank: usize| format!("at {}:{}:", file!(), told[rank].0);
    // The shape stands in the first brackets; later ones hold lengths.
    let without_shape =
        |call: &str| -> Vec<String> { call.splitn(3, ['[', ']']).step_by(2).map(str::to_owned).collect() };
    let (headline, advice) = if without_shape(first) == without_shape(second) {
        (
            "the ranks of a group give different shapes for one operation",
            "  a tensor of uneven pieces is made by `DTensor::from_local_ragged`, or by a region with `ragged` in its `out`; within a body, call `all_gather_varying`",
        )
    } else {
        (
            "the ranks of a group called different operations",
            "  make every rank of the group call the same operation, with the same arguments, in the same order",
        )
    };
    for (_, message) in told {
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[0], headline);
        for (rank, call) in [first, second, first].into_iter().enumerate() {
            let line = lines[1 + rank];
            assert!(line.starts_with(&format!("  - rank {rank}: {call} ")), "{message}");
            assert!(line.contains(&place(rank)), "{message}");
        }
        assert_eq!(lines[4..], [advice]);
    }
}

#[test]
fn different_operations_are_an_error_on_all_ranks() {
    let x = counting(&[2]);
    let told = disagree(|g| (line!(), g.all_reduce(&x, Sum)), |g| (line!(), g.all_gather(&x, 0)));
    assert_named(&told, "all-reduce(Sum) of f32[2]", "all-gather of f32[2] along dim 0");
}

#[test]
fn a_barrier_against_a_collective_is_an_error_on_all_ranks() {
    let x = counting(&[2]);
    let told = disagree(|g| (line!(), g.barrier()), |g| (line!(), g.broadcast(&x, 0)));
    assert_eq!(told.len(), 3);
    for (line, _) in &told {
        let named = |(_, message): &(u32, String)| message.contains(&format!("{}:{line}:", file!()));
        assert!(told.iter().all(named), "{told:?}");
    }
}

#[test]
fn different_dtypes_are_an_error_on_all_ranks() {
    let (x, y) = (counting(&[2]), counting(&[2]).to_dtype(DType::F64).unwrap());
    let told = disagree(|g| (line!(), g.all_reduce(&x, Sum)), |g| (line!(), g.all_reduce(&y, Sum)));
    assert_named(&told, "all-reduce(Sum) of f32[2]", "all-reduce(Sum) of f64[2]");
}

#[test]
fn different_shapes_are_an_error_on_all_ranks_even_with_equal_counts() {
    for shape in [vec![3], vec![2, 1], vec![0], vec![]] {
        let (x, y) = (counting(&[2]), counting(&shape));
        let told = disagree(|g| (line!(), g.all_reduce(&x, Sum)), |g| (line!(), g.all_reduce(&y, Sum)));
        let second = format!("all-reduce(Sum) of f32{shape:?}");
        assert_named(&told, "all-reduce(Sum) of f32[2]", &second);
    }
}

#[test]
fn different_reductions_are_an_error_on_all_ranks() {
    let x = counting(&[2]);
    let told = disagree(|g| (line!(), g.reduce_scatter(&x, 0, Sum)), |g| (line!(), g.reduce_scatter(&x, 0, Max)));
    let words = |op: &str| format!("reduce-scatter({op}) of f32[2] along dim 0");
    assert_named(&told, &words("Sum"), &words("Max"));
}

#[test]
fn different_dims_are_an_error_on_all_ranks() {
    let x = counting(&[2, 2]);
    let told = disagree(|g| (line!(), g.all_gather(&x, 0)), |g| (line!(), g.all_gather(&x, 1)));
    assert_named(&told, "all-gather of f32[2, 2] along dim 0", "all-gather of f32[2, 2] along dim 1");
}

// Fails until `gather` says along which dim, as `all_gather` does.
#[test]
fn different_dims_of_a_gather_are_an_error_on_all_ranks() {
    let x = counting(&[2, 2]);
    let told = disagree(|g| (line!(), g.gather(&x, 0, 0)), |g| (line!(), g.gather(&x, 1, 0)));
    let words = |dim: usize| format!("gather of f32[2, 2] with root 0 along dim {dim}");
    assert_named(&told, &words(0), &words(1));
}

#[test]
fn different_roots_are_an_error_on_all_ranks() {
    let x = counting(&[2]);
    let told = disagree(|g| (line!(), g.broadcast(&x, 0)), |g| (line!(), g.broadcast(&x, 2)));
    assert_named(&told, "broadcast of f32[2] with root 0", "broadcast of f32[2] with root 2");
}

#[test]
fn different_counts_of_an_all_gather_are_an_error_on_all_ranks() {
    let x = counting(&[2]);
    let told = disagree(
        |g| (line!(), g.all_gather_varying(&x, 0, &[2, 2, 2])),
        |g| (line!(), g.all_gather_varying(&x, 0, &[1, 2, 3])),
    );
    let words = |lens: &str| format!("all-gather of f32[6] along dim 0 in parts of {lens}");
    assert_named(&told, &words("[2, 2, 2]"), &words("[1, 2, 3]"));
}

/// Rank 1 reshards the same tensor, cut into rows, to the second placement and the others to the first.
fn reshards_disagree(from: Placement, first: Placement, second: Placement) -> Vec<String> {
    let told = patient(3).run(|world| {
        let mesh = world.mesh([("dp", 3)])?;
        let x = DTensor::shard(&counting(&[4, 5]), &mesh, &[from])?;
        let to = if world.rank() == 1 { second } else { first };
        let (line, outcome) = (line!(), x.reshard(&[to]));
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        let message = error.to_string();
        let place = format!("at {}:{line}:", file!());
        assert_eq!(message.matches(&place).count(), 3, "{message}");
        assert_eq!(elements(&x.full()?), elements(&counting(&[4, 5])), "the tensor is still whole");
        Ok::<_, Error>(message)
    });
    told.unwrap()
}

#[test]
fn reshards_to_different_placements_are_an_error_on_all_ranks() {
    let cases =
        [(Shard(0), Replicate, Shard(1)), (Partial(Sum), Replicate, Shard(0)), (Partial(Sum), Shard(0), Shard(1))];
    for (from, first, second) in cases {
        let told = reshards_disagree(from, first, second);
        assert!(told.iter().all(|message| *message == told[0]));
        assert!(told[0].contains(&format!("({from}) to ({first})")), "{}", told[0]);
        assert!(told[0].contains(&format!("({from}) to ({second})")), "{}", told[0]);
    }
}

#[test]
fn locals_of_different_lengths_are_found_at_the_first_reshard() {
    let messages = launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::from_local(counting(&[2 + world.rank()]), &mesh, &[Shard(0)])?;
        let error = x.full().unwrap_err();
        assert!(matches!(error, Error::Mismatch(_)));
        Ok(error.to_string())
    });
    assert_eq!(messages[0], messages[1]);
    assert!(messages[0].contains("rank 0: all-gather of f32[4] "), "{}", messages[0]);
    assert!(messages[0].contains("rank 1: all-gather of f32[6] "), "{}", messages[0]);
}

#[test]
fn a_region_is_named_by_the_line_that_called_it() {
    on_ranks(&[2], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&counting(&[4]), &mesh, &[Shard(0)])?;
        if world.rank() == 0 {
            assert!(all(&world)?.barrier().is_err());
            return Ok(());
        }
        let line = line!() + 1;
        let message = seen_whole(&x).unwrap_err().to_string();
        assert!(message.contains(&format!("at {}:{line}:", file!())), "{message}");
        Ok(())
    });
}

#[local_map(in = [[Replicate]], out = [Replicate], reshard)]
fn seen_whole(x: &Tensor) -> candle_core::Result<Tensor> {
    Ok(x.clone())
}

// Deadlines.

#[test]
fn a_deadline_lists_who_arrived_where_and_who_is_missing() {
    let (together, over) = (Barrier::new(2), Barrier::new(3));
    let launch = Launch::new(3).deadline(Duration::from_secs(1));
    let told = launch.run(|world| {
        let group = all(&world)?;
        if world.rank() == 1 {
            over.wait();
            return Ok(None);
        }
        together.wait();
        let (line, outcome) = (line!(), group.all_reduce(&counting(&[2]), Sum));
        over.wait();
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::TimedOut(_)), "{error}");
        Ok::<_, Error>(Some((line, error.to_string())))
    });
    for (line, message) in told.unwrap().into_iter().flatten() {
        let call = format!("all-reduce(Sum) of f32[2] at {}:{line}:", file!());
        let lines: Vec<&str> = message.lines().collect();
        assert!(lines[0].starts_with(&call), "{message}");
        assert!(lines[0].contains("not all ranks arrived within 1.0s"), "{message}");
        assert_eq!(lines[1], "  - rank 1 is missing: running");
        assert!(lines[2].starts_with(&format!("  - rank 0 is here: {call}")), "{message}");
        assert!(lines[3].starts_with(&format!("  - rank 2 is here: {call}")), "{message}");
        let advice = "  look at the missing ranks first; LOCAL_MAP_TIMEOUT sets the deadline in seconds";
        assert_eq!(lines[4..], [advice]);
    }
}

#[test]
fn ranks_that_wait_in_different_groups_are_told_of_each_other() {
    let launch = Launch::new(2).deadline(Duration::from_secs(1));
    let (start, over) = (Barrier::new(2), Barrier::new(2));
    let told = launch.run(|world| {
        let forward = all(&world)?;
        let backward = world.bind(Mesh::over(&[1, 0], [("dp", 2)])?)?.communicator(&[])?;
        start.wait();
        let group = if world.rank() == 0 { &forward } else { &backward };
        let outcome = group.barrier();
        over.wait();
        Ok::<_, Error>(outcome.unwrap_err().to_string())
    });
    // Whoever gives up first sees where the other sits; by then both have waited for a second.
    let told = told.unwrap();
    let elsewhere = |m: &String| m.contains("is missing: barrier");
    assert!(told.iter().any(elsewhere), "{told:?}");
}

// candle's errors.

/// A body that multiplies matrices that do not fit.
#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn misfit(x: &Tensor) -> candle_core::Result<Tensor> {
    x.matmul(x)
}

fn misfit_on(world: &World) -> candle_core::Result<DTensor> {
    let mesh = world.mesh([("dp", world.size())])?;
    Ok(misfit(&DTensor::shard(&counting(&[4, 3]), &mesh, &[Shard(0)])?)?.erase())
}

/// Runs one of the tests below in a process of its own, with backtraces on.
fn with_backtraces(test: &str) {
    let me = std::env::current_exe().unwrap();
    let run = Command::new(me).args(["--exact", test]).env("RUST_BACKTRACE", "1").output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}

/// One line says which body failed and on what, one what candle said; candle would print its backtraces within the message.
fn assert_two_lines(message: &str) {
    let mut lines = message.lines();
    let (place, cause) = (lines.next().unwrap(), lines.next().unwrap());
    assert!(place.starts_with("misfit: the body failed, called at tests/failures.rs:"), "{place}");
    assert!(place.ends_with(" with local x f32[2, 3]"), "{place}");
    assert_eq!(cause.trim_start(), "shape mismatch in matmul, lhs: [2, 3], rhs: [2, 3]");
    assert_eq!(lines.next(), None, "more lines follow");
}

#[test]
fn an_error_of_candle_comes_out_of_a_launch_without_its_backtrace() {
    let failed = failure(2, |world| misfit_on(&world).map(drop));
    assert_two_lines(&failed.cause.to_string());
    assert!(matches!(failed.cause.downcast_ref(), Some(Error::Tensor(_))));
    failed.seen.iter().for_each(|(_, message)| assert_two_lines(message));
}

#[test]
fn an_error_of_candle_comes_out_of_a_launch_without_its_backtrace_with_backtraces_on() {
    with_backtraces("an_error_of_candle_comes_out_of_a_launch_without_its_backtrace");
}

#[test]
fn an_error_of_candle_becomes_ours_without_its_backtrace() {
    on_ranks(&[2], |world| {
        assert_two_lines(&Error::from(misfit_on(&world).unwrap_err()).to_string());
        Ok(())
    });
}

#[test]
fn an_error_of_candle_becomes_ours_without_its_backtrace_with_backtraces_on() {
    with_backtraces("an_error_of_candle_becomes_ours_without_its_backtrace");
}

#[test]
fn an_error_in_a_body_has_no_backtrace_in_its_message() {
    on_ranks(&[2], |world| {
        assert_two_lines(&misfit_on(&world).unwrap_err().to_string());
        Ok(())
    });
}

#[test]
fn an_error_in_a_body_has_no_backtrace_in_its_message_with_backtraces_on() {
    with_backtraces("an_error_in_a_body_has_no_backtrace_in_its_message");
}

// Launches, meshes and axes that cannot be.

#[test]
fn a_launch_of_no_ranks_is_an_error() {
    let error = Launch::new(0).run(|_| Ok::<(), Error>(())).unwrap_err();
    assert_eq!(error.to_string(), "a launch needs at least one rank");
    assert!(matches!(error, Error::Mesh(_)));
}

#[test]
fn a_mesh_larger_than_the_world_is_an_error() {
    let messages = launched(3, |world| Ok(world.mesh([("dp", 2), ("tp", 2)]).unwrap_err().to_string()));
    let lines = [
        "a mesh needs more ranks than there are",
        "  mesh (dp=2, tp=2)",
        "  - it holds rank 3; the world has 3 ranks",
        "  launch more ranks, or make the mesh smaller",
    ];
    assert_eq!(messages, vec![lines.join("\n"); 3]);
}

#[test]
fn meshes_without_axes_or_with_wrong_ones_are_errors() {
    on_ranks(&[1], |world| {
        let fault = |axes: &[(&str, usize)]| world.mesh(axes.iter().copied()).unwrap_err().to_string();
        let expected = |fault: &str| {
            format!(
                "a mesh cannot be built\n  - {fault}\n  \
                 give at least one axis, each with a name of its own and a size of at least 1"
            )
        };
        assert_eq!(fault(&[]), expected("it has no axis"));
        assert_eq!(fault(&[("", 1)]), expected("an axis has an empty name"));
        assert_eq!(fault(&[("dp", 1), ("tp", 0)]), expected("axis `tp` has size 0"));
        assert_eq!(fault(&[("dp", 1), ("dp", 1)]), expected("axis `dp` is given twice"));
        Ok(())
    });
}

#[test]
fn unknown_and_repeated_axes_are_errors() {
    on_ranks(&[4], |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let unknown = "the mesh has no axis `pp`\n  mesh (dp=2, tp=2)\n  use one of the names above";
        assert_eq!(mesh.communicator(&["pp"]).unwrap_err().to_string(), unknown);
        assert_eq!(mesh.sub(&["dp", "pp"]).unwrap_err().to_string(), unknown);
        assert_eq!(mesh.at("pp", 0).unwrap_err().to_string(), unknown);
        let twice = mesh.communicator(&["dp", "dp"]).unwrap_err().to_string();
        assert!(twice.contains("axis `dp` is given twice"), "{twice}");
        let beyond = mesh.at("tp", 2).unwrap_err().to_string();
        assert_eq!(beyond, "axis `tp` has no index 2\n  mesh (dp=2, tp=2)");
        Ok(())
    });
}

// Ranks outside a mesh.

#[local_map(in = [[Shard(0)]], out = [[Shard(0)], _])]
fn rows_and_count(x: &Tensor) -> candle_core::Result<(Tensor, usize)> {
    Ok((x.clone(), x.dims()[0]))
}

#[test]
fn a_rank_outside_the_mesh_has_an_absent_tensor_and_no_values() {
    on_ranks(&[3], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&counting(&[5]), &mesh, &[Shard(0)])?;
        assert_eq!((x.mesh(), x.shape()?), (&mesh, &[5][..]));
        if world.rank() < 2 {
            assert_eq!(elements(&x.full()?), elements(&counting(&[5])));
            return Ok(());
        }
        assert!(x.is_absent() && mesh.coordinate().is_none());
        let piece = "the local piece of a tensor";
        for (doing, error) in [
            (piece, x.to_local().unwrap_err()),
            (piece, x.full().unwrap_err()),
            ("a group of ranks", mesh.communicator(&["dp"]).unwrap_err()),
            ("a sub-mesh through this rank", mesh.sub(&["dp"]).unwrap_err()),
        ] {
            let lines = [
                &format!("{doing}: rank 2 is outside the mesh"),
                "  mesh (dp=2)",
                "  call this only on ranks of the mesh: ask `is_absent` of a tensor or `coordinate` of a mesh first",
            ];
            assert_eq!(error.to_string(), lines.join("\n"));
            assert!(matches!(error, Error::Absent(_)));
        }
        Ok(())
    });
}

#[test]
fn a_region_with_a_plain_result_is_an_error_outside_the_mesh() {
    on_ranks(&[3], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&counting(&[5]), &mesh, &[Shard(0)])?;
        let outcome = rows_and_count(&x);
        if world.rank() < 2 {
            assert_eq!(outcome?.1, [3, 2][world.rank()]);
            return Ok(());
        }
        let error = Error::from(outcome.unwrap_err());
        let lines = [
            "rows_and_count: rank 2 is outside the mesh, so the body does not run here and there is no plain result",
            "  mesh (dp=2)",
            "  call the function only on ranks of the mesh, or return distributed tensors only",
        ];
        assert_eq!(said(&error), lines.join("\n"));
        assert!(matches!(error, Error::Absent(_)));
        Ok(())
    });
}

#[test]
fn the_last_two_ranks_can_be_a_mesh_of_their_own() {
    on_ranks(&[4], |world| {
        let mesh = world.bind(Mesh::over(&[2, 3], [("dp", 2)])?)?;
        let x = DTensor::shard(&counting(&[3]), &mesh, &[Shard(0)])?;
        match world.rank() {
            0 | 1 => assert!(matches!(x.full(), Err(Error::Absent(_)))),
            _ => assert_eq!(elements(&x.full()?), [0.0, 1.0, 2.0]),
        }
        Ok(())
    });
}

// The engine without data.

#[test]
fn a_fake_world_has_shapes_and_plans_and_refuses_data() {
    let world = World::fake(4097, 65_536).unwrap();
    let mesh = world.mesh([("dp", 4096), ("tp", 16)]).unwrap();
    assert_eq!(mesh.coordinate(), Some(&[256, 1][..]));
    let x = DTensor::from_local(counting(&[2, 3]), &mesh, &[Shard(0), Partial(Sum)]).unwrap();
    assert_eq!(x.shape().unwrap(), [8192, 3]);
    assert_eq!(elements(&x.to_local().unwrap()), elements(&counting(&[2, 3])));
    let plan = x.explain(&[Shard(0), Replicate]).unwrap();
    assert_eq!(plan.collectives().collect::<Vec<_>>(), [Collective::AllReduce]);
    let error = x.full().unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)));
    let message = error.to_string();
    let tail = ": the fake engine moves no data\n  \
                look at the plan with `explain`, or run the program under `launch`";
    assert!(message.ends_with(tail), "{message}");
}

#[test]
fn a_fake_world_runs_regions_that_need_no_communication() {
    let world = World::fake(1, 4).unwrap();
    let mesh = world.mesh([("dp", 4)]).unwrap();
    let whole = Tensor::zeros((7, 2), DType::F32, &Device::Cpu).unwrap();
    let x = DTensor::shard(&whole, &mesh, &[Shard(0)]).unwrap();
    let (y, rows) = rows_and_count(&x).unwrap();
    assert_eq!((y.shape().unwrap(), rows), (&[7, 2][..], 2));
    assert!(seen_whole(&x).is_err(), "a reshard needs data");
}

#[test]
fn a_fake_rank_beyond_its_world_is_an_error() {
    let message = World::fake(4, 4).unwrap_err().to_string();
    assert_eq!(message, "a world of 4 ranks has no rank 4");
}
