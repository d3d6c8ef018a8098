//! Communicators: groups of ranks and what moves between them. Of plans they know the routes, of specs nothing.
//!
//! An engine implements a transport over typed buffers. Everything that moves data is an *exchange*: each rank
//! brings a buffer, and its routes say which elements of whose buffer make up its output.

mod assemble;
pub(crate) mod buffer;
mod call;
mod count;
pub(crate) mod elements;
mod fake;
mod fold;
mod launch;
mod mesh;
mod threads;
mod world;

use crate::error::Result;
use crate::plan::Routes;
use crate::shard::Span;

pub(crate) use buffer::{Buffer, Finish};
pub(crate) use call::BARRIER;
pub(crate) use call::Call;
pub use launch::{Launch, launch};
pub use mesh::DeviceMesh;
pub(crate) use mesh::require_same;
pub use world::World;

/// One rank's membership in a group: what an engine supplies.
///
/// Contract: an operation succeeds on all ranks or fails on all ranks. When it returns, no other rank reads this rank's
/// input any more.
pub(crate) trait Transport: Send + Sync {
    /// This rank's position in the group.
    fn position(&self) -> usize;

    /// Refuses a call that the engine cannot carry out, before anything is prepared for it.
    fn ready(&self, call: &Call) -> Result<()>;

    /// How many ranks the group has.
    fn size(&self) -> usize;

    /// Brings `input`, takes what `routes` say of everybody's input, and hands the elements to `finish`, once for all
    /// ranks that share the result.
    fn exchange(&self, call: &Call, input: Option<Buffer>, routes: &Routes, finish: &dyn Finish) -> Result<Buffer>;

    /// Sends runs of rows of the input, one to each rank, and concatenates those that come.
    fn all_to_all(&self, call: &Call, input: Buffer, counts: &Counts, finish: &dyn Finish) -> Result<Buffer>;

    /// Sends a copy of `input`; returns without waiting for the receiver.
    fn send(&self, call: &Call, to: usize, input: Buffer, finish: &dyn Finish) -> Result<()>;

    /// Waits for what `from` sent.
    fn recv(&self, call: &Call, from: usize) -> Result<Buffer>;

    /// Waits until every rank of the group has come here.
    fn barrier(&self, call: &Call) -> Result<()>;
}

/// How many rows go to, and are expected from, each rank of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// The number of elements in a row.
    pub(crate) row: usize,
    /// To each rank, in order of the input.
    pub(crate) send: Vec<usize>,
    /// From each rank, in order of the output.
    pub(crate) receive: Vec<usize>,
}

impl Counts {
    /// The elements of the input that go to `rank`.
    fn run_to(&self, rank: usize) -> Span {
        let before: usize = self.send[..rank].iter().sum();
        Span { start: before * self.row, len: self.send[rank] * self.row }
    }
}
