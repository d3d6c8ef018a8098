//! Meshes: n-dimensional named grids of ranks, as pure data.

mod axes;
mod ranks;
mod wire;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::error::{Error, Report, Result};
use axes::Axes;
use ranks::Ranks;

/// A position on the mesh: one coordinate per axis.
pub type Coord = SmallVec<[usize; 4]>;

/// An n-dimensional grid of ranks whose axes have names and sizes.
///
/// A mesh is pure data: it can be compared, sent and stored. [`Mesh::new`] and sub-meshes of its meshes cost O(axes),
/// however many ranks they span; [`Mesh::over`] costs as much as its list is long. A [`World`](crate::comm::World) binds it to communicators. Two meshes are equal when they hold the same
/// ranks in the same shape; the names are labels.
///
/// ```
/// use local_map::prelude::*;
/// let mesh = Mesh::new([("dp", 2), ("tp", 4)])?;
/// assert_eq!(mesh.coordinate(6).as_deref(), Some(&[1, 2][..]));
/// assert_eq!(mesh.sub(&["tp"], 6)?.ranks().collect::<Vec<_>>(), [4, 5, 6, 7]);
/// assert_eq!(mesh.to_string(), "mesh (dp=2, tp=4)");
/// # Ok::<(), local_map::Error>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "wire::Wire", into = "wire::Wire")]
pub struct Mesh(Arc<Inner>);

struct Inner {
    axes: Axes,
    ranks: Ranks,
}

