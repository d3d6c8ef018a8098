//! Distributed tensors over candle tensors.

mod arithmetic;
mod collectives;
mod create;
#[cfg(feature = "cuda")]
mod cuda;
mod edge;
mod identity;
mod layout;
mod reshard;
mod storage;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use candle_core::{DType, Tensor};
use ref_cast::{RefCastCustom, ref_cast_custom};

use crate::comm::DeviceMesh;
use crate::error::Result;
use crate::placement::Placements;
use crate::placement::types::Dyn;
use crate::spec::Spec;

pub use collectives::Communicator;
pub(crate) use create::gathered_lengths;
pub use edge::no_grad;
pub(crate) use edge::{Edge, Kind, Node, Pulled, Rule, is_recording};
pub(crate) use storage::{digest, no_elements};

/// A tensor that is spread over the ranks of a mesh.
///
/// Each rank holds its *local* tensor; the [`Spec`] says how the locals make up the global tensor. A rank outside the
/// mesh holds an *absent* tensor, which has a mesh, placements and no local. It has a spec where this rank could know it:
/// not if it is the result of a region, whose shape is known only to the ranks that ran the body. Cheap to clone.
///
/// The layout `L` says what the compiler knows of the placements: a tuple with one placement per mesh axis, such as
/// `(Shard<0>, Replicate)`, or nothing, [`Dyn`]. Constructors give `DTensor<Dyn>`, annotated functions what their `out` says. A tensor with a
/// known layout can be used as one without: it derefs to `DTensor<Dyn>`, and [`erase`](DTensor::erase) or `into` forget the layout.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use local_map::prelude::*;
/// use local_map::Result;
/// let totals = launch(2, |world| -> Result<Vec<f32>> {
///     let mesh = world.mesh([("dp", 2)])?;
///     let local = Tensor::new(&[1f32, 2.0], &Device::Cpu)?;
///     let sum = DTensor::from_local(local, &mesh, &[Partial(Sum)])?;
///     Ok(sum.full()?.to_vec1()?)
/// })?;
/// assert_eq!(totals, [[2.0, 4.0], [2.0, 4.0]]);
/// # Ok::<(), local_map::Error>(())
/// ```
#[derive(RefCastCustom)]
#[repr(transparent)]
pub struct DTensor<L = Dyn> {
    parts: Parts,
    #[trivial]
    layout: PhantomData<fn() -> L>,
}

/// All of a tensor but what the compiler knows of it.
#[derive(Clone)]
struct Parts {
    label: Label,
    mesh: DeviceMesh,
    /// A leaf of candle's where there is an edge.
    local: Option<Tensor>,
    /// Where the gradient goes, if one is needed.
    edge: Option<Edge>,
}

/// What this rank knows of a tensor. A tensor that is not absent has a known spec.
#[derive(Clone)]
enum Label {
    Known(Arc<Spec>),
    /// A tensor that was made elsewhere, as by the body of a region: its shape and element type are known there.
    Placed(Placements),
}

impl DTensor {
    /// Puts the parts together; `local` is this rank's piece of `spec`, or `None` outside the mesh.
    pub(crate) fn assembled(spec: Arc<Spec>, mesh: DeviceMesh, local: Option<Tensor>) -> DTensor {
        DTensor::new(Parts { label: Label::Known(spec), mesh, local, edge: None })
    }

    /// A tensor of which this rank, outside the mesh, knows the placements only.
    pub(crate) fn absent(placements: Placements, mesh: DeviceMesh) -> DTensor {
        DTensor::new(Parts { label: Label::Placed(placements), mesh, local: None, edge: None })
    }

    #[ref_cast_custom]
    fn of(parts: &Parts) -> &DTensor;

    /// The same label with other contents.
    fn with(&self, local: Option<Tensor>, edge: Option<Edge>) -> DTensor {
        DTensor::new(Parts { local, edge, ..self.parts.clone() })
    }

    /// The mesh, the placements, the global shape and the element type.
    ///
    /// # Errors
    /// [`Error::Absent`](crate::error::Error::Absent) for a tensor that was made on a mesh that this rank is outside of, by a
    /// region, [`from_local`](DTensor::from_local) or [`shard_from`](DTensor::shard_from): its shape is not known here.
    pub fn spec(&self) -> Result<&Spec> {
        self.known().map(|spec| &**spec)
    }

    pub(crate) fn known(&self) -> Result<&Arc<Spec>> {
        match &self.parts.label {
            Label::Known(spec) => Ok(spec),
            Label::Placed(_) => Err(self.outside("the shape of a tensor")),
        }
    }

    fn outside(&self, wanted: &str) -> crate::error::Error {
        self.mesh().outside(self.mesh().world().rank()).within(wanted)
    }

