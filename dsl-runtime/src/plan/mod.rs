//! Plans: what a reshard will do, decided from two specs alone, before anything is done.
//!
//! [`Plan::between`] is pure: every rank computes the same plan. The executor performs the steps in order and decides
//! nothing, so a planner that finds cheaper steps can take its place.

mod cache;
mod routes;
mod steps;

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::mesh::Mesh;
use crate::placement::Placement;
use crate::spec::{AxisList, Spec, Typed};

pub(crate) use cache::{Part, PlanCache, Prepared};
pub(crate) use routes::{Fold, Lines, Reduction, Route, Routes};

/// The steps that change the placements of one tensor, in order.
///
/// ```
/// use candle_core::DType;
/// use local_map::prelude::*;
/// use local_map::Plan;
/// let mesh = Mesh::new([("tp", 4)])?;
/// let from = Spec::new(mesh, &[Partial(Sum)], &[256, 256], DType::F32)?;
/// let plan = Plan::between(&from, &[Shard(0)])?;
/// assert_eq!(
///     plan.to_string(),
///     "f32[256, 256] from (Partial(Sum)) to (Shard(0)) on mesh (tp=4)\n  \
///      1. reduce-scatter over `tp` to (Shard(0)): 192 KiB per rank",
/// );
/// # Ok::<(), local_map::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    from: Arc<Spec>,
    to: Arc<Spec>,
    steps: Vec<Step>,
}

/// One step of a plan: an action that turns a tensor of spec `from` into the same tensor of spec `to`.
#[derive(Clone, Debug)]
pub struct Step {
    /// What every rank does.
    pub action: Action,
    /// The spec before the step.
    pub from: Arc<Spec>,
    /// The spec after it.
    pub to: Arc<Spec>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Each rank keeps a part of what it has, as a view. No communication.
    Slice,
    /// Each rank puts its piece among the identity elements of the reduction. No communication.
    Embed,
    /// Ranks other than the first on an axis replace their copy by the identity of the reduction, where the reduction
    /// is not idempotent. No communication.
    Fill,
    /// Each rank multiplies its addend, then divides it. No communication.
    Scale {
        /// The multiplier.
        times: usize,
        /// The divisor.
        over: usize,
    },
    /// The ranks along the axes exchange pieces.
    Exchange {
        /// The collective that this is.
        kind: Collective,
        /// The axes whose ranks take part, flattened in this order.
        axes: AxisList,
    },
}

/// The collective that an exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// Partial to Replicate.
    AllReduce,
    /// Shard to Replicate.
    AllGather,
    /// Partial to Shard.
    ReduceScatter,
    /// Shard to Shard.
    AllToAll,
    /// Several of these at once: each rank receives exactly the pieces of its new part.
    Redistribute,
}

impl Collective {
    /// The name of the operation, as errors and plans print it.
    pub fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "all-reduce",
            Collective::AllGather => "all-gather",
            Collective::ReduceScatter => "reduce-scatter",
            Collective::AllToAll => "all-to-all",
            Collective::Redistribute => "redistribute",
        }
    }
}

impl Plan {
    /// The plan that gives the tensor `from` the placements `to`. A ragged dimension stays ragged while the same axes
    /// shard it.
    ///
    /// # Errors
    /// `to` does not fit the tensor or its mesh; see [`Spec::new`].
    pub fn between(from: &Spec, to: &[Placement]) -> Result<Plan> {
        let to = from.placed(to)?;
        steps::plan(Arc::new(from.clone()), Arc::new(to))
    }

    /// The plan that cuts every ragged dimension of `from` by the ceil-chunk rule.
    ///
    /// # Errors
    /// None for a valid spec.
    pub fn balancing(from: &Spec) -> Result<Plan> {
        steps::plan(Arc::new(from.clone()), Arc::new(from.balanced()))
    }

    /// The plan that gives the tensor `from` the placements, and the lengths, of a tensor of the same shape.
    pub(crate) fn exactly(from: Arc<Spec>, to: Arc<Spec>) -> Result<Plan> {
        steps::plan(from, to)
    }

    /// The spec before the plan.
    pub fn from(&self) -> &Arc<Spec> {
        &self.from
    }

