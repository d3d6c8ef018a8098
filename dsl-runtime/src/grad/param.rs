//! Parameters: leaves of the tape that own their storage.

use std::ops::Deref;

use candle_core::Var;

use super::vjp::leaf_of;
use crate::error::{Error, Report, Result};
use crate::placement::types::Dyn;
use crate::tensor::{DTensor, Edge, Node};

impl<L> DTensor<L> {
    /// The same tensor as one whose gradient is wanted: [`backward`](DTensor::backward) of what is computed from it reports it,
    /// in its own placements. The local piece is copied once.
    ///
    /// # Errors
    /// The tensor is partial (its gradient could not be), or not of floating point.
    pub fn requires_grad(&self) -> Result<DTensor<L>> {
        self.as_leaf(false)
    }

    fn as_leaf(&self, deferred: bool) -> Result<DTensor<L>> {
        self.as_dyn().leaf(deferred).map(DTensor::keeping)
    }
}

impl DTensor {
    /// This rank's piece of a leaf, such as a parameter of a layer, as the variable that candle's optimizers change in place.
    ///
    /// # Errors
    /// The tensor is no leaf, or this rank is outside the mesh.
    pub fn var(&self) -> Result<Var> {
        let local = self.local()?;
        if !self.is_leaf() {
            return Err(Error::Unsupported(
                Report::new(format!("{self} is no parameter"))
                    .advice("make it one with `Param::new` or `requires_grad` before it is used"),
            ));
        }
        // The local tensor is a variable already, which is shared, not copied.
        Ok(Var::from_tensor(local)?)
    }

    fn leaf(&self, deferred: bool) -> Result<DTensor> {
        // Of an absent tensor the element type may not be known here; the ranks inside the mesh refuse.
        let fault = if self.spec().is_ok_and(|spec| !spec.dtype().is_float()) {
            Some("its elements are not of floating point")
        } else if self.placements().iter().any(|placement| placement.partial_op().is_some()) {
            Some("it is partial: no rank holds a value that could be changed")
        } else {
            None
        };
        if let Some(fault) = fault {
            return Err(Error::Placement(
                Report::new(format!("{self} cannot have a gradient"))
                    .offender(fault)
                    .advice("convert it, or reshard it to Replicate or Shard, first"),
            ));
        }
        if self.is_absent() {
            return Ok(self.without_edge());
        }
        let node = Node::leaf(self.known()?.clone(), deferred);
        let local = leaf_of(self.local()?)?;
        Ok(self.with_leaf(local, Edge { node, output: 0 }))
    }
}

/// A parameter: a distributed tensor whose gradient is wanted and that owns its storage, so that an optimizer may write it in
/// place. Use it wherever a `&DTensor` goes; its layout is that of the tensor that it was made from.
pub struct Param<L = Dyn>(DTensor<L>);

impl<L> Param<L> {
    /// A parameter with a copy of this value.
    ///
    /// # Errors
    /// As for [`DTensor::requires_grad`].
    pub fn new(value: &DTensor<L>) -> Result<Param<L>> {
        value.as_leaf(false).map(Param)
    }

    /// The same parameter, whose gradient stays partial in [`backward`](DTensor::backward), to be reduced once per step by
    /// [`Gradients::reduce`](super::Gradients::reduce).
    ///
    /// # Errors
    /// None for a parameter.
    pub fn defer_reduction(self) -> Result<Param<L>> {
        self.0.as_leaf(true).map(Param)
    }

    /// This rank's piece as the variable that candle's optimizers change in place.
    ///
    /// # Errors
    /// This rank is outside the mesh.
    pub fn var(&self) -> Result<Var> {
        self.0.as_dyn().var()
    }
}

impl<L> std::borrow::Borrow<DTensor> for Param<L> {
    fn borrow(&self) -> &DTensor {
        self.0.as_dyn()
    }
}

impl<L> AsRef<DTensor> for Param<L> {
    fn as_ref(&self) -> &DTensor {
        self.0.as_dyn()
    }
}

impl<L> Deref for Param<L> {
    type Target = DTensor<L>;
    fn deref(&self) -> &DTensor<L> {
        &self.0
    }
}

/// The tensor, which stays the same leaf: its gradient is found, and an optimizer steps it, under either.
impl<L> From<Param<L>> for DTensor {
    fn from(param: Param<L>) -> DTensor {
        param.0.erase()
    }
}

impl<L> std::fmt::Debug for Param<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Param({})", self.0)
    }
}
