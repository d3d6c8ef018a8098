//! What can be told about a type from the way it is written.

use crate::structs::{self, is_struct, structs};
use crate::tokens::located;
use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::{GenericArgument, Lifetime, Path, PathArguments, Type, TypeParamBound, TypePath, parse_quote};

/// How a parameter's type relates to tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `Tensor`, `&Tensor`, `&[Tensor]`, `Vec<Tensor>`, and `Option` or an array of these: a distributed value.
    Distributed,
    /// `&Vec<Tensor>`, `&[&Tensor]`, `&[Tensor; N]`: a slice of tensors would do.
    Sequence,
    /// `&Option<Tensor>`
    RefOption,
    /// `&mut Tensor`, or a mutable slice.
    Mutable,
    /// A tuple with tensors in it.
    Tuple,
    /// `[&Mlp<Tensor>; N]`, and other ways to give structs that are not taken apart.
    Structs,
    /// Anything else.
    Other,
}

/// Tells what a parameter of type `ty` is.
pub(crate) fn class(ty: &Type) -> Class {
    match shape(ty) {
        Class::Distributed if structs(ty).is_none() && mentions_struct(ty) => Class::Structs,
        Class::Sequence | Class::RefOption if mentions_struct(ty) => Class::Structs,
        class => class,
    }
}

fn shape(ty: &Type) -> Class {
    match bare(ty) {
        Type::Reference(reference) if reference.mutability.is_some() => match mentions_tensor(ty) {
            true => Class::Mutable,
            false => Class::Other,
        },
        Type::Reference(reference) => class_behind_reference(&reference.elem),
        Type::Tuple(_) if mentions_tensor(ty) => Class::Tuple,
        Type::Array(array) => class(&array.elem),
        owned if is_tensor(owned) || is_struct(owned) => Class::Distributed,
        owned => match (argument_of(owned, "Option"), argument_of(owned, "Vec")) {
            (Some(inner), _) => class(inner),
            (_, Some(element)) if is_tensor(element) || is_struct(element) => Class::Distributed,
            (_, Some(element)) => class_of_sequence(element),
            _ => Class::Other,
        },
    }
}

fn class_behind_reference(ty: &Type) -> Class {
    match bare(ty) {
        Type::Slice(slice) if is_tensor(&slice.elem) || is_struct(&slice.elem) => Class::Distributed,
        Type::Slice(slice) => class_of_sequence(&slice.elem),
        Type::Array(array) => class_of_sequence(&array.elem),
        Type::Tuple(_) if mentions_tensor(ty) => Class::Tuple,
        ty if is_tensor(ty) || is_struct(ty) => Class::Distributed,
        ty => match (argument_of(ty, "Option"), argument_of(ty, "Vec")) {
            (Some(inner), _) if class(inner) == Class::Distributed => Class::RefOption,
            (_, Some(element)) => class_of_sequence(element),
            _ => Class::Other,
        },
    }
}

/// Of a sequence that is none of the distributed ones.
fn class_of_sequence(element: &Type) -> Class {
    match class(element) {
        Class::Distributed => Class::Sequence,
        other => other,
    }
}

/// Whether `ty` is a path that ends in plain `Tensor`.
pub(crate) fn is_tensor(ty: &Type) -> bool {
    is_named(ty, "Tensor")
}

fn is_named(ty: &Type, name: &str) -> bool {
    match bare(ty) {
        Type::Path(TypePath { qself: None, path, .. }) => {
            path.segments.last().is_some_and(|last| last.ident == name && last.arguments.is_none())
        }
        _ => false,
    }
}

/// The `Region` in `&Region`, the context; also in `Region` and `&mut Region`, which are mistaken for it.
pub(crate) fn context(ty: &Type) -> Option<&Type> {
    Some(behind_reference(ty)).filter(|ty| is_named(ty, "Region"))
}

/// Whether `ty` is a reference without `mut`.
pub(crate) fn is_shared_reference(ty: &Type) -> bool {
    matches!(bare(ty), Type::Reference(reference) if reference.mutability.is_none())
}

/// `T` for `T`, `&T` and `&mut T`.
pub(crate) fn behind_reference(ty: &Type) -> &Type {
    match bare(ty) {
        Type::Reference(reference) => bare(&reference.elem),
        ty => ty,
    }
}

/// Whether a `Tensor` stands anywhere in `ty` where [`distributed`] would replace it.
pub(crate) fn mentions_tensor(ty: &Type) -> bool {
    mentions(ty, is_tensor)
}

/// Whether a distributed tensor stands anywhere in `ty`.
pub(crate) fn mentions_dtensor(ty: &Type) -> bool {
    mentions(ty, |ty| match bare(ty) {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "DTensor"),
        _ => false,
    })
}

/// Whether a struct over plain tensors stands anywhere in `ty`.
pub(crate) fn mentions_struct(ty: &Type) -> bool {
    mentions(ty, is_struct)
}

fn mentions(ty: &Type, what: fn(&Type) -> bool) -> bool {
    let mut found = false;
    walk(&mut ty.clone(), &mut |ty| found |= what(ty));
    found
}

/// `ty` with a `DTensor` of `krate` for every `Tensor`, on the span of the author's token; of a struct's arguments only the last
/// stands for its tensors.
pub(crate) fn distributed(ty: &Type, krate: &TokenStream) -> Type {
    let mut ty = ty.clone();
    walk(&mut ty, &mut |ty| {
        if is_tensor(ty) {
            *ty = Type::Verbatim(dtensor(krate, syn::spanned::Spanned::span(ty)));
        } else if is_struct(ty) {
            structs::distribute(ty, krate);
        }
    });
    ty
}

