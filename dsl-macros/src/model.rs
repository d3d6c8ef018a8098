//! The region that the attribute and the function make together. Where the attribute is wrong this is the best guess,
//! so that callers of the function see the signature that they will see once it is right.

use crate::ast::{Args, Entry, List};
use crate::forward;
use crate::function::{Function, parameter_name};
use crate::labels::{Labels, labels};
use crate::layer;
use crate::structs::{Structs, structs};
use crate::types::{self, Class};
use proc_macro2::{Span, TokenStream};
use syn::{PatType, Receiver, ReturnType, Type};

/// One annotated function.
pub(crate) struct Region<'a> {
    pub(crate) args: &'a Args,
    pub(crate) function: &'a Function,
    /// All parameters but `self`.
    pub(crate) parameters: Vec<Parameter<'a>>,
    pub(crate) result: Returned,
    pub(crate) outputs: Labels<'a>,
    /// The struct over plain tensors, of a layer's method.
    pub(crate) layer: Option<&'a Type>,
}

/// One parameter and what the attribute says of it.
#[derive(Clone, Copy)]
pub(crate) struct Parameter<'a> {
    pub(crate) written: &'a PatType,
    pub(crate) class: Class,
    /// In `in`, or on it.
    pub(crate) entry: Option<&'a Entry>,
    /// In `grad`.
    pub(crate) grad: Option<&'a Entry>,
    pub(crate) role: Role<'a>,
}

/// How the wrapper treats a parameter.
#[derive(Clone, Copy)]
pub(crate) enum Role<'a> {
    /// Passed through.
    Plain,
    /// Distributed, with any placements.
    Any,
    /// Distributed, with these placements.
    Placed(&'a List),
    /// `&Region`: not a parameter of the wrapper, which supplies it.
    Context,
}

/// The written result type, taken apart.
pub(crate) enum Returned {
    /// `Result<value, ..>`
    Result { written: Type, value: Value },
    /// A value that cannot fail; none is `()`.
    Plain(Value),
    /// A path that may hide a `Result`.
    Alias(Type),
}

/// The type of what a body computes.
pub(crate) struct Value {
    pub(crate) elements: Vec<Type>,
    /// A tuple of its elements, even of one; otherwise the only element itself.
    pub(crate) tuple: bool,
}

impl<'a> Region<'a> {
    pub(crate) fn new(args: &'a Args, function: &'a Function) -> Self {
        let parameters = parameters(args, function);
        let result = returned(&function.sig.output);
        let outputs = labels(args.outputs.as_ref(), result.value());
        Region { args, function, parameters, result, outputs, layer: None }
    }

    /// The method of a layer, whose struct over plain tensors this is: its tensors are inputs, too.
    pub(crate) fn of_layer(args: &'a Args, function: &'a Function, local: &'a Type) -> Self {
        Region { layer: Some(local), ..Region::new(args, function) }
    }

    /// What errors of a call begin with.
    pub(crate) fn title(&self) -> String {
        match self.layer {
            Some(local) => format!("{}::{}", layer::name(local), self.function.name()),
            None => self.function.name(),
        }
    }

    /// The path of the facade crate, as if written at `span`: errors about what follows it appear there.
    pub(crate) fn krate(&self, span: Span) -> TokenStream {
        layer::krate(self.args.krate.as_ref(), span)
    }

