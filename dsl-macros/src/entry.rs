//! The values of `in`, `grad` and `out`: lists of entries.

use crate::ast::{Entries, Entry, Inputs, Outputs};
use crate::errors::Errors;
use crate::placement;
use crate::tokens::{is_word, nothing_after, pieces};
use proc_macro2::{Delimiter, Group, Span, TokenTree};
use syn::{Error, Result};

const TUPLE: &str = "tuple entries are not available yet: take, or return, the tensors one by one";
const OWN_GRADIENT: &str = "a struct's own `#[grad(..)]`s hold anyway: write `_`, or a list for its other tensors";
const ON_MESH: &str = "`entry on expr` is not available yet: every output lives on the mesh of the region";

/// Reads the value of `key`, which is `in` or `grad`.
pub(crate) fn inputs(value: &[TokenTree], key: &str, errors: &mut Errors) -> Inputs {
    match value {
        [TokenTree::Group(group), rest @ ..] if group.delimiter() == Delimiter::Bracket => {
            errors.take(ends(rest));
            Inputs::Each(entries(group, key, errors))
        }
        [first, ..] => {
            errors.at(first.span(), wrong_inputs(first, key));
            Inputs::Unreadable
        }
        [] => Inputs::Unreadable,
    }
}

fn wrong_inputs(first: &TokenTree, key: &str) -> String {
    match delimiter(first) {
        Some(Delimiter::Brace) => format!(
            "entries by parameter name are not available yet: write one entry per parameter, in their order, as in \
             `{key} = [[Shard(0)], _]`"
        ),
        _ => format!("`{key}` is a list with one entry per parameter, as in `{key} = [[Shard(0)], _]`"),
    }
}

/// Reads the value of `out`.
pub(crate) fn outputs(value: &[TokenTree], errors: &mut Errors) -> Outputs {
    match value {
        [word, rest @ ..] if is_word(word, "_") => {
            errors.take(ends(rest));
            Outputs::Nothing
        }
        [TokenTree::Group(group), rest @ ..] if group.delimiter() == Delimiter::Bracket => {
            errors.take(ends(rest));
            output_list(group, errors)
        }
        [TokenTree::Group(group), rest @ ..] if is_own(group) => {
            errors.take(ends(rest));
            Outputs::Each(Entries { span: group.span(), items: vec![Entry::Own(group.span())] })
        }
        [first, ..] => {
            errors.at(first.span(), wrong_outputs(first));
            Outputs::Unreadable
        }
        [] => Outputs::Unreadable,
    }
}

fn wrong_outputs(first: &TokenTree) -> &'static str {
    match delimiter(first) {
        Some(Delimiter::Brace) => placement::BY_AXIS,
        Some(Delimiter::Parenthesis) => "write one entry per output in brackets, as in `out = [[Shard(0)], _]`",
        _ => "`out` is a list with one placement per mesh axis, as in `out = [Shard(0)]`, or `_`",
    }
}

/// `[]`, the placements of one output, or entries: one that is no placement decides.
fn output_list(group: &Group, errors: &mut Errors) -> Outputs {
    let first_trees: Vec<TokenTree> =
        pieces(group, &mut Errors::default()).into_iter().filter_map(|piece| piece.into_iter().next()).collect();
    if first_trees.is_empty() {
        // A lone comma is still worth a word.
        pieces(group, errors);
        return Outputs::Nothing;
    }
    match first_trees.iter().any(is_entry) {
        true => Outputs::Each(entries(group, "out", errors)),
        false => Outputs::One(placement::list(group, errors)),
    }
}

fn is_entry(first: &TokenTree) -> bool {
    is_word(first, "_") || delimiter(first).is_some()
}

fn entries(group: &Group, key: &str, errors: &mut Errors) -> Entries {
    let items = pieces(group, errors).iter().map(|piece| entry(piece, key, errors)).collect();
    Entries { span: group.span(), items }
}

fn entry(piece: &[TokenTree], key: &str, errors: &mut Errors) -> Entry {
    match piece {
        [word, rest @ ..] if is_word(word, "_") => {
            errors.take(ends(rest));
            Entry::Plain(word.span())
        }
        [TokenTree::Group(group), rest @ ..] if group.delimiter() == Delimiter::Bracket => {
            errors.take(ends(rest));
            Entry::Placed(placement::list(group, errors))
        }
        [TokenTree::Group(group), rest @ ..] if is_own(group) && key != "grad" => {
            errors.take(ends(rest));
            Entry::Own(group.span())
        }
        _ => {
            let error = wrong_entry(piece, key);
            let span = error.span();
            errors.push(error);
            Entry::Unreadable(span)
        }
    }
}

/// `{..}`
fn is_own(group: &Group) -> bool {
    group.delimiter() == Delimiter::Brace && group.stream().to_string().replace(' ', "") == ".."
}

fn wrong_entry(piece: &[TokenTree], key: &str) -> Error {
    let Some(first) = piece.first() else {
        return Error::new(Span::call_site(), "expected an entry");
    };
    let message = match (first, delimiter(first)) {
        (TokenTree::Group(group), _) if is_own(group) => OWN_GRADIENT.into(),
        (_, Some(Delimiter::Brace)) => placement::BY_AXIS.into(),
        (_, Some(Delimiter::Parenthesis)) => TUPLE.into(),
        _ if placement::is_by_axis(piece) => placement::BY_AXIS.into(),
        (TokenTree::Ident(name), _) if is_placement(name) => bare_placement(piece, key),
        _ => format!("expected an entry of `{key}`: `_`, or a list of placements such as `[Shard(0)]`"),
    };
    Error::new_spanned(piece.iter().cloned().collect::<proc_macro2::TokenStream>(), message)
}

fn is_placement(name: &proc_macro2::Ident) -> bool {
    crate::suggest::closest(&name.to_string(), &placement::NAMES).is_some()
}

fn bare_placement(piece: &[TokenTree], key: &str) -> String {
    let what = if key == "out" { "output" } else { "parameter" };
    let written: String = piece.iter().map(ToString::to_string).collect();
    format!("this placement needs a list of its own, `[{written}]`: `{key}` has one entry per {what}")
}

/// What may follow a complete entry: nothing yet.
fn ends(rest: &[TokenTree]) -> Result<()> {
    match rest {
        [word, ..] if is_word(word, "on") => Err(Error::new(word.span(), ON_MESH)),
        rest => nothing_after(rest),
    }
}

fn delimiter(tree: &TokenTree) -> Option<Delimiter> {
    match tree {
        TokenTree::Group(group) => Some(group.delimiter()),
        _ => None,
    }
}
