//! The barrier of a group: one counter that says which round is complete, and whether there will be another.

use crate::padded::Padded;
use crate::sync::{AtomicU64, Ordering};

/// Set once, when the group breaks.
const BROKEN: u64 = 1 << 63;

/// What an arrival found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Others are still missing.
    Early,
    /// This arrival completed the round.
    Last,
    /// The group was broken before; the arrival was not counted.
    Refused,
}

/// Counts the arrivals of all rounds together, and carries [`BROKEN`] in the same word.
///
/// Nobody arrives at a round before the previous one is complete, so the count tells the round: of `size` members, round `k` is
/// complete from `size * (k + 1)` on, and stays so. As one word holds both, a round is complete for everybody or broken for
/// everybody.
#[derive(Debug)]
pub(crate) struct Arrivals {
    size: u64,
    word: Padded<AtomicU64>,
}

impl Arrivals {
    pub(crate) fn new(size: usize) -> Arrivals {
        Arrivals { size: size as u64, word: Padded(AtomicU64::new(0)) }
    }

    /// Counts one arrival at `round`.
    pub(crate) fn arrive(&self, round: u64) -> Arrival {
        // The first guess is that nobody came before. Right or wrong, trying it fetches the cache line for writing, where a load
        // would fetch it for reading first.
        let mut seen = self.size * round;
        while seen & BROKEN == 0 {
            match self.word.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if seen + 1 == self.target(round) => return Arrival::Last,
                Ok(_) => return Arrival::Early,
                Err(actual) => seen = actual,
            }
        }
        Arrival::Refused
    }

    /// Whether everybody has arrived at `round`, broken since or not.
    pub(crate) fn is_complete(&self, round: u64) -> bool {
        self.word.load(Ordering::Acquire) & !BROKEN >= self.target(round)
    }

    /// Whether arrivals are refused from now on.
    pub(crate) fn is_broken(&self) -> bool {
        self.word.load(Ordering::Acquire) & BROKEN != 0
    }

    /// Refuses arrivals from now on, unless `round` is one that has been completed: then false.
    pub(crate) fn break_off(&self, round: Option<u64>) -> bool {
        let target = round.map_or(u64::MAX, |round| self.target(round));
        let broken = |word: u64| (word & !BROKEN < target).then_some(word | BROKEN);
        self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, broken).is_ok()
    }

    fn target(&self, round: u64) -> u64 {
        self.size * (round + 1)
    }
}
