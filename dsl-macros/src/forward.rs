//! A function that calls another one with its own parameters, where the body stands in a method of its own: that of a layer,
//! or one that must be called again.
//!
//! ```text
//! #[local_map(in = [[Shard(0)]], out = [Shard(0)], recompute)]
//! fn scaled(&self, x: &Tensor) -> Result<Tensor> { body }
//! ```
//!
//! becomes the wrapper of the first of these, and the second:
//!
//! ```text
//! fn scaled(&self, x: &Tensor) -> Result<Tensor> { Self::__recompute_scaled(&__this, x) }
//! fn __recompute_scaled(&self, x: &Tensor) -> Result<Tensor> { body }
//! ```

use crate::function::{self, Body, Function};
use crate::model::Region;
use crate::types;
use crate::{ast::Args, binding, expand};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, FnArg, GenericParam, Generics, PatType, Receiver, ReceiverKind, Safety, Type, Visibility, parse_quote,
};

/// The method that is called.
pub(crate) struct Target<'a> {
    /// `<Mlp<Tensor>>::forward`, spanned on the method's body.
    pub(crate) path: TokenStream,
    /// Its first argument.
    pub(crate) this: TokenStream,
    /// How a parameter's type, and the result's, is written in the wrapper.
    pub(crate) retyped: &'a dyn Fn(&Type) -> Type,
}

/// The method with simple names for all parameters, whose body calls the target.
pub(crate) fn to(target: &Target, method: &Function) -> Function {
    let mut sig = method.sig.clone();
    for (position, parameter) in sig.inputs.iter_mut().filter_map(typed).enumerate() {
        let name = function::simple_name(&parameter.pat).cloned().unwrap_or_else(|| binding::fresh_name(position));
        *parameter.pat = parse_quote!(#name);
        parameter.attrs.retain(|attr| attr.path().is_ident("place"));
        *parameter.ty = (target.retyped)(&parameter.ty);
    }
    if let syn::ReturnType::Type(_, ty) = &mut sig.output {
        **ty = (target.retyped)(ty);
    }
    let block = method.body.as_ref().map(|body| call(target, &sig, body.block.span()));
    let body = block.map(|block| Body { attrs: TokenStream::new(), before: TokenStream::new(), block });
    Function { attrs: method.attrs.clone(), vis: method.vis.clone(), sig, body, tuples: method.tuples.clone() }
}

/// `{ <Mlp<Tensor>>::forward(&__layer, x) }`
fn call(target: &Target, sig: &syn::Signature, span: Span) -> Group {
    let (path, this) = (&target.path, &target.this);
    let here = Span::mixed_site().located_at(span);
    let generics = turbofish(&sig.generics);
    let arguments = sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(parameter) => Some(&parameter.pat),
        FnArg::Receiver(_) => None,
    });
    let call = quote_spanned!(here=> #path #generics (#this, #(#arguments),*));
    let call = if matches!(sig.safety, Safety::Unsafe(_)) { quote_spanned!(here=> unsafe { #call }) } else { call };
    let mut block = Group::new(Delimiter::Brace, call);
    block.set_span(span);
    block
}

fn typed(input: &mut FnArg) -> Option<&mut PatType> {
    match input {
        FnArg::Typed(parameter) => Some(parameter),
        FnArg::Receiver(_) => None,
    }
}

/// `::<T, N>`; lifetimes are inferred.
fn turbofish(generics: &Generics) -> Option<TokenStream> {
    let names = generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(param) => Some(&param.ident),
        GenericParam::Const(param) => Some(&param.ident),
        GenericParam::Lifetime(_) => None,
    });
    let names: Vec<&Ident> = names.collect();
    (!names.is_empty()).then(|| quote!(::<#(#names),*>))
}

/// The `#[cfg]`s on parameters: a call cannot hold an argument under a condition.
pub(crate) fn conditions(method: &Function) -> impl Iterator<Item = &Attribute> {
    let attrs = method.parameters().flat_map(|parameter| &parameter.attrs);
    attrs.filter(|attr| attr.path().is_ident("cfg"))
}

/// Whether the receiver is `&mut self`, by any notation.
pub(crate) fn is_mutable(receiver: &Receiver) -> bool {
    match &receiver.kind {
        ReceiverKind::Reference(_, _, mutability) => mutability.is_some(),
        ReceiverKind::Typed(_, ty) => {
            matches!(types::bare(ty), Type::Reference(reference) if reference.mutability.is_some())
        }
        _ => false,
    }
}

/// What a clone of the receiver is, and whether the method borrows it.
pub(crate) fn kept_receiver(receiver: &Receiver) -> (Type, bool) {
    match &receiver.kind {
        ReceiverKind::Typed(_, ty) => (types::behind_reference(ty).clone(), types::is_shared_reference(ty)),
        kind => (this(receiver.self_token.span), matches!(kind, ReceiverKind::Reference(..))),
    }
}

/// `Self`, whose errors appear at `span`.
pub(crate) fn this(span: Span) -> Type {
    Type::Verbatim(Ident::new("Self", span).into_token_stream())
}

/// The wrapper of a method whose body runs again, and beside it the method that has the body.
pub(crate) fn split(args: &Args, method: &Function, receiver: &Receiver) -> TokenStream {
    let name = sibling_name(args, method);
    let this = Ident::new("__this", Span::mixed_site());
    let this = match kept_receiver(receiver) {
        (_, true) => quote!(&#this),
        (_, false) => quote!(::core::clone::Clone::clone(&#this)),
    };
    let forwarding = to(&Target { path: quote!(Self::#name), this, retyped: &Type::clone }, method);
    let wrapper = expand::wrapper(&Region::new(args, &forwarding));
    let sibling = sibling(name, method);
    quote!(#wrapper #sibling)
}

/// On the flag: where no method can stand beside, in a trait's `impl`, the compiler says so there.
fn sibling_name(args: &Args, method: &Function) -> Ident {
    let span = args.recompute.unwrap_or_else(|| method.sig.ident.span());
    format_ident!("__recompute_{}", method.name(), span = span)
}

fn sibling(name: Ident, method: &Function) -> TokenStream {
    let attrs = method.attrs.iter().filter(|attr| !is_for_callers(attr));
    let mut sig = method.sig.clone();
    sig.ident = name;
    for parameter in sig.inputs.iter_mut().filter_map(typed) {
        parameter.attrs.retain(|attr| !attr.path().is_ident("place"));
    }
    let vis = Visibility::Inherited;
    let body = method.body.as_ref().map(|body| {
        let (inner, block) = (&body.attrs, body.whole());
        quote!(#inner #[doc(hidden)] #[allow(dead_code)] #vis #sig #block)
    });
    quote!(#(#attrs)* #body)
}

fn is_for_callers(attr: &Attribute) -> bool {
    ["doc", "deprecated", "must_use"].iter().any(|name| attr.path().is_ident(name))
}

/// Where errors about the receiver belong.
pub(crate) fn span(receiver: &Receiver) -> Span {
    match &receiver.kind {
        ReceiverKind::Typed(_, ty) => ty.span(),
        _ => receiver.self_token.span,
    }
}
