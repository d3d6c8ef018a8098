//! `out` against the result type, and where the mesh comes from.

use super::left_over;
use crate::ast::{Entries, Entry, List, Mesh, Outputs};
use crate::errors::{Errors, counted, listed};
use crate::function::compact;
use crate::model::{Labels, Region, Returned, Value};
use crate::types;
use proc_macro2::Span;
use syn::Type;

/// Notes mistakes about outputs.
pub(crate) fn check(region: &Region, errors: &mut Errors) {
    if region.outputs.count() > Labels::MOST {
        return errors.under(&region.function.sig.output, too_many(region));
    }
    match &region.args.outputs {
        None => errors.at(Span::call_site(), missing(region)),
        Some(Outputs::One(list)) => one(region, list, errors),
        Some(Outputs::Each(entries)) => each(region, entries, errors),
        Some(Outputs::Nothing | Outputs::Unreadable) => {}
    }
}

/// Whether `out` is the list of one output where the function returns several: that was reported.
pub(super) fn is_for_another_count(region: &Region) -> bool {
    matches!(&region.args.outputs, Some(Outputs::One(_)))
        && region.result.value().is_some_and(|value| value.elements.len() > 1)
}

fn too_many(region: &Region) -> String {
    format!(
        "`{}` returns {} values, but a region can return {}: return those that are placed alike as a `Vec<Tensor>`",
        region.function.name(),
        region.outputs.count(),
        Labels::MOST,
    )
}

fn missing(region: &Region) -> String {
    format!(
        "`out` is missing: say how the result of `{}` is placed, as in `out = [Shard(0)]`, or `out = _`",
        region.function.name()
    )
}

fn one(region: &Region, list: &List, errors: &mut Errors) {
    let Some(value) = region.result.value() else {
        return alias_of_one(region, list, errors);
    };
    match value.elements.as_slice() {
        [ty] => can_be_labelled(ty, list.span, errors),
        [] => errors.at(list.span, nothing_to_label(region)),
        many if many.len() == list.placements.len() => errors.at(
            list.span,
            format!("{}: write one list per value, as in `[[Shard(0)], _]`", counts(region, many.len(), 1)),
        ),
        many => errors.at(list.span, format!("{}: write `_` for a plain value", counts(region, many.len(), 1))),
    }
}

/// What an alias stands for is the compiler's to know, but a `DTensor` is none.
fn alias_of_one(region: &Region, list: &List, errors: &mut Errors) {
    if let Returned::Alias(ty) = &region.result
        && types::mentions_dtensor(ty)
    {
        can_be_labelled(ty, list.span, errors);
    }
}

fn each(region: &Region, entries: &Entries, errors: &mut Errors) {
    let Some(value) = region.result.value() else {
        return alias(region, entries, errors);
    };
    if value.elements.is_empty() {
        return errors.at(entries.span, nothing_to_label(region));
    }
    if entries.items.len() != value.elements.len() {
        return wrong_count(region, value, entries, errors);
    }
    for (entry, ty) in entries.items.iter().zip(&value.elements) {
        match entry {
            Entry::Placed(list) => can_be_labelled(ty, list.span, errors),
            Entry::Own(span) => can_be_labelled(ty, *span, errors),
            Entry::Plain(_) | Entry::Unreadable(_) => {}
        }
    }
}

fn alias(region: &Region, entries: &Entries, errors: &mut Errors) {
    if let (Returned::Alias(ty), [_, _, ..]) = (&region.result, entries.items.as_slice()) {
        let message = format!(
            "`out` has {} entries, but `{}` hides the values that it stands for: write the tuple out, \
             as in `Result<(Tensor, Tensor)>`",
            entries.items.len(),
            compact(ty)
        );
        errors.under(ty, message);
    }
}

fn wrong_count(region: &Region, value: &Value, entries: &Entries, errors: &mut Errors) {
    let (returned, given) = (value.elements.len(), entries.items.len());
    let counts = counts(region, returned, given);
    if let Some(surplus) = entries.items.get(returned) {
        return left_over(surplus, &counts, errors);
    }
    let without: Vec<String> = value.elements.iter().skip(given).map(compact).collect();
    let message = format!(
        "{counts}: {} {} none; write `_` for a plain value",
        listed(&without),
        if without.len() == 1 { "has" } else { "have" },
    );
    errors.at(entries.span, message);
}

fn counts(region: &Region, returned: usize, given: usize) -> String {
    format!(
        "`{}` returns {}, but `out` has {}",
        region.function.name(),
        counted(returned, "value", "values"),
        counted(given, "entry", "entries")
    )
}

fn nothing_to_label(region: &Region) -> String {
    format!("`{}` returns no value to label: write `out = _`", region.function.name())
}

fn can_be_labelled(ty: &Type, span: Span, errors: &mut Errors) {
    let shown = compact(ty);
    let message = match types::bare(ty) {
        Type::Reference(_) => {
            format!("an output of type `{shown}` cannot be labelled: return an owned `Tensor`")
        }
        Type::Tuple(_) if types::mentions_tensor(ty) => {
            format!(
                "an output of type `{shown}` cannot be labelled: return its tensors one by one, as tuples \
                     within tuples are not available yet"
            )
        }
        _ if types::mentions_tensor(ty) => return,
        _ if types::mentions_dtensor(ty) => format!(
            "an output of type `{shown}` cannot be labelled: a body works on plain tensors, write `Tensor`, of which its callers see \
             a `DTensor`"
        ),
        _ => format!("an output of type `{shown}` cannot be labelled: it shows no `Tensor`, write `_`"),
    };
    errors.at(span, message);
}

/// A region needs a mesh, from an input or from `mesh`.
pub(crate) fn mesh_is_known(region: &Region, errors: &mut Errors) {
    if !matches!(region.args.mesh, Mesh::Absent) || region.inputs().next().is_some() || region.layer.is_some() {
        return;
    }
    let dtensors = region.plain().filter(|plain| plain.entry.is_none());
    if let Some(plain) = dtensors.into_iter().find(|plain| types::mentions_dtensor(&plain.written.ty)) {
        let message = format!(
            "parameter `{}` is a `DTensor`, but a body works on plain tensors: write `Tensor`, for which its callers hand over a \
             `DTensor`",
            plain.name()
        );
        return errors.under(&plain.written.ty, message);
    }
    let name = region.function.name();
    let (span, whose) = match first_label(region.args.outputs.as_ref()) {
        Some(label) if label.on.is_none() => (label.span, "of this output".to_owned()),
        _ => (region.function.sig.ident.span(), format!("of `{name}`")),
    };
    let message = format!(
        "no parameter of `{name}` is distributed, so nothing gives the mesh {whose}: \
         add `mesh = ..`, as in `mesh = mesh` for a parameter `mesh: &DeviceMesh`"
    );
    errors.at(span, message);
}

fn first_label(outputs: Option<&Outputs>) -> Option<&List> {
    match outputs? {
        Outputs::One(list) => Some(list),
        Outputs::Each(entries) => entries.items.iter().find_map(|entry| match entry {
            Entry::Placed(list) => Some(list),
            _ => None,
        }),
        Outputs::Nothing | Outputs::Unreadable => None,
    }
}
