//! What a rank says of the collective it calls, so that ranks that disagree are told, not left waiting.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::sync::Arc;

use candle_core::DType;

use crate::error::{Error, Report};
use crate::placement::ReduceOp;
use crate::shard::Dims;
use crate::spec::Typed;

/// The one collective that moves no tensor.
pub(crate) const BARRIER: &str = "barrier";

/// One rank's description of a collective. All but `site` must be equal on all ranks.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The operation, as `all-reduce`.
    pub(crate) name: &'static str,
    /// The element type.
    pub(crate) dtype: DType,
    /// The shape that all ranks must agree on: of the local tensor where locals are equal, or else the global one.
    pub(crate) shape: Dims,
    /// The reduction, if any.
    pub(crate) op: Option<ReduceOp>,
    /// The root's position, if there is one.
    pub(crate) root: Option<usize>,
    /// What else must be equal, as text.
    pub(crate) detail: Option<Arc<str>>,
    /// Where the author called it.
    pub(crate) site: &'static Location<'static>,
}

impl Call {
    /// A call of `name` on elements of type `dtype`, at the caller's line.
    #[track_caller]
    pub(crate) fn new(name: &'static str, dtype: DType, shape: &[usize]) -> Call {
        Call { name, dtype, shape: shape.into(), op: None, root: None, detail: None, site: Location::caller() }
    }

    /// Whether two ranks called the same.
    pub(crate) fn agrees(&self, other: &Call) -> bool {
        self.name == other.name
            && self.dtype == other.dtype
            && self.shape == other.shape
            && self.op == other.op
            && self.root == other.root
            && self.detail == other.detail
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(op) = self.op {
            write!(f, "({op})")?;
        }
        if self.name != BARRIER {
            write!(f, " of {}", Typed(self.dtype, &self.shape))?;
        }
        if let Some(root) = self.root {
            write!(f, " with root {root}")?;
        }
        if let Some(detail) = &self.detail {
            write!(f, " {detail}")?;
        }
        write!(f, " at {}", self.site)
    }
}

/// A hash of all that must be equal: ranks compare these first, which touches little of each other's memory.
pub(super) fn fingerprint(call: &Call) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    let Call { name, dtype, shape, op, root, detail, site: _ } = call;
    (name, dtype, shape, op, root, detail).hash(&mut hasher);
    hasher.finish()
}

/// An error if the calls of a group differ; `calls` are in group order with world ranks. The same on every rank.
pub(super) fn check_agreement<'a>(calls: impl Iterator<Item = (usize, &'a Call)> + Clone) -> Result<(), Error> {
    let mut rest = calls.clone();
    let Some((_, first)) = rest.next() else {
        return Ok(());
    };
    if rest.all(|(_, call)| call.agrees(first)) {
        return Ok(());
    }
    let only_shapes = calls.clone().all(|(_, call)| Call { shape: first.shape.clone(), ..call.clone() }.agrees(first));
    let (what, advice) = if only_shapes {
        (
            "the ranks of a group give different shapes for one operation",
            "a tensor of uneven pieces is made by `DTensor::from_local_ragged`, or by a region with `ragged` in its `out`; within a \
             body, call `all_gather_varying`",
        )
    } else {
        (
            "the ranks of a group called different operations",
            "make every rank of the group call the same operation, with the same arguments, in the same order",
        )
    };
    let report = calls.fold(Report::new(what), |r, (rank, call)| r.offender(format!("rank {rank}: {call}")));
    Err(Error::Mismatch(report.advice(advice)))
}
