//! The planner: at most one exchange, then the local steps that make partial placements.
//!
//! An exchange moves everything in one step, whatever changes on however many axes: each rank receives exactly the
//! pieces of its new part, reduced on arrival. It goes over the fewest axes that hold those pieces.

use std::sync::Arc;

use super::{Action, Collective, Plan, Step};
use crate::error::Result;
use crate::placement::{Placement, Placements, ReduceOp};
use crate::spec::{AxisList, Spec};

pub(super) fn plan(from: Arc<Spec>, to: Arc<Spec>) -> Result<Plan> {
    let mut builder = Builder { current: from.clone(), steps: Vec::new() };
    if from != to {
        builder.exchange(&to)?;
        builder.embed(&to)?;
        builder.fill(&to)?;
        builder.scale(&to)?;
        // Lengths that only the target has are cut last.
        builder.exchange(&to)?;
    }
    Ok(Plan { from, to, steps: builder.steps })
}

/// The steps so far and the spec that they lead to.
struct Builder {
    current: Arc<Spec>,
    steps: Vec<Step>,
}

impl Builder {
    fn push(&mut self, action: Action, to: Spec) {
        let to = Arc::new(to);
        let from = std::mem::replace(&mut self.current, to.clone());
        self.steps.push(Step { action, from, to });
    }

    /// Goes as far towards `to` as moving and reducing data can.
    fn exchange(&mut self, to: &Spec) -> Result<()> {
        let goal = goal(&self.current, to)?;
        if goal == *self.current {
            return Ok(());
        }
        let axes = axes_to_cross(&self.current, &goal);
        let action = if axes.is_empty() {
            Action::Slice
        } else {
            let kind = kind(&self.current, &goal, &axes);
            Action::Exchange { kind, axes }
        };
        self.push(action, goal);
        Ok(())
    }

    /// Shard to Partial, where the own piece lies within the new part.
    fn embed(&mut self, to: &Spec) -> Result<()> {
        let step = |old: Placement, new: Placement| match (old, new) {
            (Placement::Shard(_), Placement::Partial(_)) => new,
            _ => old,
        };
        self.relabel(to, step, Action::Embed)
    }

    /// Replicate to Partial.
    fn fill(&mut self, to: &Spec) -> Result<()> {
        let step = |old: Placement, new: Placement| match (old, new) {
            (Placement::Replicate, Placement::Partial(_)) => new,
            _ => old,
        };
        self.relabel(to, step, Action::Fill)
    }

    /// Sum to Avg and back.
    fn scale(&mut self, to: &Spec) -> Result<()> {
        let (mut times, mut over) = (1, 1);
        for (axis, (old, new)) in changes(&self.current, to) {
            let size = self.current.mesh().sizes()[axis];
            match (old.partial_op(), new.partial_op()) {
                (Some(ReduceOp::Sum), Some(ReduceOp::Avg)) => times *= size,
                (Some(ReduceOp::Avg), Some(ReduceOp::Sum)) => over *= size,
                _ => {}
            }
        }
        self.relabel(to, |_, new| new, Action::Scale { times, over })
    }

    fn relabel(&mut self, to: &Spec, step: impl Fn(Placement, Placement) -> Placement, action: Action) -> Result<()> {
        let placements = map_pairs(&self.current, to, step);
        if placements != *self.current.placements() {
            let next = self.current.placed(&placements)?;
            self.push(action, next);
        }
        Ok(())
    }
}

fn map_pairs(from: &Spec, to: &Spec, f: impl Fn(Placement, Placement) -> Placement) -> Placements {
    let pairs = from.placements().iter().zip(to.placements().iter());
    Placements::new(pairs.map(|(&old, &new)| f(old, new)))
}

/// The axes whose placements differ, with both.
fn changes(from: &Spec, to: &Spec) -> impl Iterator<Item = (usize, (Placement, Placement))> {
    let pairs = from.placements().iter().copied().zip(to.placements().iter().copied());
    pairs.enumerate().filter(|(_, (old, new))| old != new)
}

/// The target with every placement that only local steps can make replaced by the one that they start from.
fn goal(from: &Spec, to: &Spec) -> Result<Spec> {
    if from.placements() == to.placements() {
        return Ok(to.clone());
    }
    let embedding = from.placed(&map_pairs(from, to, |old, new| before_local(old, new, old)))?;
    if embedding.placements() == to.placements() {
        return Ok(to.clone());
    }
    if (0..from.shape().len()).all(|dim| embeds(&embedding, to, dim)) {
        return Ok(embedding);
    }
    from.placed(&map_pairs(from, to, |old, new| before_local(old, new, Placement::Replicate)))
}

/// What the local steps start from to make `new`; `shard` where `old` is a shard that becomes partial.
fn before_local(old: Placement, new: Placement, shard: Placement) -> Placement {
    match (old, new) {
        (Placement::Partial(a), Placement::Partial(b)) if a.is_linear() && b.is_linear() => old,
        (Placement::Shard(_), Placement::Partial(_)) => shard,
        (_, Placement::Partial(_)) if old != new => Placement::Replicate,
        _ => new,
    }
}

/// Whether each rank's part of `dim` in `from` lies within its part in `to`, which fewer axes cut.
fn embeds(from: &Spec, to: &Spec, dim: usize) -> bool {
    let (old, new) = (from.axes_of(dim), to.axes_of(dim));
    let by_rule = from.ragged_of(dim).is_none() || new.is_empty();
    old == new || (old.starts_with(&new) && by_rule)
}

/// The axes along which ranks hold data that others need.
///
/// A reduced axis is one. So is, for a dimension whose cuts change, every axis that cuts it after the leading axes that
/// cut it before and after: up to there, each rank's new part lies within its old one.
fn axes_to_cross(from: &Spec, to: &Spec) -> AxisList {
    let mut axes: AxisList =
        changes(from, to).filter(|(_, (old, _))| old.partial_op().is_some()).map(|(axis, _)| axis).collect();
    for dim in 0..from.shape().len() {
        let (old, new) = (from.axes_of(dim), to.axes_of(dim));
        let leading = if from.ragged_of(dim) == to.ragged_of(dim) {
            old.iter().zip(&new).take_while(|(a, b)| a == b).count()
        } else {
            0
        };
        axes.extend(old.iter().skip(leading).copied());
    }
    axes.retain(|axis| from.mesh().sizes()[*axis] > 1);
    axes.sort_unstable();
    axes.dedup();
    axes
}

/// The name of the exchange, where all its axes do the same.
fn kind(from: &Spec, to: &Spec, axes: &[usize]) -> Collective {
    let mut kinds = axes.iter().map(|&axis| match (from.placements()[axis], to.placements()[axis]) {
        (Placement::Partial(_), Placement::Replicate) => Collective::AllReduce,
        (Placement::Shard(_), Placement::Replicate) => Collective::AllGather,
        (Placement::Partial(_), Placement::Shard(_)) => Collective::ReduceScatter,
        (Placement::Shard(a), Placement::Shard(b)) if a != b && axes.len() == 1 => Collective::AllToAll,
        _ => Collective::Redistribute,
    });
    let first = kinds.next().unwrap_or(Collective::Redistribute);
    if kinds.all(|kind| kind == first) { first } else { Collective::Redistribute }
}
