//! The mesh axes that entries speak of: the value of `axes`, and every list brought into that order.

use crate::ast::{Args, Axes, Entry, Inputs, List, Outputs, Placement, Written};
use crate::errors::Errors;
use crate::function::plain_name;
use crate::placement::is_by_axis;
use crate::suggest;
use crate::tokens::{is_word, nothing_after, pieces};
use proc_macro2::{Delimiter, Ident, Span, TokenTree};
use syn::{Error, Result};

/// The most axes that can be named.
const MOST: usize = 4;
const LIST: &str = "`axes` takes the names of the mesh's axes in parentheses, as in `axes = (dp, tp)`";
const NONE: &str = "`axes` names no axis: name the mesh's axes, as in `axes = (dp, tp)`, or leave `axes` out";
const NAME: &str = "a mesh axis is written by its name alone, as in `axes = (dp, tp)`";
const OPEN: &str = "with `..` in the attribute nothing says which axes this list is for: add `axes = (..)` with their names, in \
                    the list's order";

/// Reads the value of `axes`.
pub(crate) fn axes(value: &[TokenTree], errors: &mut Errors) -> Axes {
    match value {
        [TokenTree::Group(group), rest @ ..] if group.delimiter() == Delimiter::Parenthesis => {
            let before = errors.count();
            errors.take(nothing_after(rest));
            let pieces = pieces(group, errors);
            let named = names(&pieces, errors);
            if pieces.is_empty() && errors.count() == before {
                errors.at(group.span(), NONE);
            }
            if errors.count() == before { Axes::Given(named) } else { Axes::Unreadable }
        }
        [first, ..] => {
            errors.at(first.span(), LIST);
            Axes::Unreadable
        }
        [] => Axes::Unreadable,
    }
}

fn names(pieces: &[Vec<TokenTree>], errors: &mut Errors) -> Vec<Ident> {
    let mut names: Vec<Ident> = Vec::new();
    for piece in pieces {
        let Some(name) = errors.take(name(piece)) else { continue };
        if is_among(&name, &names) {
            errors.at(name.span(), format!("axis `{}` is given twice", plain_name(&name)));
        } else if names.len() == MOST {
            errors
                .at(name.span(), format!("`axes` takes {MOST} names at most: `{}` is one too many", plain_name(&name)));
            break;
        } else {
            names.push(name);
        }
    }
    names
}

fn name(piece: &[TokenTree]) -> Result<Ident> {
    match piece {
        [word @ TokenTree::Ident(name), rest @ ..] if !is_word(word, "_") && !is_by_axis(piece) => {
            nothing_after(rest).map(|()| name.clone())
        }
        piece => Err(Error::new_spanned(piece.iter().cloned().collect::<proc_macro2::TokenStream>(), NAME)),
    }
}

/// Whether the names are the same, with or without `r#`.
pub(crate) fn is_among(name: &Ident, names: &[Ident]) -> bool {
    position(name, names).is_some()
}

fn position(name: &Ident, names: &[Ident]) -> Option<usize> {
    names.iter().position(|other| plain_name(other) == plain_name(name))
}

/// Brings all lists into the order of `axes`. Without `..` in the attribute they become lists by position; with it all become
/// lists by name, which are looked up in the mesh of each call.
pub(crate) fn settle(args: &mut Args, errors: &mut Errors) {
    let open = args.is_open();
    let axes = std::mem::take(&mut args.axes);
    match &axes {
        Axes::Unreadable => {}
        // Where `..` stands in `out` alone, that is what is wrong.
        Axes::Absent => need_axes(&lists(args), args.inputs_are_open(), errors),
        Axes::Given(names) => {
            for list in lists_mut(args) {
                settle_list(list, names, open, errors);
            }
        }
    }
    args.axes = axes;
}

/// `axes` is forgotten once, however many lists need it.
fn need_axes(lists: &[&List], open: bool, errors: &mut Errors) {
    let mut names: Vec<&Ident> = Vec::new();
    for name in lists.iter().flat_map(|list| list.names.iter().flatten()) {
        if !names.iter().any(|known| plain_name(known) == plain_name(name)) {
            names.push(name);
        }
    }
    if let Some(first) = names.first() {
        let all: Vec<String> = names.iter().map(|name| plain_name(name)).collect();
        let message = format!(
            "`{}` names a mesh axis, but the attribute does not say which axes the mesh has: add `axes = ({})`, in the mesh's order",
            plain_name(first),
            all.join(", "),
        );
        errors.at(first.span(), message);
    } else if let (true, Some(list)) = (open, lists.iter().find(|list| list.names.is_none() && list.rest.is_none())) {
        errors.at(list.span, OPEN);
    }
}

