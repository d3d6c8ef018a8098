//! Regions: one call of an annotated function, from distributed tensors through the body and back.
//!
//! The attribute generates, per function, a static [`RegionSpec`] and a wrapper that drives a [`RegionCall`].

mod argument;
mod context;
mod crossing;
mod elsewhere;
mod entry;
mod inputs;
mod label;
mod layer;
mod outcome;
mod outputs;
mod path;
mod record;
mod region;
mod rule;
mod sources;
mod spec;
mod verify;

pub use argument::{Argument, Held};
pub use context::Region;
pub use entry::Entry;
pub use layer::{Distribute, HandOver, HeldLayer, KeepLayer, KeptLayer, joined};
pub use outcome::Outcome;
pub use outputs::{Detached, Dist, Distributable, Labels, Outputs, Placed, Plain, Typed, places_itself};
pub use region::{Locals, RegionCall, kept};
pub use sources::Sources;
pub use spec::{Grad, Out, Param, RegionSpec, Want};
