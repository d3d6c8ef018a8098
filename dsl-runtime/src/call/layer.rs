//! Layers: structs of distributed tensors that a region takes apart and puts together again over local ones.

use std::borrow::Borrow;
use std::ops::Range;
use std::rc::Rc;

use candle_core::{Tensor, Var};
use smallvec::SmallVec;

use super::path::Path;
use super::region::{Handed, Input, Locals, RegionCall};
use super::spec::{Grad, Param, RegionSpec};
use crate::error::{Error, Report, Result};
use crate::tensor::{DTensor, no_elements};

/// A struct of distributed tensors, such as a layer with its parameters: what `#[derive(Distribute)]` implements for the
/// struct over [`DTensor`].
///
/// Tensors alone, and `Option`s, `Vec`s and arrays of what is one, are such structs too. Derive it and never implement it by hand: a
/// struct must localize exactly the tensors that it hands over, in the same order. A call with one that localizes more is an
/// error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a struct of distributed tensors",
    label = "does not derive `Distribute`",
    note = "add `#[derive(Distribute)]` to the struct, with a last type parameter `T = DTensor` for its tensors; or write `_` \
            for the parameter in `in`, to pass it through as it is"
)]
pub trait Distribute {
    /// The same struct of local tensors, which a body sees.
    type Local;

    /// Hands every tensor over, in the order of the fields. `declared` says how this one must be placed where it is a tensor.
    fn hand_over<'a>(&'a self, to: &mut HandOver<'_, 'a>, declared: &'static Param);

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

    /// This rank's pieces of the [`parameters`](Distribute::parameters), in the same order, for candle's optimizers:
    /// `AdamW::new(model.variables()?, settings)?`, and then `optimizer.step(&gradients.to_store(..)?)?`.
    ///
    /// # Errors
    /// This rank is outside the mesh.
    fn variables(&self) -> Result<Vec<Var>> {
        self.parameters().into_iter().map(|(_, parameter)| parameter.var()).collect()
    }
}

/// What is handed over.
enum Outer {
    /// An argument.
    Function,
    /// The fields of the layer whose method is called.
    This,
    /// The fields of a struct.
    Struct(Rc<Path>),
}

/// The tensors of a struct on their way into a call.
pub struct HandOver<'c, 'a> {
    call: &'c mut RegionCall<'a>,
    outer: Outer,
    /// The place in the field, where that is a list.
    elements: SmallVec<[usize; 2]>,
    /// Whose placements and gradient hold for what has none of its own.
    param: &'static Param,
    grad: &'static Grad,
}

impl<'a> HandOver<'_, 'a> {
    /// Hands over the fields of a struct that was itself declared so.
    pub fn within(&mut self, declared: &'static Param, fields: impl FnOnce(&mut HandOver<'_, 'a>)) {
        let outer = match declared.name {
            "" => Outer::This,
            _ => Outer::Struct(Rc::new(self.path(declared))),
        };
        let (param, grad) = self.rule(declared);
        fields(&mut HandOver { call: &mut *self.call, outer, elements: SmallVec::new(), param, grad });
    }

    fn path(&self, declared: &'static Param) -> Path {
        let outer = match &self.outer {
            Outer::Struct(path) => Some(path.clone()),
            // Only the place in a list looks otherwise in a layer than in an argument.
            Outer::This if !self.elements.is_empty() => Some(Rc::new(Path::parameter(&LAYER))),
            Outer::This | Outer::Function => None,
        };
        Path { outer, declared, elements: self.elements.clone() }
    }

    /// The field's own rule, or that of its struct.
    fn rule(&self, declared: &'static Param) -> (&'static Param, &'static Grad) {
        let param = if declared.wanted.is_some() { declared } else { self.param };
        let grad = if let Grad::Placed(_) = declared.grad { &declared.grad } else { self.grad };
        (param, grad)
    }

    fn tensor(&mut self, tensor: &'a DTensor, declared: &'static Param) {
        let (param, grad) = self.rule(declared);
        let path = self.path(declared);
        self.call.push(Handed { param, grad, path, tensor: Input::Borrowed(tensor) });
    }

    fn list<D: Distribute>(&mut self, list: &'a [D], declared: &'static Param) {
        for (index, element) in list.iter().enumerate() {
            self.elements.push(index);
            element.hand_over(self, declared);
            self.elements.pop();
        }
    }
}

#[diagnostic::do_not_recommend]
impl Distribute for DTensor {
    type Local = Tensor;

    fn hand_over<'a>(&'a self, to: &mut HandOver<'_, 'a>, declared: &'static Param) {
        to.tensor(self, declared);
    }

    fn localize(&self, next: &mut dyn FnMut() -> Tensor) -> Tensor {
        next()
    }

    fn visit<'a>(&'a self, path: &str, each: &mut dyn FnMut(&str, &'a DTensor)) {
        each(path, self);
    }
}

impl<D: Distribute + ?Sized> Distribute for &D {
    type Local = D::Local;

    fn hand_over<'a>(&'a self, to: &mut HandOver<'_, 'a>, declared: &'static Param) {
        (**self).hand_over(to, declared);
    }

    fn localize(&self, next: &mut dyn FnMut() -> Tensor) -> D::Local {
        (**self).localize(next)
    }

    fn visit<'a>(&'a self, path: &str, each: &mut dyn FnMut(&str, &'a DTensor)) {
        (**self).visit(path, each);
    }
}

impl<D: Distribute> Distribute for Option<D> {
    type Local = Option<D::Local>;

