//! The placement lists themselves, and against each other.

use super::outputs;
use crate::ast::{Axes, List, Op, Placement};
use crate::errors::{Errors, counted};
use crate::model::Region;
use proc_macro2::Span;

const EMPTY: &str = "an empty list places nothing: write one placement per mesh axis, or `_`";

const EMPTY_FIELD: &str = "an empty list places nothing: write one placement per mesh axis, or no";

/// Notes mistakes in the lists of `in`, `out` and `grad`.
pub(crate) fn check(region: &Region, errors: &mut Errors) {
    let args = region.args;
    let (inputs, grads) = (args.input_lists(), args.grad_lists());
    inputs.iter().for_each(|list| nothing_ragged(list, "an input brings its lengths along", errors));
    grads.iter().for_each(|list| nothing_ragged(list, "a gradient is as long as its parameter", errors));
    grads.iter().for_each(|list| is_a_sum(list, errors));
    let outputs = if outputs::is_for_another_count(region) { Vec::new() } else { args.output_lists() };
    let values: Vec<&List> = inputs.into_iter().chain(outputs).collect();
    values.iter().for_each(|list| reductions_commute(list, errors));
    let lists: Vec<&List> = values.into_iter().chain(grads).collect();
    for list in lists.iter().filter(|list| is_empty(list)) {
        errors.at(list.span, EMPTY);
    }
    // The others speak of other meshes.
    let here: Vec<&List> = lists.into_iter().filter(|list| list.on.is_none()).collect();
    match &args.axes {
        Axes::Given(axes) => one_per_axis(&here, axes.len(), errors),
        Axes::Absent | Axes::Unreadable => same_axis_count(&here, errors),
    }
}

/// Notes mistakes in the lists of a struct's fields.
pub(crate) fn fields(places: &[&List], grads: &[&List], errors: &mut Errors) {
    places.iter().for_each(|list| reductions_commute(list, errors));
    grads.iter().for_each(|list| nothing_ragged(list, "a gradient is as long as its field", errors));
    grads.iter().for_each(|list| is_a_sum(list, errors));
    for (list, name) in places.iter().map(|list| (list, "place")).chain(grads.iter().map(|list| (list, "grad"))) {
        if is_empty(list) {
            errors.at(list.span, format!("{EMPTY_FIELD} `#[{name}(..)]`"));
        }
    }
    let lists: Vec<&List> = places.iter().chain(grads).copied().collect();
    same_axis_count(&lists, errors);
}

fn is_empty(list: &List) -> bool {
    list.placements.is_empty() && list.names.is_none() && list.rest.is_none()
}

fn nothing_ragged(list: &List, why: &str, errors: &mut Errors) {
    for placement in &list.placements {
        if let Placement::Shard { ragged: Some(span), dim } = &**placement {
            errors.at(*span, format!("`ragged` is for `out`: {why}, write `Shard({dim})`"));
        }
    }
}

/// What several ranks contribute to a gradient adds up.
fn is_a_sum(list: &List, errors: &mut Errors) {
    for (op, span) in list.placements.iter().filter_map(|written| partial(written)).filter(|(op, _)| *op != Op::Sum) {
        let op = op.name();
        let message = format!("the ranks' parts of a gradient add up, `Partial({op})` would not: write `Partial(Sum)`");
        errors.at(span, message);
    }
}

/// Two reductions of one value must give the same in either order.
fn reductions_commute(list: &List, errors: &mut Errors) {
    let mut ops = list.placements.iter().filter_map(|written| partial(written));
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
    let lists: Vec<&&List> = by_position(lists).collect();
    let counts: Vec<usize> = lists.iter().map(|list| list.placements.len()).collect();
    let Some(usual) = most_frequent(&counts) else {
        return;
    };
    for list in lists {
        let count = list.placements.len();
        if count != usual {
            let message = format!(
                "this list has {}, but {} has {usual}: every list needs one per mesh axis",
                counted(count, "placement", "placements"),
                if counts.len() == 2 { "the other" } else { "every other" },
            );
            errors.at(list.span, message);
        }
    }
}

/// With `axes` there is no doubt which list is wrong.
fn one_per_axis(lists: &[&List], axes: usize, errors: &mut Errors) {
    for list in by_position(lists).filter(|list| list.placements.len() != axes) {
        let message = format!(
            "this list has {}, but `axes` names {}: every list in brackets needs one per axis",
            counted(list.placements.len(), "placement", "placements"),
            counted(axes, "axis", "axes"),
        );
        errors.at(list.span, message);
    }
}

fn by_position<'l, 'a>(lists: &'l [&'a List]) -> impl Iterator<Item = &'l &'a List> {
    lists.iter().filter(|list| list.names.is_none() && !list.placements.is_empty())
}

/// The first of the most frequent counts.
fn most_frequent(counts: &[usize]) -> Option<usize> {
    let frequency = |count: usize| counts.iter().filter(|other| **other == count).count();
    let highest = counts.iter().map(|count| frequency(*count)).max()?;
    counts.iter().copied().find(|count| frequency(*count) == highest)
}
