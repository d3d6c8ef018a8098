//! The placement lists themselves, and against each other.

use crate::ast::{Args, Entries, Entry, Inputs, List, Op, Outputs, Placement};
use crate::errors::{Errors, counted};
use proc_macro2::Span;

const EMPTY: &str = "an empty list places nothing: write one placement per mesh axis, or `_`";

const EMPTY_FIELD: &str = "an empty list places nothing: write one placement per mesh axis, or no";

/// Notes mistakes in the lists of `in`, `out` and `grad`.
pub(crate) fn check(args: &Args, errors: &mut Errors) {
    let (inputs, grads) = (parameter_lists(args.inputs.as_ref()), parameter_lists(args.grads.as_ref()));
    inputs.iter().for_each(|list| nothing_ragged(list, "an input brings its lengths along", errors));
    grads.iter().for_each(|list| nothing_ragged(list, "a gradient is as long as its parameter", errors));
    grads.iter().for_each(|list| is_a_sum(list, errors));
    let values: Vec<&List> = inputs.into_iter().chain(output_lists(args)).collect();
    values.iter().for_each(|list| reductions_commute(list, errors));
    let lists: Vec<&List> = values.into_iter().chain(grads).collect();
    for list in lists.iter().filter(|list| list.placements.is_empty()) {
        errors.at(list.span, EMPTY);
    }
    same_axis_count(&lists, errors);
}

/// Notes mistakes in the lists of a struct's fields.
pub(crate) fn fields(places: &[&List], grads: &[&List], errors: &mut Errors) {
    places.iter().for_each(|list| reductions_commute(list, errors));
    grads.iter().for_each(|list| nothing_ragged(list, "a gradient is as long as its field", errors));
    grads.iter().for_each(|list| is_a_sum(list, errors));
    for (list, name) in places.iter().map(|list| (list, "place")).chain(grads.iter().map(|list| (list, "grad"))) {
        if list.placements.is_empty() {
            errors.at(list.span, format!("{EMPTY_FIELD} `#[{name}(..)]`"));
        }
    }
    let lists: Vec<&List> = places.iter().chain(grads).copied().collect();
    same_axis_count(&lists, errors);
}

fn parameter_lists(inputs: Option<&Inputs>) -> Vec<&List> {
    match inputs {
        Some(Inputs::Each(entries)) => placed(entries),
        _ => Vec::new(),
    }
}

fn output_lists(args: &Args) -> Vec<&List> {
    match &args.outputs {
        Some(Outputs::One(list)) => vec![list],
        Some(Outputs::Each(entries)) => placed(entries),
        _ => Vec::new(),
    }
}

fn placed(entries: &Entries) -> Vec<&List> {
    let lists = entries.items.iter().filter_map(|entry| match entry {
        Entry::Placed(list) => Some(list),
        _ => None,
    });
    lists.collect()
}

fn nothing_ragged(list: &List, why: &str, errors: &mut Errors) {
    for placement in &list.placements {
        if let Placement::Shard { ragged: Some(span), dim } = placement {
            errors.at(*span, format!("`ragged` is for `out`: {why}, write `Shard({dim})`"));
        }
    }
}

/// What several ranks contribute to a gradient adds up.
fn is_a_sum(list: &List, errors: &mut Errors) {
    for (op, span) in list.placements.iter().filter_map(partial).filter(|(op, _)| *op != Op::Sum) {
        let op = op.name();
        let message = format!("the ranks' parts of a gradient add up, `Partial({op})` would not: write `Partial(Sum)`");
        errors.at(span, message);
    }
}

/// Two reductions of one value must give the same in either order.
fn reductions_commute(list: &List, errors: &mut Errors) {
    let mut ops = list.placements.iter().filter_map(partial);
    let Some((first, _)) = ops.next() else { return };
    for (op, span) in ops.filter(|(op, _)| !op.commutes_with(first)) {
        let (op, first) = (op.name(), first.name());
        let message = format!(
            "`Partial({op})` cannot stand beside `Partial({first})`: which axis is reduced first would change \
             the value; use one op, or `Sum` and `Avg`"
        );
        errors.at(span, message);
    }
}

fn partial(placement: &Placement) -> Option<(Op, Span)> {
    match placement {
        Placement::Partial { op, span } => Some((*op, *span)),
        _ => None,
    }
}

/// Every list speaks of the same mesh, so the odd one is wrong: the one that most others disagree with.
fn same_axis_count(lists: &[&List], errors: &mut Errors) {
    let counts: Vec<usize> = lists.iter().map(|list| list.placements.len()).filter(|count| *count > 0).collect();
    let Some(usual) = most_frequent(&counts) else {
        return;
    };
    for list in lists {
        let count = list.placements.len();
        if count != usual && count > 0 {
            let message = format!(
                "this list has {}, but {} has {usual}: every list needs one per mesh axis",
                counted(count, "placement", "placements"),
                if counts.len() == 2 { "the other" } else { "every other" },
            );
            errors.at(list.span, message);
        }
    }
}

/// The first of the most frequent counts.
fn most_frequent(counts: &[usize]) -> Option<usize> {
    let frequency = |count: usize| counts.iter().filter(|other| **other == count).count();
    let highest = counts.iter().map(|count| frequency(*count)).max()?;
    counts.iter().copied().find(|count| frequency(*count) == highest)
}
