//! What the macros do, from tokens to tokens.

use crate::errors::Errors;
use crate::{check, entry, expand, forward, layer, model, parse};
use proc_macro2::TokenStream;
use quote::quote;

/// Expands `#[local_map]`; mistakes come out as `compile_error!`s beside the item.
pub(crate) fn local_map(args: TokenStream, item: TokenStream) -> TokenStream {
    reported(|errors| function(args, item, errors))
}

/// Expands `#[local_layer]`.
pub(crate) fn local_layer(args: TokenStream, item: TokenStream) -> TokenStream {
    reported(|errors| layer::expansion(args, item, errors))
}

/// Expands `#[derive(Distribute)]`.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    reported(|errors| crate::distribute::expansion(item, errors))
}

/// The expansion, and a `compile_error!` for each mistake that was noted.
fn reported(expansion: impl FnOnce(&mut Errors) -> TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let item = expansion(&mut errors);
    let errors = errors.into_error().map(syn::Error::into_compile_error);
    quote!(#errors #item)
}

/// The same with the mistakes still to be reported.
pub(crate) fn function(args: TokenStream, item: TokenStream, errors: &mut Errors) -> TokenStream {
    let mut function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            errors.push(crate::function::refusal(item.clone(), error));
            // Behind a `compile_error!`, an expression would be read as the rest of it.
            return if syn::parse2::<syn::Expr>(item.clone()).is_ok() { TokenStream::new() } else { item };
        }
    };
    let mut args = parse::args(args, errors);
    entry::complete(&mut args, &mut function, errors);
    let region = model::Region::new(&args, &function);
    check::all(&region, errors);
    match region.own_receiver() {
        _ if !expand::is_possible(&region) => item,
        Some(receiver) if region.recomputes() => forward::split(&args, &function, receiver),
        _ => expand::wrapper(&region),
    }
}
