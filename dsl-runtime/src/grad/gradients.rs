//! The gradients of one backward pass, or of several added up.

use std::collections::HashMap;
use std::sync::Arc;

use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};

use super::backward::sum;
use super::vjp::add_all;
use crate::error::Result;
use crate::spec::Spec;
use crate::tensor::{DTensor, Kind, no_grad};

/// Gradients by the tensor that they belong to.
///
/// Each has the placements of its tensor, except those of parameters that [defer](super::Param::defer_reduction) their reduction:
/// these stay partial until [`reduce`](Gradients::reduce).
#[derive(Default)]
pub struct Gradients {
    /// By the order of the leaf's node.
    pub(super) of_leaves: HashMap<u64, Gradient>,
    variables: GradStore,
}

/// The gradient of one leaf.
#[derive(Clone)]
pub(super) struct Gradient {
    /// The leaf's own.
    pub(super) spec: Arc<Spec>,
    pub(super) value: DTensor,
}

/// How many there are, without any data.
impl std::fmt::Debug for Gradients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gradients(of {} leaves)", self.of_leaves.len())
    }
}

impl Gradients {
    pub(super) fn insert(&mut self, leaf: u64, spec: Arc<Spec>, value: DTensor) {
        self.of_leaves.insert(leaf, Gradient { spec, value });
    }

    /// The gradient of a [`Param`](super::Param), or of a tensor that [needs one](DTensor::requires_grad); `None` if the differentiated tensor
    /// does not depend on it, and on a rank outside the mesh of the leaf.
    pub fn get(&self, leaf: &DTensor) -> Option<&DTensor> {
        let edge = leaf.edge()?;
        let Kind::Leaf { .. } = edge.node.kind else { return None };
        self.of_leaves.get(&edge.node.order).map(|gradient| &gradient.value)
    }

    /// The gradient of a candle variable that a body reached beside its distributed arguments: this rank's own, not reduced.
    pub fn local(&self, variable: &Var) -> Option<&Tensor> {
        self.variables.get(variable.as_tensor())
    }

    /// How many leaves have a gradient.
    pub fn len(&self) -> usize {
        self.of_leaves.len()
    }

    /// Whether no leaf has a gradient.
    pub fn is_empty(&self) -> bool {
        self.of_leaves.is_empty()
    }

    /// The leaves in program order, which is the same on every rank.
    pub(super) fn leaves(&self) -> Vec<u64> {
        let mut leaves: Vec<u64> = self.of_leaves.keys().copied().collect();
        leaves.sort_unstable();
        leaves
    }

    /// Adds the gradients of another pass, such as another micro-batch's.
    ///
    /// # Errors
    /// Another rank failed, disagrees or does not come; nothing is communicated where both are placed alike.
    pub fn add(&mut self, other: Gradients) -> Result<()> {
        no_grad(|| {
            for leaf in other.leaves() {
                let Some(theirs) = other.of_leaves.get(&leaf).cloned() else { continue };
                match self.of_leaves.get_mut(&leaf) {
                    None => drop(self.of_leaves.insert(leaf, theirs)),
                    Some(ours) => ours.value = sum(ours.value.clone(), theirs.value)?,
                }
            }
            self.add_variables(&other.variables)
        })
    }

    pub(super) fn add_variables(&mut self, other: &GradStore) -> Result<()> {
        add_all(&mut self.variables, other)
    }

    /// The gradients as candle's optimizers take them: by each parameter's [variable](DTensor::var), the local pieces.
    ///
    /// # Errors
    /// A gradient is still partial, or not yet placed as its parameter: call [`reduce`](Gradients::reduce) first.
    pub fn to_store<'a, P: std::borrow::Borrow<DTensor> + 'a>(
        &self,
        params: impl IntoIterator<Item = &'a P>,
    ) -> Result<GradStore> {
        let mut store = GradStore::default();
        for param in params {
            let Some(gradient) = self.get(param.borrow()) else { continue };
            super::reduce::require_placed_as(param.borrow(), gradient)?;
            let local = gradient.to_local()?;
            // An empty piece has nothing to step, and candle's optimizers fail on one.
            if local.elem_count() > 0 {
                store.insert(param.borrow().var()?.as_tensor(), local);
            }
        }
        Ok(store)
    }
}
