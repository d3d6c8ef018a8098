//! The protocol under every interleaving of small models: values of the right round, no lost wake-up, failures that arrive.
//!
//! The files of the protocol are compiled a second time here, over loom's types in place of the standard library's. Spinning is
//! off, so that every wait goes down the path that parks; a lost wake-up shows as a deadlock, which loom reports.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

mod sync {
    //! The crate's `sync`, with loom's types.

    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;

    pub(crate) const SPINS: bool = false;
}

#[path = "../src/arrivals.rs"]
mod arrivals;
#[path = "../src/broken.rs"]
mod broken;
#[path = "../src/circle.rs"]
mod circle;
#[path = "../src/group.rs"]
mod group;
#[path = "../src/mailbox.rs"]
mod mailbox;
#[path = "../src/padded.rs"]
mod padded;
#[path = "../src/roster.rs"]
mod roster;
#[path = "../src/seat.rs"]
mod seat;
#[path = "../src/signal.rs"]
mod signal;
#[path = "../src/wait.rs"]
mod wait;
#[path = "../src/warning.rs"]
mod warning;

use broken::Broken;
use group::Group;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use roster::{Limits, Roster};
use std::sync::Arc;

/// Runs `model` under all interleavings with at most `preemptions` switches that no wait forced.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn world<T: Clone + Send>(ranks: usize) -> (Arc<Roster>, Arc<Group<T>>) {
    let roster = Roster::new(ranks, Limits::default());
    let group = Group::new(&roster, (0..ranks).collect());
    (roster, group)
}

/// Starts the members from 1 on in threads of their own, runs member 0 here, and joins.
fn run<T: Clone + Send + 'static>(group: &Arc<Group<T>>, member: fn(&Group<T>, usize)) {
    let start = |me| {
        let group = group.clone();
        thread::spawn(move || member(&group, me))
    };
    let others: Vec<_> = (1..group.members().len()).map(start).collect();
    member(group, 0);
    for other in others {
        other.join().unwrap();
    }
}

fn rounds(group: &Group<usize>, me: usize, rounds: usize) {
    for round in 0..rounds {
        let values = group.meet(me, 10 * round + me, &"round").unwrap();
        let expected: Vec<_> = (0..group.members().len()).map(|peer| 10 * round + peer).collect();
        assert_eq!(values, expected);
    }
}

#[test]
fn two_members_read_the_values_of_their_round() {
    check(4, || run(&world(2).1, |group, me| rounds(group, me, 3)));
}

#[test]
fn three_members_meet() {
    check(3, || run(&world(3).1, |group, me| rounds(group, me, 1)));
}

#[test]
fn a_failure_wakes_who_waits_for_the_failed() {
    check(3, || {
        let (roster, group) = world::<usize>(2);
        let waiter = thread::spawn({
            let group = group.clone();
            move || group.meet(0, 0, &"meeting")
        });
        roster.fail(1, "out of luck");
        let broken = waiter.join().unwrap().unwrap_err();
        assert!(matches!(broken, Broken::PeerFailed { rank: 1, .. }), "{broken}");
    });
}

#[test]
fn a_round_that_all_reached_succeeds_though_a_member_returns_at_once() {
    check(3, || {
        let (roster, group) = world::<usize>(2);
        let other = thread::spawn({
            let group = group.clone();
            move || {
                assert_eq!(group.meet(1, 1, &"meeting").unwrap(), [0, 1]);
                roster.leave(1);
            }
        });
        assert_eq!(group.meet(0, 0, &"meeting").unwrap(), [0, 1]);
        other.join().unwrap();
    });
}

#[test]
fn a_round_is_whole_or_broken_for_all() {
    check(2, || {
        let (roster, group) = world::<usize>(3);
        let meet = |me| {
            let group = group.clone();
            move || group.meet(me, me, &"meeting").is_ok()
        };
        let others = [1, 2].map(|me| thread::spawn(meet(me)));
        // The failure is told while the rank is still on its way, so that both outcomes are possible.
        roster.fail(0, "early");
        let outcome = meet(0)();
        for other in others {
            assert_eq!(other.join().unwrap(), outcome);
        }
    });
}

#[test]
fn what_was_sent_is_received_though_the_sender_has_returned() {
    check(3, || {
        let (roster, group) = world::<usize>(2);
        let sender = thread::spawn({
            let group = group.clone();
            move || {
                group.send(1, 0, 5).unwrap();
                group.send(1, 0, 6).unwrap();
                roster.leave(1);
            }
        });
        assert_eq!(group.recv(0, 1, &"receiving").unwrap(), 5);
        assert_eq!(group.recv(0, 1, &"receiving").unwrap(), 6);
        assert!(matches!(group.recv(0, 1, &"receiving"), Err(Broken::PeerReturned { rank: 1 })));
        sender.join().unwrap();
    });
}

#[test]
fn a_condition_made_true_wakes_who_waits_for_it() {
    check(3, || {
        let (_roster, group) = world::<usize>(2);
        let done = Arc::new(AtomicBool::new(false));
        let other = thread::spawn({
            let (group, done) = (group.clone(), done.clone());
            move || {
                done.store(true, Ordering::Release);
                group.notify();
            }
        });
        group.wait_until(0, &"waiting", &|| done.load(Ordering::Acquire)).unwrap();
        other.join().unwrap();
    });
}
