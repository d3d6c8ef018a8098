//! `{..}`, which of a struct of tensors means the placements that its own fields say; of a tensor, that it stays as it is.

use crate::ast::{Args, Entries, Entry, List, Outputs};
use crate::errors::Errors;
use crate::function::Function;
use crate::{model, types};
use proc_macro2::Span;
use syn::{PatType, Type};

const GRADIENT: &str = "a struct's own `#[grad(..)]`s hold anyway: write `_`, or a list for its other tensors";

/// Tells the two apart by the types of the function.
pub(crate) fn settle(args: &mut Args, function: &Function, errors: &mut Errors) {
    let mut listed = 0;
    for (position, parameter) in function.parameters().enumerate() {
        let at = listed;
        listed += usize::from(types::context(&parameter.ty).is_none());
        if types::mentions_struct(&parameter.ty) {
            of_struct(args, (position, at), parameter, errors);
        }
    }
    results(args, function);
}

fn of_struct(args: &mut Args, (position, at): (usize, usize), parameter: &PatType, errors: &mut Errors) {
    if let Some(entry) = args.entry_mut(position, at, &parameter.pat) {
        own(entry, &parameter.ty);
    }
    if let Some(grad) = args.grads.as_mut().and_then(|grads| grads.entry_mut(at, &parameter.pat))
        && let Some(span) = rest_alone(grad)
    {
        errors.at(span, GRADIENT);
        *grad = Entry::Unreadable(span);
    }
}

fn results(args: &mut Args, function: &Function) {
    let returned = model::returned(&function.sig.output);
    let Some(value) = returned.value() else { return };
    match &mut args.outputs {
        Some(Outputs::One(list)) if value.elements.iter().all(types::mentions_struct) => {
            if let Some(span) = only_rest(list) {
                args.outputs = Some(Outputs::Each(Entries { span, items: vec![Entry::Own(span)] }));
            }
        }
        Some(Outputs::Each(entries)) => {
            entries.items.iter_mut().zip(&value.elements).for_each(|(entry, ty)| own(entry, ty));
        }
        _ => {}
    }
}

/// Reads the entry as what it means of this type.
fn own(entry: &mut Entry, ty: &Type) {
    match (&mut *entry, types::bare(ty)) {
        (Entry::Tuple(entries), Type::Tuple(tuple)) => {
            entries.items.iter_mut().zip(&tuple.elems).for_each(|(entry, ty)| own(entry, ty));
        }
        (_, ty) => {
            if let Some(span) = rest_alone(entry).filter(|_| types::mentions_struct(ty)) {
                *entry = Entry::Own(span);
            }
        }
    }
}

/// The span of an entry that is `{..}`.
fn rest_alone(entry: &Entry) -> Option<Span> {
    match entry {
        Entry::Placed(list) => only_rest(list),
        _ => None,
    }
}

fn only_rest(list: &List) -> Option<Span> {
    let nothing_named = list.names.as_ref().is_some_and(Vec::is_empty);
    (nothing_named && list.rest.is_some()).then_some(list.span)
}
