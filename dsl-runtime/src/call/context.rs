//! The region context: where a body runs, and the collectives that it may call.

use std::cell::RefCell;
use std::rc::Rc;

use candle_core::Tensor;

use super::crossing::{Crossing, Transpose};
use crate::comm::DeviceMesh;
use crate::error::{Error, Report, Result};
use crate::grad::leaf_of;
use crate::placement::ReduceOp;
use crate::shard::chunk;
use crate::tensor::Communicator;

/// Where a body runs, and the collectives that it may call: a parameter `ctx: &Region` of an annotated function, supplied by
/// the wrapper.
///
/// Every rank of the mesh must call the same collectives in the same order. Each is differentiated by its true transpose,
/// on every rank and in reverse order, whatever else a rank's body does.
///
/// # Errors
/// All collectives: an unknown axis; another rank failed, disagrees or does not come; the tensor does not fit; the result
/// would need a gradient that the operation does not have.
#[derive(Debug)]
pub struct Region {
    mesh: DeviceMesh,
    /// The number of this call among those on the mesh.
    call: u64,
    /// What was called and is differentiated, if the region is.
    crossings: Option<Crossings>,
}

/// The collectives of a body so far.
pub(super) type Crossings = Rc<RefCell<Vec<Crossing>>>;

impl Region {
    pub(super) fn new(mesh: DeviceMesh, call: u64, crossings: Option<Crossings>) -> Region {
        Region { mesh, call, crossings }
    }

    /// What was called and is differentiated.
    pub(super) fn into_crossings(self) -> Vec<Crossing> {
        self.crossings.map(|crossings| crossings.take()).unwrap_or_default()
    }

    /// The mesh that the region runs on.
    pub fn mesh(&self) -> &DeviceMesh {
        &self.mesh
    }

    /// This rank's coordinate on the named axis.
    ///
    /// # Errors
    /// The mesh has no such axis.
    pub fn coordinate(&self, axis: &str) -> Result<usize> {
        let index = self.mesh.axis(axis)?;
        Ok(self.mesh.inside()?[index])
    }

    /// The size of the named axis.
    ///
    /// # Errors
    /// The mesh has no such axis.
    pub fn size(&self, axis: &str) -> Result<usize> {
        Ok(self.mesh.sizes()[self.mesh.axis(axis)?])
    }

    /// A seed for random numbers that all ranks of the mesh share; another one in every call, and the same ones in every run.
    pub fn shared_seed(&self) -> u64 {
        let first = self.mesh.ranks().next().unwrap_or(0) as u64;
        mixed(mixed(self.mesh.world().seed() ^ mixed(first)) ^ self.call)
    }

    /// A seed for random numbers of this rank alone; another one in every call, and the same ones in every run.
    pub fn rank_seed(&self) -> u64 {
        mixed(self.shared_seed() ^ mixed(self.mesh.world().rank() as u64 + 1))
    }

    /// The reduction, over the ranks along the axis, of their tensors, which have one shape.
    #[track_caller]
    pub fn all_reduce(&self, x: &Tensor, axis: &str, op: ReduceOp) -> Result<Tensor> {
        let group = self.group(axis)?;
        let transpose = match op {
            ReduceOp::Sum | ReduceOp::Avg => Some(Transpose::Reduce(op)),
            ReduceOp::Max | ReduceOp::Min => Some(Transpose::Extreme { value: x.detach(), op }),
            _ => None,
        };
        self.require(x, transpose.is_some(), "all-reduce", op)?;
        let y = group.all_reduce(x, op)?;
        self.crossed(x, y, group, transpose)
    }

    /// The tensors of the ranks along the axis, which have one shape, concatenated along `dim`.
    #[track_caller]
    pub fn all_gather(&self, x: &Tensor, axis: &str, dim: usize) -> Result<Tensor> {
        let group = self.group(axis)?;
        let y = group.all_gather(x, dim)?;
        let lens = vec![x.dims()[dim]; group.size()];
        self.crossed(x, y, group, Some(Transpose::Gather { dim, lens }))
    }

    /// The tensors of the ranks along the axis concatenated along `dim`, of which position `r` brings `lens[r]`.
    #[track_caller]
    pub fn all_gather_varying(&self, x: &Tensor, axis: &str, dim: usize, lens: &[usize]) -> Result<Tensor> {
        let group = self.group(axis)?;
        let y = group.all_gather_varying(x, dim, lens)?;
        self.crossed(x, y, group, Some(Transpose::Gather { dim, lens: lens.to_vec() }))
    }

