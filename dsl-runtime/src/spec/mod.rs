//! Specs: mesh, placements, global shape and element type of a distributed tensor, valid by construction.

mod checks;
mod wire;

use std::fmt;
use std::sync::Arc;

use candle_core::DType;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::error::Result;
use crate::mesh::{Coord, Mesh, flatten, unflatten};
use crate::placement::{Placement, Placements};
use crate::shard::{Dims, Piece, Span, is_even, nested};

pub(crate) use checks::can_reduce;

/// Indices of mesh axes, in rising order.
pub type AxisList = SmallVec<[usize; 4]>;

/// What a distributed tensor is: its mesh, one placement per axis, its global shape and its element type.
///
/// A spec is pure data and valid by construction: dimensions are in range and counted from the front, partial axes
/// commute, and the element type can be reduced.
///
/// ```
/// use candle_core::DType;
/// use local_map::prelude::*;
/// let mesh = Mesh::new([("dp", 4)])?;
/// let spec = Spec::new(mesh, &[Shard(-2)], &[7, 3], DType::F32)?;
/// assert_eq!(spec.to_string(), "f32[7, 3] as (Shard(0))");
/// assert_eq!(spec.piece(&[3]).shape().as_slice(), [1, 3]);
/// # Ok::<(), local_map::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "wire::Wire", into = "wire::Wire")]
pub struct Spec {
    mesh: Mesh,
    placements: Placements,
    shape: Dims,
    dtype: DType,
    ragged: SmallVec<[Ragged; 1]>,
}

/// The lengths of a dimension that is not cut by the ceil-chunk rule: one per position of the axes that shard it,
/// flattened in axis order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ragged {
    /// The tensor dimension.
    pub dim: usize,
    /// The length at each position; they add up to the global length.
    pub lens: Arc<[usize]>,
}

impl Spec {
    /// Builds a spec; negative dimensions are counted from the front.
    ///
    /// # Errors
    /// Another number of placements than the mesh has axes, a dimension out of range, partial axes whose reductions do
    /// not commute, a reduction that the element type does not have, or a shape whose elements cannot be counted.
    pub fn new(mesh: Mesh, placements: &[Placement], shape: &[usize], dtype: DType) -> Result<Spec> {
        Spec::ragged(mesh, placements, shape, dtype, [])
    }

    /// As [`Spec::new`], with the lengths of ragged dimensions.
    ///
    /// # Errors
    /// As for [`Spec::new`]; also a ragged dimension that no axis shards, that is given twice, or whose lengths are
    /// not one per position or do not add up to the global length.
    pub fn ragged(
        mesh: Mesh,
        placements: &[Placement],
        shape: &[usize],
        dtype: DType,
        ragged: impl IntoIterator<Item = Ragged>,
    ) -> Result<Spec> {
        let mut spec = Spec {
            placements: checks::normalize(&mesh, placements, shape, dtype)?,
            mesh,
            shape: shape.into(),
            dtype,
            ragged: ragged.into_iter().collect(),
        };
        checks::check(&spec)?;
        if !spec.ragged.is_empty() {
            // Lengths that follow the rule are not called ragged, so that equal cuts are equal specs.
            let by_rule = spec.balanced();
            spec.ragged.retain(|r| !by_rule.has_lens(r));
        }
        Ok(spec)
    }

    /// Whether the positions along a dimension have these lengths.
    fn has_lens(&self, ragged: &Ragged) -> bool {
        let axes = self.axes_of(ragged.dim);
        let sizes: AxisList = axes.iter().map(|&a| self.mesh.sizes()[a]).collect();
        let mut coord: Coord = self.mesh.sizes().iter().map(|_| 0).collect();
        ragged.lens.iter().enumerate().all(|(position, len)| {
            axes.iter().zip(unflatten(position, &sizes)).for_each(|(&axis, c)| coord[axis] = c);
            self.span(ragged.dim, &coord).len == *len
        })
    }

    /// The same tensor under other placements. A ragged dimension stays ragged while the same axes shard it.
    ///
    /// # Errors
    /// As for [`Spec::new`].
    pub fn placed(&self, placements: &[Placement]) -> Result<Spec> {
        let mut spec =
            Spec { placements: checks::normalize(&self.mesh, placements, &self.shape, self.dtype)?, ..self.clone() };
        let kept = |r: &Ragged| spec.axes_of(r.dim) == self.axes_of(r.dim);
        spec.ragged = self.ragged.iter().filter(|r| kept(r)).cloned().collect();
        checks::check(&spec)?;
        Ok(spec)
    }

