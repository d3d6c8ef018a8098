//! A body that can run more than once: what it is run with is kept, and copied for every run.

use super::{closure_type, markers, supply, take_from};
use crate::binding::{Binding, Bindings};
use crate::function::Body;
use crate::model::Region;
use crate::{forward, layer, table, types};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Receiver, Type};

/// `kept::<f32>();`, which costs nothing: an error about keeping the parameter stands on its type.
pub(super) fn can_be_kept(region: &Region, bindings: &Bindings) -> Vec<TokenStream> {
    if !region.recomputes() {
        return Vec::new();
    }
    let this = region.own_receiver().map(|receiver| {
        let (ty, _) = forward::kept_receiver(receiver);
        kept(&ty, Span::mixed_site().located_at(forward::span(receiver)))
    });
    let plain = bindings.kept.iter().filter(|binding| !types::mentions_impl(binding.ty)).map(|binding| {
        let (cfgs, kept) = (&binding.cfgs, kept(binding.ty, binding.type_span()));
        quote!(#(#cfgs)* #kept)
    });
    this.into_iter().chain(plain).collect()
}

fn kept(ty: &Type, here: Span) -> TokenStream {
    let runtime = table::runtime(here);
    quote_spanned!(here=> #runtime::kept::<#ty>();)
}

/// Hands the body over as a closure that owns all it needs.
pub(super) fn run_again(region: &Region, bindings: &Bindings, body: &Body, here: Span) -> TokenStream {
    let runtime = table::runtime(here);
    let (keep_layer, take_layer) = region.layer.map(layer).unzip();
    let keep_this = region.own_receiver().map(keep_this);
    let structs = bindings.inputs.iter().filter(|input| input.structs.is_some()).map(keep_struct);
    let keep = bindings.kept.iter().map(keep);
    let copy = bindings.kept.iter().map(copy);
    let take = bindings.inputs.iter().map(|input| take_from(input, again(input)));
    let supply = bindings.contexts.iter().map(supply);
    let before = &body.before;
    let (markers, ty, block) = (markers(region, here), closure_type(region), &body.block);
    quote_spanned! {here=>
        #keep_layer
        #(#structs)*
        __call.run_again::<#markers, _, _>({
            #keep_this
            #(#keep)*
            move |__locals: &#runtime::Locals| -> #ty {
                #take_layer
                #(#copy)*
                #(#take)*
                #(#supply)*
                #before
                #[allow(unused_braces)]
                #block
            }
        })
    }
}

/// What keeps a layer, and what takes it within the body.
fn layer(local: &Type) -> (TokenStream, TokenStream) {
    let here = Span::mixed_site().located_at(local.span());
    let keep = quote_spanned!(here=> let __layer = __call.keep(&__layer););
    (keep, layer::take_from(local, quote_spanned!(here=> __layer.held())))
}

/// `let __this = Clone::clone(self);`
fn keep_this(receiver: &Receiver) -> TokenStream {
    let here = Span::mixed_site().located_at(forward::span(receiver));
    let this = Ident::new("self", receiver.self_token.span);
    match forward::kept_receiver(receiver) {
        (ty, true) => quote_spanned!(here=> let __this = <#ty as ::core::clone::Clone>::clone(#this);),
        (_, false) => quote_spanned!(here=> let __this = #this;),
    }
}

/// `let __input0 = __call.keep(&__input0);`
fn keep_struct(input: &Binding) -> TokenStream {
    let (cfgs, handle) = (&input.cfgs, &input.handle);
    quote_spanned!(input.type_span()=> #(#cfgs)* let #handle = __call.keep(&#handle);)
}

/// What the body takes an input from, as often as it runs.
fn again(input: &Binding) -> TokenStream {
    let handle = &input.handle;
    match input.structs {
        None => cloned(input),
        Some(_) => quote_spanned!(input.type_span()=> #handle.held()),
    }
}

/// `let __kept0 = scale;`
fn keep(kept: &Binding) -> TokenStream {
    let (cfgs, handle, outer) = (&kept.cfgs, &kept.handle, &kept.outer);
    quote_spanned!(kept.type_span()=> #(#cfgs)* let #handle = #outer;)
}

/// `let scale = Clone::clone(&__kept0);`
fn copy(kept: &Binding) -> TokenStream {
    let (attrs, pat, handle, ty) = (&kept.inner_attrs, kept.pat, &kept.handle, kept.ty);
    let copy = match types::mentions_impl(ty) {
        true => cloned(kept),
        false => quote_spanned!(kept.type_span()=> <#ty as ::core::clone::Clone>::clone(&#handle)),
    };
    quote_spanned!(kept.type_span()=> #(#attrs)* let #pat = #copy;)
}

fn cloned(binding: &Binding) -> TokenStream {
    let handle = &binding.handle;
    quote_spanned!(binding.type_span()=> ::core::clone::Clone::clone(&#handle))
}
