//! All of a group but its values: who is in it, who has arrived, and whether it is broken.

use crate::arrivals::{Arrival, Arrivals};
use crate::broken::Broken;
use crate::padded::Padded;
use crate::roster::{Fate, Roster};
use crate::signal::Signal;
use crate::sync::{AtomicU64, Mutex, Ordering};
use std::sync::{Arc, PoisonError};

/// Whom a wait still needs, by position in the group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    /// Everybody who has not arrived at this round.
    Round(u64),
    /// This member.
    Member(usize),
    /// Some of the others; only the caller's condition knows which.
    Others,
}

/// All of a group but its values.
#[derive(Debug)]
pub(crate) struct Circle {
    pub(crate) roster: Arc<Roster>,
    pub(crate) members: Arc<[usize]>,
    pub(crate) signal: Arc<Signal>,
    arrivals: Arrivals,
    /// Per member, the rounds it has entered; written by the member alone.
    entered: Vec<Padded<AtomicU64>>,
    /// What broke the group, in step with the mark in `arrivals`.
    verdict: Mutex<Option<Broken>>,
}

impl Circle {
    pub(crate) fn new(roster: &Arc<Roster>, members: Vec<usize>) -> Circle {
        let ranks = roster.ranks();
        if let Some(rank) = members.iter().find(|&&rank| rank >= ranks) {
            panic!("no rank {rank} in a world of {ranks} ranks");
        }
        let (members, signal): (Arc<[usize]>, _) = (members.into(), Arc::new(Signal::new()));
        roster.enlist(&members, &signal);
        Circle {
            roster: roster.clone(),
            arrivals: Arrivals::new(members.len()),
            entered: members.iter().map(|_| Padded(AtomicU64::new(0))).collect(),
            verdict: Mutex::new(None),
            members,
            signal,
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }

    /// The number of `me`'s next round.
    pub(crate) fn next_round(&self, me: usize) -> u64 {
        self.entered[me].load(Ordering::Relaxed)
    }

    /// Counts `me` as arrived at `round`, its next one. Who completes the round wakes the others.
    pub(crate) fn arrive(&self, me: usize, round: u64) -> Arrival {
        self.entered[me].store(round + 1, Ordering::Release);
        let arrival = self.arrivals.arrive(round);
        if arrival == Arrival::Last {
            self.signal.notify();
        }
        arrival
    }

    /// Has `me` stand before `round` again.
    pub(crate) fn retreat(&self, me: usize, round: u64) {
        self.entered[me].store(round, Ordering::Release);
    }

    pub(crate) fn is_complete(&self, round: u64) -> bool {
        self.arrivals.is_complete(round)
    }

    /// Breaks the group for `why`, unless it was broken before: what broke it first is returned. None if the wait needs no
    /// more than a round that is complete after all.
    pub(crate) fn break_off(&self, need: Need, why: Broken) -> Option<Broken> {
        let round = match need {
            Need::Round(round) => Some(round),
            Need::Member(_) | Need::Others => None,
        };
        let mut verdict = self.verdict.lock().unwrap_or_else(PoisonError::into_inner);
        let broken = self.arrivals.break_off(round).then(|| verdict.get_or_insert(why).clone());
        drop(verdict);
        self.signal.notify();
        broken
    }

    /// What broke the group, if it is broken.
    pub(crate) fn verdict(&self) -> Option<Broken> {
        let read = || self.verdict.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.arrivals.is_broken().then(read).flatten()
    }

    /// What speaks against something that `me` could do without waiting; it breaks the group as a wait would.
    pub(crate) fn objection(&self, me: usize, need: Need) -> Option<Broken> {
        let why = self.verdict().or_else(|| self.absence(me, need))?;
        self.break_off(need, why)
    }

    /// Why `me` waits in vain, if one of those whom it needs cannot come.
    pub(crate) fn absence(&self, me: usize, need: Need) -> Option<Broken> {
        let mut returned = None;
        let mut hope = false;
        for member in (0..self.size()).filter(|&member| self.is_missing(member, me, need)) {
            let rank = self.members[member];
            match self.roster.fate(rank) {
                Fate::Failed => return self.roster.culprit().map(Broken::from),
                Fate::Returned => returned = returned.or(Some(Broken::PeerReturned { rank })),
                Fate::Running => hope = true,
            }
        }
        // Whoever returned may have done its part for a condition; while somebody runs, the condition may yet come true.
        returned.filter(|_| !(hope && matches!(need, Need::Others)))
    }

    /// The members that have arrived and those that the wait still needs, by rank, with their whereabouts.
    pub(crate) fn attendance(&self, me: usize, need: Need) -> [Vec<(usize, String)>; 2] {
        let listed = |&member: &usize| member == me || !matches!(need, Need::Member(other) if other != member);
        let members = (0..self.size()).filter(listed);
        let (missing, arrived): (Vec<_>, Vec<_>) = members.partition(|&member| self.is_missing(member, me, need));
        [arrived, missing].map(|members| members.into_iter().map(|member| self.place(member)).collect())
    }

    fn place(&self, member: usize) -> (usize, String) {
        let rank = self.members[member];
        (rank, self.roster.whereabouts(rank))
    }

    fn is_missing(&self, member: usize, me: usize, need: Need) -> bool {
        member != me
            && match need {
                Need::Round(round) => self.entered[member].load(Ordering::Acquire) <= round,
                Need::Member(other) => member == other,
                Need::Others => true,
            }
    }
}
