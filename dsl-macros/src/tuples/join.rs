//! Tuples that were taken apart, put together again: in the wrapper's signature, and before the body.

use crate::function::simple_name;
use crate::{binding, types};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, PatType, Signature, Type, parse_quote};

/// A parameter that was taken apart.
#[derive(Clone)]
pub(crate) struct Tuple {
    /// As the author wrote it.
    pub(super) written: PatType,
    /// What the wrapper calls it.
    pub(super) outer: Ident,
    pub(super) parts: Vec<Part>,
}

/// What stands at one place of a tuple.
#[derive(Clone)]
pub(super) enum Part {
    /// A parameter of its own, by this name.
    Element(Ident),
    /// A tuple within.
    Tuple(Vec<Part>),
}

/// Puts the tuples together again in the wrapper's signature, whose parameters are of the wrapper's types.
pub(crate) fn join(tuples: &[Tuple], sig: &mut Signature) {
    for tuple in tuples {
        let Some(first) = tuple.first() else { continue };
        let Some(at) = sig.inputs.iter().position(|input| is_called(input, first)) else { continue };
        let mut inputs: Vec<FnArg> = std::mem::take(&mut sig.inputs).into_iter().collect();
        let mut taken = inputs.splice(at..at + tuple.count(), []).filter_map(|input| match input {
            FnArg::Typed(parameter) => Some(*parameter.ty),
            FnArg::Receiver(_) => None,
        });
        let ty = joined(&tuple.parts, &mut taken.by_ref());
        drop(taken);
        let (mut parameter, outer) = (tuple.written.clone(), &tuple.outer);
        *parameter.pat = parse_quote!(#outer);
        *parameter.ty = ty;
        parameter.attrs.retain(|attr| !attr.path().is_ident("place") && !binding::is_lint(attr));
        inputs.insert(at, FnArg::Typed(parameter));
        sig.inputs = inputs.into_iter().collect();
    }
}

fn is_called(input: &FnArg, name: &Ident) -> bool {
    matches!(input, FnArg::Typed(parameter) if simple_name(&parameter.pat) == Some(name))
}

fn joined(parts: &[Part], types: &mut dyn Iterator<Item = Type>) -> Type {
    let parts = parts.iter().map(|part| match part {
        Part::Element(_) => types.next().unwrap_or_else(types::unit),
        Part::Tuple(parts) => joined(parts, types),
    });
    let parts: Vec<Type> = parts.collect();
    parse_quote!((#(#parts,)*))
}

impl Tuple {
    fn first(&self) -> Option<&Ident> {
        fn first(parts: &[Part]) -> Option<&Ident> {
            parts.iter().find_map(|part| match part {
                Part::Element(name) => Some(name),
                Part::Tuple(parts) => first(parts),
            })
        }
        first(&self.parts)
    }

    fn count(&self) -> usize {
        fn count(parts: &[Part]) -> usize {
            let each = parts.iter().map(|part| match part {
                Part::Element(_) => 1,
                Part::Tuple(parts) => count(parts),
            });
            each.sum()
        }
        count(&self.parts)
    }

    /// `let (x, by) = tuple;`, at the beginning of the wrapper.
    pub(crate) fn take_apart(&self) -> TokenStream {
        let (parts, outer) = (names(&self.parts), &self.outer);
        let conditions = self.conditions();
        quote_spanned!(Span::mixed_site()=> #(#conditions)* let #parts = #outer;)
    }

    /// `let (x, by): (Tensor, f64) = (x, by);`, before the body.
    pub(super) fn put_together(&self) -> TokenStream {
        let (pat, parts) = (&self.written.pat, names(&self.parts));
        let ty = types::without_impl(&types::without_lifetimes(&self.written.ty));
        let here = Span::mixed_site().located_at(self.written.ty.span());
        let attrs = self.written.attrs.iter().filter(|attr| attr.path().is_ident("cfg") || binding::is_lint(attr));
        quote_spanned!(here=> #(#attrs)* let #pat: #ty = #parts;)
    }

    fn conditions(&self) -> impl Iterator<Item = &syn::Attribute> {
        self.written.attrs.iter().filter(|attr| attr.path().is_ident("cfg"))
    }
}

/// `(x, by)`
fn names(parts: &[Part]) -> TokenStream {
    let parts = parts.iter().map(|part| match part {
        Part::Element(name) => name.to_token_stream(),
        Part::Tuple(parts) => names(parts),
    });
    quote_spanned!(Span::mixed_site()=> (#(#parts,)*))
}
