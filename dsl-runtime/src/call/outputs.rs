//! How a body's results become the wrapper's: labelled, or returned as they are.

use std::marker::PhantomData;

use candle_core::Tensor;
use smallvec::SmallVec;

use super::entry::{Entry, Wants, common};
use super::label::label;
use super::region::Running;
use super::rule::{OutputLabel, OutputRule};
use super::spec::{Out, Param};
use crate::error::{Error, Report, Result};
use crate::placement::Placements;
use crate::tensor::{DTensor, Edge, Node};

/// Marks a result that is labelled as a distributed tensor.
#[derive(Debug)]
pub enum Dist {}

/// Marks a tensor that is labelled as a distributed one of this layout, which its entry says, too.
#[derive(Debug)]
pub struct Typed<L>(PhantomData<L>);

/// Marks a result that is returned as it is.
#[derive(Debug)]
pub enum Plain {}

/// Marks a tensor that is returned as a plain one, detached.
#[derive(Debug)]
pub enum Detached {}

/// Numbers a region's results and labels them.
pub struct Labels<'r> {
    pub(super) region: &'r Running<'r>,
    pub(super) next: usize,
    /// What was labelled, for verification.
    pub(super) done: Vec<(usize, DTensor)>,
    /// What was labelled and is differentiable, with the graph that it was computed by.
    pub(super) recorded: Vec<OutputRule>,
    /// The names that lead to the field that is being labelled, of a result that is a struct.
    fields: SmallVec<[&'static str; 4]>,
    /// The placements that hold for its tensors where it, or a struct that it is in, has its own.
    wanted: Option<Entry>,
}

/// A way to treat the results `V` of a body; tuples of markers treat tuples of results.
pub trait Outputs<V> {
    /// What the wrapper returns.
    type Out;

    /// Treats results of a body.
    ///
    /// # Errors
    /// A result does not fit its entry.
    fn label(value: V, labels: &mut Labels<'_>) -> Result<Self::Out>;

    /// What the wrapper returns on a rank outside the mesh.
    ///
    /// # Errors
    /// A plain value cannot be made up.
    fn absent(labels: &mut Labels<'_>) -> Result<Self::Out>;

    /// The tensors that are labelled and differentiable, in order.
    fn tensors(value: V, into: &mut Vec<Tensor>);
}

impl<V: Distributable> Outputs<V> for Dist {
    type Out = V::Distributed;

    fn label(value: V, labels: &mut Labels<'_>) -> Result<V::Distributed> {
        let output = labels.advance();
        value.label(labels, output)
    }

    fn absent(labels: &mut Labels<'_>) -> Result<V::Distributed> {
        let output = labels.advance();
        V::absent(labels, output)
    }

    fn tensors(value: V, into: &mut Vec<Tensor>) {
        value.tensors(into);
    }
}

impl<L> Outputs<Tensor> for Typed<L> {
    type Out = DTensor<L>;

    fn label(value: Tensor, labels: &mut Labels<'_>) -> Result<DTensor<L>> {
        Dist::label(value, labels).map(DTensor::keeping)
    }

    fn absent(labels: &mut Labels<'_>) -> Result<DTensor<L>> {
        <Dist as Outputs<Tensor>>::absent(labels).map(DTensor::keeping)
    }

    fn tensors(value: Tensor, into: &mut Vec<Tensor>) {
        Dist::tensors(value, into);
    }
}

impl<V> Outputs<V> for Plain {
    type Out = V;

    fn label(value: V, labels: &mut Labels<'_>) -> Result<V> {
        labels.advance();
        Ok(value)
    }

    fn absent(labels: &mut Labels<'_>) -> Result<V> {
        Err(labels.no_value_here())
    }

    fn tensors(_: V, _: &mut Vec<Tensor>) {}
}

impl Outputs<Tensor> for Detached {
    type Out = Tensor;

    fn label(value: Tensor, labels: &mut Labels<'_>) -> Result<Tensor> {
        labels.advance();
        Ok(value.detach())
    }

    fn absent(labels: &mut Labels<'_>) -> Result<Tensor> {
        Err(labels.no_value_here())
    }

    fn tensors(_: Tensor, _: &mut Vec<Tensor>) {}
}

macro_rules! tuples {
    ($(($($marker:ident $value:ident),+))*) => {
        $(impl<$($marker: Outputs<$value>, $value),+> Outputs<($($value,)+)> for ($($marker,)+) {
            type Out = ($($marker::Out,)+);

            #[allow(non_snake_case)]
            fn label(($($value,)+): ($($value,)+), labels: &mut Labels<'_>) -> Result<Self::Out> {
                Ok(($($marker::label($value, labels)?,)+))
            }

            fn absent(labels: &mut Labels<'_>) -> Result<Self::Out> {
                Ok(($($marker::absent(labels)?,)+))
            }

            #[allow(non_snake_case)]
            fn tensors(($($value,)+): ($($value,)+), into: &mut Vec<Tensor>) {
                $($marker::tensors($value, into);)+
            }
        })*
    };
}

tuples! {
    (A V)
    (A V, B W)
    (A V, B W, C X)
    (A V, B W, C X, D Y)
    (A V, B W, C X, D Y, E Z)
    (A V, B W, C X, D Y, E Z, F U)
    (A V, B W, C X, D Y, E Z, F U, G T)
    (A V, B W, C X, D Y, E Z, F U, G T, H S)
}

/// A result of a body that can be labelled: a tensor, or a struct that derives `Distribute`, over local tensors.
#[diagnostic::on_unimplemented(
    message = "a result of type `{Self}` cannot be labelled as a distributed tensor",
    label = "neither a tensor nor a struct of tensors",
    note = "write `_` for this result in `out`, or return a tensor, or a struct of them that derives `Distribute`"
)]
pub trait Distributable: Sized {
    /// The same with distributed tensors.
    type Distributed;

