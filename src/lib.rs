//! Write a function over plain tensors, annotate it, and call it on distributed tensors.

pub use local_map_macros::local_map;
pub use local_map_runtime::comm::{DeviceMesh, Launch, World, launch};
pub use local_map_runtime::error::{Error, Report, Result};
pub use local_map_runtime::mesh::Mesh;
pub use local_map_runtime::placement::{self, Placement, Placements, ReduceOp, types};
pub use local_map_runtime::plan::{self, Plan};
pub use local_map_runtime::spec::Spec;
pub use local_map_runtime::tensor::{Communicator, DTensor};

/// What programs import: `use local_map::prelude::*;`.
///
/// `Shard(0)` is a value and a pattern, `Shard<0>` a type.
pub mod prelude {
    pub use crate::local_map;
    pub use crate::{Communicator, DTensor, DeviceMesh, Mesh, Spec, World, launch};
    pub use local_map_runtime::placement::names::*;
    pub use local_map_runtime::placement::types::{All, Any, Avg, Dyn, Max, Min, Partial, Prod, Replicate, Shard, Sum};
}

#[doc(hidden)]
pub mod __private {
    pub use local_map_runtime::call::*;
    pub use local_map_runtime::placement::ReduceOp as Op;
}
