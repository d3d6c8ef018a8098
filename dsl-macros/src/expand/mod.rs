//! The tokens of the wrapper.
//!
//! ```text
//! #[local_map(out = [Partial(Sum)], in = [[Shard(0)], _], reshard)]
//! pub fn masked_mean(x: &Tensor, mask: &Tensor) -> Result<Tensor> { body }
//! ```
//!
//! becomes
//!
//! ```text
//! #[track_caller]
//! pub fn masked_mean(x: &DTensor<impl Axes<1>>, mask: &Tensor) -> Result<DTensor<(Partial,)>> {    // bounds: see `layout`
//!     use ::local_map::__private as __m;
//!     static __REGION: __m::RegionSpec = __m::RegionSpec::new(
//!         "masked_mean",
//!         &[__m::Param::placed("x", &[__m::Want::Shard(0)])],        // the distributed parameters
//!         &[__m::Out::Placed(&[__m::Want::Partial(__m::Op::Sum)])],
//!     ).reshard();
//!     let mut __call = __REGION.call();                    // or `call_on(&(mesh))`; with `on`: `output_on(0, &(mesh))`
//!     let __input0 = __call.input(0, x);
//!     __call.ready()?;
//!     __call.run::<__m::Typed<_>, _, _>(|__locals| -> Result<Tensor> {    // `Dist` where there is no layout
//!         let x: &Tensor = __locals.take(__input0);
//!         #[allow(unused_braces)]
//!         { body }
//!     })
//! }
//! ```
//!
//! A struct that derives `Distribute` is handed over by `let __input0 = __call.fields(0, mlp);`, and put together for the body by
//! `let __input0 = __locals.layer(__input0); let mlp: &Mlp<Tensor> = &__input0;`.
//!
//! The context is bound by `let ctx: &Region = __locals.region();`. With `recompute` the body must be able to run more than
//! once, so it takes copies:
//!
//! ```text
//!     kept::<f32>();                                       // `f32: Clone + Send + 'static`, or an error on the type
//!     __call.run_again::<Dist, _, _>({
//!         let __kept0 = scale;
//!         move |__locals: &Locals| -> Result<Tensor> {
//!             let scale = Clone::clone(&__kept0);
//!             let x: &Tensor = __locals.take(Clone::clone(&__input0));
//!             { body }
//!         }
//!     })
//! ```
//!
//! Of a layer, of structs and of `self` it keeps a clone, too.

mod recompute;