    /// This rank's chunk, along `dim`, of the reduction of the tensors of the ranks along the axis, which have one shape.
    #[track_caller]
    pub fn reduce_scatter(&self, x: &Tensor, axis: &str, dim: usize, op: ReduceOp) -> Result<Tensor> {
        let group = self.group(axis)?;
        self.require(x, op.is_linear(), "reduce-scatter", op)?;
        let y = group.reduce_scatter(x, dim, op)?;
        let lens = (0..group.size()).map(|r| chunk(x.dims()[dim], group.size(), r).len).collect();
        self.crossed(x, y, group, Some(Transpose::Scatter { dim, lens, op }))
    }

    /// Sends one of the equal runs of rows to each rank along the axis, and concatenates those that come.
    #[track_caller]
    pub fn all_to_all(&self, x: &Tensor, axis: &str) -> Result<Tensor> {
        let group = self.group(axis)?;
        let y = group.all_to_all(x)?;
        let each = vec![x.dims()[0] / group.size(); group.size()];
        self.crossed(x, y, group, Some(Transpose::Exchange { send: each.clone(), receive: each }))
    }

    /// Sends `send[r]` rows to each position `r` along the axis, in order, and concatenates the rows that come: `receive[r]`
    /// from each.
    #[track_caller]
    pub fn all_to_all_varying(&self, x: &Tensor, axis: &str, send: &[usize], receive: &[usize]) -> Result<Tensor> {
        let group = self.group(axis)?;
        let y = group.all_to_all_varying(x, send, receive)?;
        let transpose = Transpose::Exchange { send: send.to_vec(), receive: receive.to_vec() };
        self.crossed(x, y, group, Some(transpose))
    }

    /// Position `to` gets the tensor of position `from`, for each pair; zeros where no pair ends. All have one shape.
    #[track_caller]
    pub fn permute(&self, x: &Tensor, axis: &str, pairs: &[(usize, usize)]) -> Result<Tensor> {
        let group = self.group(axis)?;
        let y = group.permute(x, pairs)?;
        self.crossed(x, y, group, Some(Transpose::Permute(pairs.to_vec())))
    }

    /// Every position gets the tensor of the one `by` before it, around the ring of the axis. All have one shape.
    #[track_caller]
    pub fn shift(&self, x: &Tensor, axis: &str, by: isize) -> Result<Tensor> {
        let size = self.size(axis)?;
        let pairs: Vec<_> = (0..size).map(|from| (from, ring(from, by, size))).collect();
        self.permute(x, axis, &pairs)
    }

    /// The tensor of position `root` along the axis. All ranks bring tensors of one type and shape.
    #[track_caller]
    pub fn broadcast(&self, x: &Tensor, axis: &str, root: usize) -> Result<Tensor> {
        let group = self.group(axis)?;
        let y = group.broadcast(x, root)?;
        self.crossed(x, y, group, Some(Transpose::Broadcast { root }))
    }

    fn group(&self, axis: &str) -> Result<Communicator> {
        self.mesh.communicator(&[axis])
    }

    /// Refuses, before any communication, what could not be differentiated and would have to be.
    fn require(&self, x: &Tensor, differentiable: bool, name: &str, op: ReduceOp) -> Result<()> {
        if differentiable || self.crossings.is_none() || !x.dtype().is_float() {
            return Ok(());
        }
        Err(Error::Unsupported(
            Report::new(format!("{name}({op}) in a body cannot be differentiated"))
                .on(&self.mesh)
                .advice("run the region under `no_grad`, or use Sum or Avg"),
        ))
    }

    /// Cuts the body's graph: the result is a leaf, whose gradient crosses back by the transpose.
    fn crossed(
        &self,
        input: &Tensor,
        output: Tensor,
        group: Communicator,
        transpose: Option<Transpose>,
    ) -> Result<Tensor> {
        let (Some(crossings), Some(transpose), true) = (&self.crossings, transpose, input.dtype().is_float()) else {
            return Ok(output);
        };
        let output = leaf_of(&output)?;
        let crossing = Crossing { input: input.clone(), output: output.clone(), group, transpose };
        crossings.borrow_mut().push(crossing);
        Ok(output)
    }
}

/// The position `by` after `from` on a ring.
fn ring(from: usize, by: isize, size: usize) -> usize {
    let by = by.rem_euclid(size as isize) as usize;
    (from + by) % size
}

/// A well-mixed number: the finaliser of SplitMix64.
fn mixed(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
