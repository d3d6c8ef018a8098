//! The annotated item: a function whose body stays a group of tokens.

use crate::tokens::{is_punct, is_word};
use crate::tuples::{self, Tuple};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, FnArg, Ident, Pat, PatType, Result, Signature, Token, Visibility};

/// A function as its author wrote it.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// Absent where a trait only declares the method.
    pub(crate) body: Option<Body>,
    /// The parameters of `sig` that were elements of one, and no longer are as the author wrote them.
    pub(crate) tuples: Vec<Tuple>,
}

/// The braces, with the attributes that stood first inside of them.
pub(crate) struct Body {
    /// `#![allow(..)]`, which a closure's block cannot hold, as `#[allow(..)]`.
    pub(crate) attrs: TokenStream,
    /// What is bound before the block.
    pub(crate) before: TokenStream,
    pub(crate) block: Group,
}

impl Body {
    /// The block with what is bound before it.
    pub(crate) fn whole(&self) -> TokenStream {
        let (before, block) = (&self.before, &self.block);
        match before.is_empty() {
            true => quote!(#block),
            false => quote!({ #before #[allow(unused_braces)] #block }),
        }
    }
}

impl Function {
    /// The function's name without `r#`.
    pub(crate) fn name(&self) -> String {
        plain_name(&self.sig.ident)
    }

    /// The parameters that take an entry: all but `self`.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &PatType> {
        self.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(parameter) => Some(parameter),
            FnArg::Receiver(_) => None,
        })
    }
}

/// What messages call a parameter: its name, or its pattern.
pub(crate) fn parameter_name(pat: &Pat) -> String {
    match pat {
        Pat::Ident(pat) => tuples::shown(&plain_name(&pat.ident)),
        Pat::Paren(pat) => parameter_name(&pat.pat),
        pat => compact(pat),
    }
}

/// The only name that a pattern binds, if it is no more than a name.
pub(crate) fn simple_name(pat: &Pat) -> Option<&Ident> {
    match pat {
        Pat::Ident(pat) if pat.subpat.is_none() => Some(&pat.ident),
        Pat::Paren(pat) => simple_name(&pat.pat),
        _ => None,
    }
}

/// The text of `tokens` without the spaces that printing tokens leaves everywhere.
pub(crate) fn compact(tokens: impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    let tight = ["& ", " <", "< ", " >", " :: ", ":: ", " (", "( ", " )", " ,", " ;", "[ ", " ]", "' "];
    tight.iter().fold(text, |text, spaced| text.replace(spaced, spaced.trim()))
}

/// The name without `r#`.
pub(crate) fn plain_name(ident: &Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

impl Parse for Function {
    fn parse(input: ParseStream) -> Result<Self> {
        Ok(Function {
            attrs: input.call(Attribute::parse_outer)?,
            vis: input.parse()?,
            sig: input.parse()?,
            body: body(input)?,
            tuples: Vec::new(),
        })
    }
}

fn body(input: ParseStream) -> Result<Option<Body>> {
    if input.peek(Token![;]) {
        input.parse::<Token![;]>()?;
        return Ok(None);
    }
    match braces(input.parse()?) {
        Some(block) => Ok(Some(hoist(&block))),
        None => Err(input.error("expected the function's body")),
    }
}

/// `{ .. }`, also inside the invisible group of a `$body:block`.
fn braces(tree: TokenTree) -> Option<Group> {
    match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            group.stream().into_iter().next().and_then(braces)
        }
        _ => None,
    }
}

/// Takes the inner attributes out of the block.
fn hoist(block: &Group) -> Body {
    let trees: Vec<TokenTree> = block.stream().into_iter().collect();
    let mut rest = trees.as_slice();
    let mut attrs = TokenStream::new();
    while let [hash, bang, TokenTree::Group(group), after @ ..] = rest {
        if !(is_punct(hash, '#') && is_punct(bang, '!') && group.delimiter() == Delimiter::Bracket) {
            break;
        }
        attrs.extend(quote!(#hash #group));
        rest = after;
    }
    let mut stripped = Group::new(Delimiter::Brace, rest.iter().cloned().collect());
    stripped.set_span(block.span());
    let block = if attrs.is_empty() { block.clone() } else { stripped };
    Body { attrs, before: TokenStream::new(), block }
}

/// Says, for an item that is no function, what it is and what to do.
pub(crate) fn refusal(item: TokenStream, error: Error) -> Error {
    let after_vis = |input: ParseStream| -> Result<Vec<TokenTree>> {
        input.call(Attribute::parse_outer)?;
        input.parse::<Visibility>()?;
        Ok(input.parse::<TokenStream>()?.into_iter().collect())
    };
    let Ok(trees) = syn::parse::Parser::parse2(after_vis, item) else {
        return error;
    };
    let Some(first) = trees.first() else {
        return error;
    };
    if trees.iter().find(|tree| !is_qualifier(tree)).is_some_and(|tree| is_word(tree, "fn")) {
        return error;
    }
    let advice = match is_word(first, "impl") || is_word(first, "trait") {
        true => ": put it on the methods inside",
        false => "",
    };
    Error::new(first.span(), format!("`#[local_map]` goes on a function{advice}"))
}

/// What may stand between the visibility and `fn`.
fn is_qualifier(tree: &TokenTree) -> bool {
    let words = ["const", "async", "unsafe", "extern", "safe", "default", "gen"];
    matches!(tree, TokenTree::Literal(_)) || words.iter().any(|word| is_word(tree, word))
}