fn settle_list(list: &mut List, axes: &[Ident], open: bool, errors: &mut Errors) {
    let Some(names) = &list.names else {
        // A list of another length is reported elsewhere.
        if open && list.placements.len() == axes.len() {
            list.names = Some(axes.to_vec());
        }
        return;
    };
    let before = errors.count();
    names.iter().filter(|name| !is_among(name, axes)).for_each(|name| errors.at(name.span(), unknown(name, axes)));
    let empty = names.is_empty() && list.rest.is_none();
    if errors.count() == before && list.rest.is_none() && !empty {
        complete(list, axes);
        if !open {
            list.names = None;
        }
    }
}

fn unknown(name: &Ident, axes: &[Ident]) -> String {
    let known: Vec<String> = axes.iter().map(plain_name).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let name = plain_name(name);
    format!("`axes` has no axis `{name}`: {}", suggest::hint(&name, &known))
}

/// One placement per axis, in their order: `Replicate` where the list says nothing.
fn complete(list: &mut List, axes: &[Ident]) {
    let names = list.names.replace(axes.to_vec()).unwrap_or_default();
    let mut written: Vec<Option<Written>> = std::mem::take(&mut list.placements).into_iter().map(Some).collect();
    let mut take = |axis: &Ident| written.get_mut(position(axis, &names)?)?.take();
    let unsaid = || Written { placement: Placement::Replicate, span: list.span };
    list.placements = axes.iter().map(|axis| take(axis).unwrap_or_else(unsaid)).collect();
}

/// Notes `..` in `out` where no input says what the other axes are; not where it is unknown what the inputs are.
pub(crate) fn are_explained(args: &Args, errors: &mut Errors) {
    let inputs = args.input_lists();
    let open: Vec<&&List> = inputs.iter().filter(|list| list.rest.is_some()).collect();
    let outputs = args.output_lists().into_iter().filter(|list| list.names.is_some());
    for (list, rest) in outputs.filter_map(|list| Some((list, list.rest?))) {
        if open.is_empty() {
            errors.at(rest, unexplained(args));
        } else {
            open_somewhere(list, rest, &open, &args.axes, errors);
        }
    }
}

fn unexplained(args: &Args) -> &'static str {
    match args.inputs.is_some() || !args.places.is_empty() {
        true => {
            "`..` in `out` places the other axes as the arguments whose entry has `..`, but none has: write `..` in an entry of \
             `in`, too"
        }
        false => {
            "`..` in `out` places the other axes as the arguments whose entry has `..`, but there are no entries: add \
             `in = [..]`"
        }
    }
}

/// An axis that `out` leaves open must be left open by an input.
fn open_somewhere(list: &List, rest: Span, inputs: &[&&List], axes: &Axes, errors: &mut Errors) {
    let Axes::Given(axes) = axes else { return };
    for axis in axes.iter().filter(|axis| !list.is_for(axis)) {
        if inputs.iter().all(|input| input.is_for(axis)) {
            let axis = plain_name(axis);
            let message = format!(
                "`..` leaves `{axis}` open here, but every entry of `in` with `..` names it: write how `{axis}` is placed"
            );
            errors.at(rest, message);
        }
    }
}

fn lists(args: &Args) -> Vec<&List> {
    let mut all = args.input_lists();
    all.extend(args.output_lists());
    all.extend(args.grad_lists());
    all.retain(|list| list.on.is_none());
    all
}

fn lists_mut(args: &mut Args) -> Vec<&mut List> {
    let mut entries: Vec<&mut Entry> = args.places.iter_mut().map(|(_, entry)| entry).collect();
    let mut all = Vec::new();
    for inputs in [&mut args.inputs, &mut args.grads] {
        match inputs {
            Some(Inputs::Each(each)) => entries.extend(&mut each.items),
            Some(Inputs::Named(named)) => entries.extend(named.iter_mut().map(|(_, entry)| entry)),
            Some(Inputs::Unreadable) | None => {}
        }
    }
    match &mut args.outputs {
        Some(Outputs::One(list)) => all.push(list),
        Some(Outputs::Each(each)) => entries.extend(&mut each.items),
        _ => {}
    }
    all.extend(entries.into_iter().flat_map(placed_mut));
    // The others speak of the axes of another mesh.
    all.retain(|list| list.on.is_none());
    all
}

fn placed_mut(entry: &mut Entry) -> Vec<&mut List> {
    match entry {
        Entry::Placed(list) => vec![list],
        Entry::Tuple(entries) => entries.items.iter_mut().flat_map(placed_mut).collect(),
        _ => Vec::new(),
    }
}
