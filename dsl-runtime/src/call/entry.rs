//! Entries, and what they come to on the mesh of a call.

use std::ops::Deref;

use smallvec::SmallVec;

use super::region::Handed;
use super::spec::Want;
use crate::mesh::Mesh;
use crate::placement::Placement;

/// Placements as one entry of the attribute writes them.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// One per mesh axis, in the mesh's order.
    Axes(&'static [Want]),
    /// By the names of axes. The others are `Replicate`, or, with `rest`, left open: they stay as they are.
    Named {
        /// Some of the mesh's axes.
        axes: &'static [(&'static str, Want)],
        /// `..`
        rest: bool,
    },
}

/// What an entry comes to: one placement per axis of a mesh.
pub(super) enum Wants {
    /// As written.
    Written(&'static [Want]),
    /// Looked up by the names of the axes.
    Found(SmallVec<[Want; 4]>),
}

impl Deref for Wants {
    type Target = [Want];
    fn deref(&self) -> &[Want] {
        match self {
            Wants::Written(wants) => wants,
            Wants::Found(wants) => wants,
        }
    }
}

impl Entry {
    /// One placement per axis of `mesh`; `open` gives those of the axes that are left open, by their index and name.
    pub(super) fn on(self, mesh: &Mesh, open: impl Fn(usize, &str) -> Want) -> Wants {
        let (axes, rest) = match self {
            Entry::Axes(wants) => return Wants::Written(wants),
            Entry::Named { axes, rest } => (axes, rest),
        };
        let want = |(axis, name): (usize, &str)| match axes.iter().find(|(named, _)| *named == name) {
            Some((_, want)) => *want,
            None if rest => open(axis, name),
            None => Want::Replicate,
        };
        Wants::Found(mesh.names().enumerate().map(want).collect())
    }

    /// Whether the entry leaves axes open.
    pub(super) fn has_rest(self) -> bool {
        matches!(self, Entry::Named { rest: true, .. })
    }

    /// Whether the entry leaves the axis called `name` as it is.
    pub(super) fn leaves_open(self, name: &str) -> bool {
        match self {
            Entry::Axes(_) | Entry::Named { rest: false, .. } => false,
            Entry::Named { axes, rest: true } => axes.iter().all(|(named, _)| *named != name),
        }
    }

    /// The names that are not among the axes of `mesh`.
    pub(super) fn missing(self, mesh: &Mesh) -> impl Iterator<Item = &'static str> {
        let axes = match self {
            Entry::Axes(_) => &[],
            Entry::Named { axes, .. } => axes,
        };
        axes.iter().map(|(name, _)| *name).filter(|name| mesh.names().all(|axis| axis != *name))
    }
}

/// The first of `inputs` that leaves an axis open: how it is placed there, the others are, too, and so are results that leave
/// it open.
pub(super) fn first_open<'h, 'a>(inputs: &'h [Handed<'a>], name: &str) -> Option<&'h Handed<'a>> {
    inputs.iter().find(|handed| handed.param.wanted.is_some_and(|entry| entry.leaves_open(name)))
}

/// The placement of results on an axis that they leave open.
pub(super) fn common(inputs: &[Handed<'_>], axis: usize, name: &str) -> Want {
    let first = first_open(inputs, name);
    first.and_then(|handed| handed.tensor.placements().get(axis).copied()).map_or(Want::Replicate, Want::from)
}

impl From<Placement> for Want {
    fn from(placement: Placement) -> Want {
        match placement {
            Placement::Shard(dim) => Want::Shard(dim),
            Placement::Replicate => Want::Replicate,
            Placement::Partial(op) => Want::Partial(op),
        }
    }
}
