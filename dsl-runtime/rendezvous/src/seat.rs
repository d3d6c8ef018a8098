//! Where a member lays down its values for the others to take.

use crate::padded::Padded;
use crate::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;

/// A value and how many have yet to read it.
#[derive(Debug)]
struct Deposit<T> {
    value: T,
    readers: usize,
}

/// One member's cells, for rounds of even and of odd number. Two suffice: see the crate's README.
#[derive(Debug)]
pub(crate) struct Seat<T> {
    cells: [Padded<Mutex<Option<Deposit<T>>>>; 2],
}

impl<T> Seat<T> {
    pub(crate) fn new() -> Seat<T> {
        Seat { cells: [Padded(Mutex::new(None)), Padded(Mutex::new(None))] }
    }

    /// Lays down the value that `readers` others will read when `round` is complete.
    pub(crate) fn deposit(&self, round: u64, value: T, readers: usize) {
        *self.cell(round) = Some(Deposit { value, readers });
    }

    /// Takes back the deposit for a round that nobody will complete.
    pub(crate) fn withdraw(&self, round: u64) {
        let deposit = self.cell(round).take();
        drop(deposit);
    }

    /// One of the readers' copy of the value; the last one's is the deposit itself, so that nothing stays. None if there is no
    /// deposit, which cannot be once the round is complete.
    pub(crate) fn read(&self, round: u64) -> Option<T>
    where
        T: Clone,
    {
        let mut cell = self.cell(round);
        match &mut *cell {
            Some(deposit) if deposit.readers > 1 => {
                deposit.readers -= 1;
                Some(deposit.value.clone())
            }
            _ => cell.take().map(|deposit| deposit.value),
        }
    }

    fn cell(&self, round: u64) -> MutexGuard<'_, Option<Deposit<T>>> {
        self.cells[(round % 2) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
