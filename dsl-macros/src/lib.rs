//! The macros of the crate `local-map`, which re-exports them: depend on that one.
//!
//! One expansion (`expansion`) of `#[local_map]` goes through five steps, each in files of its own: the attribute is read (`parse`, `entry`,
//! `placement`, `place`, `tuples`, `own`, `axes`, into `ast`), put beside the function (`function`, `types`, `structs`, into `model` and `labels`), held against every rule
//! (`check`), and written as a wrapper (`binding`, `expand`, `signature`, `layout`, `table`). A step never stops at a mistake: it notes it and
//! goes on with its best guess, so that all mistakes appear at once and the rest of the file still compiles.
//!
//! `#[local_layer]` (`layer`) makes a function of a method (`forward`) and sends it the same way; `#[derive(Distribute)]`
//! (`distribute`) reads placements, checks and writes them by the same code.

mod ast;
mod axes;
mod binding;
mod check;
mod distribute;
mod entry;
mod errors;
mod expand;
mod expansion;
mod forward;
mod function;
mod labels;
mod layer;
mod layout;
mod model;
mod own;
mod parse;
mod place;
mod placement;
mod signature;
mod structs;
mod suggest;
mod table;
#[cfg(test)]
mod tests;
mod tokens;
mod tuples;
mod types;

/// `#[local_map(..)]`, on functions: the attribute is read, put beside the function, checked and expanded by this macro of the crate
/// `local-map-macros`. Its reference stands at the re-export, `local_map::local_map`.
#[proc_macro_attribute]
pub fn local_map(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expansion::local_map(args.into(), item.into()).into()
}

/// `#[local_layer(..)]`, on `impl` blocks: the method becomes a function of the struct and its parameters, and is expanded as by
/// `#[local_map(..)]`, by this macro of the crate `local-map-macros`. Its reference stands at the re-export, `local_map::local_layer`.
#[proc_macro_attribute]
pub fn local_layer(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expansion::local_layer(args.into(), item.into()).into()
}

/// `#[derive(Distribute)]`, on structs: the fields' placements are read, checked and written as the attributes' entries are, by this
/// macro of the crate `local-map-macros`. Its reference stands at the re-export, `local_map::Distribute`.
#[proc_macro_derive(Distribute, attributes(place, grad, local_map))]
pub fn distribute(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expansion::derive(item.into()).into()
}
