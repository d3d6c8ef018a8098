//! A world: all ranks of one program, seen from one of them.

use std::sync::Arc;

use local_map_rendezvous::Roster;

use super::Transport;
use super::count::{Count, Counted};
use super::fake::Fake;
use super::mesh::DeviceMesh;
use super::threads::Threads;
use crate::error::{Error, Report, Result};
use crate::mesh::Mesh;

/// All ranks of one program, as one of them sees it. Cheap to clone.
///
/// [`launch`](super::launch) hands one to every rank.
#[derive(Clone)]
pub struct World {
    rank: usize,
    size: usize,
    seed: u64,
    engine: Engine,
    count: Arc<Count>,
}

#[derive(Clone)]
enum Engine {
    Threads(Arc<Threads>),
    Fake,
}

impl World {
    pub(super) fn threads(rank: usize, seed: u64, roster: &Arc<Roster>, threads: &Arc<Threads>) -> World {
        let (engine, count) = (Engine::Threads(threads.clone()), Arc::default());
        World { rank, size: roster.ranks(), seed, engine, count }
    }

    /// Rank `rank` of a world of `size` ranks that are not there: meshes, specs, shapes and plans can be made, and any
    /// collective is an error.
    ///
    /// ```
    /// use local_map::prelude::*;
    /// let world = World::fake(65_535, 65_536)?;
    /// let mesh = world.mesh([("pp", 16), ("dp", 64), ("tp", 64)])?;
    /// assert_eq!(mesh.coordinate(), Some(&[15, 63, 63][..]));
    /// # Ok::<(), local_map::Error>(())
    /// ```
    ///
    /// # Errors
    /// `rank` is not below `size`.
    pub fn fake(rank: usize, size: usize) -> Result<World> {
        if rank >= size {
            return Err(Error::Mesh(Report::new(format!("a world of {size} ranks has no rank {rank}"))));
        }
        let (engine, count) = (Engine::Fake, Arc::default());
        Ok(World { rank, size, seed: 0, engine, count })
    }

    /// The seed that all random numbers of regions follow from; see [`Launch::seed`](super::Launch::seed).
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many times this rank has met others since the launch: the collectives that it called, whether of a reshard, a
    /// region, a backward pass or its own, and the tensors that it sent and received, one each. A group of one rank moves nothing, and
    /// counts nothing.
    ///
    /// The difference of two counts says what a part of a program communicates, such as in a test of a layer:
    ///
    /// ```
    /// use candle_core::{Device, Tensor};
    /// use local_map::prelude::*;
    /// use local_map::Result;
    /// launch(2, |world| -> Result<()> {
    ///     let mesh = world.mesh([("tp", 2)])?;
    ///     let x = DTensor::from_local(Tensor::new(1f32, &Device::Cpu)?, &mesh, &[Partial(Sum)])?;
    ///     let before = world.collectives();
    ///     x.reshard(&[Replicate])?;
    ///     assert_eq!(world.collectives() - before, 1); // the all-reduce
    ///     Ok(())
    /// })?;
    /// # Ok::<(), local_map::Error>(())
    /// ```
    pub fn collectives(&self) -> u64 {
        self.count.get()
    }

    /// A mesh of the first ranks of the world in row-major order. Ranks beyond it are outside: regions on it give them
    /// absent results.
    ///
    /// # Errors
    /// As for [`Mesh::new`]; also a mesh of more ranks than the world has.
    pub fn mesh<'a>(&self, axes: impl IntoIterator<Item = (&'a str, usize)>) -> Result<DeviceMesh> {
        self.bind(Mesh::new(axes)?)
    }

    /// Binds a mesh to this world's communicators.
    ///
    /// # Errors
    /// The mesh holds a rank that the world does not have.
    pub fn bind(&self, mesh: Mesh) -> Result<DeviceMesh> {
        let largest = mesh.max_rank();
        if largest >= self.size {
            let size = self.size;
            return Err(Error::Mesh(
                Report::new("a mesh needs more ranks than there are")
                    .on(&mesh)
                    .offender(format!("it holds rank {largest}; the world has {size} ranks"))
                    .advice("launch more ranks, or make the mesh smaller"),
            ));
        }
        Ok(DeviceMesh::new(self.clone(), mesh))
    }

    /// Whether both are of one program: tensors of different launches cannot meet.
    pub(super) fn is_same(&self, other: &World) -> bool {
        match (&self.engine, &other.engine) {
            (Engine::Threads(a), Engine::Threads(b)) => Arc::ptr_eq(a, b),
            (Engine::Fake, Engine::Fake) => true,
            _ => false,
        }
    }

    /// This rank's membership in the group of all ranks of `mesh`, at position `me`.
    pub(super) fn group(&self, mesh: &Mesh, me: usize) -> Arc<dyn Transport> {
        match &self.engine {
            Engine::Threads(threads) => {
                let group = threads.join(mesh.ranks().collect(), me);
                if mesh.size() == 1 { group } else { Arc::new(Counted { group, count: self.count.clone() }) }
            }
            Engine::Fake => Arc::new(Fake { position: me, size: mesh.size() }),
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let engine = match self.engine {
            Engine::Threads(_) => "threads",
            Engine::Fake => "fake",
        };
        write!(f, "rank {} of {} ({engine})", self.rank, self.size)
    }
}
