//! `#[place(..)]` on the parameters of a function: their entries, where the attribute's `in` does not hold them.

use crate::ast::{Args, Entry};
use crate::errors::Errors;
use crate::function::{Function, parameter_name};
use crate::tokens::{is_word, nothing_after, pieces};
use crate::{placement, suggest, types};
use proc_macro2::{Delimiter, Group, TokenTree};
use syn::{Attribute, Meta, PatType};

const BARE: &str = "`#[place(..)]` takes one placement per mesh axis, as in `#[place(Shard(0))]`, or `_`";
const BRACKETS: &str = "the parentheses are the list: write the placements alone, as in `#[place(Shard(0))]`";
const CONTEXT: &str = "the context has no placements, as the wrapper supplies it: remove `#[place(..)]`";

const RECEIVER: &str = "`self` takes no entry: remove `#[place(..)]`";
const GRADIENT: &str =
    "`#[grad(..)]` is for the fields of structs: of a parameter, write `grad = [..]` in the attribute";

/// Whether the attribute of a parameter is an entry, or was meant to be one and was reported.
pub(crate) fn is_entry(attr: &Attribute) -> bool {
    attr.path().is_ident("place") || misspelt(attr).is_some()
}

/// What is wrong with an attribute that nothing else can have been meant with.
fn misspelt(attr: &Attribute) -> Option<String> {
    let name = attr.path().get_ident()?.to_string();
    match (name.as_str(), suggest::closest(&name, &["place"])) {
        ("grad", _) => Some(GRADIENT.to_owned()),
        ("place", _) | (_, None) => None,
        (name, Some(place)) => Some(format!("unknown attribute `{name}`: did you mean `{place}`?")),
    }
}

/// Notes attributes that are entries of nothing.
fn strays(function: &Function, errors: &mut Errors) {
    for attr in function.sig.receiver().into_iter().flat_map(|receiver| &receiver.attrs) {
        if is_entry(attr) {
            errors.under(attr.path(), RECEIVER);
        }
    }
    for attr in function.parameters().flat_map(|parameter| &parameter.attrs) {
        if let Some(message) = misspelt(attr) {
            errors.under(attr.path(), message);
        }
    }
}

/// Adds the entries that stand on parameters to `args`.
pub(crate) fn on_parameters(args: &mut Args, function: &Function, errors: &mut Errors) {
    strays(function, errors);
    let mut listed = 0;
    for (position, parameter) in function.parameters().enumerate() {
        let at = listed;
        listed += usize::from(types::context(&parameter.ty).is_none());
        for attr in parameter.attrs.iter().filter(|attr| attr.path().is_ident("place")) {
            if let Some(message) = misuse(args, position, parameter) {
                errors.under(attr.path(), message);
            } else if args.inputs.as_ref().is_some_and(|inputs| inputs.entry(at, &parameter.pat).is_some()) {
                let name = parameter_name(&parameter.pat);
                let message = format!("the entry of `{name}` is given twice: here, and in `in`; keep one of the two");
                errors.under(attr.path(), message);
                args.places.push((position, Entry::Unreadable(attr.pound_token.span)));
            } else {
                args.places.push((position, entry(attr, errors)));
            }
        }
    }
}

/// Why the parameter gets no entry here.
fn misuse(args: &Args, position: usize, parameter: &PatType) -> Option<String> {
    if types::context(&parameter.ty).is_some() {
        return Some(CONTEXT.to_owned());
    }
    let name = parameter_name(&parameter.pat);
    let twice = args.places.iter().any(|(placed, _)| *placed == position);
    twice.then(|| format!("`#[place(..)]` is given twice for `{name}`"))
}

/// Reads one `#[place(..)]`.
fn entry(attr: &Attribute, errors: &mut Errors) -> Entry {
    let Meta::List(list) = &attr.meta else {
        errors.under(attr.path(), BARE);
        return Entry::Unreadable(attr.pound_token.span);
    };
    let mut group = Group::new(Delimiter::Parenthesis, list.tokens.clone());
    group.set_span(list.delimiter.span().join());
    match pieces(&group, &mut Errors::default()).as_slice() {
        [] => {
            errors.at(group.span(), BARE);
            Entry::Unreadable(group.span())
        }
        [only] if only.first().is_some_and(|first| is_word(first, "_")) => {
            errors.take(nothing_after(&only[1..]));
            Entry::Plain(only[0].span())
        }
        [only] if matches!(only.as_slice(), [TokenTree::Group(_)]) => {
            errors.at(only[0].span(), BRACKETS);
            Entry::Unreadable(group.span())
        }
        _ => Entry::Placed(placement::either(&group, errors)),
    }
}