    /// The same spec with every dimension cut by the ceil-chunk rule.
    pub fn balanced(&self) -> Spec {
        let ragged = SmallVec::new();
        Spec { ragged, ..self.clone() }
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// One placement per axis; dimensions are counted from the front.
    pub fn placements(&self) -> &Placements {
        &self.placements
    }

    /// The global shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The ragged dimensions.
    pub fn ragged_dims(&self) -> &[Ragged] {
        &self.ragged
    }

    /// The number of elements of the global tensor.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The size of the global tensor in bytes.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size_in_bytes()
    }

    /// The axes that cut `dim`, in axis order; they nest left to right. An axis of size 1 cuts nothing.
    pub fn axes_of(&self, dim: usize) -> AxisList {
        cutting_axes(&self.placements, self.mesh.sizes(), dim)
    }

    /// The lengths of a ragged dimension.
    pub fn ragged_of(&self, dim: usize) -> Option<&Arc<[usize]>> {
        self.ragged.iter().find(|r| r.dim == dim).map(|r| &r.lens)
    }

    /// The axes on which the tensor is partial.
    pub fn partial_axes(&self) -> AxisList {
        let axes = self.placements.iter().enumerate();
        axes.filter(|(_, p)| p.partial_op().is_some()).map(|(axis, _)| axis).collect()
    }

    /// The span of `dim` that the rank at `coord` holds; empty for a dimension that the tensor does not have. Coordinates that
    /// are not given count as 0.
    pub fn span(&self, dim: usize, coord: &[usize]) -> Span {
        let axes = self.axes_of(dim);
        let sizes = self.mesh.sizes();
        let at = |axis: usize| coord.get(axis).copied().unwrap_or(0);
        match self.ragged_of(dim) {
            None => {
                let len = self.shape.get(dim).copied().unwrap_or(0);
                nested(len, axes.iter().map(|&a| (sizes[a], at(a))))
            }
            Some(lens) => {
                let position = axes.iter().fold(0, |flat, &a| flat * sizes[a] + at(a));
                let start = lens.iter().take(position).sum();
                Span { start, len: lens.get(position).copied().unwrap_or(0) }
            }
        }
    }

    /// The box of the global tensor that the rank at `coord` holds.
    pub fn piece(&self, coord: &[usize]) -> Piece {
        Piece((0..self.shape.len()).map(|dim| self.span(dim, coord)).collect())
    }

    /// Whether every rank holds the same number of indices of `dim`.
    pub fn is_even(&self, dim: usize) -> bool {
        let sizes: AxisList = self.axes_of(dim).iter().map(|&a| self.mesh.sizes()[a]).collect();
        self.ragged_of(dim).is_none() && self.shape.get(dim).is_none_or(|&len| is_even(len, &sizes))
    }
}

/// The mesh is left out: specs that are compared by hash are mostly of one mesh.
impl std::hash::Hash for Spec {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.placements.hash(state);
        self.shape.hash(state);
        self.dtype.hash(state);
        self.ragged.hash(state);
    }
}

/// The names of the axes on which two lists of placements differ, as messages print them.
pub(crate) fn differing_axes(mesh: &Mesh, a: &Placements, b: &Placements) -> Vec<String> {
    let pairs = a.iter().zip(b.iter()).enumerate();
    pairs.filter(|(_, (a, b))| a != b).map(|(axis, _)| format!("`{}`", mesh.name(axis))).collect()
}

/// The axes whose placements cut `dim`; one of size 1 cuts nothing.
pub(crate) fn cutting_axes(placements: &[Placement], sizes: &[usize], dim: usize) -> AxisList {
    let axes = placements.iter().zip(sizes).enumerate();
    axes.filter(|(_, (p, size))| p.shard_dim() == Some(dim) && **size > 1).map(|(axis, _)| axis).collect()
}

/// The position of `coord` among the given axes, flattened in their order.
pub(crate) fn flatten_over(axes: &[usize], coord: &[usize], sizes: &[usize]) -> usize {
    let part: AxisList = axes.iter().map(|&a| coord[a]).collect();
    let sizes: AxisList = axes.iter().map(|&a| sizes[a]).collect();
    flatten(&part, &sizes)
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as {}", Typed(self.dtype, &self.shape), self.placements)?;
        for ragged in &self.ragged {
            write!(f, ", dim {} ragged {:?}", ragged.dim, ragged.lens)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} on {}", self.mesh)
    }
}

/// Prints an element type and a shape as `f32[16, 8]`.
pub(crate) struct Typed<'a>(pub(crate) DType, pub(crate) &'a [usize]);

impl fmt::Display for Typed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.0.as_str(), self.1)
    }
}

#[cfg(test)]
mod tests;
