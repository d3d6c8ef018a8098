//! Performs plans. Decides nothing: each step says what is done.

use std::panic::Location;
use std::sync::Arc;

use candle_core::Tensor;

use super::create::absent;
use super::edge::is_recording;
use super::identity::{identity, padded};
use super::storage::{IntoTensor, buffer_of, tensor_of};
use super::{DTensor, Label};
use crate::comm::{Call, Transport};
use crate::error::{Error, Report, Result};
use crate::placement::{Placement, Placements, ReduceOp};
use crate::plan::{Action, Part, Plan, Prepared, Step};
use crate::spec::{AxisList, Spec};

impl DTensor {
    /// The same global tensor under other placements, one per mesh axis.
    ///
    /// Every rank of the mesh must call this, with the same placements. A dimension with ragged lengths keeps them while
    /// the same axes shard it; see [`rebalance`](DTensor::rebalance). Cutting a replicated tensor gives a view. A rank outside
    /// the mesh need not call this; it gets an absent tensor.
    ///
    /// The new local tensor may be a view of this one's, or one tensor that other ranks hold, too: never write it in place;
    /// copy it first.
    ///
    /// ```
    /// use candle_core::{Device, Tensor};
    /// use local_map::prelude::*;
    /// use local_map::Result;
    /// let columns = launch(2, |world| -> Result<Vec<Vec<i64>>> {
    ///     let mesh = world.mesh([("tp", 2)])?;
    ///     let whole = Tensor::new(&[[1i64, 2, 3], [4, 5, 6]], &Device::Cpu)?;
    ///     let rows = DTensor::shard(&whole, &mesh, &[Shard(0)])?;
    ///     Ok(rows.reshard(&[Shard(1)])?.to_local()?.to_vec2()?)
    /// })?;
    /// assert_eq!(columns, [[vec![1, 2], vec![4, 5]], [vec![3], vec![6]]]);
    /// # Ok::<(), local_map::Error>(())
    /// ```
    ///
    /// # Errors
    /// The placements do not fit the tensor or its mesh; another rank failed, disagrees or does not come.
    #[track_caller]
    pub fn reshard(&self, to: &[Placement]) -> Result<DTensor> {
        self.reshard_at(to, Location::caller())
    }

    pub(crate) fn reshard_at(&self, to: &[Placement], site: &'static Location<'static>) -> Result<DTensor> {
        if **self.placements() == *to {
            return Ok(self.unchanged());
        }
        match (self.mesh().coordinate(), &self.parts.label) {
            (Some(_), _) => self.perform(&*self.mesh().plans().get(self.known()?, to)?, site),
            (None, Label::Known(spec)) => Ok(self.moved_outside(self.relabelled(Arc::new(spec.placed(to)?), None))),
            (None, Label::Placed(_)) => Ok(self.moved_outside(absent(self.mesh(), to)?)),
        }
    }

    /// The same tensor cut as this spec says, whose ragged lengths a list of placements does not tell.
    pub(crate) fn reshard_as(&self, to: &Arc<Spec>, site: &'static Location<'static>) -> Result<DTensor> {
        let from = self.known()?;
        if from.ragged_dims().is_empty() && to.ragged_dims().is_empty() {
            return self.reshard_at(to.placements(), site);
        }
        match from == to {
            true => Ok(self.unchanged()),
            false => self.perform(&Prepared::new(Plan::exactly(from.clone(), to.clone())?), site),
        }
    }

    /// What a reshard that changes nothing gives.
    fn unchanged(&self) -> DTensor {
        if is_recording() { self.clone() } else { self.without_edge() }
    }

    /// The reshard of an absent tensor: its gradient goes where this tensor's goes.
    fn moved_outside(&self, moved: DTensor) -> DTensor {
        match self.edge().cloned().filter(|_| is_recording()) {
            Some(edge) => moved.with_edge(edge),
            None => moved,
        }
    }

    /// The same tensor with every ragged dimension cut by the ceil-chunk rule.
    ///
    /// # Errors
    /// Another rank failed, disagrees or does not come.
    #[track_caller]
    pub fn rebalance(&self) -> Result<DTensor> {
        let site = Location::caller();
        if let Label::Placed(_) = self.parts.label {
            // Absent, and the lengths are not known here.
            return Ok(self.unchanged());
        }
        let plan = Plan::balancing(self.spec()?)?;
        match self.mesh().coordinate() {
            None => Ok(self.moved_outside(self.relabelled(plan.to().clone(), None))),
            Some(_) => self.perform(&Prepared::new(plan), site),
        }
    }

    /// What [`reshard`](DTensor::reshard) would do. No communication.
    ///
    /// # Errors
    /// The placements do not fit the tensor or its mesh.
    pub fn explain(&self, to: &[Placement]) -> Result<Plan> {
        Plan::between(self.spec()?, to)
    }

    /// The global tensor as a plain one, on every rank of the mesh.
    ///
    /// It is detached: call [`backward`](DTensor::backward) on the distributed tensor, not on this one. To differentiate through
    /// the whole tensor, reshard to Replicate, keep that tensor as one of the [`Sources`](crate::call::Sources), and take its
    /// [`to_local`](DTensor::to_local). It may be one tensor that all ranks hold: never write it in place; copy it first.
    ///
    /// # Errors
    /// As for [`reshard`](DTensor::reshard); also on a rank outside the mesh.
    #[track_caller]
    pub fn full(&self) -> Result<Tensor> {
        let whole = Placements::new(self.placements().iter().map(|_| Placement::Replicate));
        self.reshard_at(&whole, Location::caller())?.detached()
    }

