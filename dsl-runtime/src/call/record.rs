//! Regions on the tape: what is kept of a call for its backward pass.

use std::sync::Arc;

use candle_core::Tensor;

use super::elsewhere::Elsewhere;
use super::region::{Again, Handed, Locals, Running};
use super::rule::{BodyRule, InputRule, OutputLabel, OutputRule, RunAgain};
use crate::comm::DeviceMesh;
use crate::error::{Error, Report, Result};
use crate::grad::Axis;
use crate::placement::{Placement, Placements};
use crate::tensor::{Node, is_recording};

/// The node of a call, if an input needs a gradient. The same decision on every rank of the mesh, and on those outside it that
/// the gradient goes on to.
pub(super) fn node(mesh: &DeviceMesh, inputs: &[Handed<'_>], elsewhere: &Elsewhere) -> Option<Arc<Node>> {
    let needed = inputs.iter().any(|input| input.tensor.edge().is_some());
    if !needed || !is_recording() {
        return None;
    }
    let edges = inputs.iter().map(|input| input.tensor.edge().cloned()).collect();
    Some(match mesh.coordinate() {
        Some(_) => Node::step_to(edges, !elsewhere.is_empty()),
        None => Node::outside(edges),
    })
}

/// Gives the node of a call its rule.
///
/// # Errors
/// An input or output is partial in a way that cannot be differentiated: said now, not in the backward pass.
pub(super) fn record(
    region: &Running<'_>,
    locals: Locals,
    outputs: Vec<OutputRule>,
    again: Option<Again>,
) -> Result<()> {
    let Some(node) = &region.node else { return Ok(()) };
    let axes = axes(region, &outputs);
    let labels: Vec<OutputLabel> = outputs.iter().map(|o| o.label.clone()).collect();
    // A body that runs again gives its outputs anew: nothing of the first run is kept.
    let outputs = if again.is_some() { Vec::new() } else { outputs };
    let rule = BodyRule {
        spec: region.spec,
        site: region.site,
        mesh: region.mesh.clone(),
        inputs: region.inputs.iter().map(|input| input_rule(region, input, &axes)).collect::<Result<_>>()?,
        outputs,
        constants: constants(region, &locals.tensors),
        crossings: locals.region.into_crossings(),
        axes,
    };
    rule.check_outputs(&labels)?;
    match again {
        None => node.set_rule(Box::new(rule)),
        Some(body) => {
            let tensors = region.inputs.iter().map(|input| input.tensor.local().cloned());
            let tensors = tensors.collect::<Result<_>>()?;
            node.set_rule(Box::new(RunAgain { rule, body, tensors, labels, number: region.number }));
        }
    }
    Ok(())
}

fn constants(region: &Running<'_>, locals: &[Tensor]) -> Vec<Tensor> {
    let pairs = region.inputs.iter().zip(locals);
    pairs.filter(|(input, _)| !input.tensor.needs_grad()).map(|(_, local)| local.clone()).collect()
}

fn axes(region: &Running<'_>, outputs: &[OutputRule]) -> Vec<Axis> {
    let inputs = region.inputs.iter().map(|input| input.tensor.placements());
    let all: Vec<&Placements> = inputs.chain(outputs.iter().map(|o| &o.label.placements)).collect();
    // What lives on another mesh depends on which ranks are there: no axis says that all along it compute the same.
    let alike = !region.spec.context && region.elsewhere.is_empty();
    let sizes = region.mesh.sizes().iter().enumerate();
    let axis = |(axis, &size): (usize, &usize)| {
        let replicated = || all.iter().all(|placements| placements[axis] == Placement::Replicate);
        Axis { size, invariant: alike && replicated() }
    };
    sizes.map(axis).collect()
}

/// What is kept of an input that needs a gradient.
fn input_rule(region: &Running<'_>, input: &Handed<'_>, axes: &[Axis]) -> Result<Option<InputRule>> {
    if !input.tensor.needs_grad() {
        return Ok(None);
    }
    let param = super::inputs::param_name(input);
    let placements = input.tensor.placements();
    let (labels, factor) = super::rule::labels(placements, *input.grad, &region.mesh, axes).ok_or_else(|| {
        Error::Placement(
            Report::new(format!("{}: argument `{param}` cannot be differentiated", region.spec.name))
                .on(&region.mesh)
                .offender(format!("it is {placements}"))
                .advice("reshard it first, or run the region under `no_grad`"),
        )
    })?;
    let what = format!("{}: the gradient of argument `{param}`", region.spec.name);
    let gradient = input.tensor.known()?.placed(&labels).map_err(|e| e.within(&what))?;
    Ok(Some(InputRule { local: input.tensor.local()?.clone(), gradient: Arc::new(gradient), factor, what }))
}
