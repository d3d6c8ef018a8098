//! The wrapper's signature: the author's, with `DTensor` where a tensor is distributed.

use crate::ast::List;
use crate::binding::{self, Binding, Bindings};
use crate::labels::{Label, Labels};
use crate::layout;
use crate::model::{Region, Returned, Value};
use crate::{place, tuples, types};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, PatType, ReturnType, Signature, Token, Type, parse_quote};

/// The signature of the wrapper.
pub(crate) fn wrapper(region: &Region, bindings: &Bindings) -> Signature {
    let mut sig = region.function.sig.clone();
    let krate = region.krate(output_span(&region.function.sig));
    if let Some(FnArg::Receiver(receiver)) = sig.inputs.first_mut() {
        receiver.attrs.retain(|attr| !place::is_entry(attr));
    }
    let typed = sig.inputs.iter_mut().filter_map(|input| match input {
        FnArg::Typed(parameter) => Some(parameter),
        FnArg::Receiver(_) => None,
    });
    for (position, parameter) in typed.enumerate() {
        // `#[place]` is an entry, and nothing else expands it.
        parameter.attrs.retain(|attr| !place::is_entry(attr));
        if let Some(input) = binding::at(position, &bindings.inputs) {
            rename(parameter, input);
            *parameter.ty = layout::parameter(region, &input.parameter, &krate);
        }
        if let Some(kept) = binding::at(position, &bindings.kept) {
            rename(parameter, kept);
        }
    }
    leave_out(&bindings.contexts, &mut sig);
    tuples::join(&region.function.tuples, &mut sig);
    sig.output = output(region, &krate);
    sig
}

/// Binds the parameter to what the wrapper calls it.
fn rename(parameter: &mut PatType, binding: &Binding) {
    let outer = &binding.outer;
    *parameter.pat = parse_quote!(#outer);
    parameter.attrs.retain(|attr| !binding::is_lint(attr));
}

fn leave_out(contexts: &[Binding], sig: &mut Signature) {
    if contexts.is_empty() {
        return;
    }
    let receivers = usize::from(sig.receiver().is_some());
    let inputs = std::mem::take(&mut sig.inputs).into_iter().enumerate();
    let kept = inputs.filter(|(at, _)| !contexts.iter().any(|context| context.position + receivers == *at));
    sig.inputs = kept.map(|(_, input)| input).collect();
}

fn output(region: &Region, krate: &TokenStream) -> ReturnType {
    let written = &region.function.sig.output;
    let arrow = match written {
        ReturnType::Type(arrow, _) => *arrow,
        ReturnType::Default => Token![->](region.function.sig.paren_token.span.close()),
    };
    let span = output_span(&region.function.sig);
    let ty = match &region.result {
        Returned::Result { written, value } => with_ok(written, labelled(region, value, krate)),
        Returned::Plain(value) => {
            let value = labelled(region, value, krate);
            Type::Verbatim(quote_spanned!(span=> #krate::Result<#value>))
        }
        Returned::Alias(ty) => Type::Verbatim(projected(region, ty, krate)),
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
fn labelled(region: &Region, value: &Value, krate: &TokenStream) -> Type {
    let mapped = |ty: &Type, label: &Label| element(region, ty, label, krate);
    match (&region.outputs, value.elements.as_slice()) {
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

fn element(region: &Region, ty: &Type, label: &Label, krate: &TokenStream) -> Type {
    match (label, types::bare(ty)) {
        (Label::Plain | Label::Detached, _) => ty.clone(),
        (Label::Each(labels), Type::Tuple(tuple)) => {
            let elements = tuple.elems.iter().zip(labels).map(|(ty, label)| element(region, ty, label, krate));
            parse_quote!((#(#elements,)*))
        }
        (Label::Placed(list), _) if let Some(layout) = layout::result(region, *list, ty, krate) => {
            tensor_of(&layout, krate, ty.span())
        }
        (Label::Placed(_) | Label::Each(_), _) => types::distributed(ty, krate),
    }
}

/// What an alias becomes is known only to the compiler.
fn projected(region: &Region, ty: &Type, krate: &TokenStream) -> TokenStream {
    let outcome = quote_spanned!(ty.span()=> <#ty as #krate::__private::Outcome>);
    let value = match &region.outputs {
        Labels::Whole(Label::Placed(list)) => alias_value(region, *list, ty, krate),
        _ => quote_spanned!(ty.span()=> #outcome::Value),
    };
    quote_spanned!(ty.span()=> #outcome::With<#value>)
}

/// The labelled value of an alias: what its first argument shows, as in `Res<Vec<Tensor>>`, or else one tensor.
fn alias_value(region: &Region, list: Option<&List>, ty: &Type, krate: &TokenStream) -> TokenStream {
    match (layout::of_alias(region, list, ty, krate), types::first_argument(ty)) {
        (Some(layout), _) => tensor_of(&layout, krate, ty.span()).into_token_stream(),
        (None, Some(shown)) if types::mentions_tensor(shown) => types::distributed(shown, krate).into_token_stream(),
        _ => types::dtensor(krate, ty.span()),
    }
}

/// `DTensor<layout>`
fn tensor_of(layout: &TokenStream, krate: &TokenStream, span: Span) -> Type {
    let dtensor = types::dtensor(krate, span);
    Type::Verbatim(quote!(#dtensor<#layout>))
}