/// The path of the distributed tensor.
pub(crate) fn dtensor(krate: &TokenStream, span: Span) -> TokenStream {
    let krate = located(krate.clone(), span);
    quote_spanned!(span=> #krate::DTensor)
}

/// `ty` without named lifetimes: a local does not live as long as the distributed tensor that it belongs to.
pub(crate) fn without_lifetimes(ty: &Type) -> Type {
    let mut ty = ty.clone();
    walk(&mut ty, &mut |ty| {
        if let Type::Reference(reference) = ty {
            reference.lifetime = None;
        }
    });
    ty
}

/// The only type argument of a path that ends in `name`.
pub(crate) fn argument_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(TypePath { qself: None, path, .. }) = bare(ty) else {
        return None;
    };
    let last = path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first()? {
        GenericArgument::Type(ty) if arguments.args.len() == 1 => Some(ty),
        _ => None,
    }
}

/// The first type argument of a path that ends in `Result`.
pub(crate) fn ok_of(path: &mut Path) -> Option<&mut Type> {
    let last = path.segments.last_mut().filter(|last| last.ident == "Result")?;
    let PathArguments::AngleBracketed(arguments) = &mut last.arguments else {
        return None;
    };
    arguments.args.iter_mut().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// The first type argument of any path.
pub(crate) fn first_argument(ty: &Type) -> Option<&Type> {
    let Type::Path(TypePath { path, .. }) = bare(ty) else {
        return None;
    };
    let PathArguments::AngleBracketed(arguments) = &path.segments.last()?.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Whether `ty` is surely no alias of a `Result`.
pub(crate) fn is_plain(ty: &Type) -> bool {
    const PLAIN: [&str; 25] = [
        "Tensor", "Vec", "Option", "Box", "Arc", "Rc", "String", "HashMap", "BTreeMap", "bool", "char", "f32", "f64",
        "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize",
    ];
    match bare(ty) {
        Type::Path(TypePath { path, .. }) => {
            path.segments.last().is_some_and(|last| PLAIN.iter().any(|plain| last.ident == plain))
        }
        Type::Macro(_) | Type::Verbatim(_) => false,
        _ => true,
    }
}

/// `ty` with `_` for every `impl Trait`, which a closure cannot name.
pub(crate) fn without_impl(ty: &Type) -> Type {
    let mut ty = ty.clone();
    walk(&mut ty, &mut |ty| {
        if matches!(ty, Type::ImplTrait(_)) {
            *ty = parse_quote!(_);
        }
    });
    ty
}

/// Whether an `impl Trait` stands anywhere in `ty` where [`without_impl`] would replace it.
pub(crate) fn mentions_impl(ty: &Type) -> bool {
    mentions(ty, |ty| matches!(ty, Type::ImplTrait(_)))
}

/// Whether `ty` has an `impl Trait + use<..>`.
pub(crate) fn captures_precisely(ty: &Type) -> bool {
    let mut found = false;
    walk(&mut ty.clone(), &mut |ty| {
        if let Type::ImplTrait(inner) = ty {
            found |= inner.bounds.iter().any(|bound| matches!(bound, TypeParamBound::PreciseCapture(_)));
        }
    });
    found
}

/// Whether a value of type `ty` shows that it lives for a while only: a reference or a lifetime that is not `'static`.
pub(crate) fn borrows(ty: &Type) -> bool {
    let mut found = false;
    walk(&mut ty.clone(), &mut |ty| {
        found |= match ty {
            Type::Reference(reference) => reference.lifetime.as_ref().is_none_or(is_brief),
            Type::Path(TypePath { path, .. }) => path.segments.iter().any(|segment| has_brief(&segment.arguments)),
            _ => false,
        };
    });
    found
}

fn has_brief(arguments: &PathArguments) -> bool {
    let PathArguments::AngleBracketed(arguments) = arguments else {
        return false;
    };
    arguments.args.iter().any(|argument| matches!(argument, GenericArgument::Lifetime(lifetime) if is_brief(lifetime)))
}

fn is_brief(lifetime: &Lifetime) -> bool {
    lifetime.ident != "static"
}

/// `ty` inside of its parentheses and of the invisible groups of `macro_rules!`.
pub(crate) fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Paren(inner) => bare(&inner.elem),
        Type::Group(inner) => bare(&inner.elem),
        ty => ty,
    }
}

/// Visits `ty` and the types written in it, outermost first.
fn walk(ty: &mut Type, visit: &mut dyn FnMut(&mut Type)) {
    visit(ty);
    match ty {
        Type::Reference(inner) => walk(&mut inner.elem, visit),
        Type::Slice(inner) => walk(&mut inner.elem, visit),
        Type::Array(inner) => walk(&mut inner.elem, visit),
        Type::Paren(inner) => walk(&mut inner.elem, visit),
        Type::Group(inner) => walk(&mut inner.elem, visit),
        Type::Tuple(inner) => inner.elems.iter_mut().for_each(|ty| walk(ty, visit)),
        Type::Path(inner) => {
            inner.path.segments.iter_mut().for_each(|segment| walk_arguments(&mut segment.arguments, visit))
        }
        _ => {}
    }
}

fn walk_arguments(arguments: &mut PathArguments, visit: &mut dyn FnMut(&mut Type)) {
    let PathArguments::AngleBracketed(arguments) = arguments else {
        return;
    };
    for argument in &mut arguments.args {
        if let GenericArgument::Type(ty) = argument {
            walk(ty, visit);
        }
    }
}

/// The type of a function that names none.
pub(crate) fn unit() -> Type {
    parse_quote!(())
}
