//! Entries by parameter name, in `in` and in `grad`.

use crate::ast::{Axes, Entry, Inputs};
use crate::axes::is_among;
use crate::errors::Errors;
use crate::function::{plain_name, simple_name};
use crate::model::Region;
use crate::suggest;
use proc_macro2::Ident;

/// Notes names that are no parameters, or that take no entry.
pub(super) fn check(region: &Region, key: &str, inputs: Option<&Inputs>, errors: &mut Errors) {
    let Some(Inputs::Named(entries)) = inputs else { return };
    for (at, (name, entry)) in entries.iter().enumerate() {
        let again = entries[..at].iter().any(|(earlier, _)| plain_name(earlier) == plain_name(name));
        let message = match again {
            true => Some(format!("`{}` is given twice in `{key}`", plain_name(name))),
            false => misfit(region, key, name),
        };
        // What is unreadable was reported.
        if let Some(message) = message.filter(|_| !matches!(entry, Entry::Unreadable(_))) {
            errors.at(name.span(), message);
        }
    }
}

fn misfit(region: &Region, key: &str, name: &Ident) -> Option<String> {
    let (function, text) = (region.function.name(), plain_name(name));
    let known: Vec<String> = region.listed().filter_map(|it| simple_name(&it.written.pat)).map(plain_name).collect();
    if known.contains(&text) {
        return None;
    }
    if text == "self" {
        return Some(match region.layer.is_some() {
            true => "`self` takes no entry: its tensors are placed by `#[place(..)]` on the struct's fields".to_owned(),
            false => format!("`self` takes no entry: remove it from `{key}`"),
        });
    }
    if region.contexts().any(|context| simple_name(&context.written.pat).is_some_and(|pat| plain_name(pat) == text)) {
        return Some(format!("`{text}` is the context, which takes no entry: remove it from `{key}`"));
    }
    if matches!(&region.args.axes, Axes::Given(axes) if is_among(name, axes)) {
        return Some(format!(
            "`{text}` is a mesh axis, but braces behind `{key} =` hold the names of parameters: write one entry per parameter, \
             as in `{key} = [{{ {text}: Shard(0) }}]`"
        ));
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    Some(match known.as_slice() {
        [] => format!("`{function}` has no parameter `{text}`"),
        known => format!("`{function}` has no parameter `{text}`: {}", suggest::hint(&text, known)),
    })
}
