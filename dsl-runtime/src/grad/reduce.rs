//! Reduction of deferred gradients: one collective for all that can share it.

use std::sync::Arc;

use candle_core::Tensor;

use super::gradients::{Gradient, Gradients};
use crate::error::{Error, Report, Result};
use crate::placement::{Placement, Placements};
use crate::spec::Spec;
use crate::tensor::{DTensor, no_grad};

impl Gradients {
    /// Gives every gradient the placements of its parameter. Those that are partial where their parameter is replicated, on
    /// the same axes of one mesh and of one type, are reduced together, by one all-reduce of one flat bucket.
    ///
    /// Every rank must call this. Gradients that are reduced already stay as they are.
    ///
    /// # Errors
    /// Another rank failed, disagrees or does not come.
    #[track_caller]
    pub fn reduce(&mut self) -> Result<()> {
        let site = std::panic::Location::caller();
        no_grad(|| {
            let mut left = self.leaves();
            while let Some(&first) = left.first() {
                let (bucket, rest): (Vec<u64>, Vec<u64>) =
                    left.iter().partition(|&&leaf| leaf == first || self.share_a_bucket(first, leaf));
                match bucket[..] {
                    [_] => self.reduce_one(first, site)?,
                    _ => self.reduce_bucket(&bucket, site)?,
                }
                left = rest;
            }
            Ok(())
        })
    }

    /// Whether both only need an all-reduce over the same axes.
    fn share_a_bucket(&self, a: u64, b: u64) -> bool {
        let (Some(a), Some(b)) = (self.of_leaves.get(&a), self.of_leaves.get(&b)) else {
            return false;
        };
        let axes = |gradient: &Gradient| {
            all_reduced(gradient.value.placements(), gradient.spec.placements())
                .filter(|_| is_cut_as_its_leaf(gradient))
        };
        a.value.mesh() == b.value.mesh()
            && a.spec.dtype() == b.spec.dtype()
            && axes(a).is_some_and(|x| axes(b) == Some(x))
    }

    fn reduce_one(&mut self, leaf: u64, site: &'static std::panic::Location<'static>) -> Result<()> {
        if let Some(gradient) = self.of_leaves.get_mut(&leaf) {
            gradient.value = gradient.value.reshard_as(&gradient.spec, site)?;
        }
        Ok(())
    }

    fn reduce_bucket(&mut self, bucket: &[u64], site: &'static std::panic::Location<'static>) -> Result<()> {
        let gradients: Vec<_> = bucket.iter().filter_map(|leaf| self.of_leaves.get(leaf).cloned()).collect();
        let flat = gradients.iter().map(|g| Ok(g.value.local()?.flatten_all()?)).collect::<Result<Vec<Tensor>>>()?;
        let Some(first) = gradients.first() else { return Ok(()) };
        let reduced = all_reduce(&Tensor::cat(&flat, 0)?, &first.value, first.spec.placements(), site)?;
        let mut start = 0;
        for (leaf, gradient) in bucket.iter().zip(gradients) {
            let shape = gradient.value.local()?.shape().clone();
            let part = reduced.narrow(0, start, shape.elem_count())?.reshape(&shape)?;
            start += shape.elem_count();
            let value = DTensor::assembled(gradient.spec.clone(), gradient.value.mesh().clone(), Some(part));
            self.insert(*leaf, gradient.spec, value);
        }
        Ok(())
    }
}

/// Whether the pieces are the leaf's once what is partial is reduced: ragged lengths are not told by placements.
fn is_cut_as_its_leaf(gradient: &Gradient) -> bool {
    let reduced = gradient.value.spec().and_then(|spec| spec.placed(gradient.spec.placements()));
    reduced.is_ok_and(|reduced| reduced == *gradient.spec)
}

/// The placements that a flat bucket of such gradients has: partial where they are all-reduced, and as good as replicated on
/// the other axes, along which nothing moves. `None` where more than an all-reduce is needed.
fn all_reduced(from: &Placements, to: &Placements) -> Option<Placements> {
    let mut any = false;
    let axes = from.iter().zip(to.iter()).map(|(old, new)| match (old, new) {
        (Placement::Partial(_), Placement::Replicate) => {
            any = true;
            Some(*old)
        }
        (old, new) if old == new => Some(Placement::Replicate),
        _ => None,
    });
    let bucket = axes.collect::<Option<smallvec::SmallVec<[Placement; 4]>>>()?;
    any.then(|| Placements::new(bucket))
}

fn all_reduce(
    flat: &Tensor,
    like: &DTensor,
    to: &Placements,
    site: &'static std::panic::Location<'static>,
) -> Result<Tensor> {
    let partial = all_reduced(like.placements(), to).unwrap_or_else(|| like.placements().clone());
    // The label is true along the axes that are reduced, which is all that the reshard looks at.
    let spec = Spec::new((**like.mesh()).clone(), &partial, flat.dims(), flat.dtype())?;
    let whole = Placements::new(partial.iter().map(|_| Placement::Replicate));
    DTensor::assembled(Arc::new(spec), like.mesh().clone(), Some(flat.clone())).reshard_at(&whole, site)?.to_local()
}

pub(super) fn require_reduced(gradient: &DTensor) -> Result<()> {
    if gradient.spec()?.partial_axes().is_empty() {
        return Ok(());
    }
    Err(Error::Placement(
        Report::new("a gradient is still partial")
            .on(gradient.mesh())
            .offender(gradient.to_string())
            .advice("call `reduce` on the gradients once per step, before they are used"),
    ))
}

/// The piece of a gradient must be that of its leaf before it is added to it.
pub(super) fn require_placed_as(leaf: &DTensor, gradient: &DTensor) -> Result<()> {
    require_reduced(gradient)?;
    if gradient.spec()? == leaf.spec()? {
        return Ok(());
    }
    Err(Error::Placement(
        Report::new("a gradient is not placed as its parameter")
            .on(gradient.mesh())
            .offender(format!("the gradient: {gradient}"))
            .offender(format!("the parameter: {leaf}"))
            .advice("call `reduce` on the gradients once per step, before they are used"),
    ))
}
