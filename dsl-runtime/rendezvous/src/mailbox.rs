//! Values on their way from one member to another.

use crate::padded::Padded;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// What has been sent to one member, in order per sender.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    /// Counts all that was ever posted, so that who waits need not lock a box that has not changed.
    posted: Padded<AtomicUsize>,
    /// By sender.
    lanes: Mutex<Vec<VecDeque<T>>>,
}

impl<T> Mailbox<T> {
    /// A box to which `senders` members may post.
    pub(crate) fn new(senders: usize) -> Mailbox<T> {
        let lanes = (0..senders).map(|_| VecDeque::new()).collect();
        Mailbox { posted: Padded(AtomicUsize::new(0)), lanes: Mutex::new(lanes) }
    }

    pub(crate) fn post(&self, from: usize, value: T) {
        self.lanes()[from].push_back(value);
        self.posted.fetch_add(1, Ordering::Release);
    }

    /// Looks for the next value of one sender whenever the box has changed.
    pub(crate) fn watch(&self, from: usize) -> impl FnMut() -> Option<T> {
        let mut seen = None;
        move || {
            let posted = Some(self.posted.load(Ordering::Acquire));
            if posted == seen {
                return None;
            }
            seen = posted;
            self.lanes()[from].pop_front()
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<VecDeque<T>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
