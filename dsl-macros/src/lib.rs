//! The macros of the crate `local-map`, which re-exports them: depend on that one.
//!
//! One expansion of `#[local_map]` goes through five steps, each in files of its own: the attribute is read (`parse`, `entry`,
//! `placement`, `place`, `own`, `axes`, into `ast`), put beside the function (`function`, `types`, `structs`, into `model`), held against every rule
//! (`check`), and written as a wrapper (`binding`, `expand`, `signature`, `table`). A step never stops at a mistake: it notes it and
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
mod forward;
mod function;
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
mod types;

use errors::Errors;
use proc_macro2::TokenStream;
use quote::quote;

/// `#[local_map(..)]`, on functions: the attribute is read, put beside the function, checked and expanded by this macro of the crate
/// `local-map-macros`. Its reference stands at the re-export, `local_map::local_map`.
#[proc_macro_attribute]
pub fn local_map(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    attribute(args.into(), item.into()).into()
}

/// `#[local_layer(..)]`, on `impl` blocks: the method becomes a function of the struct and its parameters, and is expanded as by
/// `#[local_map(..)]`, by this macro of the crate `local-map-macros`. Its reference stands at the re-export, `local_map::local_layer`.
#[proc_macro_attribute]
pub fn local_layer(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    reported(|errors| layer::expansion(args.into(), item.into(), errors)).into()
}

/// `#[derive(Distribute)]`, on structs: the fields' placements are read, checked and written as the attributes' entries are, by this
/// macro of the crate `local-map-macros`. Its reference stands at the re-export, `local_map::Distribute`.
#[proc_macro_derive(Distribute, attributes(place, grad, local_map))]
pub fn distribute(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    reported(|errors| distribute::expansion(item.into(), errors)).into()
}

/// Expands the attribute; mistakes come out as `compile_error!`s beside the item.
fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    reported(|errors| expansion(args, item, errors))
}

/// The expansion, and a `compile_error!` for each mistake that was noted.
fn reported(expansion: impl FnOnce(&mut Errors) -> TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let item = expansion(&mut errors);
    let errors = errors.into_error().map(syn::Error::into_compile_error);
    quote!(#errors #item)
}

fn expansion(args: TokenStream, item: TokenStream, errors: &mut Errors) -> TokenStream {
    let function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            errors.push(function::refusal(item.clone(), error));
            return item;
        }
    };
    let mut args = parse::args(args, errors);
    entry::complete(&mut args, &function, errors);
    let region = model::Region::new(&args, &function);
    check::all(&region, errors);
    match region.own_receiver() {
        _ if !expand::is_possible(&region) => item,
        Some(receiver) if region.recomputes() => forward::split(&args, &function, receiver),
        _ => expand::wrapper(&region),
    }
}
