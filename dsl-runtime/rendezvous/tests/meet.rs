//! Meetings that succeed: right values, nothing retained, groups that overlap.

#![allow(clippy::unwrap_used)]

use local_map_rendezvous::{Broken, Group, Limits, Roster};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Runs `rank(0)`, `rank(1)`, .. on threads of their own and returns what they return.
fn launch<R: Send>(ranks: usize, rank: impl Fn(usize) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|me| {
                scope.spawn({
                    let rank = &rank;
                    move || rank(me)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn world<T: Clone + Send>(ranks: usize) -> (Arc<Roster>, Arc<Group<T>>) {
    let roster = Roster::new(ranks, Limits::default());
    let group = Group::new(&roster, (0..ranks).collect());
    (roster, group)
}

/// Now nothing, now a moment, now long enough for the others to park; different by rank and round.
fn delay(me: usize, round: usize) {
    let draw = (me as u64 * 7919 + round as u64 * 104_729 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57;
    match draw {
        0..2 => thread::sleep(Duration::from_millis(2)),
        2..16 => thread::sleep(Duration::from_micros(draw * 20)),
        16..32 => thread::yield_now(),
        _ => {}
    }
}

#[test]
fn values_are_those_of_the_round() {
    for ranks in [1, 2, 3, 4, 8] {
        let (_roster, group) = world::<(usize, usize)>(ranks);
        launch(ranks, |me| {
            for round in 0..1000 {
                delay(me, round);
                let values = group.meet(me, (round, me), &"round").unwrap();
                assert!(values.iter().copied().eq((0..ranks).map(|peer| (round, peer))), "{values:?}");
            }
        });
    }
}

#[test]
fn rounds_without_a_pause_keep_apart() {
    for ranks in [2, 4] {
        let (_roster, group) = world::<usize>(ranks);
        launch(ranks, |me| {
            for round in 0..20_000 {
                assert_eq!(group.meet(me, round, &"round").unwrap(), vec![round; ranks]);
            }
        });
    }
}

#[test]
fn values_come_in_group_order() {
    let roster = Roster::new(4, Limits::default());
    let group = Group::new(&roster, vec![3, 0, 2]);
    assert_eq!(group.members(), [3, 0, 2]);
    let values = launch(3, |me| group.meet(me, group.members()[me], &"order").unwrap());
    assert_eq!(values, vec![vec![3, 0, 2]; 3]);
}

#[test]
fn nothing_is_retained_after_a_round() {
    let (_roster, group) = world::<Arc<()>>(3);
    let values: Vec<_> = (0..3).map(|_| Arc::new(())).collect();
    for _ in 0..3 {
        let met = launch(3, |me| group.meet(me, values[me].clone(), &"round").unwrap());
        assert!(values.iter().all(|value| Arc::strong_count(value) == 1 + 3), "three results hold each value");
        drop(met);
        assert!(values.iter().all(|value| Arc::strong_count(value) == 1));
    }
}

#[test]
fn a_group_of_one_never_waits() {
    let limits = Limits { deadline: Duration::ZERO, warn_after: Duration::ZERO };
    let group = Group::new(&Roster::new(1, limits), vec![0]);
    for round in 0..10 {
        assert_eq!(group.meet(0, round, &"alone").unwrap(), [round]);
    }
}

#[test]
fn groups_that_overlap_do_not_disturb_each_other() {
    let roster = Roster::new(4, Limits::default());
    let rows = [[0, 1], [2, 3]].map(|row| Group::new(&roster, row.to_vec()));
    let columns = [[0, 2], [1, 3]].map(|column| Group::new(&roster, column.to_vec()));
    let all = Group::new(&roster, vec![0, 1, 2, 3]);
    let sums = launch(4, |rank| {
        let (row, column) = (rank / 2, rank % 2);
        let mut value = rank;
        for round in 0..500 {
            delay(rank, round);
            let sum: usize = rows[row].meet(column, rank, &"row")?.into_iter().sum();
            value = columns[column].meet(row, sum, &"column")?.into_iter().sum();
            assert_eq!(all.meet(rank, value, &"all")?, [6; 4]);
        }
        Ok::<_, Broken>(value)
    });
    assert!(sums.into_iter().all(|sum| sum.unwrap() == 6));
}

#[test]
fn a_condition_is_waited_for() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let (_roster, group) = world::<()>(4);
    let parts = AtomicUsize::new(0);
    launch(4, |me| {
        delay(me, 3);
        if parts.fetch_add(1, Ordering::AcqRel) == 3 {
            group.notify();
        }
        group.wait_until(me, &"parts", &|| parts.load(Ordering::Acquire) == 4).unwrap();
    });
}
