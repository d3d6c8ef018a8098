//! Which rank sits where on a mesh: a formula where one exists, a list otherwise.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::axes::Axes;
use super::{Coord, flatten, unflatten};
use crate::error::{Error, Report, Result};

type Strides = SmallVec<[usize; 4]>;

/// The ranks of a mesh. Ranks that follow `base + coord . strides` are always stored as `Affine`, with stride 0 on axes
/// of size 1, so that equal ranks are equal values.
#[derive(PartialEq, Eq)]
pub(super) enum Ranks {
    /// Strides *nest*: sorted, each is at least the next one times that axis' size. So coordinates can be read off.
    Affine { base: usize, strides: Strides },
    /// In row-major order.
    Listed(Arc<[usize]>),
}

impl Ranks {
    pub(super) fn row_major(sizes: &[usize]) -> Ranks {
        let mut stride = 1;
        let mut strides: Strides = sizes
            .iter()
            .rev()
            .map(|&size| {
                let this = stride;
                stride *= size;
                if size == 1 { 0 } else { this }
            })
            .collect();
        strides.reverse();
        Ranks::Affine { base: 0, strides }
    }

    pub(super) fn listed(ranks: &[usize], axes: &Axes) -> Result<Ranks> {
        let report = || Report::new(format!("a mesh ({axes}) cannot be built from a list of ranks"));
        if ranks.len() != axes.product() {
            let (given, needed) = (ranks.len(), axes.product());
            return Err(Error::Mesh(report().offender(format!("{given} ranks are listed, {needed} are needed"))));
        }
        if let Some(large) = ranks.iter().find(|&&r| r > isize::MAX as usize) {
            return Err(Error::Mesh(report().offender(format!("rank {large} is larger than can be"))));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = ranks.iter().find(|&&r| !seen.insert(r)) {
            return Err(Error::Mesh(report().offender(format!("rank {twice} is listed twice"))));
        }
        Ok(affine(ranks, axes.sizes()).unwrap_or_else(|| Ranks::Listed(ranks.into())))
    }

    /// The ranks `base + coord . strides`, if they are distinct and can be counted.
    pub(super) fn from_formula(base: usize, strides: &[usize], sizes: &[usize]) -> Option<Ranks> {
        let fits = strides.len() == sizes.len() && sizes.iter().zip(strides).all(|(&size, &s)| (size == 1) == (s == 0));
        let last = sizes.iter().zip(strides).try_fold(base, |sum, (&size, &s)| sum.checked_add(s.checked_mul(size)?));
        (fits && last.is_some() && nests(strides, sizes)).then(|| Ranks::Affine { base, strides: strides.into() })
    }

    pub(super) fn at(&self, coord: &[usize], sizes: &[usize]) -> usize {
        match self {
            Ranks::Affine { base, strides } => base + dot(coord, strides),
            Ranks::Listed(ranks) => ranks[flatten(coord, sizes)],
        }
    }

    pub(super) fn coordinate(&self, rank: usize, sizes: &[usize]) -> Option<Coord> {
        match self {
            Ranks::Affine { base, strides } => decode(rank.checked_sub(*base)?, strides, sizes),
            Ranks::Listed(ranks) => {
                let flat = ranks.iter().position(|&r| r == rank)?;
                Some(unflatten(flat, sizes))
            }
        }
    }

    /// The ranks along `axes` through `coord`; `picked` are the sizes of those axes.
    pub(super) fn along(&self, axes: &[usize], coord: &[usize], sizes: &[usize], picked: &[usize]) -> Ranks {
        let mut origin = Coord::from_slice(coord);
        axes.iter().for_each(|&a| origin[a] = 0);
        if let Ranks::Affine { strides, .. } = self {
            let base = self.at(&origin, sizes);
            let strides = axes.iter().map(|&a| strides[a]).collect();
            return Ranks::Affine { base, strides };
        }
        let ranks: Vec<usize> = (0..picked.iter().product())
            .map(|flat| {
                let mut full = origin.clone();
                for (&a, c) in axes.iter().zip(unflatten(flat, picked)) {
                    full[a] = c;
                }
                self.at(&full, sizes)
            })
            .collect();
        affine(&ranks, picked).unwrap_or_else(|| Ranks::Listed(ranks.into()))
    }

    pub(super) fn max(&self, sizes: &[usize]) -> usize {
        match self {
            Ranks::Affine { base, strides } => {
                let last: Coord = sizes.iter().map(|s| s - 1).collect();
                base + dot(&last, strides)
            }
            Ranks::Listed(ranks) => ranks.iter().copied().max().unwrap_or(0),
        }
    }

    /// Prints the ranks where they are not simply 0, 1, 2, ..
    pub(super) fn describe(&self, sizes: &[usize], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Ranks::row_major(sizes) {
            return Ok(());
        }
        let count: usize = sizes.iter().product();
        let shown: Vec<String> =
            (0..count.min(8)).map(|flat| self.at(&unflatten(flat, sizes), sizes).to_string()).collect();
        let more = if count > 8 { ", .." } else { "" };
        write!(f, "; ranks {}{more}", shown.join(", "))
    }
}

fn dot(coord: &[usize], strides: &[usize]) -> usize {
    coord.iter().zip(strides).map(|(c, s)| c * s).sum()
}

/// Axis indices by falling stride.
fn by_stride(strides: &[usize]) -> SmallVec<[usize; 4]> {
    let mut order: SmallVec<[usize; 4]> = (0..strides.len()).collect();
    order.sort_by_key(|&a| std::cmp::Reverse(strides[a]));
    order
}

/// The coordinates whose dot product with nesting `strides` is `rest`.
fn decode(mut rest: usize, strides: &[usize], sizes: &[usize]) -> Option<Coord> {
    let mut coord: Coord = SmallVec::from_elem(0, strides.len());
    for a in by_stride(strides) {
        if strides[a] == 0 {
            continue;
        }
        coord[a] = rest / strides[a];
        if coord[a] >= sizes[a] {
            return None;
        }
        rest -= coord[a] * strides[a];
    }
    (rest == 0).then_some(coord)
}

/// The formula behind a list of ranks, if there is one whose strides nest.
fn affine(ranks: &[usize], sizes: &[usize]) -> Option<Ranks> {
    let base = *ranks.first()?;
    let mut step = ranks.len();
    let strides = sizes
        .iter()
        .map(|&size| {
            step /= size;
            if size == 1 { Some(0) } else { ranks[step].checked_sub(base) }
        })
        .collect::<Option<Strides>>()?;
    let formula = Ranks::from_formula(base, &strides, sizes)?;
    let mut all = ranks.iter().enumerate();
    all.all(|(flat, &rank)| formula.at(&unflatten(flat, sizes), sizes) == rank).then_some(formula)
}

fn nests(strides: &[usize], sizes: &[usize]) -> bool {
    let order = by_stride(strides);
    let mut pairs = order.iter().zip(order.iter().skip(1));
    pairs.all(|(&outer, &inner)| {
        let reach = strides[inner].checked_mul(sizes[inner]);
        reach.is_some_and(|reach| strides[outer] >= reach)
    })
}
