//! Waiting for something that another thread will make true: spin, then yield, then park.

use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, SPINS, fence, spin_loop, yield_now};
use std::sync::PoisonError;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// How long a wait tries before it parks. Spinning only pays while whoever is waited for has a core of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Looks before the clock is read for the first time: a fast meeting never reads it.
    burst: u32,
    spin: Duration,
    /// Spinning and yielding together.
    total: Duration,
}

impl Patience {
    const NONE: Patience = Patience { burst: 0, spin: Duration::ZERO, total: Duration::ZERO };
    /// Longer spinning gains nothing where both have a core, and where something else has taken one of them, as compilers do,
    /// two ranks on one core would only see each other after a whole spin.
    const ROOMY: Patience = Patience { burst: 64, spin: Duration::from_micros(2), total: Duration::from_millis(1) };
    const CROWDED: Patience = Patience { burst: 8, spin: Duration::ZERO, total: Duration::from_millis(1) };

    /// The patience that suits `ranks` threads on this machine.
    pub(crate) fn of(ranks: usize) -> Patience {
        let cores = available_parallelism().map_or(1, usize::from);
        match SPINS {
            false => Patience::NONE,
            true if ranks <= cores => Patience::ROOMY,
            true => Patience::CROWDED,
        }
    }

    /// Looks again and again until `look` finds something. When patience is exhausted: the time at which the wait began.
    pub(crate) fn spin<R>(self, look: &mut impl FnMut() -> Option<R>) -> Result<R, Instant> {
        if let Some(found) = spin_for(self.burst, look) {
            return Ok(found);
        }
        let start = Instant::now();
        while start.elapsed() < self.spin {
            if let Some(found) = spin_for(16, look) {
                return Ok(found);
            }
        }
        while start.elapsed() < self.total {
            yield_now();
            if let Some(found) = look() {
                return Ok(found);
            }
        }
        Err(start)
    }
}

fn spin_for<R>(looks: u32, look: &mut impl FnMut() -> Option<R>) -> Option<R> {
    (0..looks).find_map(|_| {
        let found = look();
        if found.is_none() {
            spin_loop();
        }
        found
    })
}

/// A bell that costs its ringer a fence and a load while nobody sleeps.
///
/// The condition itself lives elsewhere, in atomics. A sleeper registers, looks once more, then sleeps; a ringer makes the
/// condition true, then looks for sleepers. The fences between each one's store and load allow no order in which both look too
/// early, so either the sleeper sees the condition or the ringer sees the sleeper.
#[derive(Debug)]
pub(crate) struct Signal {
    sleepers: AtomicUsize,
    /// How often the bell has rung: who registered at another count was rung in between, and must not sleep.
    rings: Mutex<u64>,
    bell: Condvar,
}

impl Signal {
    pub(crate) fn new() -> Signal {
        Signal { sleepers: AtomicUsize::new(0), rings: Mutex::new(0), bell: Condvar::new() }
    }

    /// Wakes all sleepers; to be called after what they wait for has been made true.
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            *self.rings() += 1;
            self.bell.notify_all();
        }
    }

    /// Announces a sleeper, who must look for the condition once more before sleeping.
    pub(crate) fn register(&self) -> Sleeper<'_> {
        let rings = *self.rings();
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Sleeper { signal: self, rings }
    }

    fn rings(&self) -> MutexGuard<'_, u64> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody about to sleep.
pub(crate) struct Sleeper<'a> {
    signal: &'a Signal,
    rings: u64,
}

impl Sleeper<'_> {
    /// Sleeps until the bell rings, if it has not since registering, or `limit` has passed, or for no reason at all.
    pub(crate) fn sleep(self, limit: Duration) {
        let rings = self.signal.rings();
        if *rings == self.rings {
            drop(self.signal.bell.wait_timeout(rings, limit).unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.signal.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}
