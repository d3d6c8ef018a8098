//! Builds one rank's new part from everybody's buffers, as its routes say.

use std::mem::MaybeUninit;

use smallvec::SmallVec;

use super::elements::Element;
use crate::mesh::unflatten;
use crate::plan::{Lines, Reduction, Route, Routes};

/// Where assembled elements are written.
///
/// # Safety
/// `line` must return the memory of elements `start .. start + len` of the output, or `None` outside it. A caller may
/// hold only disjoint lines at a time.
pub(super) unsafe trait Target<T> {
    /// The elements `start .. start + len`.
    fn line(&mut self, start: usize, len: usize) -> Option<&mut [MaybeUninit<T>]>;
}

/// A source is shorter than a route says, or a route leaves the output.
#[derive(Debug)]
pub(super) struct OutOfBounds;

/// Writes part `part` of `parts` of the output; all parts together write every element once.
pub(super) fn assemble<T: Element>(
    routes: &Routes,
    (part, parts): (usize, usize),
    sources: &[Option<&[T]>],
    out: &mut impl Target<T>,
) -> Result<(), OutOfBounds> {
    let total: usize = routes.routes.iter().map(Route::elements).sum();
    if total != routes.len {
        return Err(OutOfBounds);
    }
    let (begin, end) = (boundary(total, part, parts), boundary(total, part + 1, parts));
    let mut at = 0;
    for route in &routes.routes {
        let next = at + route.elements();
        let (from, to) = (begin.max(at), end.min(next));
        if from < to {
            copy(route, from - at..to - at, routes.reduction, sources, out)?;
        }
        at = next;
    }
    Ok(())
}

/// The first element of a part; a multiple of 16, so that parts do not share cache lines.
fn boundary(total: usize, part: usize, parts: usize) -> usize {
    if part == parts {
        return total;
    }
    (total / 16 * part / parts) * 16
}

/// Reduces elements `range` of a route, counted in row-major order of its box, line by line.
fn copy<T: Element>(
    route: &Route,
    range: std::ops::Range<usize>,
    reduction: Reduction,
    sources: &[Option<&[T]>],
    out: &mut impl Target<T>,
) -> Result<(), OutOfBounds> {
    let sources = route
        .from
        .iter()
        .map(|&position| sources.get(position).copied().flatten())
        .collect::<Option<SmallVec<[&[T]; 4]>>>()
        .ok_or(OutOfBounds)?;
    let (&length, outer) = route.extent.split_last().ok_or(OutOfBounds)?;
    let mut at = range.start;
    while at < range.end {
        let (line, within) = (at / length, at % length);
        let len = (length - within).min(range.end - at);
        let coord = unflatten(line, outer);
        let start = |lines: &Lines| {
            let steps = coord.iter().zip(&lines.strides).map(|(c, s)| c * s);
            lines.start + steps.sum::<usize>() + within
        };
        let target = out.line(start(&route.dst), len).ok_or(OutOfBounds)?;
        write(reduction, &sources, start(&route.src), target)?;
        at += len;
    }
    Ok(())
}

fn write<T: Element>(
    reduction: Reduction,
    sources: &[&[T]],
    start: usize,
    target: &mut [MaybeUninit<T>],
) -> Result<(), OutOfBounds> {
    let range = start..start + target.len();
    if let [only] = sources {
        target.write_copy_of_slice(only.get(range).ok_or(OutOfBounds)?);
        return Ok(());
    }
    let lines = sources
        .iter()
        .map(|s| s.get(range.clone()))
        .collect::<Option<SmallVec<[&[T]; 8]>>>()
        .ok_or(OutOfBounds)?;
    T::reduce(reduction, &lines, target);
    Ok(())
}
