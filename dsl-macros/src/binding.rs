//! The parameters that the wrapper does not merely pass through, by all the names that they have in the expansion.

use crate::model::{Parameter, Region, Role};
use crate::structs::Structs;
use crate::types;
use proc_macro2::{Ident, Span};
use quote::format_ident;
use syn::spanned::Spanned;
use syn::{Attribute, Pat, Type};

/// All of them.
pub(crate) struct Bindings<'a> {
    /// The distributed parameters, in order.
    pub(crate) inputs: Vec<Binding<'a>>,
    /// What the body is run again with: the plain parameters of a region that recomputes.
    pub(crate) kept: Vec<Binding<'a>>,
    /// The context, if there is one.
    pub(crate) contexts: Vec<Binding<'a>>,
}

/// A parameter that the wrapper takes, keeps, and binds anew around the body.
pub(crate) struct Binding<'a> {
    pub(crate) parameter: Parameter<'a>,
    /// As the author wrote it: bound inside.
    pub(crate) pat: &'a Pat,
    pub(crate) ty: &'a Type,
    /// The wrapper's parameter.
    pub(crate) outer: Ident,
    /// Between the two: where the region keeps it.
    pub(crate) handle: Ident,
    /// `#[cfg]`s: everything about the parameter is under them.
    pub(crate) cfgs: Vec<&'a Attribute>,
    /// Those, and the lint levels, which speak of the author's binding.
    pub(crate) inner_attrs: Vec<&'a Attribute>,
    /// How it shows structs of distributed tensors.
    pub(crate) structs: Option<Structs>,
    /// The place among all parameters but `self`.
    pub(crate) position: usize,
}

impl<'a> Bindings<'a> {
    pub(crate) fn new(region: &Region<'a>) -> Self {
        let recomputes = region.recomputes();
        Bindings {
            inputs: bindings(region, "__input", Parameter::is_distributed),
            kept: bindings(region, "__kept", |parameter| recomputes && matches!(parameter.role, Role::Plain)),
            contexts: bindings(region, "__context", |parameter| matches!(parameter.role, Role::Context)),
        }
    }
}

fn bindings<'a>(region: &Region<'a>, handle: &str, filter: impl Fn(&Parameter<'a>) -> bool) -> Vec<Binding<'a>> {
    let chosen = region.parameters.iter().enumerate().filter(|(_, parameter)| filter(parameter));
    let handles =
        chosen.enumerate().map(|(at, chosen)| (format_ident!("{handle}{at}", span = Span::mixed_site()), chosen));
    handles.map(|(handle, (position, parameter))| binding(handle, position, *parameter)).collect()
}

fn binding(handle: Ident, position: usize, parameter: Parameter) -> Binding {
    let written = parameter.written;
    Binding {
        parameter,
        pat: &written.pat,
        ty: &written.ty,
        outer: outer_name(&written.pat, position),
        handle: match parameter.structs() {
            // Errors about taking it apart belong on its type.
            Some(_) => Ident::new(&handle.to_string(), type_span(&parameter)),
            None => handle,
        },
        cfgs: written.attrs.iter().filter(|attr| is_cfg(attr)).collect(),
        inner_attrs: written.attrs.iter().filter(|attr| is_cfg(attr) || is_lint(attr)).collect(),
        structs: parameter.structs(),
        position,
    }
}

impl Binding<'_> {
    /// Where errors about the type belong.
    pub(crate) fn type_span(&self) -> Span {
        type_span(&self.parameter)
    }
}

/// On a struct itself rather than on the `&` before it.
fn type_span(parameter: &Parameter) -> Span {
    let ty = &parameter.written.ty;
    let shown = if parameter.structs().is_some() { types::behind_reference(ty) } else { ty };
    Span::mixed_site().located_at(shown.span())
}

/// The one of `bindings` that is about the parameter at `position`.
pub(crate) fn at<'b, 'a>(position: usize, bindings: &'b [Binding<'a>]) -> Option<&'b Binding<'a>> {
    bindings.iter().find(|binding| binding.position == position)
}

/// The author's name for the parameter, or a fresh one where the author's binding is more or less than a name.
pub(crate) fn outer_name(pat: &Pat, position: usize) -> Ident {
    match pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() && !pat.ident.to_string().starts_with('_') => {
            pat.ident.clone()
        }
        _ => fresh_name(position),
    }
}

/// What a parameter is called that its author gave no name.
pub(crate) fn fresh_name(position: usize) -> Ident {
    format_ident!("__arg{position}", span = Span::mixed_site())
}

fn is_cfg(attr: &Attribute) -> bool {
    attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr")
}

/// Whether `attr` sets the level of a lint.
pub(crate) fn is_lint(attr: &Attribute) -> bool {
    ["allow", "expect", "warn", "deny", "forbid"].iter().any(|level| attr.path().is_ident(level))
}
