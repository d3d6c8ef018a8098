//! The collector that lets one attribute report all of its mistakes at once.

use proc_macro2::Span;
use quote::ToTokens;

/// Every mistake found so far, in the order in which they were found.
#[derive(Default)]
pub(crate) struct Errors {
    all: Option<syn::Error>,
    count: usize,
}

impl Errors {
    /// Adds `error` to the others.
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.count += 1;
        match &mut self.all {
            Some(all) => all.combine(error),
            None => self.all = Some(error),
        }
    }

    /// Adds `message` on `span`.
    pub(crate) fn at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.push(syn::Error::new(span, message));
    }

    /// Adds `message` under all of `tokens`, where a single span would show only the first of them.
    pub(crate) fn under(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    /// Takes the value of `result`, or notes its error.
    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// How many mistakes were found: lets a rule keep silent where an earlier one spoke.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// All of them as one error, which makes one `compile_error!` each.
    pub(crate) fn into_error(self) -> Option<syn::Error> {
        self.all
    }
}

/// `1 entry`, `2 entries`.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// `` `a`, `b` and `c` ``.
pub(crate) fn listed<S: AsRef<str>>(words: &[S]) -> String {
    joined(words, "and")
}

/// `` `a`, `b` or `c` ``.
pub(crate) fn either<S: AsRef<str>>(words: &[S]) -> String {
    joined(words, "or")
}

fn joined<S: AsRef<str>>(words: &[S], last_word: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{}`", word.as_ref())).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} {last_word} {last}", first.join(", ")),
        None => String::new(),
    }
}
