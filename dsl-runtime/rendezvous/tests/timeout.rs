//! Waits that take too long: a warning, then an error that lists who is where.

#![allow(clippy::unwrap_used)]

use local_map_rendezvous::{Broken, Group, Limits, Roster};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
/// Long enough for whoever waits to have parked.
const SETTLED: Duration = Duration::from_millis(100);

fn hasty(ranks: usize, deadline: Duration) -> Arc<Roster> {
    Roster::new(ranks, Limits { deadline, warn_after: HOUR })
}

#[test]
fn a_timeout_lists_who_is_where() {
    let deadline = Duration::from_millis(600);
    let roster = hasty(5, deadline);
    let group = Group::new(&roster, vec![0, 1, 2, 3]);
    let elsewhere = Group::<()>::new(&roster, vec![2, 4]);
    let start = Instant::now();
    let broken = thread::scope(|scope| {
        scope.spawn(|| group.meet(0, (), &"all_reduce at src/x.rs:10").unwrap_err());
        let waiter = scope.spawn(|| group.meet(1, (), &"all_reduce at src/x.rs:10").unwrap_err());
        thread::sleep(SETTLED);
        scope.spawn(|| elsewhere.meet(0, (), &"broadcast at src/y.rs:20").unwrap_err());
        waiter.join().unwrap()
    });
    let late = start.elapsed().saturating_sub(deadline);
    assert!(late < Duration::from_secs(1), "late by {late:?}");
    let text = broken.to_string();
    let Broken::TimedOut { waited, what, arrived, missing } = broken else { panic!("{broken}") };
    let entries =
        |list: &[(usize, &str)]| list.iter().map(|&(rank, place)| (rank, place.to_owned())).collect::<Vec<_>>();
    assert!(waited >= deadline);
    assert_eq!(what, "all_reduce at src/x.rs:10");
    assert_eq!(arrived, entries(&[(0, "all_reduce at src/x.rs:10"), (1, "all_reduce at src/x.rs:10")]));
    assert_eq!(missing, entries(&[(2, "broadcast at src/y.rs:20"), (3, "running")]));
    let (head, bullets) = text.split_once('\n').unwrap();
    assert!(head.starts_with("timed out after ") && head.ends_with(": all_reduce at src/x.rs:10"), "{head}");
    assert_eq!(bullets.lines().next(), Some("  * rank 2 is missing: broadcast at src/y.rs:20"));
    assert_eq!(bullets.lines().last(), Some("  * rank 1 has arrived: all_reduce at src/x.rs:10"));
}

#[test]
fn a_timeout_of_recv_names_the_sender_only() {
    let group = Group::<()>::new(&hasty(3, Duration::from_millis(5)), vec![0, 1, 2]);
    let Err(Broken::TimedOut { arrived, missing, .. }) = group.recv(0, 2, &"receiving") else { panic!() };
    assert_eq!(arrived, [(0, "receiving".to_owned())]);
    assert_eq!(missing, [(2, "running".to_owned())]);
}

#[test]
fn a_timeout_of_a_condition_names_all_others() {
    let roster = hasty(3, Duration::from_millis(5));
    let group = Group::<()>::new(&roster, vec![0, 1, 2]);
    roster.leave(1);
    let Err(Broken::TimedOut { missing, .. }) = group.wait_until(0, &"waiting", &|| false) else { panic!() };
    assert_eq!(missing, [(1, "has returned".to_owned()), (2, "running".to_owned())]);
}

#[test]
fn who_comes_after_a_timeout_is_told_of_it() {
    let group = Group::new(&hasty(2, Duration::from_millis(5)), vec![0, 1]);
    let first = group.meet(0, (), &"early").unwrap_err().to_string();
    assert_eq!(group.meet(1, (), &"late").unwrap_err().to_string(), first);
}

#[test]
fn a_broken_round_retains_nothing() {
    let value = Arc::new(());
    let group = Group::new(&hasty(2, Duration::from_millis(5)), vec![0, 1]);
    for _ in 0..3 {
        assert!(group.meet(0, value.clone(), &"meeting").is_err());
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

/// Keeps the text of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            if field.name() == "message" {
                self.0.lock().unwrap().push(format!("{value:?}"));
            }
        });
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_long_wait_warns_once() {
    let limits = Limits { deadline: Duration::from_millis(100), warn_after: Duration::from_millis(20) };
    let group = Group::new(&Roster::new(2, limits), vec![0, 1]);
    let warnings = Warnings::default();
    tracing::subscriber::with_default(warnings.clone(), || group.meet(0, (), &"meeting").unwrap_err());
    let warnings = warnings.0.lock().unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("rank 0 is still waiting after "), "{}", warnings[0]);
    assert!(warnings[0].ends_with(": meeting\n  * rank 1 is missing: running\n  * rank 0 has arrived: meeting"));
}
