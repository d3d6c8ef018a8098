//! The values of `in`, `grad` and `out`: lists of entries.

use crate::ast::{Args, Entries, Entry, Inputs, List, Outputs};
use crate::errors::Errors;
use crate::function::Function;
use crate::tokens::{is_punct, is_word, nothing_after, pieces};
use crate::{axes, own, place, placement};
use proc_macro2::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Result};

const REST: &str = "`..` is for axes: parameters that are not named here take any placements";
const TUPLE: &str = "tuple entries are not available yet: take, or return, the tensors one by one";
const NEEDS_MESH: &str = "`on` needs the mesh that the output lives on, as in `[Shard(0)] on mesh`";
const ON_INPUT: &str = "`on` is for `out`: the inputs of a region live on its own mesh";
const ON_GRADIENT: &str = "`entry on expr` is not available in `grad`: a gradient lives on the mesh of its parameter";
const ON_PLAIN: &str = "only an entry with placements can live on a mesh, as in `[Shard(0)] on mesh`";
const ON_MAP: &str = "on another mesh an output is placed by a list, with one placement per axis of that mesh, as in `[Shard(0)] on mesh`";
const ON_ALL: &str = "`on` belongs to one entry: write `[[Shard(0)] on mesh, [Replicate]]`";

/// Adds what stands on the parameters, and brings all entries into the order of `axes`.
pub(crate) fn complete(args: &mut Args, function: &Function, errors: &mut Errors) {
    place::on_parameters(args, function, errors);
    own::settle(args, function, errors);
    axes::settle(args, errors);
}

/// Reads the value of `key`, which is `in` or `grad`.
pub(crate) fn inputs(value: &[TokenTree], key: &str, errors: &mut Errors) -> Inputs {
    match value {
        [TokenTree::Group(group), rest @ ..] if group.delimiter() == Delimiter::Bracket => {
            errors.take(ends(rest, of_inputs(key)));
            input_list(group, key, errors)
        }
        [TokenTree::Group(group), rest @ ..] if group.delimiter() == Delimiter::Brace => {
            errors.take(ends(rest, of_inputs(key)));
            Inputs::Named(named(group, key, errors))
        }
        [first, ..] => {
            let message = format!("`{key}` is a list with one entry per parameter, as in `{key} = [[Shard(0)], _]`");
            errors.at(first.span(), message);
            Inputs::Unreadable
        }
        [] => Inputs::Unreadable,
    }
}

/// Entries by position; names in brackets were meant for braces.
fn input_list(group: &Group, key: &str, errors: &mut Errors) -> Inputs {
    let pieces = pieces(group, &mut Errors::default());
    let Some([name, _, value @ ..]) = pieces.first().map(Vec::as_slice).filter(|first| placement::is_by_axis(first))
    else {
        return Inputs::Each(entries(group, key, errors));
    };
    match value.first().is_some_and(is_entry) {
        true => {
            let message =
                format!("entries by parameter name stand in braces, as in `{key} = {{ {name}: [Shard(0)] }}`");
            errors.at(name.span(), message);
            Inputs::Named(named(group, key, errors))
        }
        false => {
            let message = format!(
                "placements by axis name stand in braces of their own, one for each parameter: `{key} = [{{ {name}: Shard(0) }}]`"
            );
            errors.at(name.span(), message);
            Inputs::Unreadable
        }
    }
}

/// Reads `{ parameter: entry, .. }`.
fn named(group: &Group, key: &str, errors: &mut Errors) -> Vec<(Ident, Entry)> {
    let mut entries = Vec::new();
    for piece in pieces(group, errors) {
        match piece.as_slice() {
            [TokenTree::Ident(name), _, value @ ..] if placement::is_by_axis(&piece) => {
                entries.push((name.clone(), named_entry(name, value, key, errors)));
            }
            [dot, ..] if is_punct(dot, '.') => errors.under(joined(&piece), REST),
            [TokenTree::Ident(name), equals, ..] if is_punct(equals, '=') => {
                errors.at(equals.span(), format!("an entry stands behind `:`, as in `{name}: [Shard(0)]`"));
            }
            piece => {
                let message = format!(
                    "in the braces of `{key}` every entry has the name of its parameter, as in `{key} = {{ x: [Shard(0)] }}`"
                );
                errors.under(joined(piece), message);
            }
        }
    }
    entries
}