    /// The mesh, bound to this rank.
    pub fn mesh(&self) -> &DeviceMesh {
        &self.parts.mesh
    }

    /// One placement per mesh axis.
    pub fn placements(&self) -> &Placements {
        match &self.parts.label {
            Label::Known(spec) => spec.placements(),
            Label::Placed(placements) => placements,
        }
    }

    /// The shape of the global tensor.
    ///
    /// # Errors
    /// As for [`spec`](DTensor::spec).
    pub fn shape(&self) -> Result<&[usize]> {
        self.spec().map(Spec::shape)
    }

    /// The element type.
    ///
    /// # Errors
    /// As for [`spec`](DTensor::spec).
    pub fn dtype(&self) -> Result<DType> {
        self.spec().map(Spec::dtype)
    }

    /// Whether this rank is outside the mesh.
    pub fn is_absent(&self) -> bool {
        self.parts.local.is_none()
    }

    /// Whether [`backward`](DTensor::backward) of what is computed from this tensor goes through it: it needs a gradient itself,
    /// or was computed from one that does. The same on every rank of the mesh.
    pub fn needs_grad(&self) -> bool {
        // Integers may have an edge, which only says that other ranks cannot know that they are integers.
        self.parts.edge.is_some() && self.spec().map_or(true, |spec| spec.dtype().is_float())
    }

    /// Whether its own gradient is wanted: it was made by [`requires_grad`](DTensor::requires_grad), or is a parameter.
    pub fn is_leaf(&self) -> bool {
        self.parts.edge.as_ref().is_some_and(|edge| matches!(edge.node.kind, Kind::Leaf { .. }))
    }

    pub(crate) fn edge(&self) -> Option<&Edge> {
        self.parts.edge.as_ref()
    }

    /// The same tensor with this leaf of candle's as its local one.
    pub(crate) fn with_leaf(&self, leaf: Tensor, edge: Edge) -> DTensor {
        self.with(Some(leaf), Some(edge))
    }

    /// The same tensor as the output of a recorded node; the local piece, if there is one, is copied into a leaf.
    pub(crate) fn produced_by(&self, edge: Edge) -> Result<DTensor> {
        match &self.parts.local {
            Some(local) => Ok(self.with_leaf(crate::grad::leaf_of(local)?, edge)),
            None => Ok(self.with_edge(edge)),
        }
    }

    /// The same tensor with an edge along which no cotangent goes: it is absent, or of integers.
    pub(crate) fn with_edge(&self, edge: Edge) -> DTensor {
        self.with(self.parts.local.clone(), Some(edge))
    }

    /// The same tensor, whose gradient goes nowhere.
    pub(crate) fn without_edge(&self) -> DTensor {
        self.with(self.parts.local.clone(), None)
    }

    /// This rank's piece.
    ///
    /// Where the tensor [needs a gradient](DTensor::needs_grad), outside [`no_grad`], candle keeps the graph of what is computed
    /// from the piece, and gradients flow back through it once [`Sources`](crate::call::Sources) label the result; otherwise it is
    /// detached. Call [`backward`](DTensor::backward) on distributed tensors only. It may be one tensor that other ranks hold,
    /// too, or a view of one: never write it in place, nor make a candle `Var` of it, which may share its storage; copy it first.
    ///
    /// # Errors
    /// [`Error::Absent`](crate::error::Error::Absent) on a rank outside the mesh.
    pub fn to_local(&self) -> Result<Tensor> {
        match self.edge() {
            Some(_) if is_recording() => self.local().cloned(),
            _ => self.detached(),
        }
    }

    /// This rank's piece, as a value only.
    pub(crate) fn detached(&self) -> Result<Tensor> {
        self.local().map(Tensor::detach)
    }

    pub(crate) fn local(&self) -> Result<&Tensor> {
        self.parts.local.as_ref().ok_or_else(|| self.outside("the local piece of a tensor"))
    }
}

impl<L> DTensor<L> {
    fn new(parts: Parts) -> DTensor<L> {
        DTensor { parts, layout: PhantomData }
    }
}

impl<L> Clone for DTensor<L> {
    fn clone(&self) -> Self {
        DTensor::new(self.parts.clone())
    }
}

/// One line without any data.
impl<L> fmt::Display for DTensor<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parts.label {
            Label::Known(spec) => write!(f, "{spec} on {}, ", self.parts.mesh)?,
            Label::Placed(placements) => write!(f, "{placements} on {}, ", self.parts.mesh)?,
        }
        match &self.parts.local {
            Some(local) => write!(f, "local {:?}", local.dims()),
            None => f.write_str("absent here"),
        }
    }
}

impl<L> fmt::Debug for DTensor<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DTensor({self})")
    }
}
