//! Expansions compared as tokens, every rule's message with the token it stands on, and a fuzz loop.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod entries;
mod expansion;
mod fuzz;
mod gradients;
mod layers;
mod recovery;
mod rules;
mod snapshots;
mod structs;
mod syntax;

use crate::errors::Errors;
use proc_macro2::TokenStream;

const ONE: &str = "fn f(x: &Tensor) -> Result<Tensor> { x }";
const TWO: &str = "fn f(x: &Tensor, n: f32) -> Result<Tensor> { x }";
const PAIR: &str = "fn f(x: &Tensor) -> Result<(Tensor, f32)> { x }";

/// The tokens of `text`.
fn tokens(text: &str) -> TokenStream {
    text.parse().expect(text)
}

/// The item that comes out, and each error as `(message, source text under it)`.
fn run(args: &str, item: &str) -> (TokenStream, Vec<(String, String)>) {
    let mut errors = Errors::default();
    let item = crate::expansion(tokens(args), tokens(item), &mut errors);
    let errors = errors.into_error().into_iter().flatten();
    let errors = errors.map(|error| (error.to_string(), error.span().source_text().unwrap_or_default()));
    (item, errors.collect())
}

/// The attribute without layouts in the signature, which the tests of `snapshots` show.
fn dynamic(args: &str) -> String {
    format!("dynamic, {args}")
}

/// The item that comes out of a correct use, without spacing differences and without layouts.
fn expand(args: &str, item: &str) -> String {
    let (item, errors) = run(&dynamic(args), item);
    assert_eq!(errors, [], "{args}");
    normal(&item.to_string())
}

/// Without spaces, which printing tokens puts in many places, and with `P::` for the path of what only expansions use, which they
/// shorten in their first line.
fn normal(text: &str) -> String {
    let text: String = text.split_whitespace().collect();
    let text = text.replace("use::local_map::__privateas__m;", "").replace("use::renamed::__privateas__m;", "");
    text.replace("::local_map::__private::", "P::").replace("__m::", "P::")
}

#[track_caller]
fn assert_expands(args: &str, item: &str, whole: &str) {
    let whole = tokens(whole).to_string();
    assert_eq!(expand(args, item), normal(&whole));
}

/// The expansion of a correct use must hold the tokens `part`.
#[track_caller]
fn assert_holds(args: &str, item: &str, part: &str) {
    let (whole, part) = (expand(args, item), normal(part));
    assert!(whole.contains(&part), "no\n  {part}\nin\n  {whole}");
}

/// Exactly one error, on the tokens `under`.
#[track_caller]
fn refused(args: &str, item: &str, under: &str, message: &str) {
    let (_, errors) = run(args, item);
    assert_eq!(errors, [(message.to_owned(), under.to_owned())], "{args}");
}
