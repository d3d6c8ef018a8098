//! One member's wait: until it has what it wants, the group breaks, or the deadline passes.

use crate::broken::{Broken, Report};
use crate::circle::{Circle, Need};
use std::cell::Cell;
use std::fmt::Display;
use std::time::{Duration, Instant};

/// One member's wait.
pub(crate) struct Wait<'a> {
    circle: &'a Circle,
    me: usize,
    need: Need,
    what: &'a dyn Display,
    /// The roster's alarm when the fates were last looked at; at 0 all ranks run.
    alarm: Cell<usize>,
}

impl<'a> Wait<'a> {
    pub(crate) fn new(circle: &'a Circle, me: usize, need: Need, what: &'a dyn Display) -> Wait<'a> {
        Wait { circle, me, need, what, alarm: Cell::new(0) }
    }

    /// Waits until `ready` yields something.
    pub(crate) fn until<R>(&self, mut ready: impl FnMut() -> Option<R>) -> Result<R, Broken> {
        let mut look = || self.look(&mut ready);
        match self.circle.roster.patience().spin(&mut look) {
            Ok(found) => found,
            Err(start) => self.park(start, look),
        }
    }

    fn look<R>(&self, ready: &mut impl FnMut() -> Option<R>) -> Option<Result<R, Broken>> {
        if let Some(found) = ready() {
            return Some(Ok(found));
        }
        let trouble = self.trouble()?;
        // Between the look and the trouble a peer may have done what was waited for, and then failed: that still counts.
        if let Some(found) = ready() {
            return Some(Ok(found));
        }
        self.circle.break_off(self.need, trouble).map(Err)
    }

    fn trouble(&self) -> Option<Broken> {
        let alarm = self.circle.roster.alarm();
        if alarm == self.alarm.replace(alarm) {
            return self.circle.verdict();
        }
        self.circle.verdict().or_else(|| self.circle.absence(self.me, self.need))
    }

    #[cold]
    fn park<R>(&self, start: Instant, mut look: impl FnMut() -> Option<Result<R, Broken>>) -> Result<R, Broken> {
        let Circle { roster, signal, members, .. } = self.circle;
        let _sitting = roster.sit(members[self.me], self.what);
        let mut warned = false;
        loop {
            let sleeper = signal.register();
            if let Some(found) = look() {
                return found;
            }
            let waited = start.elapsed();
            if waited >= roster.limits().deadline {
                if let Some(broken) = self.time_out(waited) {
                    return Err(broken);
                }
                continue;
            }
            warned = warned || self.warn(waited);
            sleeper.sleep(self.next_stop(waited, warned));
        }
    }

    /// How long to sleep until there is something to do.
    fn next_stop(&self, waited: Duration, warned: bool) -> Duration {
        let limits = self.circle.roster.limits();
        let stop = if warned { limits.deadline } else { limits.deadline.min(limits.warn_after) };
        stop.saturating_sub(waited)
    }

    fn warn(&self, waited: Duration) -> bool {
        let due = waited >= self.circle.roster.limits().warn_after;
        if due {
            let [arrived, missing] = self.circle.attendance(self.me, self.need);
            let report = Report { what: &self.what.to_string(), arrived: &arrived, missing: &missing };
            let rank = self.circle.members[self.me];
            crate::warning::warning(format_args!("rank {rank} is still waiting after {waited:.1?}: {report}"));
        }
        due
    }

    fn time_out(&self, waited: Duration) -> Option<Broken> {
        let [arrived, missing] = self.circle.attendance(self.me, self.need);
        let what = self.what.to_string();
        self.circle.break_off(self.need, Broken::TimedOut { waited, what, arrived, missing })
    }
}
