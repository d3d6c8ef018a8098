//! One placement, `Shard(n)`, `Shard(n, ragged)`, `Replicate`, `Partial`, `Partial(op)`, and lists of them by position or by axis.

use crate::ast::{List, Op, Placement, Written};
use crate::errors::Errors;
use crate::suggest;
use crate::tokens::{is_punct, is_word, nothing_after, pieces, quoted};
use proc_macro2::{Delimiter, Group, Ident, Spacing, Span, TokenTree};
use quote::ToTokens;
use syn::{Error, Result};

/// The names that start a placement.
pub(crate) const NAMES: [&str; 3] = ["Shard", "Replicate", "Partial"];

/// What to do instead of writing `dp: Shard(0)`, or `..`, among placements by position.
const BY_AXIS: &str = "placements by axis name, and `..`, stand in braces, as in `{ dp: Shard(0), .. }`: brackets hold one placement per mesh axis";
const AXIS: &str = "in braces every placement has the name of its axis, as in `{ dp: Shard(0) }`: brackets hold one placement per \
                    mesh axis, in order";
const EMPTY: &str = "empty braces place nothing: write the axes' placements, as in `{ dp: Shard(0) }`, or `_`";
const REST: &str = "`..` comes last, and once: it stands for all other axes";

const ON: &str = "`on` is for whole outputs: it stands behind the list, as in `[Shard(0)] on mesh`";
const FORMS: &str = "`Shard(n)`, `Replicate`, `Partial` or `Partial(op)`";

/// Reads `[placement, ..]`.
pub(crate) fn list(group: &Group, errors: &mut Errors) -> List {
    let pieces = pieces(group, errors);
    if let Some(rest) = pieces.iter().find(|piece| is_rest(piece)) {
        errors.under(joined(&rest[..2]), BY_AXIS);
        return List { span: group.span(), placements: Vec::new(), names: None, rest: Some(rest[0].span()), on: None };
    }
    if let Some(first) = pieces.iter().find(|piece| is_by_axis(piece)).and_then(|piece| piece.first()) {
        errors.at(first.span(), BY_AXIS);
        return by_axis(group, &pieces, &mut Errors::default());
    }
    by_position(group, &pieces, errors)
}

/// Reads `{ axis: placement, .. }`.
pub(crate) fn map(group: &Group, errors: &mut Errors) -> List {
    let before = errors.count();
    let pieces = pieces(group, errors);
    if pieces.is_empty() && errors.count() == before {
        errors.at(group.span(), EMPTY);
    }
    by_axis(group, &pieces, errors)
}

/// Reads either, from the parentheses of `#[place(..)]`.
pub(crate) fn either(group: &Group, errors: &mut Errors) -> List {
    let pieces = pieces(group, errors);
    match pieces.iter().any(|piece| is_named(piece)) {
        true => by_axis(group, &pieces, errors),
        false => by_position(group, &pieces, errors),
    }
}

fn by_position(group: &Group, pieces: &[Vec<TokenTree>], errors: &mut Errors) -> List {
    let placements = pieces.iter().map(|piece| placement(piece, errors)).collect();
    List { span: group.span(), placements, names: None, rest: None, on: None }
}

fn by_axis(group: &Group, pieces: &[Vec<TokenTree>], errors: &mut Errors) -> List {
    let mut list = List { span: group.span(), placements: Vec::new(), names: Some(Vec::new()), rest: None, on: None };
    for (at, piece) in pieces.iter().enumerate() {
        match piece.as_slice() {
            [dot, _, after @ ..] if is_rest(piece) => {
                match after {
                    [] if at + 1 < pieces.len() => errors.under(joined(&piece[..2]), REST),
                    after => drop(errors.take(nothing_after(after))),
                }
                list.rest = Some(dot.span());
            }
            [TokenTree::Ident(axis), _, value @ ..] if is_by_axis(piece) => on_axis(&mut list, axis, value, errors),
            [TokenTree::Ident(axis), equals, ..] if is_punct(equals, '=') => {
                errors.at(equals.span(), format!("an axis' placement stands behind `:`, as in `{axis}: Shard(0)`"));
            }
            piece => errors.under(joined(piece), AXIS),
        }
    }
    list
}

