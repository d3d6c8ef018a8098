//! Every rule about a region that is more than syntax. All of them run; none speaks where an earlier one made it moot.

mod function;
mod inputs;
mod lists;
mod outputs;

use crate::ast::Entry;
use crate::errors::Errors;
use crate::model::Region;

/// Notes all that is wrong with `region`.
pub(crate) fn all(region: &Region, errors: &mut Errors) {
    let before = errors.count();
    function::check(region.function, errors);
    let can_be_region = errors.count() == before;
    let inputs_are_sound = inputs::check(region, errors);
    outputs::check(region, errors);
    lists::check(region.args, errors);
    if can_be_region && inputs_are_sound {
        outputs::mesh_is_known(region, errors);
    }
}

/// Blames the first entry that is one too many, unless it is already known to be wrong.
fn left_over(surplus: &Entry, counts: &str, errors: &mut Errors) {
    if !matches!(surplus, Entry::Unreadable(_)) {
        errors.at(surplus.span(), format!("{counts}: this one is left over"));
    }
}
