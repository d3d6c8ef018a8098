//! How a region is differentiated: its body by candle, its labels by the tables.

use std::panic::Location;
use std::sync::Arc;

use candle_core::Tensor;
use smallvec::SmallVec;

use super::context::{Crossings, Region};
use super::crossing::{Crossing, carry_back};
use super::entry::Entry;
use super::region::{Again, Locals};
use super::spec::{Grad, RegionSpec, Want};
use super::verify;
use crate::comm::DeviceMesh;
use crate::error::{Error, Report, Result};
use crate::grad::{Axis, handed, returned, vector_jacobian};
use crate::mesh::Mesh;
use crate::placement::{Placement, Placements, ReduceOp};
use crate::spec::{Spec, Typed};
use crate::tensor::{DTensor, Pulled, Rule};

/// A body that is differentiated by candle.
pub(super) struct BodyRule {
    pub(super) spec: &'static RegionSpec,
    pub(super) site: &'static Location<'static>,
    pub(super) mesh: DeviceMesh,
    pub(super) axes: Vec<Axis>,
    /// `None` for inputs that need no gradient.
    pub(super) inputs: Vec<Option<InputRule>>,
    pub(super) outputs: Vec<OutputRule>,
    pub(super) crossings: Vec<Crossing>,
    /// Inputs that need no gradient: candle computes one all the same.
    pub(super) constants: Vec<Tensor>,
}

/// An input that needs a gradient.
pub(super) struct InputRule {
    /// The leaf that the body saw.
    pub(super) local: Tensor,
    /// The spec of the gradient that the body produces.
    pub(super) gradient: Arc<Spec>,
    /// What it is multiplied by.
    pub(super) factor: f64,
    /// The gradient in words, for messages.
    pub(super) what: String,
}

/// An output that is differentiable.
pub(super) struct OutputRule {
    /// The body's own tensor, with its graph; none on a rank outside the output's mesh.
    pub(super) local: Option<Tensor>,
    pub(super) label: OutputLabel,
}

/// How an output is placed.
#[derive(Clone)]
pub(super) struct OutputLabel {
    pub(super) placements: Placements,
    /// Its spec, if that has lengths that the placements do not tell.
    pub(super) ragged: Option<Arc<Spec>>,
    /// The mesh that it lives on, if that is not the region's.
    pub(super) on: Option<DeviceMesh>,
}

/// The labels of the gradient that a body produces for an input, and its factor; `None` where it is not differentiable.
pub(super) fn labels(input: &Placements, given: Grad, mesh: &Mesh, axes: &[Axis]) -> Option<(Placements, f64)> {
    let mut factor = 1.0;
    let mut labels = Placements::new([]);
    for (placement, axis) in input.iter().zip(axes) {
        let (label, by) = returned(*placement, *axis)?;
        factor *= by;
        labels.push(label);
    }
    let entry = match given {
        Grad::Default => return Some((labels, factor)),
        Grad::Placed(wanted) => Entry::Axes(wanted),
        Grad::Named(axes, rest) => Entry::Named { axes, rest },
    };
    let wanted = entry.on(mesh, |axis, _| labels.get(axis).copied().map_or(Want::Replicate, Want::from));
    Some((Placements::new(wanted.iter().map(|want| want.placement())), factor))
}

impl Rule for BodyRule {
    fn pull(self: Box<Self>, cotangents: Vec<Option<DTensor>>) -> Result<Pulled> {
        let mut seeds = Vec::new();
        for (output, cotangent) in self.outputs.iter().zip(cotangents) {
            if let (Some(local), Some(cotangent)) = (&output.local, cotangent) {
                seeds.push((local.clone(), self.hand_over(local, &output.label, &cotangent)?));
            }
        }
        let mut gradients = vector_jacobian(&seeds)?;
        carry_back(self.crossings, &mut gradients)?;
        self.constants.iter().for_each(|constant| drop(gradients.remove(constant)));
        // The same tensor may be given twice; its whole gradient comes out once.
        let verifies = verify::wanted(self.spec);
        let mut cotangents = Vec::new();
        for input in &self.inputs {
            let own = input.as_ref().map(|input| input.labelled(&self.mesh, gradients.remove(&input.local)));
            let own = own.transpose()?;
            if let (Some(own), Some(input), true) = (&own, input, verifies) {
                verify::verify(&self.mesh, self.site, &input.what, own)?;
            }
            cotangents.push(own);
        }
        Ok(Pulled { cotangents, variables: gradients })
    }
}

/// Whether a result with these placements has a gradient.
pub(super) fn is_differentiable(placements: &[Placement], axes: impl IntoIterator<Item = Axis>) -> bool {
    placements.iter().zip(axes).all(|(placement, axis)| handed(*placement, Placement::Replicate, axis).is_some())
}

