//! Regions on the tape: what is kept of a call, and how its body is differentiated.

use std::sync::Arc;

use candle_core::Tensor;

use super::region::{Handed, Region};
use crate::comm::DeviceMesh;
use crate::error::{Error, Report, Result};
use crate::grad::{Axis, handed, returned, vector_jacobian};
use crate::placement::{Placement, Placements, ReduceOp};
use crate::spec::{AxisList, Spec};
use crate::tensor::{DTensor, Node, Pulled, Rule, is_recording};

/// A labelled result that is differentiable.
pub(super) struct Recorded {
    /// The body's own tensor, with its graph.
    pub(super) local: Tensor,
    pub(super) placements: Placements,
}

/// The node of a call, if an input needs a gradient. The same decision on every rank of the mesh.
pub(super) fn node(mesh: &DeviceMesh, inputs: &[Handed<'_>]) -> Option<Arc<Node>> {
    let needed = inputs.iter().any(|input| input.tensor.needs_grad());
    let records = needed && is_recording() && mesh.coordinate().is_some();
    records.then(|| Node::step(inputs.iter().map(|input| input.tensor.edge().cloned()).collect()))
}

/// Gives the node of a call its rule.
///
/// # Errors
/// An input or output is partial in a way that cannot be differentiated: said now, not in the backward pass.
pub(super) fn record(region: &Region<'_>, locals: &[Tensor], outputs: &mut Vec<Recorded>) -> Result<()> {
    let Some(node) = &region.node else { return Ok(()) };
    let inputs = region.inputs.iter().zip(locals).map(|(input, local)| {
        let spec = input.tensor.edge().map(|_| input.tensor.known().cloned()).transpose()?;
        Ok(spec.map(|spec| RecordedInput { local: local.clone(), spec }))
    });
    let rule = BodyRule {
        mesh: region.mesh.clone(),
        axes: axes(region, outputs),
        inputs: inputs.collect::<Result<_>>()?,
        outputs: std::mem::take(outputs),
    };
    rule.check(region)?;
    node.set_rule(Box::new(rule));
    Ok(())
}

fn axes(region: &Region<'_>, outputs: &[Recorded]) -> Vec<Axis> {
    let inputs = region.inputs.iter().map(|input| input.tensor.placements());
    let all: Vec<&Placements> = inputs.chain(outputs.iter().map(|o| &o.placements)).collect();
    let sizes = region.mesh.sizes().iter().enumerate();
    let axis = |(axis, &size): (usize, &usize)| {
        let invariant = all.iter().all(|placements| placements[axis] == Placement::Replicate);
        Axis { size, invariant }
    };
    sizes.map(axis).collect()
}

/// What the body saw of an input that needs a gradient.
struct RecordedInput {
    /// The leaf.
    local: Tensor,
    spec: Arc<Spec>,
}

/// A body that is differentiated by candle.
struct BodyRule {
    mesh: DeviceMesh,
    axes: Vec<Axis>,
    /// `None` for inputs that need no gradient.
    inputs: Vec<Option<RecordedInput>>,
    outputs: Vec<Recorded>,
}

impl Rule for BodyRule {
    fn pull(self: Box<Self>, cotangents: Vec<Option<DTensor>>) -> Result<Pulled> {
        let mut seeds = Vec::new();
        for (output, cotangent) in self.outputs.iter().zip(cotangents) {
            if let Some(cotangent) = cotangent {
                seeds.push((output.local.clone(), self.handed(output, &cotangent)?));
            }
        }
        let mut gradients = vector_jacobian(&seeds)?;
        // The same tensor may be given twice; its whole gradient comes out once.
        let mut cotangents = Vec::new();
        for input in &self.inputs {
            let own = input.as_ref().map(|input| self.returned(input, gradients.remove(&input.local)));
            cotangents.push(own.transpose()?);
        }
        Ok(Pulled { cotangents, variables: gradients })
    }
}

impl BodyRule {
    /// The local cotangent that the body is handed for an output.
    fn handed(&self, output: &Recorded, cotangent: &DTensor) -> Result<Tensor> {
        let mut factor = 1.0;
        let mut wanted = Placements::new([]);
        for (axis, (placement, arrives)) in output.placements.iter().zip(cotangent.placements().iter()).enumerate() {
            let (want, by) = handed(*placement, *arrives, self.axes[axis]).unwrap_or((Placement::Replicate, 0.0));
            factor *= by;
            wanted.push(want);
        }
        let local = cotangent.reshard(&wanted)?.to_local()?;
        let local = if factor == 1.0 { local } else { (local * factor)? };
        match extremes(&output.placements) {
            None => Ok(local),
            Some((op, axes)) => self.keep_extremes(&output.local.detach(), local, op, &axes),
        }
    }

    /// Keeps the cotangent where this rank's value is the reduced one; equal values on several ranks share it.
    fn keep_extremes(&self, value: &Tensor, cotangent: Tensor, op: ReduceOp, axes: &AxisList) -> Result<Tensor> {
        let names: Vec<String> = axes.iter().map(|&axis| self.mesh.name(axis)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let group = self.mesh.communicator(&names)?;
        let kept = value.eq(&group.all_reduce(value, op)?)?.to_dtype(value.dtype())?;
        let ties = group.all_reduce(&kept, ReduceOp::Sum)?;
        Ok((cotangent * (kept / ties)?)?)
    }

    /// The gradient that the body produced for an input; zeros where it did not touch it.
    fn returned(&self, input: &RecordedInput, gradient: Option<Tensor>) -> Result<DTensor> {
        let mut factor = 1.0;
        let mut labels = Placements::new([]);
        for (axis, placement) in input.spec.placements().iter().enumerate() {
            let (label, by) = returned(*placement, self.axes[axis]).unwrap_or((Placement::Replicate, 0.0));
            factor *= by;
            labels.push(label);
        }
        let local = match gradient {
            Some(gradient) if factor == 1.0 => gradient,
            Some(gradient) => (gradient * factor)?,
            None => input.local.detach().zeros_like()?,
        };
        let spec = Arc::new(input.spec.placed(&labels)?);
        Ok(DTensor::assembled(spec, self.mesh.clone(), Some(local.detach())))
    }

    /// Whether all inputs and outputs can be differentiated.
    fn check(&self, region: &Region<'_>) -> Result<()> {
        let refused = |what: String, placements: &Placements| {
            Error::Placement(
                Report::new(format!("{}: {what} cannot be differentiated", region.spec.name))
                    .on(&self.mesh)
                    .offender(format!("it is {placements}"))
                    .advice("reshard it first, or run the region under `no_grad`"),
            )
        };
        for (handed, input) in region.inputs.iter().zip(&self.inputs) {
            if let Some(input) = input
                && !self.all(input.spec.placements(), |p, axis| returned(p, axis).is_some())
            {
                let name = region.spec.params.get(handed.param).map_or("?", |param| param.name);
                return Err(refused(format!("argument `{name}`"), input.spec.placements()));
            }
        }
        for output in &self.outputs {
            if !self.all(&output.placements, |p, axis| handed(p, Placement::Replicate, axis).is_some()) {
                return Err(refused("a result".to_owned(), &output.placements));
            }
        }
        Ok(())
    }

    fn all(&self, placements: &Placements, fits: impl Fn(Placement, Axis) -> bool) -> bool {
        placements.iter().zip(&self.axes).all(|(placement, axis)| fits(*placement, *axis))
    }
}

/// The axes over which an output is a maximum or a minimum; a spec has only one of the two.
fn extremes(placements: &Placements) -> Option<(ReduceOp, AxisList)> {
    let is = |p: &Placement| p.partial_op().filter(|op| matches!(op, ReduceOp::Max | ReduceOp::Min));
    let op = placements.iter().find_map(is)?;
    let axes = placements.iter().enumerate().filter(|(_, p)| is(p).is_some());
    Some((op, axes.map(|(axis, _)| axis).collect()))
}