fn named_entry(name: &Ident, value: &[TokenTree], key: &str, errors: &mut Errors) -> Entry {
    match value {
        [] => {
            errors.at(name.span(), format!("`{name}` needs an entry, as in `{name}: [Shard(0)]`"));
            Entry::Unreadable(name.span())
        }
        [TokenTree::Ident(placement), ..] if is_placement(placement) => {
            let written: String = value.iter().map(ToString::to_string).collect();
            let tokens: TokenStream = value.iter().cloned().collect();
            let message = format!(
                "this placement needs a list of its own, `{name}: [{written}]` for a parameter `{name}`: by axis name, write \
                 `{key} = [{{ {name}: {written} }}]`"
            );
            errors.under(tokens, message);
            Entry::Unreadable(placement.span())
        }
        value => entry(value, key, errors),
    }
}

/// Reads the value of `out`.
pub(crate) fn outputs(value: &[TokenTree], errors: &mut Errors) -> Outputs {
    match value {
        [word, rest @ ..] if is_word(word, "_") => {
            errors.take(ends(rest, ON_PLAIN));
            Outputs::Nothing
        }
        [TokenTree::Group(group), rest @ ..] if group.delimiter() == Delimiter::Bracket => {
            output_list(group, rest, errors)
        }
        [TokenTree::Group(group), rest @ ..] if group.delimiter() == Delimiter::Brace => {
            errors.take(ends(rest, ON_MAP));
            Outputs::One(placement::map(group, errors))
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
        Some(Delimiter::Parenthesis) => "write one entry per output in brackets, as in `out = [[Shard(0)], _]`",
        _ => "`out` is a list with one placement per mesh axis, as in `out = [Shard(0)]`, or `_`",
    }
}

/// `[]`, the placements of one output, or entries: one that is no placement decides. `rest` stands behind it.
fn output_list(group: &Group, rest: &[TokenTree], errors: &mut Errors) -> Outputs {
    let first_trees: Vec<TokenTree> =
        pieces(group, &mut Errors::default()).into_iter().filter_map(|piece| piece.into_iter().next()).collect();
    if first_trees.is_empty() {
        // A lone comma is still worth a word.
        pieces(group, errors);
        errors.take(ends(rest, ON_PLAIN));
        return Outputs::Nothing;
    }
    match first_trees.iter().any(is_entry) {
        true => {
            errors.take(ends(rest, ON_ALL));
            Outputs::Each(entries(group, "out", errors))
        }
        false => Outputs::One(list_on(group, rest, errors)),
    }
}

/// The placements of an output, and the mesh that it lives on.
fn list_on(group: &Group, rest: &[TokenTree], errors: &mut Errors) -> List {
    let on = errors.take(mesh_behind(rest)).flatten();
    List { on, ..placement::list(group, errors) }
}

/// Reads `on expr`, or nothing.
fn mesh_behind(rest: &[TokenTree]) -> Result<Option<Box<Expr>>> {
    match rest {
        [word] if is_word(word, "on") => Err(Error::new(word.span(), NEEDS_MESH)),
        [word, expr @ ..] if is_word(word, "on") => {
            let parts = expression_first.parse2(expr.iter().cloned().collect());
            let (mesh, rest) = parts.map_err(|_| Error::new_spanned(joined(expr), NEEDS_MESH))?;
            nothing_after(&rest.into_iter().collect::<Vec<_>>())?;
            Ok(Some(Box::new(mesh)))
        }
        rest => nothing_after(rest).map(|()| None),
    }
}

/// An expression, and what stands behind it.
fn expression_first(input: ParseStream) -> Result<(Expr, TokenStream)> {
    Ok((input.parse()?, input.parse()?))
}

fn joined(trees: &[TokenTree]) -> TokenStream {
    trees.iter().cloned().collect()
}

/// Puts together again what was split at the commas of an expression behind `on`, as in `[Shard(0)] on mesh_of::<A, B>()`.
fn whole_expressions(pieces: Vec<Vec<TokenTree>>) -> Vec<Vec<TokenTree>> {
    let mut whole: Vec<Vec<TokenTree>> = Vec::new();
    let mut rest = pieces.into_iter();
    while let Some(mut piece) = rest.next() {
        let ends = |piece: &[TokenTree]| mesh_behind(&piece[1..]).is_ok();
        if matches!(piece.as_slice(), [_, word, _, ..] if is_word(word, "on")) && !ends(&piece) {
            let mut longer = piece.clone();
            let behind = rest.clone().position(|next| {
                longer.push(TokenTree::Punct(Punct::new(',', Spacing::Alone)));
                longer.extend(next);
                ends(&longer)
            });
            if let Some(last) = behind {
                rest.nth(last);
                piece = longer;
            }
        }
        whole.push(piece);
    }
    whole
}

fn is_entry(first: &TokenTree) -> bool {
    is_word(first, "_") || delimiter(first).is_some()
}

fn entries(group: &Group, key: &str, errors: &mut Errors) -> Entries {
    let pieces = whole_expressions(pieces(group, errors));
    let items = pieces.iter().map(|piece| entry(piece, key, errors)).collect();
    Entries { span: group.span(), items }
}

fn entry(piece: &[TokenTree], key: &str, errors: &mut Errors) -> Entry {
    match piece {
        [word, rest @ ..] if is_word(word, "_") => {
            errors.take(ends(rest, if key == "out" { ON_PLAIN } else { of_inputs(key) }));
            Entry::Plain(word.span())
        }
        [TokenTree::Group(group), rest @ ..] if group.delimiter() == Delimiter::Bracket => {
            if key == "out" {
                return Entry::Placed(list_on(group, rest, errors));
            }
            errors.take(ends(rest, of_inputs(key)));
            Entry::Placed(placement::list(group, errors))
        }
        [TokenTree::Group(group), rest @ ..] if group.delimiter() == Delimiter::Brace => {
            errors.take(ends(rest, if key == "out" { ON_MAP } else { of_inputs(key) }));
            Entry::Placed(placement::map(group, errors))
        }
        _ => {
            let error = wrong_entry(piece, key);
            let span = error.span();
            errors.push(error);
            Entry::Unreadable(span)
        }
    }
}

fn wrong_entry(piece: &[TokenTree], key: &str) -> Error {
    let Some(first) = piece.first() else {
        return Error::new(Span::call_site(), "expected an entry");
    };
    let message = match (first, delimiter(first)) {
        (_, Some(Delimiter::Parenthesis)) => TUPLE.into(),
        (TokenTree::Ident(name), _) if is_placement(name) => bare_placement(piece, key),
        (first, _) if is_punct(first, '.') => {
            format!(
                "`..` stands for mesh axes, as in `{{ dp: Shard(0), .. }}`: `{key}` has one entry per {}",
                listed_by(key)
            )
        }
        _ => format!("expected an entry of `{key}`: `_`, or a list of placements such as `[Shard(0)]`"),
    };
    Error::new_spanned(piece.iter().cloned().collect::<proc_macro2::TokenStream>(), message)
}

fn is_placement(name: &proc_macro2::Ident) -> bool {
    crate::suggest::closest(&name.to_string(), &placement::NAMES).is_some()
}

fn bare_placement(piece: &[TokenTree], key: &str) -> String {
    let written: String = piece.iter().map(ToString::to_string).collect();
    format!("this placement needs a list of its own, `[{written}]`: `{key}` has one entry per {}", listed_by(key))
}

/// What the entries of `key` are about.
fn listed_by(key: &str) -> &'static str {
    if key == "out" { "output" } else { "parameter" }
}

/// Refuses whatever follows an entry that cannot live on a mesh of its own; `why` it cannot.
fn ends(rest: &[TokenTree], why: &str) -> Result<()> {
    match rest {
        [word, ..] if is_word(word, "on") => Err(Error::new(word.span(), why)),
        rest => nothing_after(rest),
    }
}

/// Why an entry of `in` or `grad` cannot.
fn of_inputs(key: &str) -> &'static str {
    if key == "grad" { ON_GRADIENT } else { ON_INPUT }
}

fn delimiter(tree: &TokenTree) -> Option<Delimiter> {
    match tree {
        TokenTree::Group(group) => Some(group.delimiter()),
        _ => None,
    }
}
