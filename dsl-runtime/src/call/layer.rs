//! Layers: structs of distributed tensors that a region takes apart and puts together again over local ones.

use std::ops::Range;

use candle_core::Tensor;

use super::region::{Handed, Input, Locals, RegionCall};
use super::spec::{Grad, Param};
use crate::tensor::DTensor;

/// A struct of distributed tensors, such as a layer with its parameters: what `#[derive(Distribute)]` implements for the
/// struct over [`DTensor`].
///
/// Tensors alone, and `Option`s and `Vec`s of what is one, are such structs too. Derive it rather than implement it: a struct must
/// localize exactly the tensors that it hands over, in the same order.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a struct of distributed tensors",
    label = "not a layer",
    note = "add `#[derive(Distribute)]` to the struct, with a last type parameter `T = DTensor` for its tensors"
)]
pub trait Distribute {
    /// The same struct of local tensors, which a body sees.
    type Local;

    /// Hands every tensor over, in the order of the fields. `declared` says how this one must be placed where it is a tensor.
    fn hand_over<'a>(&'a self, call: &mut RegionCall<'a>, declared: &'static Param);

    /// The struct with local tensors, which `next` gives in the order in which they were handed over.
    fn localize(&self, next: &mut dyn FnMut() -> Tensor) -> Self::Local;

    /// Shows every tensor with its name: the path of fields that leads to it, joined by dots after `path`.
    fn visit<'a>(&'a self, path: &str, each: &mut dyn FnMut(&str, &'a DTensor));

    /// The tensors that [need a gradient](DTensor::requires_grad) themselves, by name, in the order of the fields.
    fn parameters(&self) -> Vec<(String, &DTensor)> {
        let mut all = Vec::new();
        self.visit("", &mut |name, tensor| {
            if tensor.is_leaf() {
                all.push((name.to_owned(), tensor));
            }
        });
        all
    }
}

#[diagnostic::do_not_recommend]
impl Distribute for DTensor {
    type Local = Tensor;

    fn hand_over<'a>(&'a self, call: &mut RegionCall<'a>, declared: &'static Param) {
        call.push(Handed {
            param: declared,
            grad: Grad::Default,
            element: Default::default(),
            tensor: Input::Borrowed(self),
        });
    }

    fn localize(&self, next: &mut dyn FnMut() -> Tensor) -> Tensor {
        next()
    }

    fn visit<'a>(&'a self, path: &str, each: &mut dyn FnMut(&str, &'a DTensor)) {
        each(path, self);
    }
}

#[diagnostic::do_not_recommend]
impl<D: Distribute> Distribute for Option<D> {
    type Local = Option<D::Local>;

    fn hand_over<'a>(&'a self, call: &mut RegionCall<'a>, declared: &'static Param) {
        self.iter().for_each(|field| field.hand_over(call, declared));
    }

    fn localize(&self, next: &mut dyn FnMut() -> Tensor) -> Option<D::Local> {
        self.as_ref().map(|field| field.localize(next))
    }

    fn visit<'a>(&'a self, path: &str, each: &mut dyn FnMut(&str, &'a DTensor)) {
        self.iter().for_each(|field| field.visit(path, each));
    }
}

#[diagnostic::do_not_recommend]
impl<D: Distribute> Distribute for Vec<D> {
    type Local = Vec<D::Local>;

    fn hand_over<'a>(&'a self, call: &mut RegionCall<'a>, declared: &'static Param) {
        self.iter()
            .enumerate()
            .for_each(|(index, field)| call.within_element(index, |call| field.hand_over(call, declared)));
    }

    fn localize(&self, next: &mut dyn FnMut() -> Tensor) -> Vec<D::Local> {
        self.iter().map(|field| field.localize(next)).collect()
    }

    fn visit<'a>(&'a self, path: &str, each: &mut dyn FnMut(&str, &'a DTensor)) {
        self.iter().enumerate().for_each(|(index, field)| field.visit(&joined(path, &index.to_string()), each));
    }
}

/// The name of a field within a struct of this name.
pub fn joined(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// What stands for a layer until its body takes it.
#[derive(Clone)]
pub struct HeldLayer<'a, L> {
    layer: &'a L,
    tensors: Range<usize>,
}

impl<'a> RegionCall<'a> {
    /// Hands over all tensors of a layer.
    pub fn layer<L: Distribute>(&mut self, layer: &'a L) -> HeldLayer<'a, L> {
        static LAYER: Param = Param::any("self");
        let start = self.inputs.len();
        layer.hand_over(self, &LAYER);
        HeldLayer { layer, tensors: start..self.inputs.len() }
    }
}

impl Locals {
    /// The layer over local tensors.
    pub fn layer<L: Distribute>(&self, held: HeldLayer<'_, L>) -> L::Local {
        let mut tensors = self.tensors[held.tensors].iter();
        held.layer.localize(&mut || {
            // A layer localizes exactly what it handed over.
            tensors.next().cloned().unwrap_or_else(|| unreachable!("a layer took more tensors than it handed over"))
        })
    }
}
