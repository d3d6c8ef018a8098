//! `grad` against the parameters.

use super::{entry_count, names, wrong_count};
use crate::ast::{Entry, Inputs};
use crate::errors::Errors;
use crate::model::{Parameter, Region};

/// Notes gradients of what has none; with unsound inputs nobody knows what is distributed.
pub(crate) fn check(region: &Region, inputs_are_sound: bool, errors: &mut Errors) {
    names::check(region, "grad", region.args.grads.as_ref(), errors);
    match &region.args.grads {
        Some(Inputs::Each(entries)) if entries.items.len() != entry_count(region) => {
            wrong_count(region, "grad", entries, "write `_` for the default", errors);
        }
        Some(Inputs::Each(_) | Inputs::Named(_)) if inputs_are_sound => {
            region.listed().for_each(|parameter| has_a_gradient(parameter, errors));
        }
        _ => {}
    }
}

fn has_a_gradient(parameter: &Parameter, errors: &mut Errors) {
    let Some(Entry::Placed(list)) = parameter.grad else {
        return;
    };
    if !parameter.is_distributed() {
        let why = match parameter.entry {
            Some(Entry::Plain(_)) => "is `_` in `in`",
            _ => "is not distributed",
        };
        let message = format!("parameter `{}` {why}, so its gradient has no placements: write `_`", parameter.name());
        errors.at(list.span, message);
    }
}
