//! Placements: how one mesh axis holds a tensor, as values and as types under the same names.

pub mod types;
mod value;

pub use value::{Placement, Placements, ReduceOp};

/// The values under their short names: `Shard(0)`, `Replicate`, `Partial(Sum)`.
pub mod names {
    pub use super::value::Placement::{self, *};
    pub use super::value::ReduceOp::{self, *};
}