    fn hand_over<'a>(&'a self, to: &mut HandOver<'_, 'a>, declared: &'static Param) {
        self.iter().for_each(|field| field.hand_over(to, declared));
    }

    fn localize(&self, next: &mut dyn FnMut() -> Tensor) -> Option<D::Local> {
        self.as_ref().map(|field| field.localize(next))
    }

    fn visit<'a>(&'a self, path: &str, each: &mut dyn FnMut(&str, &'a DTensor)) {
        self.iter().for_each(|field| field.visit(path, each));
    }
}

macro_rules! lists {
    ($([$($generics:tt)*] $list:ty, $local:ty, $localize:expr;)*) => {
        $(impl<$($generics)*> Distribute for $list {
            type Local = $local;

            fn hand_over<'a>(&'a self, to: &mut HandOver<'_, 'a>, declared: &'static Param) {
                to.list(self, declared);
            }

            fn localize(&self, next: &mut dyn FnMut() -> Tensor) -> $local {
                ($localize)(self, next)
            }

            fn visit<'a>(&'a self, path: &str, each: &mut dyn FnMut(&str, &'a DTensor)) {
                self.iter().enumerate().for_each(|(index, field)| field.visit(&joined(path, &index.to_string()), each));
            }
        })*
    };
}

lists! {
    [D: Distribute] Vec<D>, Vec<D::Local>, localized;
    [D: Distribute] [D], Vec<D::Local>, localized;
    [D: Distribute, const N: usize] [D; N], [D::Local; N],
        |list: &Self, next: &mut dyn FnMut() -> Tensor| list.each_ref().map(|field| field.localize(next));
}

fn localized<D: Distribute>(list: &[D], next: &mut dyn FnMut() -> Tensor) -> Vec<D::Local> {
    list.iter().map(|field| field.localize(next)).collect()
}

/// The name of a field within a struct of this name.
pub fn joined(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// What the layer itself is declared as: messages name its fields alone.
static LAYER: Param = Param::any("");

/// How a struct is put together over local tensors.
type Localize<L, T> = fn(&L, &mut dyn FnMut() -> Tensor) -> T;

/// What stands for a struct, `T` over local tensors, until its body takes it.
pub struct HeldLayer<'a, L: ?Sized, T> {
    layer: &'a L,
    localize: Localize<L, T>,
    tensors: Range<usize>,
}

/// The same for a body that runs again, with a clone of the struct, as the call's own may be gone by then.
pub struct KeptLayer<K, L: ?Sized, T> {
    layer: K,
    localize: Localize<L, T>,
    tensors: Range<usize>,
}

impl<'a> RegionCall<'a> {
    /// Hands over all tensors of the layer whose method is called.
    pub fn layer<L: Distribute + ?Sized>(&mut self, layer: &'a L) -> HeldLayer<'a, L, L::Local> {
        self.structure(layer, &LAYER, &LAYER.grad)
    }

    /// Hands over all tensors of the struct that is the argument of the distributed parameter with this index.
    pub fn fields<L: Distribute + ?Sized>(&mut self, param: usize, layer: &'a L) -> HeldLayer<'a, L, L::Local> {
        let (param, grad) = self.spec.param(param);
        self.structure(layer, param, grad)
    }

    /// A clone of a struct that outlives the call.
    pub fn keep<L: KeepLayer + ?Sized, T>(&self, held: &HeldLayer<'_, L, T>) -> KeptLayer<L::Kept, L, T> {
        KeptLayer { layer: held.layer.kept(), localize: held.localize, tensors: held.tensors.clone() }
    }

    fn structure<L: Distribute + ?Sized>(
        &mut self,
        layer: &'a L,
        param: &'static Param,
        grad: &'static Grad,
    ) -> HeldLayer<'a, L, L::Local> {
        let start = self.inputs.len();
        let (outer, elements) = (Outer::Function, SmallVec::new());
        layer.hand_over(&mut HandOver { call: &mut *self, outer, elements, param, grad }, param);
        HeldLayer { layer, localize: L::localize, tensors: start..self.inputs.len() }
    }
}

/// A struct, or a slice of them, of which a clone can be kept.
#[diagnostic::on_unimplemented(
    message = "a struct of type `{Self}` cannot be kept for running the body again",
    label = "not `Clone + Send + 'static`",
    note = "`recompute` runs the body again in the backward pass: derive `Clone` for the struct"
)]
pub trait KeepLayer {
    /// The clone.
    type Kept: Borrow<Self> + Send + 'static;

    /// Clones.
    fn kept(&self) -> Self::Kept;
}

#[diagnostic::do_not_recommend]
impl<L: ToOwned + ?Sized> KeepLayer for L
where
    L::Owned: Send + 'static,
{
    type Kept = L::Owned;

    fn kept(&self) -> L::Owned {
        self.to_owned()
    }
}

impl<K: Borrow<L>, L: ?Sized, T> KeptLayer<K, L, T> {
    /// The struct, once more.
    pub fn held(&self) -> HeldLayer<'_, L, T> {
        HeldLayer { layer: self.layer.borrow(), localize: self.localize, tensors: self.tensors.clone() }
    }
}

impl Locals {
    /// The struct over local tensors.
    pub fn layer<L: ?Sized, T>(&self, held: HeldLayer<'_, L, T>) -> T {
        let mut tensors = self.tensors[held.tensors].iter();
        (held.localize)(held.layer, &mut || {
            tensors.next().cloned().unwrap_or_else(|| {
                self.short.set(true);
                no_elements()
            })
        })
    }

    /// Whether every struct took no more tensors than it had handed over: one that was derived does.
    pub(super) fn sufficed(&self, spec: &RegionSpec) -> Result<()> {
        if !self.short.get() {
            return Ok(());
        }
        let what = format!("{}: a struct among the arguments localizes more tensors than it hands over", spec.name);
        Err(Error::Unsupported(Report::new(what).advice("derive `Distribute` instead of implementing it by hand")))
    }
}
