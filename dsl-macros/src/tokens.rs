//! Splitting token streams at commas, so that one mistake does not hide the next.

use crate::errors::Errors;
use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};

/// The non-empty pieces between the commas of `group`; a comma with nothing before it is reported.
pub(crate) fn pieces(group: &Group, errors: &mut Errors) -> Vec<Vec<TokenTree>> {
    let mut pieces = Vec::new();
    let mut piece = Vec::new();
    for tree in visible(group.stream()) {
        if !is_punct(&tree, ',') {
            piece.push(tree);
        } else if piece.is_empty() {
            errors.at(tree.span(), "nothing stands before this comma");
        } else {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// The tokens without the invisible groups that `macro_rules!` puts around its fragments.
pub(crate) fn visible(stream: TokenStream) -> Vec<TokenTree> {
    let mut trees = Vec::new();
    for tree in stream {
        match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
                trees.extend(visible(group.stream()));
            }
            tree => trees.push(tree),
        }
    }
    trees
}

/// `stream`, a path, whose errors appear at `span`; names mean what they meant before.
pub(crate) fn located(stream: TokenStream, span: Span) -> TokenStream {
    let located = stream.into_iter().map(|mut tree| {
        tree.set_span(tree.span().located_at(span));
        tree
    });
    located.collect()
}

/// `stream` with what `replacement` gives for an identifier and the token behind it, at any depth; not for one behind `::`,
/// which is a name within something else.
pub(crate) fn replaced(
    stream: TokenStream,
    replacement: &dyn Fn(&proc_macro2::Ident, Option<&TokenTree>) -> Option<TokenStream>,
) -> TokenStream {
    let mut out = TokenStream::new();
    let mut colons = 0;
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let behind_colons = colons == 2;
        colons = if is_punct(&tree, ':') { colons + 1 } else { 0 };
        match tree {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), replaced(group.stream(), replacement));
                inner.set_span(group.span());
                out.extend([TokenTree::Group(inner)]);
            }
            TokenTree::Ident(ident) => match replacement(&ident, trees.peek()).filter(|_| !behind_colons) {
                Some(tokens) => out.extend(tokens),
                None => out.extend([TokenTree::Ident(ident)]),
            },
            tree => out.extend([tree]),
        }
    }
    out
}

/// Whether `tree` is the punctuation `mark`.
pub(crate) fn is_punct(tree: &TokenTree, mark: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == mark)
}

/// Whether `tree` is the word `word`; `_` is a word too.
pub(crate) fn is_word(tree: &TokenTree, word: &str) -> bool {
    matches!(tree, TokenTree::Ident(ident) if ident == word)
}

/// What `tree` looks like when a message quotes it: a group by its brackets alone.
pub(crate) fn quoted(tree: &TokenTree) -> String {
    match tree {
        TokenTree::Group(group) => match group.delimiter() {
            Delimiter::Parenthesis => "(..)".into(),
            Delimiter::Brace => "{..}".into(),
            Delimiter::Bracket => "[..]".into(),
            Delimiter::None => "..".into(),
        },
        tree => tree.to_string(),
    }
}

/// Refuses whatever follows a complete value: usually a forgotten comma.
pub(crate) fn nothing_after(rest: &[TokenTree]) -> syn::Result<()> {
    match rest {
        [] => Ok(()),
        [first, ..] => Err(expected_comma(first.span(), &quoted(first))),
    }
}

fn expected_comma(span: Span, found: &str) -> syn::Error {
    syn::Error::new(span, format!("expected `,` before `{found}`"))
}
