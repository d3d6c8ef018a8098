//! A body that can run more than once: what it is run with is kept, and copied for every run.

use super::{closure_type, markers, supply, take_from};
use crate::binding::{Binding, Bindings};
use crate::function::Body;
use crate::model::Region;
use crate::table;
use crate::types;
use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned;

/// `kept::<f32>();`, which costs nothing: an error about keeping the parameter stands on its type.
pub(super) fn can_be_kept(kept: &Binding) -> Option<TokenStream> {
    if types::mentions_impl(kept.ty) {
        return None;
    }
    let (cfgs, ty) = (&kept.cfgs, kept.ty);
    let here = type_span(kept);
    let runtime = table::runtime(here);
    Some(quote_spanned!(here=> #(#cfgs)* #runtime::kept::<#ty>();))
}

/// Hands the body over as a closure that owns all it needs.
pub(super) fn run_again(region: &Region, bindings: &Bindings, body: &Body, here: Span) -> TokenStream {
    let runtime = table::runtime(here);
    let keep = bindings.kept.iter().map(keep);
    let copy = bindings.kept.iter().map(copy);
    let take = bindings.inputs.iter().map(|input| take_from(input, cloned(input)));
    let supply = bindings.contexts.iter().map(supply);
    let (markers, ty, block) = (markers(region, here), closure_type(region), &body.block);
    quote_spanned! {here=>
        __call.run_again::<#markers, _, _>({
            #(#keep)*
            move |__locals: &#runtime::Locals| -> #ty {
                #(#copy)*
                #(#take)*
                #(#supply)*
                #[allow(unused_braces)]
                #block
            }
        })
    }
}

/// `let __kept0 = scale;`
fn keep(kept: &Binding) -> TokenStream {
    let (cfgs, handle, outer) = (&kept.cfgs, &kept.handle, &kept.outer);
    quote_spanned!(type_span(kept)=> #(#cfgs)* let #handle = #outer;)
}

/// `let scale = Clone::clone(&__kept0);`
fn copy(kept: &Binding) -> TokenStream {
    let (attrs, pat, handle, ty) = (&kept.inner_attrs, kept.pat, &kept.handle, kept.ty);
    let copy = match types::mentions_impl(ty) {
        true => cloned(kept),
        false => quote_spanned!(type_span(kept)=> <#ty as ::core::clone::Clone>::clone(&#handle)),
    };
    quote_spanned!(type_span(kept)=> #(#attrs)* let #pat = #copy;)
}

fn cloned(binding: &Binding) -> TokenStream {
    let handle = &binding.handle;
    quote_spanned!(type_span(binding)=> ::core::clone::Clone::clone(&#handle))
}

fn type_span(binding: &Binding) -> Span {
    Span::mixed_site().located_at(binding.ty.span())
}
