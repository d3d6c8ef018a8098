//! Gradients of the global function.
//!
//! The tape consists of nodes that tensors hold: one per region and per sum or scaling, in program order. Within a node
//! candle differentiates; between nodes this module does. A reshard needs no node: it is the identity on the cotangent,
//! which is converted only when a node, or a leaf, needs it placed otherwise. Backward goes through the nodes in reverse
//! program order on every rank, whatever the bodies did there, so that all ranks issue the same collectives in the same
//! order; a gradient that is missing locally is zeros.

mod backward;
mod clip;
mod gradients;
mod label;
mod linear;
mod param;
mod reduce;
mod vjp;

pub use gradients::Gradients;
pub(crate) use label::{Axis, handed, returned};
pub(crate) use linear::record as record_linear;
pub use param::Param;
pub(crate) use vjp::{add_all, leaf_of, vector_jacobian};