    /// The spec after the plan.
    pub fn to(&self) -> &Arc<Spec> {
        &self.to
    }

    /// The steps, in order; none where there is nothing to do.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The collectives among the steps, in order.
    pub fn collectives(&self) -> impl Iterator<Item = Collective> {
        self.steps.iter().filter_map(|step| match step.action {
            Action::Exchange { kind, .. } => Some(kind),
            _ => None,
        })
    }

    /// The bytes that a rank sends, on average, over all steps.
    pub fn bytes_per_rank(&self) -> usize {
        self.steps.iter().map(Step::bytes_per_rank).sum()
    }
}

impl Step {
    /// The bytes that a rank sends, on average, rounded up. A redistribution is counted as what each rank receives.
    pub fn bytes_per_rank(&self) -> usize {
        let Action::Exchange { kind, axes } = &self.action else {
            return 0;
        };
        let n: usize = axes.iter().map(|&a| self.from.mesh().sizes()[a]).product();
        let after = local_bytes(&self.to);
        // What comes from each other rank, as a part of one n-th of the new piece.
        let parts = match kind {
            Collective::AllReduce => 2,
            Collective::AllGather | Collective::AllToAll => 1,
            Collective::ReduceScatter => n,
            Collective::Redistribute => self.addends(axes),
        };
        (after * parts as f64 * (n - 1) as f64 / n as f64).ceil() as usize
    }

    /// How many ranks' addends make up one element of the new piece.
    fn addends(&self, axes: &[usize]) -> usize {
        let reduced = axes.iter().filter(|&&a| {
            let (old, new) = (self.from.placements()[a], self.to.placements()[a]);
            old.partial_op().is_some() && old != new
        });
        reduced.map(|&a| self.from.mesh().sizes()[a]).product()
    }
}

/// The bytes of one rank's part, on average.
fn local_bytes(spec: &Spec) -> f64 {
    let pairs = spec.placements().iter().zip(spec.mesh().sizes());
    let parts: usize = pairs.filter(|(p, _)| p.shard_dim().is_some()).map(|(_, size)| size).product();
    spec.bytes() as f64 / parts as f64
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (&self.from, &self.to);
        let what = Typed(from.dtype(), from.shape());
        let (old, new) = (from.placements(), to.placements());
        write!(f, "{what} from {old} to {new} on {}", from.mesh())?;
        if self.steps.is_empty() {
            f.write_str("\n  nothing to do")?;
        }
        for (i, step) in self.steps.iter().enumerate() {
            write!(f, "\n  {}. {step}", i + 1)?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = self.to.placements();
        match &self.action {
            Action::Slice => write!(f, "slice to {to}: a view, no communication"),
            Action::Embed => write!(f, "own piece among identities to {to}: no communication"),
            Action::Fill => write!(f, "relabel to {to}, where only the first rank keeps an addend: no communication"),
            Action::Scale { times, over } => {
                write!(f, "scale by {times}/{over} to {to}: no communication")
            }
            Action::Exchange { kind, axes } => {
                let names = AxisNames(self.from.mesh(), axes);
                let bytes = Bytes(self.bytes_per_rank());
                write!(f, "{} over {names} to {to}: {bytes} per rank", kind.name())
            }
        }
    }
}

/// Prints the names of some axes of a mesh.
struct AxisNames<'a>(&'a Mesh, &'a [usize]);

impl fmt::Display for AxisNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, &axis) in self.1.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}`{}`", self.0.name(axis))?;
        }
        Ok(())
    }
}

/// Prints a number of bytes in the largest unit that leaves at least 1.
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        // From 1,023.5 on, a number would print as 1,024 of the smaller unit.
        let unit = units.into_iter().find(|(shift, _)| self.0 as f64 >= 0.9995 * (1u64 << shift) as f64);
        match unit {
            None => write!(f, "{} B", self.0),
            Some((shift, name)) if self.0.trailing_zeros() >= shift => {
                write!(f, "{} {name}", self.0 >> shift)
            }
            Some((shift, name)) => {
                let value = self.0 as f64 / (1u64 << shift) as f64;
                write!(f, "{value:.1} {name}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
