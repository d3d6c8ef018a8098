//! Meshes, placements, distributed tensors, reshards and communicators: the runtime behind `local-map`.
//!
//! Each module uses only those before it in this list.

pub mod error;
pub mod placement;
pub mod mesh;
pub mod shard;
pub mod spec;
pub mod plan;
pub mod comm;
pub mod tensor;
pub mod call;
