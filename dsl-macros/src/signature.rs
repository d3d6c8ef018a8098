//! The wrapper's signature: the author's, with `DTensor` where a tensor is distributed.

use crate::model::{Label, Labels, Parameter, Region, Returned, Role, Value};
use crate::types;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, FnArg, Pat, PatType, ReturnType, Signature, Token, Type, parse_quote};

/// A distributed parameter, by all the names that it has in the expansion.
pub(crate) struct Input<'a> {
    /// What messages call it.
    pub(crate) name: String,
    /// As the author wrote it: bound inside.
    pub(crate) pat: &'a Pat,
    pub(crate) ty: &'a Type,
    pub(crate) role: Role<'a>,
    /// The wrapper's parameter.
    pub(crate) outer: Ident,
    /// Between the two: where the region keeps it.
    pub(crate) handle: Ident,
    /// `#[cfg]`s: everything about the parameter is under them.
    pub(crate) cfgs: Vec<&'a Attribute>,
    /// Those, and the lint levels, which speak of the author's binding.
    pub(crate) inner_attrs: Vec<&'a Attribute>,
    /// The place among all parameters but `self`.
    position: usize,
}

/// The distributed parameters of `region`, in order.
pub(crate) fn inputs<'a>(region: &Region<'a>) -> Vec<Input<'a>> {
    let distributed = region.parameters.iter().enumerate().filter(|(_, it)| !matches!(it.role, Role::Plain));
    distributed.enumerate().map(|(at, (position, parameter))| input(at, position, parameter)).collect()
}

fn input<'a>(at: usize, position: usize, parameter: &Parameter<'a>) -> Input<'a> {
    let written = parameter.written;
    Input {
        name: parameter.name(),
        pat: &written.pat,
        ty: &written.ty,
        role: parameter.role,
        outer: outer_name(&written.pat, position),
        handle: format_ident!("__input{at}", span = Span::mixed_site()),
        cfgs: written.attrs.iter().filter(|attr| is_cfg(attr)).collect(),
        inner_attrs: written.attrs.iter().filter(|attr| is_cfg(attr) || is_lint(attr)).collect(),
        position,
    }
}

/// The author's name for the parameter, or a fresh one where the author's binding is more or less than a name.
fn outer_name(pat: &Pat, position: usize) -> Ident {
    match pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() && !pat.ident.to_string().starts_with('_') => {
            pat.ident.clone()
        }
        _ => format_ident!("__arg{position}", span = Span::mixed_site()),
    }
}

fn is_cfg(attr: &Attribute) -> bool {
    attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr")
}

fn is_lint(attr: &Attribute) -> bool {
    ["allow", "expect", "warn", "deny", "forbid"].iter().any(|level| attr.path().is_ident(level))
}

/// The signature of the wrapper.
pub(crate) fn wrapper(region: &Region, inputs: &[Input]) -> Signature {
    let mut sig = region.function.sig.clone();
    let krate = region.krate(output_span(&region.function.sig));
    let typed = sig.inputs.iter_mut().filter_map(|input| match input {
        FnArg::Typed(parameter) => Some(parameter),
        FnArg::Receiver(_) => None,
    });
    for (position, parameter) in typed.enumerate() {
        // Nothing expands `#[place]` yet, and that was reported.
        parameter.attrs.retain(|attr| !attr.path().is_ident("place"));
        if let Some(input) = inputs.iter().find(|input| input.position == position) {
            distribute(parameter, input, &krate);
        }
    }
    sig.output = output(region, &krate);
    sig
}

fn distribute(parameter: &mut PatType, input: &Input, krate: &TokenStream) {
    let outer = &input.outer;
    *parameter.pat = parse_quote!(#outer);
    *parameter.ty = types::distributed(&parameter.ty, krate);
    parameter.attrs.retain(|attr| !is_lint(attr));
}

fn output(region: &Region, krate: &TokenStream) -> ReturnType {
    let written = &region.function.sig.output;
    let arrow = match written {
        ReturnType::Type(arrow, _) => *arrow,
        ReturnType::Default => Token![->](region.function.sig.paren_token.span.close()),
    };
    let span = output_span(&region.function.sig);
    let ty = match &region.result {
        Returned::Result { written, value } => with_ok(written, labelled(value, &region.outputs, krate)),
        Returned::Plain(value) => {
            let value = labelled(value, &region.outputs, krate);
            Type::Verbatim(quote_spanned!(span=> #krate::Result<#value>))
        }
        Returned::Alias(ty) => Type::Verbatim(projected(ty, &region.outputs, krate)),
    };
    ReturnType::Type(arrow, Box::new(ty))
}

/// The result type's first token.
pub(crate) fn output_span(sig: &Signature) -> Span {
    match &sig.output {
        ReturnType::Type(_, ty) => ty.span(),
        ReturnType::Default => sig.ident.span(),
    }
}

fn with_ok(written: &Type, ok: Type) -> Type {
    let mut written = written.clone();
    if let Type::Path(path) = &mut written
        && let Some(place) = types::ok_of(&mut path.path)
    {
        *place = ok;
    }
    written
}

/// The type of the value, with `DTensor`s in the labelled elements.
fn labelled(value: &Value, labels: &Labels, krate: &TokenStream) -> Type {
    let mapped = |ty: &Type, label: &Label| match label {
        Label::Plain | Label::Detached => ty.clone(),
        Label::Placed(_) => types::distributed(ty, krate),
    };
    match (labels, value.elements.as_slice()) {
        (Labels::Each(labels), elements) => {
            let elements = elements.iter().zip(labels).map(|(ty, label)| mapped(ty, label));
            parse_quote!((#(#elements,)*))
        }
        (Labels::Whole(label), [only]) if !value.tuple => mapped(only, label),
        (Labels::Whole(_), elements) if value.tuple && elements.len() != 1 => {
            parse_quote!((#(#elements),*))
        }
        (Labels::Whole(_), elements) => parse_quote!((#(#elements,)*)),
    }
}

/// What an alias becomes is known only to the compiler.
fn projected(ty: &Type, labels: &Labels, krate: &TokenStream) -> TokenStream {
    let outcome = quote_spanned!(ty.span()=> <#ty as #krate::__private::Outcome>);
    let value = match labels {
        Labels::Whole(Label::Placed(_)) => alias_value(ty, krate),
        _ => quote_spanned!(ty.span()=> #outcome::Value),
    };
    quote_spanned!(ty.span()=> #outcome::With<#value>)
}

/// The labelled value of an alias: what its first argument shows, as in `Res<Vec<Tensor>>`, or else one tensor.
fn alias_value(ty: &Type, krate: &TokenStream) -> TokenStream {
    match types::first_argument(ty) {
        Some(shown) if types::mentions_tensor(shown) => types::distributed(shown, krate).into_token_stream(),
        _ => types::dtensor(krate, ty.span()),
    }
}
