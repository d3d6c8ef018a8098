//! Parameters that are tuples with tensors in them: taken apart into their elements, which then are parameters as any other.
//!
//! ```text
//! #[local_map(in = [([Shard(0)], _)], out = [Shard(0)])]
//! fn scaled((x, by): (Tensor, f64)) -> Result<Tensor> { body }
//! ```
//!
//! is treated as the first of these, and its wrapper begins as the second:
//!
//! ```text
//! fn scaled(x: Tensor, by: f64) -> Result<Tensor> { let (x, by): (Tensor, f64) = (x, by); body }
//! fn scaled(tuple: (DTensor, f64)) -> Result<DTensor> { let (x, by) = tuple; .. }
//! ```

mod join;

pub(crate) use join::{Tuple, join};

use crate::ast::{Args, Entries, Entry, Inputs};
use crate::binding;
use crate::check;
use crate::errors::{Errors, counted};
use crate::function::{Function, compact, parameter_name, plain_name, simple_name};
use crate::types;
use join::Part;
use proc_macro2::{Ident, Span};
use quote::format_ident;
use syn::{FnArg, Pat, PatType, Token, Type, TypeTuple, parse_quote};

/// A parameter that was an element.
struct Element {
    name: Ident,
    ty: Type,
    entry: Option<Entry>,
    grad: Option<Entry>,
}

/// Takes apart every tuple that has one entry per element, or that holds tensors and has no entry where none is needed.
pub(crate) fn take_apart(args: &mut Args, function: &mut Function, errors: &mut Errors) {
    if !counts_fit(args, function) {
        return;
    }
    let mut position = 0;
    loop {
        let Some(parameter) = function.parameters().nth(position).cloned() else { return };
        let at = listed_before(function, position);
        let entry = args.entry(position, at, &parameter.pat);
        position += match (types::bare(&parameter.ty), entry) {
            (Type::Tuple(ty), None) if types::mentions_tensor(&parameter.ty) => {
                replace(args, function, (position, at), &parameter, ty, errors)
            }
            (Type::Tuple(ty), Some(Entry::Tuple(_) | Entry::Placed(_))) if !ty.elems.is_empty() => {
                replace(args, function, (position, at), &parameter, ty, errors)
            }
            (_, Some(Entry::Tuple(entries))) => {
                let span = entries.span;
                errors.at(span, no_tuple(&parameter));
                if let Some(entry) = args.entry_mut(position, at, &parameter.pat) {
                    *entry = Entry::Unreadable(span);
                }
                1
            }
            _ => 1,
        };
    }
}

/// What to write for a parameter that has one entry per element, but cannot be taken apart.
fn no_tuple(parameter: &PatType) -> String {
    let (name, ty) = (parameter_name(&parameter.pat), compact(&parameter.ty));
    match types::bare(&parameter.ty) {
        Type::Reference(lent) if matches!(types::bare(&lent.elem), Type::Tuple(_)) => {
            format!("parameter `{name}` of type `{ty}` cannot be distributed: {}", check::OWN_TUPLE)
        }
        _ => format!("parameter `{name}` of type `{ty}` is no tuple: write its placements, as in `[Shard(0)]`, or `_`"),
    }
}

/// Whether every list of entries has one per parameter; another number is reported elsewhere.
fn counts_fit(args: &Args, function: &Function) -> bool {
    let listed = listed_before(function, usize::MAX);
    [&args.inputs, &args.grads].into_iter().flatten().all(|inputs| match inputs {
        Inputs::Each(entries) => entries.items.len() == listed,
        Inputs::Named(_) | Inputs::Unreadable => true,
    })
}

/// The number of parameters that take an entry, before the one at `position`.
fn listed_before(function: &Function, position: usize) -> usize {
    function.parameters().take(position).filter(|parameter| types::context(&parameter.ty).is_none()).count()
}

