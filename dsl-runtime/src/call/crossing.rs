//! Collectives within a body, differentiated: each cuts the body's graph, and its transpose carries the gradient across.

use candle_core::Tensor;
use candle_core::backprop::GradStore;

use crate::error::Result;
use crate::grad::{add_all, vector_jacobian};
use crate::placement::ReduceOp;
use crate::tensor::Communicator;

/// One collective that a body called.
#[derive(Debug)]
pub(super) struct Crossing {
    /// The body's tensor, with its graph.
    pub(super) input: Tensor,
    /// The leaf that the body went on with.
    pub(super) output: Tensor,
    pub(super) group: Communicator,
    pub(super) transpose: Transpose,
}

/// How the gradient of a collective's output becomes that of its input.
#[derive(Debug)]
pub(super) enum Transpose {
    /// All-reduce by Sum or Avg: its own transpose.
    Reduce(ReduceOp),
    /// All-reduce by Max or Min of this rank's value: the gradient goes where the value is the result; ties share it.
    Extreme { value: Tensor, op: ReduceOp },
    /// All-gather: reduce-scatter.
    Gather { dim: usize, lens: Vec<usize> },
    /// Reduce-scatter by Sum or Avg: all-gather.
    Scatter { dim: usize, lens: Vec<usize>, op: ReduceOp },
    /// All-to-all: the other way.
    Exchange { send: Vec<usize>, receive: Vec<usize> },
    /// Permutation: its inverse.
    Permute(Vec<(usize, usize)>),
    /// Broadcast: reduction to the root.
    Broadcast { root: usize },
}

/// Carries the gradients of the crossings' outputs back, last crossing first, and adds what their inputs get.
///
/// Every rank goes through all of them, with zeros where its body did not use an output.
pub(super) fn carry_back(crossings: Vec<Crossing>, gradients: &mut GradStore) -> Result<()> {
    for crossing in crossings.into_iter().rev() {
        let gradient = match gradients.remove(&crossing.output) {
            Some(gradient) => gradient,
            None => crossing.output.detach().zeros_like()?,
        };
        let cotangent = crossing.transpose.apply(&gradient.detach(), &crossing.group)?;
        add_all(gradients, &vector_jacobian(&[(crossing.input, cotangent)])?)?;
    }
    Ok(())
}

impl Transpose {
    fn apply(&self, gradient: &Tensor, group: &Communicator) -> Result<Tensor> {
        match self {
            Transpose::Reduce(op) => group.all_reduce(gradient, *op),
            Transpose::Extreme { value, op } => {
                let total = group.all_reduce(gradient, ReduceOp::Sum)?;
                group.keep_extremes(value, &total, *op)
            }
            Transpose::Gather { dim, lens } => group.reduce_scatter_parts(gradient, *dim, lens),
            Transpose::Scatter { dim, lens, op } => {
                let gathered = group.all_gather_varying(gradient, *dim, lens)?;
                Ok(if *op == ReduceOp::Avg { (gathered / group.size() as f64)? } else { gathered })
            }
            Transpose::Exchange { send, receive } => group.all_to_all_varying(gradient, receive, send),
            Transpose::Permute(pairs) => {
                let back: Vec<_> = pairs.iter().map(|&(from, to)| (to, from)).collect();
                group.permute(gradient, &back)
            }
            Transpose::Broadcast { root } => {
                let total = group.all_reduce(gradient, ReduceOp::Sum)?;
                Ok(if group.position() == *root { total } else { total.zeros_like()? })
            }
        }
    }
}
