//! Plain tensors on the tape: what they were computed from is named, never read from candle's graph, which ranks differ in.

use std::borrow::Borrow;
use std::panic::Location;
use std::sync::Arc;

use candle_core::Tensor;

use super::rule::{BodyRule, InputRule, OutputLabel, OutputRule, is_differentiable, labels};
use super::spec::{Grad, RegionSpec};
use crate::comm::DeviceMesh;
use crate::error::{Error, Report, Result};
use crate::grad::Axis;
use crate::placement::{Placement, Placements, ReduceOp};
use crate::spec::Spec;
use crate::tensor::{DTensor, Edge, Node, is_recording};

/// The code beside regions, as a region of its own. What it communicates is unknown: no axis is invariant.
static FROM_LOCAL: RegionSpec = RegionSpec::new("from_local", &[], &[]).context();

/// The distributed tensors that plain candle code computes from, named so that gradients flow back through it.
///
/// Take the [local pieces](DTensor::to_local) of distributed tensors, compute with them, and label the result with
/// [`from_local`](Sources::from_local): it needs a gradient if a source does, on every rank alike, whatever a rank has computed
/// from it; a rank that computed nothing from a source contributes zeros. What was computed from a tensor that is not named gets no
/// gradient there.
///
/// The result and the sources are treated as those of a region with a context: what a rank computes may differ from what the
/// others do. So the gradients that the ranks have for a `Replicate` source add up, and each rank is handed an equal share of that
/// of a `Replicate` result.
///
/// | result | its gradient is handed over | | source | the gradient that the ranks compute is |
/// |---|---|---|---|---|
/// | `Shard(d)` | as `Shard(d)` | | `Shard(d)` | `Shard(d)` |
/// | `Replicate` | as `Replicate`, divided by the ranks, or as the `Partial(Sum)` that it is | | `Replicate` | `Partial(Sum)` |
/// | `Partial(Sum)` | as `Replicate` | | `Partial(Sum)` | `Replicate` |
/// | `Partial(Avg)` | as `Replicate`, divided by the ranks | | `Partial(Avg)` | `Replicate`, times the ranks |
/// | `Partial(Max)` or `Min` | where the local value is the result | | other `Partial` | an error |
///
/// A `Partial` source is meaningful only to code whose result is linear in it, such as a sum or a scaling. Collectives of a
/// [`Communicator`](crate::tensor::Communicator) on the way cut the flow of gradients: where one is needed, write a region with a
/// context.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use local_map::prelude::*;
/// use local_map::Result;
/// let gradients = launch(2, |world| -> Result<Vec<Vec<f64>>> {
///     let mesh = world.mesh([("dp", 2)])?;
///     let x = Tensor::new(&[1f64, 2.0, 3.0], &Device::Cpu)?; // 2 elements and 1
///     let x = DTensor::shard(&x, &mesh, &[Shard(0)])?.requires_grad()?;
///     let w = DTensor::from_local(Tensor::new(&[2f64], &Device::Cpu)?, &mesh, &[Replicate])?.requires_grad()?;
///     let energy = x.to_local()?.broadcast_mul(&w.to_local()?)?.sqr()?.sum_all()?;
///     let loss = Sources::new([&x, &w]).from_local(energy, &mesh, &[Partial(Sum)])?;
///     let gradients = loss.backward()?;
///     [&x, &w].into_iter().map(|leaf| Ok(gradients.get(leaf).unwrap().full()?.to_vec1()?)).collect()
/// })?;
/// assert_eq!(gradients, [[vec![8.0, 16.0, 24.0], vec![56.0]], [vec![8.0, 16.0, 24.0], vec![56.0]]]);
/// # Ok::<(), local_map::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sources<'a> {
    tensors: Vec<&'a DTensor>,
    /// The labels of gradients that were given, by the index of their source.
    labels: Vec<(usize, Placements)>,
}