/// Puts the elements in the place of the parameter at `position`; returns how many there are.
fn replace(
    args: &mut Args,
    function: &mut Function,
    (position, at): (usize, usize),
    parameter: &PatType,
    ty: &TypeTuple,
    errors: &mut Errors,
) -> usize {
    let is_placed = args.places.iter().any(|(placed, _)| *placed == position);
    let place = take_place(args, position);
    let listed = args.inputs.as_mut().and_then(|inputs| take(inputs, at, &parameter.pat));
    let entry = place.or(listed);
    let grad = args.grads.as_mut().and_then(|grads| take(grads, at, &parameter.pat));
    let mut elements = Vec::new();
    let name = parameter_name(&parameter.pat);
    let base = simple_name(&parameter.pat).map_or_else(|| format!("arg{position}"), plain_name);
    let mut walk = Walk { name: &name, base, elements: &mut elements, errors };
    let parts = walk.parts(ty, Some(&parameter.pat), entry, grad, &[]);
    let count = elements.len();
    args.places.iter_mut().filter(|(placed, _)| *placed > position).for_each(|(placed, _)| *placed += count - 1);
    for (index, element) in elements.iter_mut().enumerate() {
        if let Some(entry) = element.entry.take() {
            match (is_placed, &mut args.inputs) {
                (false, Some(inputs)) => insert(inputs, at + index, &element.name, entry),
                _ => args.places.push((position + index, entry)),
            }
        }
        if let (Some(grad), Some(grads)) = (element.grad.take(), &mut args.grads) {
            insert(grads, at + index, &element.name, grad);
        }
    }
    let outer = binding::outer_name(&parameter.pat, position);
    let tuple = Tuple { written: parameter.clone(), outer, parts };
    if let Some(body) = &mut function.body {
        body.before.extend(tuple.put_together());
    }
    function.tuples.push(tuple);
    splice(function, position, parameter, elements);
    count
}

fn take_place(args: &mut Args, position: usize) -> Option<Entry> {
    let at = args.places.iter().position(|(placed, _)| *placed == position)?;
    Some(args.places.remove(at).1)
}

fn take(inputs: &mut Inputs, at: usize, pat: &Pat) -> Option<Entry> {
    match inputs {
        Inputs::Each(entries) => (at < entries.items.len()).then(|| entries.items.remove(at)),
        Inputs::Named(entries) => {
            let name = plain_name(simple_name(pat)?);
            let at = entries.iter().position(|(named, _)| plain_name(named) == name)?;
            Some(entries.remove(at).1)
        }
        Inputs::Unreadable => None,
    }
}

fn insert(inputs: &mut Inputs, at: usize, name: &Ident, entry: Entry) {
    match inputs {
        Inputs::Each(entries) => entries.items.insert(at.min(entries.items.len()), entry),
        Inputs::Named(entries) => entries.push((name.clone(), entry)),
        Inputs::Unreadable => {}
    }
}