    fn relabelled(&self, spec: Arc<Spec>, local: Option<Tensor>) -> DTensor {
        DTensor::assembled(spec, self.mesh().clone(), local)
    }

    fn perform(&self, prepared: &Prepared, site: &'static Location<'static>) -> Result<DTensor> {
        let coord = self.mesh().inside()?;
        let mut local = self.local()?.detach();
        for (index, step) in prepared.plan.steps().iter().enumerate() {
            local = match &step.action {
                Action::Exchange { kind, axes } => {
                    let mut call = described(kind.name(), &step.from, site);
                    call.detail = Some(prepared.detail.clone());
                    let group = self.mesh().group(axes)?;
                    group.ready(&call)?;
                    let leaf = self.needs_grad() && is_recording();
                    exchange(&*group, &call, &local, prepared.part(index, axes, coord), leaf)?
                }
                _ => at_home(step, &local, coord)?,
            };
        }
        let moved = self.relabelled(prepared.plan.to().clone(), Some(local));
        self.passed_on(moved, prepared)
    }

    /// A reshard is the identity on the cotangent, which goes where this tensor's goes. What an exchange made is a leaf already,
    /// as every rank can tell from the plan; what local steps made may be a view, or this tensor's own leaf.
    fn passed_on(&self, moved: DTensor, prepared: &Prepared) -> Result<DTensor> {
        let Some(edge) = self.edge().cloned().filter(|_| is_recording()) else {
            return Ok(moved);
        };
        match prepared.plan.steps().last().map(|step| &step.action) {
            None => Ok(self.clone()),
            Some(Action::Exchange { .. }) => Ok(moved.with_leaf(moved.local()?.clone(), edge)),
            Some(_) => moved.produced_by(edge),
        }
    }
}

/// A call on a tensor of this spec, at the author's line.
pub(super) fn described(name: &'static str, spec: &Spec, site: &'static Location<'static>) -> Call {
    Call { site, ..Call::new(name, spec.dtype(), spec.shape()) }
}

fn exchange(group: &dyn Transport, call: &Call, local: &Tensor, part: &Part, leaf: bool) -> Result<Tensor> {
    let finish = IntoTensor { shape: &part.shape, leaf };
    tensor_of(group.exchange(call, Some(buffer_of(local)?), &part.routes, &finish)?)
}

/// The steps that need no other rank.
fn at_home(step: &Step, local: &Tensor, coord: &[usize]) -> Result<Tensor> {
    match step.action {
        Action::Slice => slice(step, local, coord),
        Action::Embed => embed(step, local, coord),
        Action::Fill => fill(step, local, coord),
        Action::Scale { times, over } => scale(local, times, over),
        Action::Exchange { .. } => Err(Error::Unsupported(Report::new(format!("the step `{step}` has no routes")))),
    }
}

fn slice(step: &Step, local: &Tensor, coord: &[usize]) -> Result<Tensor> {
    let mut part = local.clone();
    for dim in 0..step.from.shape().len() {
        let (old, new) = (step.from.span(dim, coord), step.to.span(dim, coord));
        if old != new {
            // An empty part may start anywhere; candle trips over a view that starts beyond an empty storage.
            let start = if new.len == 0 { 0 } else { new.start - old.start };
            part = part.narrow(dim, start, new.len)?;
        }
    }
    if part.elem_count() == 0 {
        return Ok(Tensor::zeros(part.shape(), part.dtype(), part.device())?);
    }
    Ok(part)
}

fn embed(step: &Step, local: &Tensor, coord: &[usize]) -> Result<Tensor> {
    let becoming = |axis: usize| step.to.placements()[axis].partial_op();
    let axes: AxisList = (0..coord.len())
        .filter(|&a| step.from.placements()[a].shard_dim().is_some() && becoming(a).is_some())
        .collect();
    let Some(op) = axes.iter().find_map(|&a| becoming(a)) else {
        return Ok(local.clone());
    };
    // A mean over n ranks, of which one holds the value, takes n times the value.
    let averaged = axes.iter().filter(|&&a| becoming(a) == Some(ReduceOp::Avg));
    let times = averaged.map(|&a| step.from.mesh().sizes()[a]).product();
    let mut whole = scale(local, times, 1)?;
    for dim in 0..step.from.shape().len() {
        let (old, new) = (step.from.span(dim, coord), step.to.span(dim, coord));
        // An empty piece may start anywhere.
        let left = if old.len == 0 { 0 } else { old.start - new.start };
        whole = padded(&whole, dim, left, new.len - left - old.len, op)?;
    }
    Ok(whole)
}

fn fill(step: &Step, local: &Tensor, coord: &[usize]) -> Result<Tensor> {
    let pairs = step.from.placements().iter().zip(step.to.placements().iter());
    for ((old, new), &c) in pairs.zip(coord) {
        match new.partial_op() {
            Some(op @ (ReduceOp::Sum | ReduceOp::Prod)) if old != new && c != 0 => {
                return identity(op, local.dtype(), local.dims(), local.device());
            }
            _ => {}
        }
    }
    Ok(local.clone())
}

fn scale(local: &Tensor, times: usize, over: usize) -> Result<Tensor> {
    if local.elem_count() == 0 {
        return Ok(local.clone());
    }
    let factor = |n: usize| Tensor::new(n as f64, local.device())?.to_dtype(local.dtype());
    let scaled = if times == 1 { local.clone() } else { local.broadcast_mul(&factor(times)?)? };
    Ok(if over == 1 { scaled } else { scaled.broadcast_div(&factor(over)?)? })
}
