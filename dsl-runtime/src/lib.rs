//! The runtime behind `local-map`: meshes, placements, distributed tensors, reshards and communicators.
//!
//! Programs use the facade crate `local-map`, which re-exports what they need. The modules build on each other in this
//! order, each using only those before it: [`placement`], [`mesh`], [`shard`], [`spec`], [`plan`], [`comm`], [`tensor`],
//! [`grad`], [`call`].

pub mod call;
pub mod comm;
pub mod error;
pub mod grad;
pub mod mesh;
pub mod ops;
pub mod placement;
pub mod plan;
pub mod shard;
pub mod spec;
pub mod tensor;