fn on_axis(list: &mut List, axis: &Ident, value: &[TokenTree], errors: &mut Errors) {
    let name = crate::function::plain_name(axis);
    let value = match value {
        [] => {
            errors.at(axis.span(), format!("axis `{name}` needs a placement, as in `{name}: Shard(0)`"));
            Written { placement: Placement::Unreadable, span: axis.span() }
        }
        value => placement(value, errors),
    };
    if list.is_for(axis) {
        return errors.at(axis.span(), format!("axis `{name}` is given twice"));
    }
    list.names.get_or_insert_default().push(axis.clone());
    list.placements.push(value);
}

fn is_named(piece: &[TokenTree]) -> bool {
    is_by_axis(piece) || is_rest(piece)
}

/// Whether the piece begins with `..`.
fn is_rest(piece: &[TokenTree]) -> bool {
    matches!(piece, [first, second, ..] if is_punct(first, '.') && is_punct(second, '.'))
}

fn placement(piece: &[TokenTree], errors: &mut Errors) -> Written {
    let read = read(piece, errors);
    let placement = errors.take(read).unwrap_or(Placement::Unreadable);
    Written { placement, span: piece.first().map_or_else(Span::call_site, TokenTree::span) }
}

fn read(piece: &[TokenTree], errors: &mut Errors) -> Result<Placement> {
    match piece {
        [TokenTree::Ident(name), rest @ ..] if name == "Shard" => shard(name, rest, errors),
        [TokenTree::Ident(name), rest @ ..] if name == "Replicate" => replicate(name, rest),
        [TokenTree::Ident(name), rest @ ..] if name == "Partial" => partial(name, rest, errors),
        [first, ..] => Err(unknown(first, piece)),
        [] => Ok(Placement::Unreadable),
    }
}

/// Whether the piece begins `dp:`, unlike a path.
pub(crate) fn is_by_axis(piece: &[TokenTree]) -> bool {
    match piece {
        [TokenTree::Ident(_), TokenTree::Punct(colon), ..] => {
            colon.as_char() == ':' && colon.spacing() == Spacing::Alone
        }
        _ => false,
    }
}

fn unknown(first: &TokenTree, piece: &[TokenTree]) -> Error {
    let message = match first {
        TokenTree::Ident(name) if name == "_" => {
            "`_` stands for a whole entry: inside a list every mesh axis needs a placement".into()
        }
        TokenTree::Ident(_) | TokenTree::Punct(_) if piece.iter().any(|tree| is_punct(tree, ':')) => {
            format!("a placement is written by its name alone: {FORMS}")
        }
        TokenTree::Ident(name) => {
            format!("unknown placement `{name}`: {}", suggest::hint(&name.to_string(), &NAMES))
        }
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
            "a list of placements has no list within: remove these brackets".into()
        }
        _ => format!("expected a placement: {FORMS}"),
    };
    Error::new(first.span(), message)
}

fn replicate(name: &Ident, rest: &[TokenTree]) -> Result<Placement> {
    match arguments(name, rest)? {
        None => Ok(Placement::Replicate),
        Some(group) => Err(Error::new(
            group.span(),
            "`Replicate` takes no argument, as every rank holds the whole value: write it alone",
        )),
    }
}

fn partial(name: &Ident, rest: &[TokenTree], errors: &mut Errors) -> Result<Placement> {
    let Some(group) = arguments(name, rest)? else {
        return Ok(Placement::Partial { op: Op::Sum, span: name.span() });
    };
    match pieces(group, errors).as_slice() {
        [] => Err(Error::new(group.span(), "`Partial()` lacks its op: write `Partial(Sum)`, or `Partial` for short")),
        [piece] => op(piece),
        [_, second, ..] => {
            Err(Error::new_spanned(joined(second), "`Partial` takes one op: one `Partial` per mesh axis"))
        }
    }
}

fn op(piece: &[TokenTree]) -> Result<Placement> {
    let [TokenTree::Ident(name), rest @ ..] = piece else {
        return Err(Error::new_spanned(joined(piece), format!("`Partial` takes an op: {}", any_op())));
    };
    let Some(op) = Op::from_name(&name.to_string()) else {
        let hint = suggest::hint(&name.to_string(), &Op::NAMES);
        return Err(Error::new(name.span(), format!("unknown op `{name}`: {hint}")));
    };
    nothing_after(rest)?;
    Ok(Placement::Partial { op, span: name.span() })
}

fn any_op() -> String {
    crate::errors::either(&Op::NAMES)
}

