//! The `#[local_map]` attribute of the crate `local-map`, which re-exports it: depend on that one.
//!
//! One expansion goes through five steps, each in files of its own: the attribute is read (`parse`, `entry`,
//! `placement`, into `ast`), put beside the function (`function`, `types`, into `model`), held against every rule
//! (`check`), and written as a wrapper (`expand`, `signature`, `table`). A step never stops at a mistake: it notes it and
//! goes on with its best guess, so that all mistakes appear at once and the rest of the file still compiles.

mod ast;
mod check;
mod entry;
mod errors;
mod expand;
mod function;
mod model;
mod parse;
mod placement;
mod signature;
mod suggest;
mod table;
#[cfg(test)]
mod tests;
mod tokens;
mod types;

use errors::Errors;
use proc_macro2::TokenStream;
use quote::quote;

/// Turns a function over plain tensors into a *region*: a function over distributed tensors.
///
/// A call takes each rank's local piece of every distributed argument, runs the body on these locals, and labels what
/// the body returns as one distributed tensor. The attribute says how arguments must be placed and how results are.
///
/// ```text
/// #[local_map(out = [Partial(Sum)], in = [[Shard(0)], _], reshard)]
/// fn masked_mean(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
///     (x * mask)?.sum_all()? / mask.sum_all()?
/// }
/// ```
///
/// Callers see `fn masked_mean(x: &DTensor, mask: &Tensor) -> Result<DTensor>`.
///
/// # Keys and flags
///
/// | written | meaning |
/// |---|---|
/// | `out = ..` | required: how the results are placed |
/// | `in = [entry, ..]` | one entry per parameter, in order, `self` not counted; omitted: every tensor is distributed, with any placements |
/// | `mesh = expr` | the mesh, where no distributed argument gives it; an expression over the parameters |
/// | `reshard` | arguments that are placed otherwise are resharded; without the flag they are an error |
/// | `check` | the labels are verified, by communication: shapes agree and replicas are equal |
/// | `crate = path` | where `local_map` is found, when it is renamed |
///
/// # Entries
///
/// An entry is `_` or a list with one placement per mesh axis. All lists of one attribute have the same length.
///
/// `_` in `in` passes the argument through as it is; in `out` it returns the value as it is. A list in `in` needs a
/// parameter of type `Tensor`, `&Tensor`, `Option<Tensor>`, `Option<&Tensor>`, `Vec<Tensor>`, `&[Tensor]` or
/// `[Tensor; N]`, where `Tensor` is the last segment of any path.
///
/// `out` is one bare list for one result, or a list of entries, one per element of a returned tuple:
///
/// ```text
/// out = [Shard(0)]                 // -> Result<Tensor>
/// out = [[Shard(0)], _]            // -> Result<(Tensor, f32)>
/// out = _                          // nothing is labelled; `[]` says the same
/// ```
///
/// # Placements
///
/// | written | the value is |
/// |---|---|
/// | `Shard(n)`, `Shard(-n)` | split along tensor dim `n`, or along the `n`-th from the end |
/// | `Shard(n, ragged)` | split into pieces of any lengths, which the ranks exchange; only in `out` |
/// | `Replicate` | the same on every rank of the axis |
/// | `Partial(op)` | what the ranks' values reduce to: `Sum`, `Avg`, `Max`, `Min`, `Prod`, `Any` or `All`; `Partial` alone sums |
///
/// One list may be `Partial` over several axes with a single op, or with `Sum` and `Avg`, which commute.
///
/// # Results
///
/// The wrapper's result type is the written one with `DTensor` for `Tensor` in the labelled elements. The error type of
/// a `Result<T, E>` needs `E: From<local_map::Error>`. A plain `T` becomes `local_map::Result<T>`, no result type
/// `local_map::Result<()>`. A type alias such as `type Loss = Result<Tensor>` is seen through, for one labelled output.
///
/// # Functions
///
/// Methods, generics, lifetimes, `where`, `unsafe`, patterns, `mut` and attributes on parameters all work, and the body
/// may use `?`, `return` and `Self` as ever. `async`, `const`, `extern` and variadic functions are refused.
#[proc_macro_attribute]
pub fn local_map(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    attribute(args.into(), item.into()).into()
}

/// Expands the attribute; mistakes come out as `compile_error!`s beside the item.
fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let item = expansion(args, item, &mut errors);
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
    let args = parse::args(args, errors);
    let region = model::Region::new(&args, &function);
    check::all(&region, errors);
    if expand::is_possible(&region) {
        expand::wrapper(&region)
    } else {
        item
    }
}
