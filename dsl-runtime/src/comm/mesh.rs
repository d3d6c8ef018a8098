//! A mesh bound to a world: where this rank sits, and the groups along the axes through it.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

use super::{Transport, World};
use crate::error::{Error, Report, Result};
use crate::mesh::{Coord, Mesh, flatten};
use crate::plan::PlanCache;
use crate::spec::{AxisList, flatten_over};

/// A [`Mesh`] that can communicate: it knows this rank's coordinates and reaches the ranks along each axis. Cheap to
/// clone; equal when the meshes are.
#[derive(Clone)]
pub struct DeviceMesh(Arc<Bound>);

struct Bound {
    world: World,
    mesh: Mesh,
    coord: Option<Coord>,
    groups: Mutex<SmallVec<[Joined; 4]>>,
    plans: PlanCache,
    /// How many regions with a context were called on the mesh.
    calls: AtomicU64,
}

/// The axes of a group, and this rank's membership in it.
type Joined = (AxisList, Arc<dyn Transport>);

impl DeviceMesh {
    pub(super) fn new(world: World, mesh: Mesh) -> DeviceMesh {
        let coord = mesh.coordinate(world.rank());
        let (groups, plans, calls) = Default::default();
        DeviceMesh(Arc::new(Bound { world, mesh, coord, groups, plans, calls }))
    }

    /// The world that the mesh is part of.
    pub fn world(&self) -> &World {
        &self.0.world
    }

    /// This rank's coordinates, or `None` outside the mesh.
    pub fn coordinate(&self) -> Option<&[usize]> {
        self.0.coord.as_deref()
    }

    /// The sub-mesh of the named axes, in the order given, through this rank.
    ///
    /// # Errors
    /// An unknown or repeated axis, none at all, or this rank is outside the mesh.
    pub fn sub(&self, names: &[&str]) -> Result<DeviceMesh> {
        let world = &self.0.world;
        self.inside().map_err(|e| e.within("a sub-mesh through this rank"))?;
        world.bind(self.0.mesh.sub(names, world.rank())?)
    }

    /// The sub-mesh of all ranks whose coordinate on the named axis is `index`; this rank may be outside it.
    ///
    /// # Errors
    /// An unknown axis, an index beyond its size, or a mesh of one axis only.
    pub fn at(&self, name: &str, index: usize) -> Result<DeviceMesh> {
        self.0.world.bind(self.0.mesh.at(name, index)?)
    }

    /// Whether both are the same mesh of one world, with names that say the same.
    pub(crate) fn is_same(&self, other: &DeviceMesh) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        Arc::ptr_eq(&self.0, &other.0) || (a.world.is_same(&b.world) && a.mesh == b.mesh && a.mesh.names_agree(&b.mesh))
    }

    /// Whether both belong to one launch.
    pub(crate) fn is_of_the_world_of(&self, other: &DeviceMesh) -> bool {
        self.0.world.is_same(&other.0.world)
    }

    /// The mesh in words, in a message that says how it differs from `other`.
    pub(crate) fn unlike(&self, other: &DeviceMesh) -> String {
        let world = if self.is_of_the_world_of(other) { "" } else { " of another launch" };
        format!("{self}{world}")
    }

    /// This rank's coordinates.
    pub(crate) fn inside(&self) -> Result<&[usize]> {
        let outside = || self.0.mesh.outside(self.0.world.rank());
        self.coordinate().ok_or_else(outside)
    }

    /// The row-major position of a world rank on the mesh.
    pub(crate) fn position_of(&self, rank: usize) -> Option<usize> {
        let coord = self.0.mesh.coordinate(rank)?;
        Some(flatten(&coord, self.0.mesh.sizes()))
    }

    /// The first rank of the other mesh, of the same launch, that is outside this one.
    pub(crate) fn first_outside(&self, other: &DeviceMesh) -> Option<usize> {
        other.ranks().find(|&rank| self.position_of(rank).is_none())
    }

    /// The group of the ranks along `axes` (indices, flattened in this order) through this rank.
    pub(crate) fn group(&self, axes: &[usize]) -> Result<Arc<dyn Transport>> {
        let coord = self.inside().map_err(|e| e.within("a group of ranks"))?;
        let mut groups = self.0.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, group)) = groups.iter().find(|(a, _)| a[..] == *axes) {
            return Ok(group.clone());
        }
        let mesh = self.0.mesh.through(axes, coord)?;
        let me = flatten_over(axes, coord, self.0.mesh.sizes());
        let group = self.0.world.group(&mesh, me);
        groups.push((axes.into(), group.clone()));
        Ok(group)
    }

    /// The group of the ranks along the named axes, flattened in this order, or of all ranks where none is named.
    pub(crate) fn group_by_name(&self, names: &[&str]) -> Result<Arc<dyn Transport>> {
        let axes = match names {
            [] => (0..self.axis_count()).collect(),
            names => names.iter().map(|n| self.axis(n)).collect::<Result<AxisList>>()?,
        };
        self.group(&axes)
    }

    /// The number of the next call of a region with a context; ranks that run the same program get the same ones.
    pub(crate) fn next_call(&self) -> u64 {
        self.0.calls.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn plans(&self) -> &PlanCache {
        &self.0.plans
    }
}

/// Two bound meshes must be one mesh; otherwise an error that names both.
pub(crate) fn require_same(doing: impl FnOnce() -> String, meshes: [&DeviceMesh; 2]) -> Result<()> {
    let [a, b] = meshes;
    if a.is_same(b) {
        return Ok(());
    }
    Err(Error::Mesh(
        Report::new(format!("{}: the operands live on different meshes", doing()))
            .offender(a.to_string())
            .offender(b.unlike(a))
            .advice("put them on one mesh of one launch: the same ranks, shape and axis names"),
    ))
}

impl Deref for DeviceMesh {
    type Target = Mesh;
    fn deref(&self) -> &Mesh {
        &self.0.mesh
    }
}

impl PartialEq for DeviceMesh {
    fn eq(&self, other: &DeviceMesh) -> bool {
        self.0.mesh == other.0.mesh
    }
}

impl Eq for DeviceMesh {}

impl fmt::Display for DeviceMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.mesh, f)
    }
}

impl fmt::Debug for DeviceMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}", self.0.mesh, self.0.world)
    }
}