    /// Labels every tensor with the entry of output `output`.
    ///
    /// # Errors
    /// A tensor does not fit the entry.
    fn label(self, labels: &mut Labels<'_>, output: usize) -> Result<Self::Distributed>;

    /// The absent result.
    ///
    /// # Errors
    /// How many tensors there are is known only to the ranks that ran the body.
    fn absent(labels: &mut Labels<'_>, output: usize) -> Result<Self::Distributed>;

    /// The tensors that are differentiable, in order.
    fn tensors(self, into: &mut Vec<Tensor>);
}

impl Distributable for Tensor {
    type Distributed = DTensor;

    fn label(self, labels: &mut Labels<'_>, output: usize) -> Result<DTensor> {
        let labelled = match labels.region.mesh_of(output).coordinate() {
            Some(_) => label(labels.region, output, &labels.wanted(output), &self).map_err(|e| labels.in_field(e))?,
            None => labels.elsewhere(output),
        };
        let labelled = labels.recorded(labelled, self, output)?;
        if labels.region.verifies() {
            labels.done.push((output, labelled.clone()));
        }
        Ok(labelled)
    }

    fn absent(labels: &mut Labels<'_>, output: usize) -> Result<DTensor> {
        let absent = labels.elsewhere(output);
        Ok(match labels.region.node.clone() {
            None => absent,
            Some(node) => absent.with_edge(Edge { node, output: 0 }),
        })
    }

    fn tensors(self, into: &mut Vec<Tensor>) {
        into.extend(Some(self).filter(|x| x.dtype().is_float()));
    }
}

impl<T: Distributable> Distributable for Option<T> {
    type Distributed = Option<T::Distributed>;

    fn label(self, labels: &mut Labels<'_>, output: usize) -> Result<Self::Distributed> {
        self.map(|value| value.label(labels, output)).transpose()
    }

    fn absent(labels: &mut Labels<'_>, _: usize) -> Result<Self::Distributed> {
        Err(labels.no_value_here())
    }

    fn tensors(self, into: &mut Vec<Tensor>) {
        self.into_iter().for_each(|value| value.tensors(into));
    }
}

impl<T: Distributable> Distributable for Vec<T> {
    type Distributed = Vec<T::Distributed>;

    fn label(self, labels: &mut Labels<'_>, output: usize) -> Result<Self::Distributed> {
        self.into_iter().map(|value| value.label(labels, output)).collect()
    }

    fn absent(labels: &mut Labels<'_>, _: usize) -> Result<Self::Distributed> {
        Err(labels.no_value_here())
    }

    fn tensors(self, into: &mut Vec<Tensor>) {
        self.into_iter().for_each(|value| value.tensors(into));
    }
}

impl<T: Distributable, const N: usize> Distributable for [T; N] {
    type Distributed = [T::Distributed; N];

    fn label(self, labels: &mut Labels<'_>, output: usize) -> Result<Self::Distributed> {
        let labelled: Vec<_> = Distributable::label(Vec::from(self), labels, output)?;
        labelled.try_into().map_err(|_| labels.no_value_here())
    }

    fn absent(labels: &mut Labels<'_>, output: usize) -> Result<Self::Distributed> {
        let absent = (0..N).map(|_| T::absent(labels, output));
        absent.collect::<Result<Vec<_>>>()?.try_into().map_err(|_| labels.no_value_here())
    }

    fn tensors(self, into: &mut Vec<Tensor>) {
        self.into_iter().for_each(|value| value.tensors(into));
    }
}

/// Asserts that `{..}` says how a result is placed.
pub const fn places_itself<T: Placed>() {}

/// A struct over local tensors that says how each of them is placed: all of its tensors, and those of the structs within, have
/// their own `#[place(..)]`.
#[diagnostic::on_unimplemented(
    message = "`{{..}}` does not say how `{Self}` is placed",
    label = "not all of its tensors have their own placements",
    note = "give every tensor of the struct its `#[place(..)]`, or write a list in `out`, which holds for those without"
)]
pub trait Placed {}

