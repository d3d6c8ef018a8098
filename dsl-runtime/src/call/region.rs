//! One call of a region: inputs are handed over, checked and resharded; the body runs on locals; results are labelled.

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::panic::Location;
use std::sync::Arc;

use candle_core::Tensor;
use smallvec::SmallVec;

use super::argument::{Argument, Held};
use super::context::{Crossings, Region};
use super::elsewhere::{self, Elsewhere};
use super::inputs;
use super::outcome::{Outcome, located};
use super::outputs::{Labels, Outputs};
use super::path::Path;
use super::record;
use super::spec::{Grad, Param, RegionSpec};
use super::verify;
use crate::comm::DeviceMesh;
use crate::error::{Error, Report, Result};
use crate::spec::Typed;
use crate::tensor::{DTensor, Node};

/// A call before the body runs.
pub struct RegionCall<'a> {
    pub(super) spec: &'static RegionSpec,
    pub(super) site: &'static Location<'static>,
    pub(super) mesh: Option<DeviceMesh>,
    pub(super) elsewhere: Elsewhere,
    pub(super) inputs: SmallVec<[Handed<'a>; 4]>,
}

/// A distributed tensor and what is declared of the parameter, or field, that it was given for.
pub(super) struct Handed<'a> {
    /// Whose placements it must have: a field without its own is placed as its struct.
    pub(super) param: &'static Param,
    pub(super) grad: &'static Grad,
    pub(super) path: Path,
    pub(super) tensor: Input<'a>,
}

/// A distributed tensor, as it was given.
pub(super) enum Input<'a> {
    Borrowed(&'a DTensor),
    /// In a box: calls are moved about, and most inputs are borrowed.
    Owned(Box<DTensor>),
}

impl Deref for Input<'_> {
    type Target = DTensor;
    fn deref(&self) -> &DTensor {
        match self {
            Input::Borrowed(tensor) => tensor,
            Input::Owned(tensor) => tensor,
        }
    }
}

/// What a body sees: the local tensors of the inputs, in the order in which they were handed over, and the context.
pub struct Locals {
    pub(super) tensors: SmallVec<[Tensor; 4]>,
    pub(super) region: Region,
    /// Whether a struct took more tensors than it had handed over.
    pub(super) short: Cell<bool>,
}

impl Locals {
    pub(super) fn new(tensors: SmallVec<[Tensor; 4]>, region: Region) -> Locals {
        Locals { tensors, region, short: Cell::new(false) }
    }

    /// What the body sees of an argument.
    pub fn take<H: Held>(&self, held: H) -> H::Local<'_> {
        held.local(&self.tensors)
    }

    /// The context.
    pub fn region(&self) -> &Region {
        &self.region
    }
}

/// Asserts that a parameter can be kept for running the body again.
pub const fn kept<T: Keep>() {}

/// What the body of a region with `recompute` may take beside tensors.
#[diagnostic::on_unimplemented(
    message = "a parameter of type `{Self}` cannot be kept for running the body again",
    label = "not `Clone + Send + 'static`",
    note = "`recompute` runs the body again in the backward pass: take a value that can be cloned and sent, such as an `Arc`"
)]
pub trait Keep {}
#[diagnostic::do_not_recommend]
impl<T: Clone + Send + 'static> Keep for T {}

/// The body of a region with `recompute`, giving the tensors that are labelled and differentiable.
pub(super) type Again = Box<dyn Fn(&Locals) -> Result<Vec<Tensor>> + Send>;

/// What the labels of the results depend on.
pub(super) struct Running<'a> {
    pub(super) spec: &'static RegionSpec,
    pub(super) site: &'static Location<'static>,
    pub(super) mesh: DeviceMesh,
    pub(super) elsewhere: Elsewhere,
    pub(super) inputs: &'a [Handed<'a>],
    /// The node that is being recorded, if anything needs a gradient.
    pub(super) node: Option<Arc<Node>>,
    /// The number of the call among those with a context.
    pub(super) number: u64,
}

impl Running<'_> {
    /// The function and one of its results in words, for messages.
    pub(super) fn result(&self, output: usize) -> String {
        self.spec.result(output)
    }

    /// The mesh that one of the results lives on.
    pub(super) fn mesh_of(&self, output: usize) -> &DeviceMesh {
        self.elsewhere.mesh_of(output).unwrap_or(&self.mesh)
    }

    /// What the body sees: leaves of candle's graph where that is kept for differentiation, and where the body's collectives
    /// are noted, too.
    fn locals(&self) -> Result<Locals> {
        let keeps = self.node.is_some() && !self.spec.recompute;
        let local = |handed: &Handed<'_>| match keeps {
            true => handed.tensor.local().cloned(),
            false => handed.tensor.detached(),
        };
        let tensors = self.inputs.iter().map(local).collect::<Result<_>>()?;
        let crossings = (keeps && self.spec.context).then(Crossings::default);
        Ok(Locals::new(tensors, Region::new(self.mesh.clone(), self.number, crossings)))
    }

    /// Where the body ran and on what, for messages.
    fn place(&self, locals: &Locals) -> String {
        let (name, site) = (self.spec.name, self.site);
        let locals = self.inputs.iter().zip(&locals.tensors);
        let locals: Vec<String> = locals
            .map(|(input, local)| format!("{} {}", inputs::param_name(input), Typed(local.dtype(), local.dims())))
            .collect();
        format!("{name}: the body failed, called at {site} with local {}", locals.join(", "))
    }

    pub(super) fn verifies(&self) -> bool {
        verify::wanted(self.spec)
    }
}

