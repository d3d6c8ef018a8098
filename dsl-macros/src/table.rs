//! The static table that describes the region to the runtime.

use crate::ast::{List, Placement};
use crate::model::{Label, Labels, Region, Role};
use crate::signature::Input;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Meta;

/// `static __REGION: RegionSpec = RegionSpec::new(name, params, outs).flags();`
pub(crate) fn region(region: &Region, inputs: &[Input]) -> TokenStream {
    let krate = region.krate(Span::mixed_site());
    let private = quote!(#krate::__private);
    let name = region.function.name();
    let params = inputs.iter().map(|input| param(input, &private));
    let outs: Vec<TokenStream> = match &region.outputs {
        Labels::Whole(label) => vec![out(label, &private)],
        Labels::Each(labels) => labels.iter().map(|label| out(label, &private)).collect(),
    };
    let reshard = region.args.reshard.then(|| quote!(.reshard()));
    let check = region.args.check.then(|| quote!(.check()));
    quote_spanned! {Span::mixed_site()=>
        static __REGION: #private::RegionSpec =
            #private::RegionSpec::new(#name, &[#(#params),*], &[#(#outs),*]) #reshard #check;
    }
}

fn param(input: &Input, private: &TokenStream) -> TokenStream {
    let (cfgs, name) = (&input.cfgs, &input.name);
    match input.role {
        Role::Placed(list) => {
            let wants = wants(list, private);
            quote!(#(#cfgs)* #private::Param::placed(#name, #wants))
        }
        Role::Any | Role::Plain => quote!(#(#cfgs)* #private::Param::any(#name)),
    }
}

fn out(label: &Label, private: &TokenStream) -> TokenStream {
    match label {
        Label::Plain | Label::Detached => quote!(#private::Out::Plain),
        Label::Placed(list) => {
            let wants = list.map_or_else(|| quote!(&[]), |list| wants(list, private));
            quote!(#private::Out::Placed(#wants))
        }
    }
}

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
pub(crate) fn index(earlier: &[Input]) -> TokenStream {
    let sure = Literal::usize_unsuffixed(earlier.iter().filter(|input| conditions(input).is_empty()).count());
    let unsure = earlier.iter().map(conditions).filter(|conditions| !conditions.is_empty());
    quote!(#sure #(+ ::core::cfg!(all(#(#unsure),*)) as usize)*)
}

fn conditions(input: &Input) -> Vec<TokenStream> {
    let conditions = input.cfgs.iter().filter_map(|attr| match &attr.meta {
        Meta::List(list) if attr.path().is_ident("cfg") => Some(list.tokens.clone()),
        _ => None,
    });
    conditions.collect()
}
