//! What the compiler is told of placements: the layouts that arguments must have, and those that results get.
//!
//! `[Shard(0), Partial(Max)]` is, of a result, the type `(Shard<0>, Partial<Max>)`, and of an argument one bound per axis, each on the
//! author's token:
//!
//! ```text
//! &DTensor<impl Axes<2> + AxisOf<0, Placement: Placed<Shard<0>, Axis<'0'>>> + AxisOf<1, Placement: Placed<Partial<Max>, Axis<'1'>>>>
//! ```
//!
//! A dim that counts from the end, or whose pieces are ragged, is known at run time only.

use crate::ast::{Axes, List, Op, Placement};
use crate::function::plain_name;
use crate::labels::Label;
use crate::model::{Parameter, Region, Role};
use crate::tokens::located;
use crate::types;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Type, TypeReference};

/// The most mesh axes of a layout.
const MOST_AXES: usize = 4;
/// The most letters of the name of an axis in a message.
const MOST_LETTERS: usize = 8;

/// The type that the wrapper gives the parameter.
pub(crate) fn parameter(region: &Region, parameter: &Parameter, krate: &TokenStream) -> Type {
    let ty = &*parameter.written.ty;
    let bounds = if is_dynamic(region) { None } else { bounds(region, parameter, krate) };
    // The `impl` on the type: where a trait's method has no such parameter, the compiler says so there.
    let here = within(ty.span());
    bounds
        .and_then(|bounds| lone(ty, krate, &quote_spanned!(here=> <impl #bounds +>)))
        .unwrap_or_else(|| types::distributed(ty, krate))
}

/// Whether all placements are checked at run time only. A result that captures precisely, `impl Trait + use<..>`, would have to name the
/// layouts of the arguments, which have no names.
fn is_dynamic(region: &Region) -> bool {
    region.args.dynamic || region.unnamed_result().is_some_and(types::captures_precisely)
}

/// Whether the types of the signature get so long that it is not the author's fault.
pub(crate) fn makes_long_types(region: &Region) -> bool {
    let added = |label: &Label| match label {
        Label::Placed(Some(list)) => list.placements.len(),
        // A struct names its tensors.
        Label::Placed(None) => 1,
        Label::Plain | Label::Detached | Label::Each(_) => 0,
    };
    !is_dynamic(region) && region.outputs.leaves().into_iter().map(added).sum::<usize>() > 1
}

/// `ty`, a tensor or a reference to one, as a distributed tensor with this argument; `None` for another type.
fn lone(ty: &Type, krate: &TokenStream, argument: &TokenStream) -> Option<Type> {
    match types::bare(ty) {
        Type::Reference(reference) => {
            let elem = Box::new(lone(&reference.elem, krate, argument)?);
            Some(Type::Reference(TypeReference { elem, ..reference.clone() }))
        }
        ty if types::is_tensor(ty) => {
            let dtensor = types::dtensor(krate, ty.span());
            Some(Type::Verbatim(quote!(#dtensor #argument)))
        }
        _ => None,
    }
}

/// What is required of an argument's layout.
fn bounds(region: &Region, parameter: &Parameter, krate: &TokenStream) -> Option<TokenStream> {
    let list = match parameter.role {
        Role::Any => return Some(named("Layout", krate, parameter.written.ty.span())),
        Role::Placed(list) if is_layout(list) => list,
        _ => return None,
    };
    let axes = axes(list, krate);
    let each = list.placements.iter().enumerate();
    let each = each.filter(|_| !region.args.reshard).filter_map(|(axis, written)| {
        let here = within(written.span);
        let wanted = placement(written, written.span, krate)?;
        let name = axis_name(&region.args.axes, axis, krate, written.span);
        let at = Literal::usize_unsuffixed(axis);
        let (of, placed) = (named("AxisOf", krate, written.span), named("Placed", krate, written.span));
        Some(quote_spanned!(here=> + #of<#at, Placement: #placed<#wanted, #name>>))
    });
    Some(quote!(#axes #(#each)*))
}

/// `Axes<2>`, on the list.
fn axes(list: &List, krate: &TokenStream) -> TokenStream {
    let (axes, count) = (named("Axes", krate, list.span), Literal::usize_unsuffixed(list.placements.len()));
    quote_spanned!(within(list.span)=> #axes<#count>)
}

/// The layout of a result of type `ty` with this list, if the compiler can be told one: `(Shard<0>, Replicate)`.
pub(crate) fn result(region: &Region, list: Option<&List>, ty: &Type, krate: &TokenStream) -> Option<TokenStream> {
    let list = list.filter(|list| !is_dynamic(region) && is_layout(list) && types::is_tensor(ty))?;
    Some(tuple(list, krate, ty.span()))
}

/// The layout of a result that an alias stands for, which is a tensor unless the alias shows another type.
pub(crate) fn of_alias(region: &Region, list: Option<&List>, ty: &Type, krate: &TokenStream) -> Option<TokenStream> {
    match types::first_argument(ty).filter(|shown| types::mentions_tensor(shown)) {
        Some(shown) => result(region, list, shown, krate),
        None => list.filter(|list| !is_dynamic(region) && is_layout(list)).map(|list| tuple(list, krate, ty.span())),
    }
}

fn tuple(list: &List, krate: &TokenStream, span: Span) -> TokenStream {
    let here = within(span);
    let placements = list
        .placements
        .iter()
        .map(|written| placement(written, span, krate).unwrap_or_else(|| known("Dyn", krate, span)));
    quote_spanned!(here=> (#(#placements,)*))
}

/// Whether the list is known to be all that a mesh has: placements by axis name are found in the mesh of a call. And layouts have so many axes.
fn is_layout(list: &List) -> bool {
    list.names.is_none() && (1..=MOST_AXES).contains(&list.placements.len())
}

/// The placement as a type; `None` if it is known at run time only.
fn placement(placement: &Placement, span: Span, krate: &TokenStream) -> Option<TokenStream> {
    match placement {
        Placement::Shard { dim, ragged: None } if *dim >= 0 => {
            let (shard, dim) = (known("Shard", krate, span), Literal::i64_unsuffixed(*dim));
            Some(quote_spanned!(within(span)=> #shard<#dim>))
        }
        Placement::Replicate => Some(known("Replicate", krate, span)),
        Placement::Partial { op: Op::Sum, .. } => Some(known("Partial", krate, span)),
        Placement::Partial { op, .. } => {
            let (partial, op) = (known("Partial", krate, span), known(op.name(), krate, span));
            Some(quote_spanned!(within(span)=> #partial<#op>))
        }
        Placement::Shard { .. } | Placement::Unreadable => None,
    }
}

/// `Axis<'d', 'p'>`, or `Axis<'0'>` for an axis without a name.
fn axis_name(axes: &Axes, axis: usize, krate: &TokenStream, span: Span) -> TokenStream {
    let name = known("Axis", krate, span);
    let letters = match axes {
        Axes::Given(names) => names.get(axis).map_or_else(|| axis.to_string(), plain_name),
        Axes::Absent | Axes::Unreadable => axis.to_string(),
    };
    let letters = letters.chars().take(MOST_LETTERS).map(Literal::character);
    quote_spanned!(within(span)=> #name<#(#letters),*>)
}

/// `::local_map::Shard`
fn known(name: &str, krate: &TokenStream, span: Span) -> TokenStream {
    let (krate, name) = (located(krate.clone(), span), Ident::new(name, within(span)));
    quote_spanned!(within(span)=> #krate::#name)
}

/// `::local_map::types::Placed`
fn named(name: &str, krate: &TokenStream, span: Span) -> TokenStream {
    known(name, &quote!(#krate::types), span)
}

fn within(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}
