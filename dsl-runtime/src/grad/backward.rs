//! The backward pass: nodes in reverse program order, cotangents converted as late as can be.

use std::collections::{BinaryHeap, HashMap};
use std::panic::Location;
use std::sync::Arc;

use candle_core::Tensor;

use super::gradients::Gradients;
use crate::error::{Error, Report, Result};
use crate::placement::{Placement, Placements, ReduceOp};
use crate::spec::Spec;
use crate::tensor::{DTensor, Edge, Kind, Node, no_grad};

impl DTensor {
    /// The gradients, of this one-element tensor, of everything that it was computed from and that needs a gradient: those of
    /// the *global* function, as if the program had run unsharded on one device.
    ///
    /// Every rank of the mesh must call this, and every rank of the meshes of the regions that it was computed by, where a region
    /// puts results on another mesh. The tape is used up: a second call over the same regions is an
    /// error. On a rank outside the mesh there are the gradients of those other meshes' leaves, if there are any.
    ///
    /// # Errors
    /// The tensor has more than one element or needs no gradient; the tape was used up; another rank failed, disagrees or does
    /// not come.
    pub fn backward(&self) -> Result<Gradients> {
        if self.is_absent() && self.edge().is_none() {
            return Ok(Gradients::default());
        }
        let Some(edge) = self.edge().filter(|_| self.needs_grad()) else {
            return Err(Error::Unsupported(
                Report::new(format!("backward of {self}: nothing that it was computed from needs a gradient")).advice(
                    "make parameters with `Param::new`, or call `requires_grad` on an input, before the forward pass; where plain \
                     code computed it from local pieces, name their tensors in `Sources`",
                ),
            ));
        };
        no_grad(|| {
            let mut pass = Pass::default();
            let seed = if self.is_absent() { None } else { Some(self.seed()?) };
            pass.arrive(edge, seed)?;
            pass.run()
        })
    }

    /// The cotangent of a scalar: one, on every rank.
    fn seed(&self) -> Result<DTensor> {
        let spec = self.spec()?;
        if spec.elements() != 1 {
            return Err(Error::Shape(
                Report::new(format!("backward of {self}: only a tensor of one element has a gradient"))
                    .advice("reduce it to a scalar first, such as by a sum or a mean"),
            ));
        }
        let whole = Placements::new(spec.placements().iter().map(|_| Placement::Replicate));
        let local = self.local()?;
        let one = Tensor::ones(spec.shape(), spec.dtype(), local.device())?;
        Ok(DTensor::assembled(Arc::new(spec.placed(&whole)?), self.mesh().clone(), Some(one)))
    }
}

/// A node that waits for its turn: the last one recorded comes first.
struct Waiting(Arc<Node>);

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.0.order == other.0.order
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        self.0.order.cmp(&other.0.order)
    }
}

/// The cotangents that have arrived and the gradients that are done.
#[derive(Default)]
struct Pass {
    waiting: BinaryHeap<Waiting>,
    arrived: HashMap<u64, Vec<Option<DTensor>>>,
    gradients: Gradients,
}

impl Pass {
    /// Adds a cotangent to those of a node's output. Without one the node still gets its turn, as it does on the ranks that have
    /// one.
    fn arrive(&mut self, edge: &Edge, cotangent: Option<DTensor>) -> Result<()> {
        let waiting = &mut self.waiting;
        let outputs = self.arrived.entry(edge.node.order).or_insert_with(|| {
            waiting.push(Waiting(edge.node.clone()));
            Vec::new()
        });
        let Some(cotangent) = cotangent else { return Ok(()) };
        if outputs.len() <= edge.output {
            outputs.resize(edge.output + 1, None);
        }
        let slot = &mut outputs[edge.output];
        *slot = Some(match slot.take() {
            None => cotangent,
            Some(before) => sum(before, cotangent)?,
        });
        Ok(())
    }

    fn run(mut self) -> Result<Gradients> {
        while let Some(Waiting(node)) = self.waiting.pop() {
            let cotangents = self.arrived.remove(&node.order).unwrap_or_default();
            match &node.kind {
                Kind::Leaf { spec, deferred } => self.finish(&node, spec, *deferred, cotangents)?,
                Kind::Step(_) => self.step(&node, cotangents)?,
            }
        }
        Ok(self.gradients)
    }

    fn step(&mut self, node: &Node, cotangents: Vec<Option<DTensor>>) -> Result<()> {
        let rule = node.take_rule().ok_or_else(|| {
            Error::Unsupported(
                Report::new("backward: a part of the tape was used up by an earlier backward pass")
                    .advice("run the forward pass again, or add the losses up before one backward pass"),
            )
        })?;
        let pulled = rule.pull(cotangents)?;
        self.gradients.add_variables(&pulled.variables)?;
        let mut cotangents = pulled.cotangents.into_iter();
        for edge in &node.inputs {
            let cotangent = cotangents.next().flatten();
            if let Some(edge) = edge {
                self.arrive(edge, cotangent)?;
            }
        }
        Ok(())
    }

    fn finish(
        &mut self,
        node: &Node,
        spec: &Arc<Spec>,
        deferred: bool,
        cotangents: Vec<Option<DTensor>>,
    ) -> Result<()> {
        if let Some(cotangent) = cotangents.into_iter().next().flatten() {
            let gradient = if deferred { cotangent } else { cotangent.reshard_as(spec, Location::caller())? };
            self.gradients.insert(node.order, spec.clone(), gradient);
        }
        Ok(())
    }
}

/// Adds cotangents that may be placed otherwise, without communication where that can be.
pub(super) fn sum(a: DTensor, b: DTensor) -> Result<DTensor> {
    let pairs = a.placements().iter().zip(b.placements().iter());
    let joint = Placements::new(pairs.map(|(x, y)| join(*x, *y)));
    // Lengths that follow no rule are kept, as a tensor with such lengths made them.
    let (a, b) = if b.known()?.ragged_dims().is_empty() { (a, b) } else { (b, a) };
    let a = a.reshard(&joint)?;
    &b.reshard_as(a.known()?, Location::caller())? + &a
}

/// A placement that both can be given: at no cost, unless they are cut along different dimensions.
fn join(a: Placement, b: Placement) -> Placement {
    match (a, b) {
        (Placement::Partial(_), _) | (_, Placement::Partial(_)) => Placement::Partial(ReduceOp::Sum),
        (Placement::Shard(_), _) => a,
        (Placement::Replicate, other) => other,
    }
}
