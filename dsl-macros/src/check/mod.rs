//! Every rule about a region that is more than syntax. All of them run; none speaks where an earlier one made it moot.

mod context;
mod function;
mod grads;
mod inputs;
mod lists;
mod names;
mod outputs;
mod recompute;

use crate::ast::{Entries, Entry, List};
use crate::axes;
use crate::errors::{Errors, counted, listed};
use crate::model::{Parameter, Region};
pub(crate) use inputs::OWN_TUPLE;

/// Notes all that is wrong with `region`.
pub(crate) fn all(region: &Region, errors: &mut Errors) {
    let before = errors.count();
    function::check(region.function, errors);
    let can_be_region = errors.count() == before;
    context::check(region, errors);
    let inputs_are_sound = inputs::check(region, errors);
    grads::check(region, inputs_are_sound, errors);
    outputs::check(region, errors);
    lists::check(region, errors);
    if inputs_are_sound {
        axes::are_explained(region.args, errors);
    }
    recompute::check(region, inputs_are_sound, errors);
    if can_be_region && inputs_are_sound {
        outputs::mesh_is_known(region, errors);
    }
}

/// Notes all that is wrong with the placements of a struct's fields.
pub(crate) fn fields(places: &[&List], grads: &[&List], errors: &mut Errors) {
    lists::fields(places, grads, errors);
}

/// The number of entries that `in` and `grad` need.
fn entry_count(region: &Region) -> usize {
    region.listed().count()
}

/// Notes that `entries`, the value of `key`, are too few or too many; `advice` says what to write for the missing ones.
fn wrong_count(region: &Region, key: &str, entries: &Entries, advice: &str, errors: &mut Errors) {
    let (given, wanted) = (entries.items.len(), entry_count(region));
    let counts = format!(
        "`{}` has {}{}, but `{key}` has {}",
        region.function.name(),
        counted(wanted, "parameter", "parameters"),
        beside(region),
        counted(given, "entry", "entries"),
    );
    if let Some(surplus) = entries.items.get(wanted) {
        return left_over(surplus, &counts, errors);
    }
    let without: Vec<String> = region.listed().skip(given).map(Parameter::name).collect();
    let have = if without.len() == 1 { "has" } else { "have" };
    errors.at(entries.span, format!("{counts}: {} {have} none; {advice}", listed(&without)));
}

/// Which parameters take no entry.
fn beside(region: &Region) -> String {
    let receiver = region.function.sig.receiver().map(|_| "self".to_owned());
    let others: Vec<String> = receiver.into_iter().chain(region.contexts().map(Parameter::name)).collect();
    match others.as_slice() {
        [] => String::new(),
        others => format!(" beside {}", listed(others)),
    }
}

/// Blames the first entry that is one too many, unless it is already known to be wrong.
fn left_over(surplus: &Entry, counts: &str, errors: &mut Errors) {
    if !matches!(surplus, Entry::Unreadable(_)) {
        errors.at(surplus.span(), format!("{counts}: this one is left over"));
    }
}
