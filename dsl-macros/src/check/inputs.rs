//! `in` against the parameters.

use super::{entry_count, names, wrong_count};
use crate::ast::{Entry, Inputs};
use crate::errors::Errors;
use crate::function::compact;
use crate::model::{Parameter, Region};
use crate::types::{self, Class};

const CONTAINER: &str = "only `Tensor`, `&Tensor`, structs of them that derive `Distribute`, and `Option`, `Vec`, slices and arrays of these have \
     placements, write `_`";

/// What to write for a tuple that cannot be taken apart.
pub(crate) const OWN_TUPLE: &str = "take the tuple itself, of tensors or of references to them, `(Tensor, &Tensor)`";

const DTENSOR: &str = "a body works on plain tensors, write `Tensor`: its callers hand over a `DTensor`";

/// Notes mistakes about parameters; true when it is known which of them are distributed.
pub(crate) fn check(region: &Region, errors: &mut Errors) -> bool {
    let before = errors.count();
    names::check(region, "in", region.args.inputs.as_ref(), errors);
    match &region.args.inputs {
        Some(Inputs::Unreadable) => return false,
        // After a wrong count nobody knows which entry was meant for which parameter.
        Some(Inputs::Each(entries)) if entries.items.len() != entry_count(region) => {
            let advice = match region.args.places.is_empty() {
                true => "write `_` for a parameter that is not distributed",
                false => "beside `#[place(..)]`, write `in` by name, as in `in = { x: [Shard(0)] }`",
            };
            wrong_count(region, "in", entries, advice, errors);
        }
        _ => region.parameters.iter().for_each(|parameter| fits(parameter, errors)),
    }
    let all_readable = region.parameters.iter().all(|it| !matches!(it.entry, Some(Entry::Unreadable(_))));
    all_readable && errors.count() == before
}

/// A parameter with a list or `{..}`, or any parameter where `in` is omitted, must be of a type that can be distributed.
fn fits(parameter: &Parameter, errors: &mut Errors) {
    let entry = match parameter.entry {
        Some(entry @ (Entry::Placed(_) | Entry::Own(_))) => Some(entry),
        Some(_) => return,
        None => None,
    };
    let Some(message) = complaint(parameter, entry.is_some()) else {
        return;
    };
    match entry {
        Some(entry) => errors.at(entry.span(), message),
        None => errors.under(&parameter.written.ty, format!("{message}, or give it `_` in `in`")),
    }
}

fn complaint(parameter: &Parameter, listed: bool) -> Option<String> {
    let (name, ty) = (parameter.name(), compact(&parameter.written.ty));
    let advice = match parameter.class {
        Class::Distributed => return None,
        Class::Other if !listed => return None,
        Class::Other if types::mentions_tensor(&parameter.written.ty) => CONTAINER,
        Class::Other if types::mentions_dtensor(&parameter.written.ty) => DTENSOR,
        Class::Other => "only a `Tensor` has placements, write `_`",
        Class::Sequence => "take `&[Tensor]`",
        Class::RefOption => "take `Option<&Tensor>`",
        Class::Mutable => "a body must not write its inputs, take `&Tensor` and return the new value",
        Class::Structs => "a struct of tensors is taken as `S`, `&S`, `Option<&S>`, `&[S]` or `Vec<S>`",
        Class::Tuple => OWN_TUPLE,
    };
    Some(format!("parameter `{name}` of type `{ty}` cannot be distributed: {advice}"))
}