use crate::ast::{Entry, List, Mesh, Outputs};
use crate::binding::{Binding, Bindings};
use crate::function::Body;
use crate::labels::{Label, Labels};
use crate::layer;
use crate::layout;
use crate::model::{Region, Returned};
use crate::signature;
use crate::table;
use crate::tuples::Tuple;
use crate::types;
use proc_macro2::{Delimiter, Group, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

/// The function as callers see it.
pub(crate) fn wrapper(region: &Region) -> TokenStream {
    let function = region.function;
    let bindings = Bindings::new(region);
    let sig = signature::wrapper(region, &bindings);
    let (attrs, vis) = (&function.attrs, &function.vis);
    let inner = function.body.as_ref().map(|body| &body.attrs);
    let body = match &function.body {
        Some(body) if can_run(region) => statements(region, &bindings, body).into_token_stream(),
        Some(_) => stand_in(&bindings),
        None => quote!(;),
    };
    let track_caller = needs_track_caller(region).then(|| quote!(#[track_caller]));
    let allowed = layout::makes_long_types(region).then(|| quote!(#[allow(clippy::type_complexity)]));
    quote! { #(#attrs)* #inner #track_caller #allowed #vis #sig #body }
}

/// A body for a function whose own cannot run; it names the author's types, so that their imports stay used.
fn stand_in(bindings: &Bindings) -> TokenStream {
    let gone = bindings.inputs.iter().chain(&bindings.contexts);
    let types = gone.map(|binding| types::without_lifetimes(binding.ty));
    quote!({ #![allow(unused_variables)] #(let _: #types;)* ::core::panic!() })
}

/// Not twice, and not where the compiler would refuse it on top of our own refusal.
fn needs_track_caller(region: &Region) -> bool {
    let has = region.function.attrs.iter().any(|attr| attr.path().is_ident("track_caller"));
    !has && region.function.sig.abi.is_none()
}

/// Whether the body can live in a closure and its results be treated; where not, that was reported.
fn can_run(region: &Region) -> bool {
    let sig = &region.function.sig;
    region.outputs.longest() <= Labels::MOST
        && sig.asyncness.is_none()
        && sig.constness.is_none()
        && sig.variadic.is_none()
        && !returns_reference(region)
}

/// Whether a reference is to be labelled, which was reported.
fn returns_reference(region: &Region) -> bool {
    let elements = region.result.value().map_or(&[][..], |value| &value.elements);
    let is_labelled = |at: usize| match &region.outputs {
        Labels::Whole(label) => matches!(label, Label::Placed(_)),
        Labels::Each(labels) => matches!(labels.get(at), Some(Label::Placed(_))),
    };
    elements.iter().enumerate().any(|(at, ty)| is_labelled(at) && matches!(types::bare(ty), syn::Type::Reference(_)))
}

fn statements(region: &Region, bindings: &Bindings, body: &Body) -> Group {
    // Errors about the result type belong on the result type.
    let here = Span::mixed_site().located_at(signature::output_span(&region.function.sig));
    let inputs = &bindings.inputs;
    let region_table = table::region(region, bindings);
    let call = call(region);
    let elsewhere = region.outputs.elsewhere().into_iter().map(output_on);
    let layer = layer::hand_over(region);
    let hand_over = inputs.iter().enumerate().map(|(at, input)| hand_over(at, input, inputs));
    let can_be_kept = recompute::can_be_kept(region, bindings);
    let place_themselves = place_themselves(region);
    let ready = quote_spanned!(here=> __call.ready()?;);
    let run = match region.recomputes() {
        true => recompute::run_again(region, bindings, body, here),
        false => run(region, bindings, body, here),
    };
    let krate = region.krate(Span::mixed_site());
    let take_apart = region.function.tuples.iter().map(Tuple::take_apart);
    let statements = quote! {
        use #krate::__private as __m;
        #(#take_apart)*
        #region_table
        #call
        #(#elsewhere)*
        #layer
        #(#hand_over)*
        #(#can_be_kept)*
        #(#place_themselves)*
        #ready
        #run
    };
    // On the author's braces the compiler still sees an item of the author's: unused ones are warned about.
    let mut block = Group::new(Delimiter::Brace, statements);
    block.set_span(body.block.span());
    block
}

fn run(region: &Region, bindings: &Bindings, body: &Body, here: Span) -> TokenStream {
    let layer = region.layer.map(layer::take);
    let take = bindings.inputs.iter().map(take);
    let supply = bindings.contexts.iter().map(supply);
    let before = &body.before;
    let (markers, ty, block) = (markers(region, here), closure_type(region), &body.block);
    // The body keeps its braces, so that its items do not shadow the types above it, and the author's spans.
    quote_spanned! {here=>
        __call.run::<#markers, _, _>(|__locals| -> #ty {
            #layer
            #(#take)*
            #(#supply)*
            #before
            #[allow(unused_braces)]
            #block
        })
    }
}

fn call(region: &Region) -> TokenStream {
    match &region.args.mesh {
        Mesh::Given(mesh) => {
            let here = Span::mixed_site().located_at(mesh.span());
            quote_spanned!(here=> let mut __call = __REGION.call_on(&(#mesh));)
        }
        _ => quote_spanned!(Span::mixed_site()=> let mut __call = __REGION.call();),
    }
}

/// `__call.output_on(1, &(mesh));`
fn output_on((output, mesh): (usize, &Expr)) -> TokenStream {
    let output = Literal::usize_unsuffixed(output);
    let here = Span::mixed_site().located_at(mesh.span());
    quote_spanned!(here=> __call.output_on(#output, &(#mesh));)
}

/// `places_itself::<Mlp<Tensor>>();`, which costs nothing, for every output that is `{..}`.
fn place_themselves<'a>(region: &'a Region) -> impl Iterator<Item = TokenStream> + 'a {
    let entries = match &region.args.outputs {
        Some(Outputs::Each(entries)) => entries.items.as_slice(),
        _ => &[],
    };
    let elements = region.result.value().into_iter().flat_map(|value| &value.elements);
    entries.iter().zip(elements).flat_map(|(entry, ty)| own_types(entry, ty)).map(|ty| {
        let here = Span::mixed_site().located_at(ty.span());
        let runtime = table::runtime(here);
        quote_spanned!(here=> #runtime::places_itself::<#ty>();)
    })
}

/// The types of results that are placed as their own fields say.
fn own_types<'a>(entry: &Entry, ty: &'a syn::Type) -> Vec<&'a syn::Type> {
    match (entry, types::bare(ty)) {
        (Entry::Own(_), _) => vec![ty],
        (Entry::Tuple(entries), syn::Type::Tuple(tuple)) => {
            entries.items.iter().zip(&tuple.elems).flat_map(|(entry, ty)| own_types(entry, ty)).collect()
        }
        _ => Vec::new(),
    }
}

/// `let __input0 = __call.input(0, x);`, or `.. = __call.fields(0, mlp);` for a struct.
fn hand_over(at: usize, input: &Binding, all: &[Binding]) -> TokenStream {
    let (cfgs, handle, outer) = (&input.cfgs, &input.handle, &input.outer);
    let index = table::index(&all[..at]);
    let here = input.type_span();
    match input.structs {
        None => quote_spanned!(here=> #(#cfgs)* let #handle = __call.input(#index, #outer);),
        Some(structs) => {
            let structs = structs.borrowed(outer, here);
            quote_spanned!(here=> #(#cfgs)* let #handle = __call.fields(#index, #structs);)
        }
    }
}

/// `let x: &Tensor = __locals.take(__input0);`; of a struct, which is put together here, a reference to it.
fn take(input: &Binding) -> TokenStream {
    let handle = &input.handle;
    take_from(input, quote!(#handle))
}

fn take_from(input: &Binding, handle: TokenStream) -> TokenStream {
    let (attrs, pat) = (&input.inner_attrs, input.pat);
    let ty = types::without_lifetimes(input.ty);
    let here = input.type_span();
    match input.structs {
        None => quote_spanned!(here=> #(#attrs)* let #pat: #ty = __locals.take(#handle);),
        Some(structs) => {
            let (cfgs, local) = (&input.cfgs, &input.handle);
            let lent = structs.lent(local);
            quote_spanned! {here=>
                #(#cfgs)* let #local = __locals.layer(#handle);
                #(#attrs)* let #pat: #ty = #lent;
            }
        }
    }
}

/// `let ctx: &Region = __locals.region();`
fn supply(context: &Binding) -> TokenStream {
    let (attrs, pat) = (&context.inner_attrs, context.pat);
    let ty = types::behind_reference(context.ty);
    let here = Span::mixed_site().located_at(context.ty.span());
    quote_spanned!(here=> #(#attrs)* let #pat: &#ty = __locals.region();)
}

/// The types that say how each element of the result is treated.
fn markers(region: &Region, here: Span) -> TokenStream {
    let elements = region.result.value().map_or(&[][..], |value| &value.elements);
    match &region.outputs {
        Labels::Whole(label) => marker(region, label, elements.first(), here),
        Labels::Each(labels) => {
            let markers = labels.iter().enumerate().map(|(at, label)| marker(region, label, elements.get(at), here));
            quote_spanned!(here=> (#(#markers,)*))
        }
    }
}

fn marker(region: &Region, label: &Label, ty: Option<&syn::Type>, here: Span) -> TokenStream {
    let private = table::runtime(here);
    match label {
        Label::Plain => quote_spanned!(here=> #private::Plain),
        Label::Detached => quote_spanned!(here=> #private::Detached),
        Label::Placed(list) => match layout_of(region, *list, ty, &region.krate(here)) {
            Some(_) => quote_spanned!(here=> #private::Typed<_>),
            None => quote_spanned!(here=> #private::Dist),
        },
        Label::Each(labels) => {
            let tuple = match ty.map(types::bare) {
                Some(syn::Type::Tuple(tuple)) => Some(tuple),
                _ => None,
            };
            let markers = labels.iter().enumerate().map(|(at, label)| {
                let ty = tuple.and_then(|tuple| tuple.elems.iter().nth(at));
                marker(region, label, ty, here)
            });
            quote_spanned!(here=> (#(#markers,)*))
        }
    }
}

/// The layout of a labelled element of the result, whose type an alias may hide.
fn layout_of(region: &Region, list: Option<&List>, ty: Option<&syn::Type>, krate: &TokenStream) -> Option<TokenStream> {
    match (&region.result, ty) {
        (Returned::Alias(alias), _) => layout::of_alias(region, list, alias, krate),
        (_, Some(ty)) => layout::result(region, list, ty, krate),
        (_, None) => None,
    }
}

/// What the closure around the body returns: a closure sees `Self` and the generics, and with the type that the author
/// wrote, `return` and `?` are the body's own.
fn closure_type(region: &Region) -> syn::Type {
    match &region.function.sig.output {
        syn::ReturnType::Default => types::unit(),
        syn::ReturnType::Type(_, ty) => types::without_impl(ty),
    }
}

/// Whether the wrapper's result type can be written down.
pub(crate) fn is_possible(region: &Region) -> bool {
    !matches!((&region.result, &region.outputs), (Returned::Alias(_), Labels::Each(_)))
}
