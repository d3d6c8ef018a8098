//! The ranks of one world: which still run, which failed first, and where each one sits.

use crate::padded::Padded;
use crate::signal::{Patience, Signal};
use crate::sync::{AtomicU8, AtomicUsize, Mutex, MutexGuard, Ordering};
use std::fmt::Display;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

/// How long a wait may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A wait that takes this long breaks its group. 600 s by default.
    pub deadline: Duration,
    /// A wait that takes this long says so once, through `tracing::warn!`. 10 s by default.
    pub warn_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { deadline: Duration::from_secs(600), warn_after: Duration::from_secs(10) }
    }
}

/// A rank that failed, and of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The rank, as numbered in the world.
    pub rank: usize,
    /// Its error or the message of its panic.
    pub cause: Arc<str>,
}

/// What became of a rank. Only ever moves down this list: a failure outranks a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Running,
    Returned,
    Failed,
}

/// One rank's fate, and the wait it sits in if it has sat down.
#[derive(Debug)]
struct Standing {
    fate: AtomicU8,
    whereabouts: Mutex<Option<String>>,
}

/// A group's members and how to wake them. The group owns the signal, so that a group dropped is a listing dead.
#[derive(Debug)]
struct Listing {
    members: Arc<[usize]>,
    signal: Weak<Signal>,
}

/// The ranks of one world and what became of each.
#[derive(Debug)]
pub struct Roster {
    limits: Limits,
    patience: Patience,
    /// Counts failures and returns: a wait that sees it unchanged need not look at the fates.
    alarm: Padded<AtomicUsize>,
    standings: Vec<Standing>,
    culprit: Mutex<Option<Failure>>,
    listings: Mutex<Vec<Listing>>,
}

impl Roster {
    /// A world of `ranks` running ranks, numbered from 0, whose waits keep to `limits`.
    pub fn new(ranks: usize, limits: Limits) -> Arc<Roster> {
        let standing = |_| Standing { fate: AtomicU8::new(Fate::Running as u8), whereabouts: Mutex::new(None) };
        Arc::new(Roster {
            limits,
            patience: Patience::of(ranks),
            alarm: Padded(AtomicUsize::new(0)),
            standings: (0..ranks).map(standing).collect(),
            culprit: Mutex::new(None),
            listings: Mutex::new(Vec::new()),
        })
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.standings.len()
    }

    /// How long waits may take.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The rank returned an error or panicked. The first to do so is the culprit and is kept; whoever waits for the rank, in any
    /// group, is told of the culprit at once.
    ///
    /// # Panics
    ///
    /// If the world has no such rank.
    pub fn fail(&self, rank: usize, cause: impl Into<String>) {
        let failure = || Failure { rank, cause: cause.into().into() };
        self.culprit_slot().get_or_insert_with(failure);
        self.settle(rank, Fate::Failed);
    }

    /// The rank returned normally: it can never arrive again, so whoever waits for it fails at once.
    ///
    /// # Panics
    ///
    /// If the world has no such rank.
    pub fn leave(&self, rank: usize) {
        self.settle(rank, Fate::Returned);
    }

    /// The first rank that failed, if one has.
    pub fn culprit(&self) -> Option<Failure> {
        self.culprit_slot().clone()
    }

    /// Writes the fate, raises the alarm and wakes whoever may wait for the rank, in this order: who sees the alarm sees the fate.
    fn settle(&self, rank: usize, fate: Fate) {
        self.standings[rank].fate.fetch_max(fate as u8, Ordering::AcqRel);
        self.alarm.fetch_add(1, Ordering::AcqRel);
        for signal in self.signals_of(rank) {
            signal.notify();
        }
    }

    fn signals_of(&self, rank: usize) -> Vec<Arc<Signal>> {
        let listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        let concerned = listings.iter().filter(|listing| listing.members.contains(&rank));
        concerned.filter_map(|listing| listing.signal.upgrade()).collect()
    }

    fn culprit_slot(&self) -> MutexGuard<'_, Option<Failure>> {
        self.culprit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `signal` rung whenever one of `members` fails or returns, for as long as somebody owns it.
    pub(crate) fn enlist(&self, members: &Arc<[usize]>, signal: &Arc<Signal>) {
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        // Dead listings go when the list would otherwise grow, which keeps both its length and this search in proportion.
        if listings.len() == listings.capacity() {
            listings.retain(|listing| listing.signal.strong_count() > 0);
        }
        listings.push(Listing { members: members.clone(), signal: Arc::downgrade(signal) });
    }

    /// Changes whenever a rank fails or returns; 0 as long as all run.
    pub(crate) fn alarm(&self) -> usize {
        self.alarm.load(Ordering::Acquire)
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    pub(crate) fn fate(&self, rank: usize) -> Fate {
        match self.standings[rank].fate.load(Ordering::Acquire) {
            fate if fate == Fate::Running as u8 => Fate::Running,
            fate if fate == Fate::Returned as u8 => Fate::Returned,
            _ => Fate::Failed,
        }
    }

    /// In words, where the rank is just now.
    pub(crate) fn whereabouts(&self, rank: usize) -> String {
        match self.fate(rank) {
            Fate::Failed => "has failed".to_owned(),
            Fate::Returned => "has returned".to_owned(),
            Fate::Running => self.whereabouts_slot(rank).clone().unwrap_or_else(|| "running".to_owned()),
        }
    }

    /// Records that the rank sits in `what` until the guard is dropped.
    pub(crate) fn sit(&self, rank: usize, what: &dyn Display) -> Sitting<'_> {
        let what = what.to_string();
        *self.whereabouts_slot(rank) = Some(what);
        Sitting { roster: self, rank }
    }

    fn whereabouts_slot(&self, rank: usize) -> MutexGuard<'_, Option<String>> {
        self.standings[rank].whereabouts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rank that sits in a wait; getting up is dropping it.
pub(crate) struct Sitting<'a> {
    roster: &'a Roster,
    rank: usize,
}

impl Drop for Sitting<'_> {
    fn drop(&mut self) {
        *self.roster.whereabouts_slot(self.rank) = None;
    }
}
