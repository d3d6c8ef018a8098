//! Values sent from member to member.

#![allow(clippy::unwrap_used)]

use local_map_rendezvous::{Broken, Group, Limits, Roster};
use std::sync::Arc;
use std::thread;

fn world<T: Clone + Send>(ranks: usize) -> (Arc<Roster>, Arc<Group<T>>) {
    let roster = Roster::new(ranks, Limits::default());
    let group = Group::new(&roster, (0..ranks).collect());
    (roster, group)
}

#[test]
fn values_of_one_sender_come_in_order() {
    let (_roster, group) = world::<(usize, usize)>(3);
    thread::scope(|scope| {
        for me in [1, 2] {
            let group = &group;
            scope.spawn(move || (0..1000).for_each(|number| group.send(me, 0, (me, number)).unwrap()));
        }
        for number in 0..1000 {
            assert_eq!(group.recv(0, 2, &"from 2").unwrap(), (2, number));
            assert_eq!(group.recv(0, 1, &"from 1").unwrap(), (1, number));
        }
    });
}

#[test]
fn a_value_passes_to_and_fro() {
    let (_roster, group) = world::<usize>(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..5000 {
                let value = group.recv(1, 0, &"to").unwrap();
                assert_eq!(value, number);
                group.send(1, 0, value + 1).unwrap();
            }
        });
        (0..5000).for_each(|number| {
            group.send(0, 1, number).unwrap();
            assert_eq!(group.recv(0, 1, &"fro").unwrap(), number + 1);
        });
    });
}

#[test]
fn a_value_is_received_after_its_sender_returned() {
    let (roster, group) = world::<&str>(2);
    group.send(1, 0, "last words").unwrap();
    roster.leave(1);
    assert_eq!(group.recv(0, 1, &"receiving").unwrap(), "last words");
    assert!(matches!(group.recv(0, 1, &"receiving"), Err(Broken::PeerReturned { rank: 1 })));
}

#[test]
fn a_value_is_received_after_its_sender_failed() {
    let (roster, group) = world::<&str>(2);
    group.send(1, 0, "last words").unwrap();
    roster.fail(1, "no memory");
    assert_eq!(group.recv(0, 1, &"receiving").unwrap(), "last words");
    assert!(matches!(group.recv(0, 1, &"receiving"), Err(Broken::PeerFailed { rank: 1, .. })));
}

#[test]
fn nothing_is_sent_to_who_failed_or_returned() {
    let (roster, group) = world::<usize>(3);
    roster.leave(2);
    group.send(0, 1, 7).unwrap();
    assert!(matches!(group.send(0, 2, 7), Err(Broken::PeerReturned { rank: 2 })));

    let (roster, group) = world::<usize>(3);
    roster.fail(1, "no memory");
    let broken = group.send(0, 1, 7).unwrap_err();
    assert_eq!(broken.to_string(), "rank 1 failed: no memory");
}