impl BodyRule {
    /// Whether outputs with these labels can all be differentiated.
    pub(super) fn check_outputs(&self, outputs: &[OutputLabel]) -> Result<()> {
        match outputs.iter().find(|label| !is_differentiable(&label.placements, self.axes_of(label))) {
            None => Ok(()),
            Some(label) => Err(Error::Placement(
                Report::new(format!("{}: a result cannot be differentiated", self.spec.name))
                    .on(self.mesh_of(label))
                    .offender(format!("it is {}", label.placements))
                    .advice("reduce it inside the body, or run the region under `no_grad`"),
            )),
        }
    }

    fn mesh_of<'a>(&'a self, label: &'a OutputLabel) -> &'a DeviceMesh {
        label.on.as_ref().unwrap_or(&self.mesh)
    }

    /// The axes of an output's mesh; none of another mesh is invariant.
    fn axes_of(&self, label: &OutputLabel) -> SmallVec<[Axis; 4]> {
        match &label.on {
            None => self.axes.iter().copied().collect(),
            Some(mesh) => mesh.sizes().iter().map(|&size| Axis { size, invariant: false }).collect(),
        }
    }

    /// The local cotangent that a body is handed for an output, whose local value this is.
    fn hand_over(&self, value: &Tensor, label: &OutputLabel, cotangent: &DTensor) -> Result<Tensor> {
        let mut factor = 1.0;
        let mut wanted = Placements::new([]);
        let pairs = label.placements.iter().zip(cotangent.placements().iter());
        for ((placement, arrives), axis) in pairs.zip(self.axes_of(label)) {
            // Outputs were checked when the region was recorded.
            let (want, by) = handed(*placement, *arrives, axis).unwrap_or((Placement::Replicate, 0.0));
            factor *= by;
            wanted.push(want);
        }
        let cut = match &label.ragged {
            None => cotangent.reshard(&wanted)?,
            Some(spec) => cotangent.reshard_as(&Arc::new(spec.placed(&wanted)?), self.site)?,
        };
        let local = cut.to_local()?;
        let local = if factor == 1.0 { local } else { (local * factor)? };
        match extremes(&label.placements) {
            None => Ok(local),
            Some((op, axes)) => {
                self.mesh_of(label).communicator_over(&axes)?.keep_extremes(&value.detach(), &local, op)
            }
        }
    }
}

/// The axes over which an output is a maximum or a minimum; a spec has only one of the two.
fn extremes(placements: &Placements) -> Option<(ReduceOp, SmallVec<[usize; 4]>)> {
    let is = |p: &Placement| p.partial_op().filter(|op| matches!(op, ReduceOp::Max | ReduceOp::Min));
    let op = placements.iter().find_map(is)?;
    let axes = placements.iter().enumerate().filter(|(_, p)| is(p).is_some());
    Some((op, axes.map(|(axis, _)| axis).collect()))
}

impl InputRule {
    /// The gradient that the body produced, labelled; zeros where it did not touch the input.
    fn labelled(&self, mesh: &DeviceMesh, gradient: Option<Tensor>) -> Result<DTensor> {
        let piece = self.gradient.piece(mesh.inside()?).shape();
        let local = match gradient {
            Some(gradient) if self.factor == 1.0 => gradient,
            Some(gradient) => (gradient * self.factor)?,
            None => Tensor::zeros(&*piece, self.local.dtype(), self.local.device())?,
        };
        if *local.dims() != *piece {
            return Err(Error::Shape(
                Report::new(format!("{} does not fit its label", self.what))
                    .on(mesh)
                    .offender(format!(
                        "it is {}, its label {} needs {piece:?}",
                        Typed(local.dtype(), local.dims()),
                        self.gradient.placements()
                    ))
                    .advice("correct `grad` in the attribute, or leave it out"),
            ));
        }
        Ok(DTensor::assembled(self.gradient.clone(), mesh.clone(), Some(local.detach())))
    }
}

/// A region whose body runs again in the backward pass.
pub(super) struct RunAgain {
    /// Without outputs, which the body gives anew.
    pub(super) rule: BodyRule,
    pub(super) body: Again,
    pub(super) tensors: SmallVec<[Tensor; 4]>,
    /// Those of the outputs.
    pub(super) labels: Vec<OutputLabel>,
    pub(super) number: u64,
}

impl Rule for RunAgain {
    fn pull(self: Box<Self>, cotangents: Vec<Option<DTensor>>) -> Result<Pulled> {
        let RunAgain { mut rule, body, tensors, labels, number } = *self;
        let crossings = Crossings::default();
        let region = Region::new(rule.mesh.clone(), number, Some(crossings));
        let locals = Locals::new(tensors, region);
        let again = body(&locals)?;
        if again.len() != labels.len() {
            return Err(Error::Unsupported(
                Report::new(format!(
                    "{}: the body returned another number of tensors when it ran again",
                    rule.spec.name
                ))
                .advice("make the body depend on its parameters and the context's seeds only"),
            ));
        }
        let outputs = again.into_iter().zip(labels);
        rule.outputs = outputs.map(|(local, label)| OutputRule { local: Some(local), label }).collect();
        rule.crossings = locals.region.into_crossings();
        Box::new(rule).pull(cotangents)
    }
}