    /// The distributed parameters, in order.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Parameter<'a>> {
        self.parameters.iter().filter(|parameter| parameter.is_distributed())
    }

    /// The parameters that are passed through, in order.
    pub(crate) fn plain(&self) -> impl Iterator<Item = &Parameter<'a>> {
        self.parameters.iter().filter(|parameter| matches!(parameter.role, Role::Plain))
    }

    /// The parameters that take an entry in `in` and in `grad`: all but the context.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &Parameter<'a>> {
        self.parameters.iter().filter(|parameter| !matches!(parameter.role, Role::Context))
    }

    /// The context; a second one was reported.
    pub(crate) fn contexts(&self) -> impl Iterator<Item = &Parameter<'a>> {
        self.parameters.iter().filter(|parameter| matches!(parameter.role, Role::Context))
    }

    /// Whether the body is written so that it can run again; where it should but is not, that was reported.
    pub(crate) fn recomputes(&self) -> bool {
        self.args.recompute.is_some()
            && self.own_receiver().is_none_or(|receiver| !forward::is_mutable(receiver))
            && (self.own_receiver().is_none() || forward::conditions(self.function).next().is_none())
            && self.unnamed_result().is_none()
            && !self.plain().any(|parameter| types::borrows(&parameter.written.ty))
            && self.inputs().filter_map(Parameter::structs).all(Structs::can_be_kept)
    }

    /// The receiver that the body sees: a layer's body sees another struct.
    pub(crate) fn own_receiver(&self) -> Option<&'a Receiver> {
        self.function.sig.receiver().filter(|_| self.layer.is_none())
    }

    /// The result type, if an `impl Trait` stands in it.
    pub(crate) fn unnamed_result(&self) -> Option<&'a Type> {
        match &self.function.sig.output {
            ReturnType::Type(_, ty) if types::mentions_impl(ty) => Some(ty),
            _ => None,
        }
    }
}

impl Parameter<'_> {
    /// What messages call it.
    pub(crate) fn name(&self) -> String {
        parameter_name(&self.written.pat)
    }

    pub(crate) fn is_distributed(&self) -> bool {
        matches!(self.role, Role::Any | Role::Placed(_))
    }

    /// How it shows structs of distributed tensors.
    pub(crate) fn structs(&self) -> Option<Structs> {
        structs(&self.written.ty).filter(|_| self.is_distributed())
    }
}

fn parameters<'a>(args: &'a Args, function: &'a Function) -> Vec<Parameter<'a>> {
    let mut at = 0;
    let parameters = function.parameters().enumerate().map(|(position, written)| match types::context(&written.ty) {
        Some(_) => Parameter { written, class: Class::Other, entry: None, grad: None, role: Role::Context },
        None => {
            at += 1;
            parameter(args, position, at - 1, written)
        }
    });
    parameters.collect()
}

/// The parameter at `position`, which is the one `at` among those that take an entry.
fn parameter<'a>(args: &'a Args, position: usize, at: usize, written: &'a PatType) -> Parameter<'a> {
    let class = types::class(&written.ty);
    let entry = args.entry(position, at, &written.pat);
    let grad = args.grads.as_ref().and_then(|grads| grads.entry(at, &written.pat));
    let role = match (class, entry) {
        (Class::Distributed, Some(Entry::Placed(list))) => Role::Placed(list),
        (Class::Distributed, None | Some(Entry::Own(_) | Entry::Unreadable(_))) => Role::Any,
        _ => Role::Plain,
    };
    Parameter { written, class, entry, grad, role }
}

impl Returned {
    /// The value, where the type shows it.
    pub(crate) fn value(&self) -> Option<&Value> {
        match self {
            Returned::Result { value, .. } | Returned::Plain(value) => Some(value),
            Returned::Alias(_) => None,
        }
    }
}

pub(crate) fn returned(output: &ReturnType) -> Returned {
    let ty = match output {
        ReturnType::Default => types::unit(),
        ReturnType::Type(_, ty) => types::bare(ty).clone(),
    };
    let ok = match &ty {
        Type::Path(path) => types::ok_of(&mut path.path.clone()).map(|ok| value(ok)),
        _ => None,
    };
    match ok {
        Some(value) => Returned::Result { written: ty, value },
        None if types::is_plain(&ty) => Returned::Plain(value(&ty)),
        None => Returned::Alias(ty),
    }
}

fn value(ty: &Type) -> Value {
    match types::bare(ty) {
        Type::Tuple(tuple) => Value { elements: tuple.elems.iter().cloned().collect(), tuple: true },
        ty => Value { elements: vec![ty.clone()], tuple: false },
    }
}