#[diagnostic::do_not_recommend]
impl<T: Placed> Placed for Option<T> {}
#[diagnostic::do_not_recommend]
impl<T: Placed> Placed for Vec<T> {}
#[diagnostic::do_not_recommend]
impl<T: Placed, const N: usize> Placed for [T; N] {}

impl<'r> Labels<'r> {
    pub(super) fn new(region: &'r Running<'r>) -> Labels<'r> {
        Labels { region, next: 0, done: Vec::new(), recorded: Vec::new(), fields: SmallVec::new(), wanted: None }
    }

    /// Treats one field of a result that is a struct.
    ///
    /// # Errors
    /// Those of `treat`.
    pub fn field<T>(&mut self, declared: &'static Param, treat: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outer = self.wanted;
        self.fields.push(declared.name);
        self.wanted = declared.wanted.or(outer);
        let treated = treat(self)?;
        self.fields.pop();
        self.wanted = outer;
        Ok(treated)
    }

    fn in_field(&self, error: Error) -> Error {
        match self.fields.is_empty() {
            true => error,
            false => error.within(format_args!("field `{}`", self.fields.join("."))),
        }
    }

    /// Makes a labelled result an output of the recorded node.
    fn recorded(&mut self, labelled: DTensor, local: Tensor, output: usize) -> Result<DTensor> {
        let Some(node) = self.region.node.clone() else { return Ok(labelled) };
        if !local.dtype().is_float() {
            // Ranks outside the mesh cannot tell that it has no gradient: their backward pass goes through it.
            return match Node::any_beyond(&node.inputs) {
                true => Ok(labelled.with_edge(Edge { node, output: 0 })),
                false => Ok(labelled),
            };
        }
        let edge = Edge { node, output: self.recorded.len() };
        let on = self.region.elsewhere.mesh_of(output).cloned();
        let ragged = labelled.known().ok().filter(|spec| !spec.ragged_dims().is_empty()).cloned();
        let label = OutputLabel { placements: labelled.placements().clone(), ragged, on };
        let local = Some(local).filter(|_| !labelled.is_absent());
        self.recorded.push(OutputRule { local, label });
        labelled.produced_by(edge)
    }

    /// A result on a mesh that this rank is outside of.
    fn elsewhere(&self, output: usize) -> DTensor {
        let placements = Placements::new(self.wanted(output).iter().map(|w| w.placement()));
        DTensor::absent(placements, self.region.mesh_of(output).clone())
    }

    fn advance(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// The placements of a result, or of the field of one, on its mesh.
    fn wanted(&self, output: usize) -> Wants {
        let declared = || self.region.spec.outs.get(output).copied().and_then(Out::entry);
        let open = |axis: usize, name: &str| common(self.region.inputs, axis, name);
        self.wanted.or_else(declared).unwrap_or(Entry::Axes(&[])).on(self.region.mesh_of(output), open)
    }

    /// What is said where there is no value to return, on a rank outside the mesh.
    pub fn no_value_here(&self) -> Error {
        let (name, rank) = (self.region.spec.name, self.region.mesh.world().rank());
        Error::Absent(
            Report::new(format!(
                "{name}: rank {rank} is outside the mesh, so the body does not run here and there is no plain result"
            ))
            .on(&self.region.mesh)
            .advice("call the function only on ranks of the mesh, or return distributed tensors only"),
        )
    }
}