/// Puts the elements' parameters in the place of the tuple's.
fn splice(function: &mut Function, position: usize, parameter: &PatType, elements: Vec<Element>) {
    let receivers = usize::from(function.sig.receiver().is_some());
    let mut inputs: Vec<FnArg> = std::mem::take(&mut function.sig.inputs).into_iter().collect();
    let conditions = parameter.attrs.iter().filter(|attr| attr.path().is_ident("cfg")).cloned().collect::<Vec<_>>();
    let parameters = elements.into_iter().map(|Element { name, ty, .. }| {
        let pat = Box::new(parse_quote!(#name));
        FnArg::Typed(PatType { attrs: conditions.clone(), pat, colon_token: Token![:](name.span()), ty: Box::new(ty) })
    });
    let at = position + receivers;
    inputs.splice(at..=at, parameters);
    function.sig.inputs = inputs.into_iter().collect();
}

/// The way through a tuple and its entries.
struct Walk<'a> {
    /// The parameter's name in messages.
    name: &'a str,
    /// What its elements are named after.
    base: String,
    elements: &'a mut Vec<Element>,
    errors: &'a mut Errors,
}

impl Walk<'_> {
    fn parts(
        &mut self,
        ty: &TypeTuple,
        pat: Option<&Pat>,
        entry: Option<Entry>,
        grad: Option<Entry>,
        path: &[usize],
    ) -> Vec<Part> {
        let given = entry.is_some();
        let mut entries = self.per_element(ty, entry, "in", path).into_iter();
        let mut grads = self.per_element(ty, grad, "grad", path).into_iter();
        let parts = ty.elems.iter().enumerate().map(|(index, ty)| {
            let path = [path, &[index]].concat();
            let pat = pat.and_then(|pat| element_of(pat, index));
            let (entry, grad) = (entries.next().flatten(), grads.next().flatten());
            match types::bare(ty) {
                Type::Tuple(inner) if !inner.elems.is_empty() && is_taken_apart(ty, entry.as_ref(), given) => {
                    Part::Tuple(self.parts(inner, pat, entry, grad, &path))
                }
                ty => Part::Element(self.element(ty, pat, entry, grad, &path)),
            }
        });
        parts.collect()
    }

    /// What the entry of a tuple says of each of its elements.
    fn per_element(&mut self, ty: &TypeTuple, entry: Option<Entry>, key: &str, path: &[usize]) -> Vec<Option<Entry>> {
        let count = ty.elems.len();
        let every = |entry: fn(Span) -> Entry, span: Span| (0..count).map(|_| Some(entry(span))).collect();
        match entry {
            None => Vec::new(),
            Some(Entry::Plain(span)) => every(Entry::Plain, span),
            Some(Entry::Unreadable(span)) => every(Entry::Unreadable, span),
            Some(Entry::Tuple(Entries { items, .. })) if items.len() == count => items.into_iter().map(Some).collect(),
            Some(entry) => {
                let span = entry.span();
                self.errors.at(span, wrong_entry(&entry, &place_within(self.name, path), ty, key));
                every(Entry::Unreadable, span)
            }
        }
    }

    fn element(
        &mut self,
        ty: &Type,
        pat: Option<&Pat>,
        entry: Option<Entry>,
        grad: Option<Entry>,
        path: &[usize],
    ) -> Ident {
        let name = match pat.and_then(simple_name) {
            Some(name) => Ident::new(&name.to_string(), Span::mixed_site().located_at(name.span())),
            None => {
                let path: String = path.iter().map(|index| format!("__{index}")).collect();
                format_ident!("{}{path}", self.base, span = Span::mixed_site())
            }
        };
        self.elements.push(Element { name: name.clone(), ty: ty.clone(), entry, grad });
        name
    }
}

/// Whether a tuple within a tuple is taken apart: where nothing is said of it, for the sake of its tensors.
fn is_taken_apart(ty: &Type, entry: Option<&Entry>, given: bool) -> bool {
    match entry {
        None => !given && types::mentions_tensor(ty),
        Some(Entry::Plain(_)) => false,
        Some(_) => true,
    }
}

fn element_of(pat: &Pat, index: usize) -> Option<&Pat> {
    match pat {
        Pat::Tuple(tuple) => tuple.elems.iter().nth(index).filter(|_| !tuple.elems.iter().any(is_rest)),
        Pat::Paren(pat) => element_of(&pat.pat, index),
        _ => None,
    }
}

fn is_rest(pat: &Pat) -> bool {
    matches!(pat, Pat::Rest(_))
}

/// The element as an author would call it: `pair.0` for `pair__0`.
pub(crate) fn shown(name: &str) -> String {
    let mut parts = name.split("__");
    let base = parts.next().unwrap_or_default();
    let indices: Vec<&str> = parts.collect();
    match indices.iter().all(|index| !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit())) {
        true => indices.iter().fold(base.to_owned(), |name, index| format!("{name}.{index}")),
        false => name.to_owned(),
    }
}

fn place_within(name: &str, path: &[usize]) -> String {
    path.iter().fold(name.to_owned(), |name, index| format!("{name}.{index}"))
}

fn wrong_entry(entry: &Entry, name: &str, ty: &TypeTuple, key: &str) -> String {
    let (shown, count) = (compact(ty), ty.elems.len());
    match entry {
        Entry::Tuple(entries) => format!(
            "`{name}` of type `{shown}` has {}, but its entry in `{key}` has {}",
            counted(count, "element", "elements"),
            counted(entries.items.len(), "entry", "entries")
        ),
        _ => {
            let each: Vec<&str> = ty.elems.iter().map(usual_entry).collect();
            format!("`{name}` of type `{shown}` is a tuple: write one entry per element, as in `({})`", each.join(", "))
        }
    }
}

fn usual_entry(ty: &Type) -> &'static str {
    if types::mentions_tensor(ty) { "[Shard(0)]" } else { "_" }
}