impl<'a> RegionCall<'a> {
    #[track_caller]
    pub(super) fn new(spec: &'static RegionSpec, mesh: Option<DeviceMesh>) -> RegionCall<'a> {
        RegionCall { spec, site: Location::caller(), mesh, elsewhere: Elsewhere::default(), inputs: SmallVec::new() }
    }

    /// Says that the result of this number lives on another mesh than the region runs on, all of whose ranks run the region.
    pub fn output_on(&mut self, output: usize, mesh: &DeviceMesh) {
        self.elsewhere.push(output, mesh.clone());
    }

    /// Hands over the argument of the distributed parameter with this index.
    pub fn input<A: Argument<'a>>(&mut self, param: usize, argument: A) -> A::Held {
        argument.hold(self, param)
    }

    pub(super) fn hold(&mut self, param: usize, tensor: Input<'a>) -> usize {
        self.push(self.declared(param, tensor))
    }

    pub(super) fn push(&mut self, handed: Handed<'a>) -> usize {
        self.inputs.push(handed);
        self.inputs.len() - 1
    }

    fn declared(&self, param: usize, tensor: Input<'a>) -> Handed<'a> {
        let (param, grad) = self.spec.param(param);
        Handed { param, grad, path: Path::parameter(param), tensor }
    }

    /// Hands over the element with this index of a list.
    pub(super) fn hold_element<A: Argument<'a>>(&mut self, param: usize, index: usize, element: A) -> A::Held {
        let start = self.inputs.len();
        let held = element.hold(self, param);
        self.inputs[start..].iter_mut().for_each(|handed| handed.path.elements.insert(0, index));
        held
    }

    pub(super) fn hold_all(&mut self, param: usize, tensors: impl Iterator<Item = Input<'a>>) -> Range<usize> {
        let start = self.inputs.len();
        for (index, tensor) in tensors.enumerate() {
            let mut handed = self.declared(param, tensor);
            handed.path.elements.push(index);
            self.push(handed);
        }
        start..self.inputs.len()
    }

    /// Checks all inputs, and the meshes of the results, before any communication, then reshards the inputs that need it, if the
    /// attribute says so.
    ///
    /// # Errors
    /// No mesh, different meshes, a result on a mesh that is not within the region's, or inputs that are not placed as the
    /// attribute requires: all of them in one error.
    pub fn ready(&mut self) -> Result<()> {
        self.prepare().map_err(|e| e.called_at(self.site))
    }

    fn prepare(&mut self) -> Result<()> {
        let mesh = inputs::common_mesh(self)?;
        elsewhere::check(self, &mesh)?;
        let misplaced = inputs::check(self, &mesh)?;
        if mesh.coordinate().is_some() {
            for (index, wanted) in misplaced {
                let resharded = self.inputs[index].tensor.reshard_at(&wanted, self.site);
                let resharded = resharded.map_err(|e| {
                    let param = inputs::param_name(&self.inputs[index]);
                    e.within(format_args!("{}: argument `{param}`", self.spec.name))
                })?;
                self.inputs[index].tensor = Input::Owned(Box::new(resharded));
            }
        }
        self.mesh = Some(mesh);
        Ok(())
    }

    /// Runs the body on this rank's locals and labels its results as `O` says; on a rank outside the mesh the body does not
    /// run and the results are absent.
    pub fn run<O, R, F>(self, body: F) -> R::With<O::Out>
    where
        R: Outcome,
        O: Outputs<R::Value>,
        F: FnOnce(&Locals) -> R,
    {
        R::join(self.results::<O, R>(|locals| (body(locals), None)))
    }

    /// As [`run`](RegionCall::run), with a body that runs again in the backward pass instead of keeping its graph.
    pub fn run_again<O, R, F>(self, body: F) -> R::With<O::Out>
    where
        R: Outcome + 'static,
        R::Error: std::fmt::Display,
        O: Outputs<R::Value> + 'static,
        F: Fn(&Locals) -> R + Send + 'static,
    {
        let name = self.spec.name;
        R::join(self.results::<O, R>(|locals| {
            let first = body(locals);
            let again: Again = Box::new(move |locals| {
                let value = body(locals).split().map_err(|e| {
                    Error::Unsupported(
                        Report::new(format!("{name}: the body failed when it ran again for its gradient"))
                            .offender(e.to_string()),
                    )
                })?;
                let mut tensors = Vec::new();
                O::tensors(value, &mut tensors);
                Ok(tensors)
            });
            (first, Some(again))
        }))
    }

    fn results<O, R>(self, body: impl FnOnce(&Locals) -> (R, Option<Again>)) -> std::result::Result<O::Out, R::Error>
    where
        R: Outcome,
        O: Outputs<R::Value>,
    {
        let RegionCall { spec, site, mesh, elsewhere, inputs } = self;
        let unready = || Error::Mesh(Report::new(format!("{}: the call is not ready", spec.name)));
        let lift = |error: Error| R::lift(error.called_at(site));
        let mesh = mesh.ok_or_else(unready).map_err(lift)?;
        let node = record::node(&mesh, &inputs, &elsewhere);
        let number = if spec.context { mesh.next_call() } else { 0 };
        let region = Running { spec, site, mesh, elsewhere, inputs: &inputs, node, number };
        let mut labels = Labels::new(&region);
        if region.mesh.coordinate().is_none() {
            return O::absent(&mut labels).map_err(lift);
        }
        let locals = region.locals().map_err(lift)?;
        let (outcome, again) = body(&locals);
        locals.sufficed(spec).map_err(lift)?;
        let value = outcome.split().map_err(|e| located(e, || region.place(&locals)))?;
        let out = O::label(value, &mut labels).map_err(lift)?;
        record::record(&region, locals, std::mem::take(&mut labels.recorded), again).map_err(lift)?;
        if region.verifies() {
            verify::verify_results(&region, &labels.done).map_err(lift)?;
        }
        Ok(out)
    }
}
