//! The engine for planning: one rank of a world of any size, in one process. Shapes and plans are right; no data moves.

use super::buffer::{Buffer, Finish};
use super::{Call, Counts, Transport};
use crate::error::{Error, Report, Result};
use crate::plan::Routes;

/// The membership of one rank in a group whose other ranks do not exist.
pub(super) struct Fake {
    pub(super) position: usize,
    pub(super) size: usize,
}

fn refuse<T>(call: &Call) -> Result<T> {
    Err(Error::Unsupported(
        Report::new(format!("{call}: the fake engine moves no data"))
            .advice("look at the plan with `explain`, or run the program under `launch`"),
    ))
}

impl Transport for Fake {
    fn position(&self) -> usize {
        self.position
    }

    fn ready(&self, call: &Call) -> Result<()> {
        refuse(call)
    }

    fn size(&self) -> usize {
        self.size
    }

    fn exchange(&self, call: &Call, _: Option<Buffer>, _: &Routes, _: &dyn Finish) -> Result<Buffer> {
        refuse(call)
    }

    fn all_to_all(&self, call: &Call, _: Buffer, _: &Counts, _: &dyn Finish) -> Result<Buffer> {
        refuse(call)
    }

    fn send(&self, call: &Call, _: usize, _: Buffer, _: &dyn Finish) -> Result<()> {
        refuse(call)
    }

    fn recv(&self, call: &Call, _: usize) -> Result<Buffer> {
        refuse(call)
    }

    fn barrier(&self, call: &Call) -> Result<()> {
        refuse(call)
    }
}