impl Mesh {
    /// The mesh of ranks 0, 1, 2, .. in row-major order: the last axis varies fastest.
    ///
    /// # Errors
    /// No axis, a size of zero, an empty or repeated name, or more ranks than fit in memory's address range.
    pub fn new<'a>(axes: impl IntoIterator<Item = (&'a str, usize)>) -> Result<Mesh> {
        let axes = Axes::new(axes)?;
        let ranks = Ranks::row_major(axes.sizes());
        Ok(Mesh::of(axes, ranks))
    }

    /// The mesh of the given ranks, listed in row-major order.
    ///
    /// # Errors
    /// As for [`Mesh::new`]; also a list of another length than the axes need, or with a rank twice.
    pub fn over<'a>(ranks: &[usize], axes: impl IntoIterator<Item = (&'a str, usize)>) -> Result<Mesh> {
        let axes = Axes::new(axes)?;
        let ranks = Ranks::listed(ranks, &axes)?;
        Ok(Mesh::of(axes, ranks))
    }

    fn of(axes: Axes, ranks: Ranks) -> Mesh {
        Mesh(Arc::new(Inner { axes, ranks }))
    }

    /// The number of axes.
    pub fn axis_count(&self) -> usize {
        self.0.axes.len()
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.0.axes.product()
    }

    /// The size of each axis.
    pub fn sizes(&self) -> &[usize] {
        self.0.axes.sizes()
    }

    /// The name of each axis.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.axes.names()
    }

    /// The name of axis `index`, or its number where there is no such axis.
    pub fn name(&self, index: usize) -> String {
        self.names().nth(index).map_or_else(|| index.to_string(), str::to_owned)
    }

    /// The index of the axis called `name`.
    ///
    /// # Errors
    /// The mesh has no such axis.
    pub fn axis(&self, name: &str) -> Result<usize> {
        let found = self.names().position(|n| n == name);
        found.ok_or_else(|| {
            Error::Mesh(
                Report::new(format!("the mesh has no axis `{name}`")).on(self).advice("use one of the names above"),
            )
        })
    }

    /// The coordinates of a world rank, or `None` for a rank outside the mesh.
    pub fn coordinate(&self, rank: usize) -> Option<Coord> {
        self.0.ranks.coordinate(rank, self.sizes())
    }

    /// The world rank at `coord`, or `None` where the coordinates do not fit the mesh.
    pub fn rank_at(&self, coord: &[usize]) -> Option<usize> {
        let fits = coord.len() == self.axis_count() && coord.iter().zip(self.sizes()).all(|(c, size)| c < size);
        fits.then(|| self.0.ranks.at(coord, self.sizes()))
    }

    /// All ranks in row-major order.
    pub fn ranks(&self) -> impl Iterator<Item = usize> {
        self.coords().map(|c| self.0.ranks.at(&c, self.sizes()))
    }

    /// The largest rank.
    pub fn max_rank(&self) -> usize {
        self.0.ranks.max(self.sizes())
    }

    /// All coordinates in row-major order.
    pub fn coords(&self) -> impl Iterator<Item = Coord> {
        (0..self.size()).map(|flat| unflatten(flat, self.sizes()))
    }

    /// The sub-mesh of the named axes, in the order given, that goes through `rank`.
    ///
    /// # Errors
    /// An unknown or repeated axis, none at all, or a rank outside the mesh.
    pub fn sub(&self, names: &[&str], rank: usize) -> Result<Mesh> {
        let axes = names.iter().map(|n| self.axis(n)).collect::<Result<SmallVec<[usize; 4]>>>()?;
        let Some(coord) = self.coordinate(rank) else {
            return Err(self.outside(rank));
        };
        self.through(&axes, &coord)
    }

    /// The sub-mesh along the axes with these indices that goes through `coord`.
    pub(crate) fn through(&self, axes: &[usize], coord: &[usize]) -> Result<Mesh> {
        let picked = self.0.axes.pick(axes)?;
        let ranks = self.0.ranks.along(axes, coord, self.sizes(), picked.sizes());
        Ok(Mesh::of(picked, ranks))
    }

    /// The sub-mesh of all ranks whose coordinate on the named axis is `index`, over the other axes.
    ///
    /// # Errors
    /// An unknown axis, an index beyond its size, or a mesh of one axis only.
    pub fn at(&self, name: &str, index: usize) -> Result<Mesh> {
        let axis = self.axis(name)?;
        if index >= self.sizes()[axis] {
            return Err(Error::Mesh(Report::new(format!("axis `{name}` has no index {index}")).on(self)));
        }
        if self.axis_count() == 1 {
            return Err(Error::Mesh(
                Report::new(format!("axis `{name}` is the only one of the mesh, and `at` needs a second axis"))
                    .on(self)
                    .advice("make a mesh of the one rank with `Mesh::over` instead"),
            ));
        }
        let others: Coord = (0..self.axis_count()).filter(|&a| a != axis).collect();
        let mut coord: Coord = self.sizes().iter().map(|_| 0).collect();
        coord[axis] = index;
        self.through(&others, &coord)
    }

    /// Whether the names of two equal meshes say the same.
    pub fn names_agree(&self, other: &Mesh) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.names().eq(other.names())
    }

    pub(crate) fn outside(&self, rank: usize) -> Error {
        let report = Report::new(format!("rank {rank} is outside the mesh")).on(self);
        Error::Absent(
            report.advice(
                "call this only on ranks of the mesh: ask `is_absent` of a tensor or `coordinate` of a mesh first",
            ),
        )
    }
}

impl PartialEq for Mesh {
    fn eq(&self, other: &Mesh) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.sizes() == other.sizes() && self.0.ranks == other.0.ranks)
    }
}

impl Eq for Mesh {}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mesh ({}", self.0.axes)?;
        self.0.ranks.describe(self.sizes(), f)?;
        f.write_str(")")
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The coordinates of position `flat` in row-major order.
pub(crate) fn unflatten(mut flat: usize, sizes: &[usize]) -> Coord {
    let mut coord: Coord = SmallVec::from_elem(0, sizes.len());
    for (c, size) in coord.iter_mut().zip(sizes).rev() {
        *c = flat % size;
        flat /= size;
    }
    coord
}

/// The row-major position of `coord`.
pub(crate) fn flatten(coord: &[usize], sizes: &[usize]) -> usize {
    coord.iter().zip(sizes).fold(0, |flat, (c, size)| flat * size + c)
}

#[cfg(test)]
mod tests;
