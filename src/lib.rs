//! Write a function over plain tensors, annotate it, and call it on distributed tensors.
//!
//! A [`DTensor`] is a tensor that is spread over the ranks of a mesh: along each mesh axis it is cut
//! ([`Shard`](Placement::Shard)), whole on every rank ([`Replicate`](Placement::Replicate)), or made up of partial values
//! ([`Partial`](Placement::Partial)). The attribute [`local_map`] turns a function over plain [candle] tensors into a *region*
//! over distributed ones: it checks how the arguments are placed, hands each rank's local pieces to the body, and labels
//! what the body returns.
//!
//! [candle]: https://docs.rs/candle-core
//!
//! ```
//! use candle_core::{DType, Device, Result, Tensor};
//! use local_map::prelude::*;
//!
//! /// Rows of `x` are spread over the ranks, `w` is whole on each: no communication.
//! #[local_map(in = [[Shard(0)], [Replicate]], out = [Shard(0)])]
//! fn project(x: &Tensor, w: &Tensor) -> Result<Tensor> {
//!     x.matmul(w)
//! }
//!
//! /// Each rank squares and adds up its rows; the addends make up the sum.
//! #[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
//! fn energy(x: &Tensor) -> Result<Tensor> {
//!     x.sqr()?.sum_all()
//! }
//!
//! let energies = launch(3, |world| -> Result<f32> {
//!     let mesh = world.mesh([("dp", 3)])?;
//!     let x = Tensor::ones((7, 4), DType::F32, &Device::Cpu)?; // 3, 3 and 1 rows
//!     let w = Tensor::ones((4, 2), DType::F32, &Device::Cpu)?;
//!     let x = DTensor::shard(&x, &mesh, &[Shard(0)])?;
//!     let w = DTensor::from_local(w, &mesh, &[Replicate])?;
//!     energy(&project(&x, &w)?)?.full()?.to_scalar()
//! })?;
//! assert_eq!(energies, [224.0; 3]); // 14 elements of 4 squared, on every rank
//! # Ok::<(), local_map::Error>(())
//! ```
//!
//! # Where things are
//!
//! * [`launch`] runs a program on several ranks, as threads of one process; each gets its [`World`].
//! * [`World::mesh`] arranges ranks in a named grid, a [`DeviceMesh`].
//! * [`DTensor`] has the constructors, [`reshard`](DTensor::reshard) and [`full`](DTensor::full).
//! * [`Communicator`] has collectives on plain tensors, for code beside regions.
//! * [`ops`] has functions for bodies that must also run on an empty shard.
//! * [`Error`] says what was being done, on which mesh, who offends and what to do.
//!
//! # Environment
//!
//! | variable | meaning |
//! |---|---|
//! | `RAYON_NUM_THREADS=1` | one compute thread per rank; without it candle detects the cores anew in every matrix product |
//! | `LOCAL_MAP_TIMEOUT` | the longest that a rank waits for others, in seconds (600) |
//! | `LOCAL_MAP_CHECK=1` | verify after every region that replicas are bitwise equal and shapes fit |

pub use local_map_macros::local_map;
pub use local_map_runtime::comm::{DeviceMesh, Launch, World, launch};
pub use local_map_runtime::error::{Error, Report, Result};
pub use local_map_runtime::grad::{Gradients, Param};
pub use local_map_runtime::mesh::Mesh;
pub use local_map_runtime::ops;
pub use local_map_runtime::placement::{Placement, Placements, ReduceOp, types};
pub use local_map_runtime::plan::{self, Plan};
pub use local_map_runtime::shard;
pub use local_map_runtime::spec::{Ragged, Spec};
pub use local_map_runtime::call::Region;
pub use local_map_runtime::tensor::{Communicator, DTensor, no_grad};

/// What programs import: `use local_map::prelude::*;`.
///
/// `Shard(0)` is a value and a pattern, `Shard<0>` a type. Nothing here is called `Result`, `Error`, `Layout` or `Context`,
/// which candle has.
pub mod prelude {
    pub use crate::{
        Communicator, DTensor, DeviceMesh, Gradients, Mesh, Param, Region, Spec, World, launch, local_map, no_grad,
    };
    pub use local_map_runtime::placement::names::*;
    pub use local_map_runtime::placement::types::{All, Any, Avg, Dyn, Max, Min, Partial, Prod, Replicate, Shard, Sum};
}

/// What the attribute's expansion uses. Not for programs.
#[doc(hidden)]
pub mod __private {
    pub use local_map_runtime::call::*;
    pub use local_map_runtime::placement::ReduceOp as Op;
}

/// The README's program runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
