//! The static table that describes the region to the runtime.

use crate::ast::{Axes, Entry, Inputs, List, Placement};
use crate::binding::{Binding, Bindings};
use crate::function::plain_name;
use crate::labels::Label;
use crate::model::{Region, Role};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Meta;

/// `static __REGION: RegionSpec = RegionSpec::new(name, params, outs).flags();`
pub(crate) fn region(region: &Region, bindings: &Bindings) -> TokenStream {
    let private = runtime(Span::mixed_site());
    let name = region.title();
    let params = bindings.inputs.iter().map(|input| param(input, &private));
    let outs = region.outputs.leaves().into_iter().map(|label| out(label, &private)).collect::<Vec<_>>();
    let grads = grads(region, bindings, &private);
    let axes = axes(region);
    let reshard = region.args.reshard.then(|| quote!(.reshard()));
    let recompute = region.recomputes().then(|| quote!(.recompute()));
    let check = region.args.check.then(|| quote!(.check()));
    let spec = quote! {
        #private::RegionSpec::new(#name, &[#(#params),*], &[#(#outs),*]) #grads #axes #reshard #recompute #check
    };
    let spec = with_context(spec, bindings.contexts.first());
    quote_spanned!(Span::mixed_site()=> static __REGION: #private::RegionSpec = #spec;)
}

/// What expansions use, by the short name that their first line gives it.
pub(crate) fn runtime(span: Span) -> TokenStream {
    quote_spanned!(span=> __m)
}

/// A call cannot stand under the `#[cfg]`s of the context, but a statement can.
fn with_context(spec: TokenStream, context: Option<&Binding>) -> TokenStream {
    match context {
        None => spec,
        Some(Binding { cfgs, .. }) if cfgs.is_empty() => quote!(#spec.context()),
        Some(Binding { cfgs, .. }) => quote_spanned! {Span::mixed_site()=> {
            let __spec = #spec;
            #(#cfgs)* let __spec = __spec.context();
            __spec
        }},
    }
}

/// `.grad(&[Grad::Default, ..])`, where the attribute speaks of gradients.
fn grads(region: &Region, bindings: &Bindings, private: &TokenStream) -> Option<TokenStream> {
    let Some(Inputs::Each(_) | Inputs::Named(_)) = &region.args.grads else {
        return None;
    };
    let grads = bindings.inputs.iter().map(|input| grad(input, private));
    Some(quote!(.grad(&[#(#grads),*])))
}

fn grad(input: &Binding, private: &TokenStream) -> TokenStream {
    let cfgs = &input.cfgs;
    match input.parameter.grad {
        Some(Entry::Placed(list)) => {
            let placed = labelled(list, private);
            quote!(#(#cfgs)* #private::Grad::#placed)
        }
        _ => quote!(#(#cfgs)* #private::Grad::Default),
    }
}

fn param(input: &Binding, private: &TokenStream) -> TokenStream {
    let (cfgs, name) = (&input.cfgs, input.parameter.name());
    match input.parameter.role {
        Role::Placed(list) => {
            let placed = placed(&name, list, private);
            quote!(#(#cfgs)* #placed)
        }
        _ => quote!(#(#cfgs)* #private::Param::any(#name)),
    }
}

fn out(label: &Label, private: &TokenStream) -> TokenStream {
    match label {
        Label::Plain | Label::Detached | Label::Each(_) => quote!(#private::Out::Plain),
        Label::Placed(list) => {
            let placed = list.map_or_else(|| quote!(Placed(&[])), |list| labelled(list, private));
            quote!(#private::Out::#placed)
        }
    }
}

/// `.axes(&["dp", "tp"])`, where the attribute names its axes; `axes_among` where it is open.
fn axes(region: &Region) -> Option<TokenStream> {
    let Axes::Given(axes) = &region.args.axes else {
        return None;
    };
    let names = axes.iter().map(plain_name);
    Some(match region.args.is_open() {
        true => quote!(.axes_among(&[#(#names),*])),
        false => quote!(.axes(&[#(#names),*])),
    })
}

/// `Param::placed("x", &[Want::Shard(0)])`, or `Param::named("x", &[("tp", Want::Shard(0))], true)`
pub(crate) fn placed(name: &str, list: &List, private: &TokenStream) -> TokenStream {
    match by_name(list, private) {
        None => {
            let wants = wants(list, private);
            quote!(#private::Param::placed(#name, #wants))
        }
        Some(by_name) => quote!(#private::Param::named(#name, #by_name)),
    }
}

/// `Placed(&[Want::Shard(0)])`, or `Named(&[("tp", Want::Shard(0))], true)`
pub(crate) fn labelled(list: &List, private: &TokenStream) -> TokenStream {
    match by_name(list, private) {
        None => {
            let wants = wants(list, private);
            quote!(Placed(#wants))
        }
        Some(by_name) => quote!(Named(#by_name)),
    }
}

/// `&[("tp", Want::Shard(0))], true`, of a list by axis name.
fn by_name(list: &List, private: &TokenStream) -> Option<TokenStream> {
    let names = list.names.as_ref()?.iter().map(plain_name);
    let wants = list.placements.iter().map(|placement| want(placement, private));
    let rest = list.rest.is_some();
    Some(quote!(&[#((#names, #wants)),*], #rest))
}

/// `&[Want::Shard(0), ..]`
fn wants(list: &List, private: &TokenStream) -> TokenStream {
    let wants = list.placements.iter().map(|placement| want(placement, private));
    quote!(&[#(#wants),*])
}

fn want(placement: &Placement, private: &TokenStream) -> TokenStream {
    match placement {
        Placement::Shard { dim, ragged } => {
            let kind = Ident::new(if ragged.is_some() { "Ragged" } else { "Shard" }, Span::call_site());
            let dim = Literal::i64_unsuffixed(*dim);
            quote!(#private::Want::#kind(#dim))
        }
        Placement::Partial { op, .. } => {
            let op = Ident::new(op.name(), Span::call_site());
            quote!(#private::Want::Partial(#private::Op::#op))
        }
        // What cannot be read was reported: any placement will do.
        Placement::Replicate | Placement::Unreadable => quote!(#private::Want::Replicate),
    }
}

/// The place in the table of the input behind `earlier`, some of which `#[cfg]` may remove.
pub(crate) fn index(earlier: &[Binding]) -> TokenStream {
    let sure = Literal::usize_unsuffixed(earlier.iter().filter(|input| conditions(input).is_empty()).count());
    let unsure = earlier.iter().map(conditions).filter(|conditions| !conditions.is_empty());
    quote!(#sure #(+ ::core::cfg!(all(#(#unsure),*)) as usize)*)
}

fn conditions(input: &Binding) -> Vec<TokenStream> {
    let conditions = input.cfgs.iter().filter_map(|attr| match &attr.meta {
        Meta::List(list) if attr.path().is_ident("cfg") => Some(list.tokens.clone()),
        _ => None,
    });
    conditions.collect()
}
