//! Some of the ranks, in an order, and what they can do together.

use crate::arrivals::Arrival;
use crate::broken::Broken;
use crate::circle::{Circle, Need};
use crate::mailbox::Mailbox;
use crate::roster::Roster;
use crate::seat::Seat;
use crate::wait::Wait;
use std::fmt::Display;
use std::sync::Arc;

/// Ranks that meet and exchange values of type `T`.
///
/// Members are numbered by their position in the group; only [`members`](Group::members) and errors speak of world ranks. Each
/// member is one thread at a time: two calls of [`meet`](Group::meet) or [`recv`](Group::recv) for the same member must not
/// overlap.
///
/// A wait fails as soon as a member that it still needs has failed or returned, and when the roster's deadline passes. The first
/// wait that fails breaks the group: for good, and for all members, who are all told the same reason. Only what was complete
/// before counts: a round in which everybody had arrived succeeds for everybody, and a value that was sent can be received.
#[derive(Debug)]
pub struct Group<T> {
    circle: Circle,
    seats: Vec<Seat<T>>,
    mailboxes: Vec<Mailbox<T>>,
}

impl<T: Clone + Send> Group<T> {
    /// A group of these ranks of the roster, in this order.
    ///
    /// # Panics
    ///
    /// If the roster has no such rank.
    pub fn new(roster: &Arc<Roster>, members: Vec<usize>) -> Arc<Group<T>> {
        let size = members.len();
        Arc::new(Group {
            circle: Circle::new(roster, members),
            seats: (0..size).map(|_| Seat::new()).collect(),
            mailboxes: (0..size).map(|_| Mailbox::new(size)).collect(),
        })
    }

    /// The members' world ranks, in group order.
    pub fn members(&self) -> &[usize] {
        &self.circle.members
    }

    /// Deposits `value`, waits till every member has deposited for this round, and returns all values in member order. `what`
    /// names the meeting in errors and in other ranks' errors, such as `all_reduce at src/x.rs:10`.
    ///
    /// Each value has one owner per member afterwards; the group keeps none.
    ///
    /// # Errors
    ///
    /// If the round cannot be completed, or a call on this group failed before. It then fails for all members.
    pub fn meet(&self, me: usize, value: T, what: &dyn Display) -> Result<Vec<T>, Broken> {
        let size = self.circle.size();
        if size == 1 {
            return Ok(vec![value]);
        }
        let round = self.circle.next_round(me);
        self.seats[me].deposit(round, value.clone(), size - 1);
        match self.assemble(me, round, what) {
            Ok(()) => Ok(self.collect(me, round, value)),
            Err(broken) => {
                self.retreat(me, round);
                Err(broken)
            }
        }
    }

    fn assemble(&self, me: usize, round: u64, what: &dyn Display) -> Result<(), Broken> {
        if self.circle.arrive(me, round) == Arrival::Last {
            return Ok(());
        }
        let wait = Wait::new(&self.circle, me, Need::Round(round), what);
        wait.until(|| self.circle.is_complete(round).then_some(()))
    }

    /// Leaves no trace in a broken round. A further call then deposits, and is refused, in the same round: in the next one its
    /// deposit could replace one that a slow reader of the round before has yet to read.
    #[cold]
    fn retreat(&self, me: usize, round: u64) {
        self.seats[me].withdraw(round);
        self.circle.retreat(me, round);
    }

    /// All values of a complete round. Each member begins with its right-hand neighbour, so that no two read the same seat.
    fn collect(&self, me: usize, round: u64, own: T) -> Vec<T> {
        let mut values = Vec::with_capacity(self.seats.len());
        values.push(own);
        let (left, right) = (&self.seats[..me], &self.seats[me + 1..]);
        values.extend(right.iter().chain(left).filter_map(|seat| seat.read(round)));
        values.rotate_right(me);
        values
    }

    /// Waits until `done()`; whoever makes it true calls [`notify`](Group::notify) afterwards. `done` is called often, and
    /// without any lock held.
    ///
    /// # Errors
    ///
    /// If another member fails, or all others have returned, or the deadline passes, or a call on this group failed before, and
    /// `done()` is still false. (One member's return is no error: it may have done its part.)
    pub fn wait_until(&self, me: usize, what: &dyn Display, done: &dyn Fn() -> bool) -> Result<(), Broken> {
        Wait::new(&self.circle, me, Need::Others, what).until(|| done().then_some(()))
    }

    /// Has all who wait for a condition look again.
    pub fn notify(&self) {
        self.circle.signal.notify();
    }

    /// Sends `value` to the member `to`, who receives it after all that `me` sent before. Never waits.
    ///
    /// # Errors
    ///
    /// If `to` has failed or returned, or a call on this group failed before.
    pub fn send(&self, me: usize, to: usize, value: T) -> Result<(), Broken> {
        if let Some(broken) = self.circle.objection(me, Need::Member(to)) {
            return Err(broken);
        }
        self.mailboxes[to].post(me, value);
        self.circle.signal.notify();
        Ok(())
    }

    /// The next value that `from` has sent or will send. One that was sent is received even if the sender has returned since.
    ///
    /// # Errors
    ///
    /// If there is none and `from` has failed or returned, the deadline passes, or a call on this group failed before.
    pub fn recv(&self, me: usize, from: usize, what: &dyn Display) -> Result<T, Broken> {
        Wait::new(&self.circle, me, Need::Member(from), what).until(self.mailboxes[me].watch(from))
    }
}