fn shard(name: &Ident, rest: &[TokenTree], errors: &mut Errors) -> Result<Placement> {
    const NEEDS: &str = "`Shard` needs the tensor dim that it splits: `Shard(0)`, or `Shard(-1)` for the last";
    let Some(group) = arguments(name, rest)? else {
        return Err(Error::new(name.span(), NEEDS));
    };
    match pieces(group, errors).as_slice() {
        [] => Err(Error::new(group.span(), NEEDS)),
        [piece] => Ok(Placement::Shard { dim: dim(piece)?, ragged: None }),
        [first, flag] => {
            let dim = dim(first)?;
            Ok(Placement::Shard { dim, ragged: Some(ragged(flag)?) })
        }
        [_, _, third, ..] => Err(Error::new_spanned(
            joined(third),
            "`Shard` takes a dim and at most `ragged`: one `Shard` per mesh axis",
        )),
    }
}

fn ragged(piece: &[TokenTree]) -> Result<proc_macro2::Span> {
    match piece {
        [word, rest @ ..] if is_word(word, "ragged") => nothing_after(rest).map(|()| word.span()),
        [TokenTree::Ident(word)] if !NAMES.iter().any(|name| word == name) => {
            let hint = suggest::hint(&word.to_string(), &["ragged"]);
            Err(Error::new(word.span(), format!("unknown option `{word}` of `Shard`: {hint}")))
        }
        _ => Err(Error::new_spanned(
            joined(piece),
            "after the dim, `Shard` takes only `ragged`: one `Shard` per mesh axis",
        )),
    }
}

fn dim(piece: &[TokenTree]) -> Result<i64> {
    match piece {
        [TokenTree::Literal(literal)] => integer("", literal),
        [minus, TokenTree::Literal(literal)] if is_punct(minus, '-') => integer("-", literal),
        [TokenTree::Literal(_), next @ TokenTree::Ident(_), ..] => {
            nothing_after(std::slice::from_ref(next)).map(|()| 0)
        }
        [word] if is_word(word, "ragged") => {
            Err(Error::new(word.span(), "`ragged` comes after the dim: `Shard(0, ragged)`"))
        }
        _ => Err(Error::new_spanned(
            joined(piece),
            format!(
                "`Shard` needs an integer literal, as in `Shard(0)`: `{}` has no value when the attribute is read",
                piece.iter().map(quoted).collect::<Vec<_>>().join(" ")
            ),
        )),
    }
}

fn integer(sign: &str, literal: &proc_macro2::Literal) -> Result<i64> {
    let wrong = |message: String| Error::new(literal.span(), message);
    let syn::Lit::Int(int) = syn::Lit::new(literal.clone()) else {
        return Err(wrong(format!("`Shard` needs the number of a tensor dim, as in `Shard(0)`, not `{literal}`")));
    };
    if !int.suffix().is_empty() {
        return Err(wrong(format!("write the dim without a suffix: `{sign}{}`", int.base10_digits())));
    }
    let digits = format!("{sign}{}", int.base10_digits());
    digits.parse().map_err(|_| wrong(format!("`{digits}` is no tensor dim: it does not fit in 64 bits")))
}

/// The parentheses after the name of a placement, if any.
fn arguments<'a>(name: &Ident, rest: &'a [TokenTree]) -> Result<Option<&'a Group>> {
    match rest {
        [] => Ok(None),
        [TokenTree::Group(group), word, ..] if group.delimiter() == Delimiter::Parenthesis && is_word(word, "on") => {
            Err(Error::new(word.span(), ON))
        }
        [TokenTree::Group(group), rest @ ..] if group.delimiter() == Delimiter::Parenthesis => {
            nothing_after(rest).map(|()| Some(group))
        }
        [TokenTree::Group(group), ..] => {
            Err(Error::new(group.span(), format!("`{name}` takes its argument in parentheses")))
        }
        [mark, ..] if is_punct(mark, '<') => {
            Err(Error::new(mark.span(), format!("`{name}<..>` is a type: here the placement is a value, `{name}(..)`")))
        }
        [word, ..] if is_word(word, "on") => Err(Error::new(word.span(), ON)),
        _ => nothing_after(rest).map(|()| None),
    }
}

fn joined(piece: &[TokenTree]) -> impl ToTokens {
    piece.iter().cloned().collect::<proc_macro2::TokenStream>()
}
