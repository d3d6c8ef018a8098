//! Meetings that fail: at once, for all, and naming who is to blame.

#![allow(clippy::unwrap_used)]

use local_map_rendezvous::{Broken, Failure, Group, Limits, Roster};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
/// Far more than a wake-up takes, far less than any deadline here.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Long enough for whoever waits to have parked.
const SETTLED: Duration = Duration::from_millis(100);

fn patient(ranks: usize) -> Arc<Roster> {
    Roster::new(ranks, Limits { deadline: HOUR, warn_after: HOUR })
}

#[test]
fn a_failure_ends_all_waits_at_once() {
    let roster = patient(4);
    let group = Group::new(&roster, vec![0, 1, 2, 3]);
    let start = Instant::now();
    thread::scope(|scope| {
        let waits = [0, 1, 3].map(|me| {
            let group = &group;
            scope.spawn(move || group.meet(me, me, &"meeting"))
        });
        thread::sleep(SETTLED);
        roster.fail(2, "no memory");
        for wait in waits {
            let broken = wait.join().unwrap().unwrap_err();
            assert_eq!(broken.to_string(), "rank 2 failed: no memory");
        }
    });
    assert!(start.elapsed() < AT_ONCE);
    assert!(group.meet(0, 0, &"another").is_err() && group.meet(0, 0, &"another").is_err());
    assert_eq!(roster.culprit(), Some(Failure { rank: 2, cause: "no memory".into() }));
}

#[test]
fn a_failure_ends_waits_for_values_and_conditions_too() {
    let roster = patient(3);
    let group = Group::<()>::new(&roster, vec![0, 1, 2]);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| group.recv(0, 2, &"receiving"));
        let waiter = scope.spawn(|| group.wait_until(1, &"waiting", &|| false));
        thread::sleep(SETTLED);
        roster.fail(2, "no memory");
        assert!(matches!(receiver.join().unwrap(), Err(Broken::PeerFailed { rank: 2, .. })));
        assert!(matches!(waiter.join().unwrap(), Err(Broken::PeerFailed { rank: 2, .. })));
    });
}

#[test]
fn a_chain_of_failures_names_the_first() {
    let roster = patient(3);
    let near = Group::new(&roster, vec![0, 1]);
    let far = Group::new(&roster, vec![1, 2]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let broken = near.meet(1, (), &"near").unwrap_err();
            roster.fail(1, broken.to_string());
        });
        let end = scope.spawn(|| far.meet(1, (), &"far"));
        thread::sleep(SETTLED);
        roster.fail(0, "no memory");
        let broken = end.join().unwrap().unwrap_err();
        assert_eq!(broken.to_string(), "rank 0 failed: no memory");
    });
}

#[test]
fn groups_without_the_failed_rank_carry_on() {
    let roster = patient(3);
    let group = Group::new(&roster, vec![0, 2]);
    roster.fail(1, "no memory");
    thread::scope(|scope| {
        scope.spawn(|| group.meet(1, 5, &"meeting").unwrap());
        assert_eq!(group.meet(0, 4, &"meeting").unwrap(), [4, 5]);
    });
}

#[test]
fn who_waits_for_a_returned_rank_fails_at_once() {
    let roster = patient(3);
    let group = Group::new(&roster, vec![0, 1, 2]);
    thread::scope(|scope| {
        let waits = [0, 1].map(|me| {
            let group = &group;
            scope.spawn(move || group.meet(me, me, &"meeting"))
        });
        thread::sleep(SETTLED);
        roster.leave(2);
        for wait in waits {
            assert!(matches!(wait.join().unwrap(), Err(Broken::PeerReturned { rank: 2 })));
        }
    });
}

#[test]
fn a_condition_survives_returns_while_somebody_runs() {
    let roster = patient(3);
    let group = Group::<()>::new(&roster, vec![0, 1, 2]);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| group.wait_until(0, &"waiting", &|| false));
        roster.leave(1);
        thread::sleep(SETTLED);
        assert!(!waiter.is_finished());
        roster.leave(2);
        assert!(matches!(waiter.join().unwrap(), Err(Broken::PeerReturned { rank: 1 })));
    });
}

#[test]
fn a_round_that_all_reached_survives_a_failure_right_after() {
    for _ in 0..200 {
        let roster = patient(3);
        let group = Group::new(&roster, vec![0, 1, 2]);
        thread::scope(|scope| {
            for me in 0..3 {
                let (group, roster) = (&group, &roster);
                scope.spawn(move || {
                    assert_eq!(group.meet(me, me, &"meeting").unwrap(), [0, 1, 2]);
                    roster.fail(me, "right after");
                });
            }
        });
    }
}

#[test]
fn a_member_that_arrived_and_failed_does_not_break_its_round() {
    let roster = patient(3);
    let group = Group::new(&roster, vec![0, 1, 2]);
    thread::scope(|scope| {
        let waits = [0, 1].map(|me| {
            let group = &group;
            scope.spawn(move || group.meet(me, me, &"meeting"))
        });
        thread::sleep(SETTLED);
        roster.fail(1, "while waiting");
        thread::sleep(SETTLED);
        assert_eq!(group.meet(2, 2, &"meeting").unwrap(), [0, 1, 2]);
        for wait in waits {
            assert_eq!(wait.join().unwrap().unwrap(), [0, 1, 2]);
        }
    });
    assert!(matches!(group.meet(0, 0, &"next"), Err(Broken::PeerFailed { rank: 1, .. })));
}
