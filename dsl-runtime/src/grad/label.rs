//! The two tables: what cotangent a body is handed for an output, and how the gradient that it produces for an input is
//! labelled. Per mesh axis.

use crate::placement::{Placement, ReduceOp};

/// One mesh axis as a region sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    /// Its size.
    pub(crate) size: usize,
    /// Every distributed input and output is replicated on it, and the body does not communicate: all ranks along it compute
    /// the same, and so do their gradients.
    pub(crate) invariant: bool,
}

/// The placement that the cotangent of an output must get on this axis, and what it is multiplied by; `arrives` is the
/// placement that it has. `None` where the output is not differentiable.
pub(crate) fn handed(output: Placement, arrives: Placement, axis: Axis) -> Option<(Placement, f64)> {
    let share = 1.0 / axis.size as f64;
    Some(match output {
        Placement::Shard(_) => (output, 1.0),
        Placement::Partial(ReduceOp::Sum | ReduceOp::Max | ReduceOp::Min) => (Placement::Replicate, 1.0),
        Placement::Partial(ReduceOp::Avg) => (Placement::Replicate, share),
        Placement::Partial(_) => return None,
        Placement::Replicate if axis.invariant => (Placement::Replicate, 1.0),
        // Addends of the cotangent may be spread over the replicas as they are.
        Placement::Replicate if arrives == Placement::Partial(ReduceOp::Sum) => (arrives, 1.0),
        Placement::Replicate => (Placement::Replicate, share),
    })
}

/// The placement of the gradient that the body produced for an input on this axis, and what it is multiplied by. `None` where
/// the input is not differentiable.
pub(crate) fn returned(input: Placement, axis: Axis) -> Option<(Placement, f64)> {
    Some(match input {
        Placement::Shard(_) => (input, 1.0),
        Placement::Replicate if axis.invariant => (Placement::Replicate, 1.0),
        Placement::Replicate => (Placement::Partial(ReduceOp::Sum), 1.0),
        Placement::Partial(ReduceOp::Sum) => (Placement::Replicate, 1.0),
        Placement::Partial(ReduceOp::Avg) => (Placement::Replicate, axis.size as f64),
        Placement::Partial(_) => return None,
    })
}
