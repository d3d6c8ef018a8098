//! How often a rank communicates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::buffer::{Buffer, Finish};
use super::{Call, Counts, Transport};
use crate::error::Result;
use crate::plan::Routes;

/// The operations that one rank has begun, on a cache line of its own: every rank writes its own one all the time.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn one_more(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A membership that counts what it is used for, whatever the engine.
pub(super) struct Counted {
    pub(super) group: Arc<dyn Transport>,
    pub(super) count: Arc<Count>,
}

impl Transport for Counted {
    fn position(&self) -> usize {
        self.group.position()
    }

    fn ready(&self, call: &Call) -> Result<()> {
        self.group.ready(call)
    }

    fn size(&self) -> usize {
        self.group.size()
    }

    fn exchange(&self, call: &Call, input: Option<Buffer>, routes: &Routes, finish: &dyn Finish) -> Result<Buffer> {
        self.count.one_more();
        self.group.exchange(call, input, routes, finish)
    }

    fn all_to_all(&self, call: &Call, input: Buffer, counts: &Counts, finish: &dyn Finish) -> Result<Buffer> {
        self.count.one_more();
        self.group.all_to_all(call, input, counts, finish)
    }

    fn send(&self, call: &Call, to: usize, input: Buffer, finish: &dyn Finish) -> Result<()> {
        self.count.one_more();
        self.group.send(call, to, input, finish)
    }

    fn recv(&self, call: &Call, from: usize) -> Result<Buffer> {
        self.count.one_more();
        self.group.recv(call, from)
    }

    fn barrier(&self, call: &Call) -> Result<()> {
        self.count.one_more();
        self.group.barrier(call)
    }
}