impl<'a> Sources<'a> {
    /// These tensors, in this order: all tensors or all [parameters](crate::grad::Param), which `&*w` makes tensors of.
    pub fn new<P: Borrow<DTensor> + 'a>(tensors: impl IntoIterator<Item = &'a P>) -> Sources<'a> {
        Sources { tensors: tensors.into_iter().map(P::borrow).collect(), labels: Vec::new() }
    }

    /// Says how the gradient is placed that the ranks compute for the source with this index, where the table does not: such as
    /// Replicate for a replicated source from which all ranks compute the same. The ranks' parts of a Partial gradient add up, so
    /// it is `Partial(Sum)`.
    ///
    /// What does not fit is an error when the result is labelled.
    #[must_use]
    pub fn grad(mut self, source: usize, placements: &[Placement]) -> Sources<'a> {
        self.labels.retain(|(index, _)| *index != source);
        self.labels.push((source, placements.into()));
        self
    }

    /// As [`DTensor::from_local`], with gradients for the sources. The local tensor is copied once, if one is needed.
    ///
    /// # Errors
    /// The placements do not fit the tensor or the mesh; a source lives on another mesh; a label does not fit its source; a source
    /// or the result is partial in a way that cannot be differentiated.
    #[track_caller]
    pub fn from_local(&self, local: Tensor, mesh: &DeviceMesh, placements: &[Placement]) -> Result<DTensor> {
        let site = Location::caller();
        self.recorded(local, mesh, placements, site, |local| DTensor::from_local(local, mesh, placements))
            .map_err(|e| e.called_at(site))
    }

    /// As [`DTensor::from_local_of`], with gradients for the sources: the pieces follow the ceil-chunk rule.
    ///
    /// # Errors
    /// As for [`from_local`](Sources::from_local); also a local tensor that is not the piece that this rank must hold.
    #[track_caller]
    pub fn from_local_of(
        &self,
        local: Tensor,
        mesh: &DeviceMesh,
        placements: &[Placement],
        shape: &[usize],
    ) -> Result<DTensor> {
        let site = Location::caller();
        self.recorded(local, mesh, placements, site, |local| DTensor::from_local_of(local, mesh, placements, shape))
            .map_err(|e| e.called_at(site))
    }

    /// As [`DTensor::from_local_ragged`], with gradients for the sources: the ranks exchange the lengths of their pieces.
    ///
    /// # Errors
    /// As for [`from_local`](Sources::from_local); also another rank failed, disagrees or does not come.
    #[track_caller]
    pub fn from_local_ragged(&self, local: Tensor, mesh: &DeviceMesh, placements: &[Placement]) -> Result<DTensor> {
        let site = Location::caller();
        self.recorded(local, mesh, placements, site, |local| DTensor::from_local_ragged(local, mesh, placements))
            .map_err(|e| e.called_at(site))
    }

    /// Labels the local tensor; a node of the tape if a source needs a gradient. The same decision on every rank of the mesh, and on
    /// those outside it that the gradient goes on to.
    fn recorded(
        &self,
        local: Tensor,
        mesh: &DeviceMesh,
        placements: &[Placement],
        site: &'static Location<'static>,
        label: impl FnOnce(Tensor) -> Result<DTensor>,
    ) -> Result<DTensor> {
        self.check_meshes(mesh)?;
        self.check_labels(mesh)?;
        let edges: Vec<Option<Edge>> = self.tensors.iter().map(|source| source.edge().cloned()).collect();
        if edges.iter().all(Option::is_none) || !is_recording() {
            return label(local);
        }
        if mesh.coordinate().is_none() {
            return Ok(label(local)?.with_edge(Edge { node: Node::outside(edges), output: 0 }));
        }
        if !local.dtype().is_float() {
            let labelled = label(local)?;
            // Ranks outside the mesh cannot tell that it has no gradient: their backward pass goes through it.
            return Ok(match Node::any_beyond(&edges) {
                true => labelled.with_edge(Edge { node: Node::outside(edges), output: 0 }),
                false => labelled,
            });
        }
        let axes: Vec<Axis> = mesh.sizes().iter().map(|&size| Axis { size, invariant: false }).collect();
        let inputs = self.rules(mesh, &axes)?;
        check_result(mesh, placements, &axes)?;
        let labelled = label(local.clone())?;
        let ragged = Some(labelled.known()?).filter(|spec| !spec.ragged_dims().is_empty()).cloned();
        let label = OutputLabel { placements: labelled.placements().clone(), ragged, on: None };
        let outputs = vec![OutputRule { local: Some(local), label }];
        let (spec, mesh, crossings, constants) = (&FROM_LOCAL, mesh.clone(), Vec::new(), Vec::new());
        let node = Node::step(edges);
        node.set_rule(Box::new(BodyRule { spec, site, mesh, axes, inputs, outputs, crossings, constants }));
        labelled.produced_by(Edge { node, output: 0 })
    }

    fn check_meshes(&self, mesh: &DeviceMesh) -> Result<()> {
        if self.tensors.iter().all(|source| source.mesh().is_same(mesh)) {
            return Ok(());
        }
        let report = Report::new("from_local: the sources live on different meshes than the result");
        let report = report.offender(format!("the result: {mesh}"));
        let sources = self.tensors.iter().enumerate();
        let report = sources.fold(report, |report, (index, source)| {
            report.offender(format!("source {index}: {}", source.mesh().unlike(mesh)))
        });
        Err(Error::Mesh(report.advice(
            "put all sources and the result on one mesh: the same ranks in the same order, and the same axis names",
        )))
    }

    /// The labels that were given, without regard to whether they are needed.
    fn check_labels(&self, mesh: &DeviceMesh) -> Result<()> {
        for (index, label) in &self.labels {
            let Some(source) = self.tensors.get(*index) else {
                let count = self.tensors.len();
                return Err(self.wrong_label(
                    mesh,
                    *index,
                    format!("sources given: {count}"),
                    "count the sources from 0, in the order in which they are given",
                ));
            };
            if label.iter().any(|p| p.partial_op().is_some_and(|op| op != ReduceOp::Sum)) {
                let advice = "the ranks' parts of a gradient add up: give `Partial(Sum)`";
                return Err(self.wrong_label(mesh, *index, format!("it is {label}"), advice));
            }
            if source.spec().is_ok() {
                placed(source, *index, label)?;
            }
        }
        Ok(())
    }

    fn wrong_label(&self, mesh: &DeviceMesh, index: usize, line: String, advice: &str) -> Error {
        let report = Report::new(format!("from_local: the label of {} does not fit", gradient(index)));
        Error::Placement(report.on(mesh).offender(line).advice(advice))
    }

    /// What is kept of each source; `None` for one that needs no gradient.
    fn rules(&self, mesh: &DeviceMesh, axes: &[Axis]) -> Result<Vec<Option<InputRule>>> {
        let indices = 0..self.tensors.len();
        let rules: Vec<_> = indices.map(|index| self.rule(mesh, axes, index)).collect::<Result<_>>()?;
        for (index, rule) in rules.iter().enumerate() {
            let Some(rule) = rule else { continue };
            // The whole gradient of a tensor that is given twice comes out once, at the first.
            let same = |other: &&InputRule| other.local.id() == rule.local.id();
            if rules[..index].iter().flatten().find(same).is_some_and(|first| first.gradient != rule.gradient) {
                let line =
                    format!("it is given before as another source, with another label than {}", placements(rule));
                return Err(self.wrong_label(mesh, index, line, "give a tensor once, or the same label each time"));
            }
        }
        Ok(rules)
    }

    fn rule(&self, mesh: &DeviceMesh, axes: &[Axis], index: usize) -> Result<Option<InputRule>> {
        let source = self.tensors[index];
        if !source.needs_grad() {
            return Ok(None);
        }
        let Some((usual, factor)) = labels(source.placements(), Grad::Default, source.mesh(), axes) else {
            return Err(Error::Placement(
                Report::new(format!("from_local: source {index} cannot be differentiated"))
                    .on(mesh)
                    .offender(format!("it is {}", source.placements()))
                    .advice("reshard it first, or label the result under `no_grad`"),
            ));
        };
        let given = self.labels.iter().find(|(of, _)| *of == index).map(|(_, label)| label);
        let gradient = Arc::new(placed(source, index, given.unwrap_or(&usual))?);
        let what = format!("from_local: {}", self::gradient(index));
        Ok(Some(InputRule { local: source.local()?.clone(), gradient, factor, what }))
    }
}

/// The gradient of a source in words.
fn gradient(index: usize) -> String {
    format!("the gradient of source {index}")
}

fn placements(rule: &InputRule) -> &Placements {
    rule.gradient.placements()
}

/// The spec of a source's gradient under this label.
fn placed(source: &DTensor, index: usize, label: &Placements) -> Result<Spec> {
    source.spec()?.placed(label).map_err(|e| e.within(format_args!("from_local: {}", gradient(index))))
}

fn check_result(mesh: &DeviceMesh, placements: &[Placement], axes: &[Axis]) -> Result<()> {
    if is_differentiable(placements, axes.iter().copied()) {
        return Ok(());
    }
    Err(Error::Placement(
        Report::new("from_local: the result cannot be differentiated")
            .on(mesh)
            .offender(format!("it is {}", Placements::from(placements)))
            .advice("reduce it otherwise, or label it under `no_grad`"),
    ))
}
