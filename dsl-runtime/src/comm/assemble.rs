//! Builds one rank's new part from everybody's buffers, as its routes say.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use smallvec::SmallVec;

use super::elements::Element;
use crate::mesh::{Coord, unflatten};
use crate::plan::{Lines, Reduction, Route, Routes};

/// The memory of an output, some of whose elements one rank writes.
pub(super) struct Window<'a, T> {
    start: *mut T,
    len: usize,
    life: PhantomData<&'a [MaybeUninit<T>]>,
}

impl<T> Window<'_, T> {
    /// # Safety
    /// There is memory for `len` elements at `start` for as long as the window lives, and what is written through this window
    /// is neither written nor read elsewhere meanwhile.
    pub(super) unsafe fn new(start: *mut T, len: usize) -> Self {
        Window { start, len, life: PhantomData }
    }

    /// The elements `start .. start + len`, or `None` where the output has no such elements.
    fn line(&mut self, start: usize, len: usize) -> Option<&mut [MaybeUninit<T>]> {
        let end = start.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: `start .. end` lies within the memory, of which nobody else uses what is written.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.add(start).cast(), len) })
    }
}

/// A source is shorter than a route says, or a route leaves the output.
#[derive(Debug)]
pub(super) struct OutOfBounds;

/// Writes part `part` of `parts` of the output; all parts together write every element once.
pub(super) fn assemble<T: Element>(
    routes: &Routes,
    (part, parts): (usize, usize),
    sources: &[Option<&[T]>],
    out: &mut Window<'_, T>,
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
    out: &mut Window<'_, T>,
) -> Result<(), OutOfBounds> {
    let sources = route
        .from
        .iter()
        .map(|&position| sources.get(position).copied().flatten())
        .collect::<Option<SmallVec<[&[T]; 4]>>>()
        .ok_or(OutOfBounds)?;
    let mut line = Line::containing(route, range.start).ok_or(OutOfBounds)?;
    let mut left = range.len();
    while left > 0 {
        let len = line.left.min(left);
        let target = out.line(line.dst, len).ok_or(OutOfBounds)?;
        write(reduction, &sources, line.src, target)?;
        left -= len;
        line.next();
    }
    Ok(())
}

/// Where a line of a route lies, from some element of it to its end. Moving to the next one takes no division.
struct Line<'a> {
    route: &'a Route,
    /// The position among the lines, on every dimension but the last.
    coord: Coord,
    src: usize,
    dst: usize,
    left: usize,
}

impl<'a> Line<'a> {
    /// The line with element `at` of the route, from that element on.
    fn containing(route: &'a Route, at: usize) -> Option<Line<'a>> {
        let (&length, outer) = route.extent.split_last()?;
        let within = at % length;
        let coord = unflatten(at / length, outer);
        let start = |lines: &Lines| {
            let steps = coord.iter().zip(&lines.strides).map(|(c, s)| c * s);
            lines.start + steps.sum::<usize>() + within
        };
        Some(Line { src: start(&route.src), dst: start(&route.dst), left: length - within, route, coord })
    }

    /// Goes to the start of the next line.
    fn next(&mut self) {
        let Route { extent, src, dst, .. } = self.route;
        let length = extent.last().copied().unwrap_or(0);
        // Back to the start of this line.
        self.src = self.src + self.left - length;
        self.dst = self.dst + self.left - length;
        self.left = length;
        for dim in (0..self.coord.len()).rev() {
            self.src += src.strides[dim];
            self.dst += dst.strides[dim];
            self.coord[dim] += 1;
            if self.coord[dim] < extent[dim] {
                return;
            }
            self.src -= src.strides[dim] * extent[dim];
            self.dst -= dst.strides[dim] * extent[dim];
            self.coord[dim] = 0;
        }
    }
}

fn write<T: Element>(
    reduction: Reduction,
    sources: &[&[T]],
    start: usize,
    target: &mut [MaybeUninit<T>],
) -> Result<(), OutOfBounds> {
    if sources.is_empty() {
        return Err(OutOfBounds);
    }
    let range = start..start + target.len();
    if let [only] = sources {
        target.write_copy_of_slice(only.get(range).ok_or(OutOfBounds)?);
        return Ok(());
    }
    let lines =
        sources.iter().map(|s| s.get(range.clone())).collect::<Option<SmallVec<[&[T]; 8]>>>().ok_or(OutOfBounds)?;
    T::reduce(reduction, &lines, target);
    Ok(())
}
