//! Distributed tensors from plain ones.

use std::panic::Location;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

use super::DTensor;
use super::reshard::described;
use super::storage::{buffer_of, plain, tensor_of};
use crate::comm::elements::DTYPES;
use crate::comm::{Call, DeviceMesh};
use crate::error::{Error, Report, Result};
use crate::mesh::flatten;
use crate::placement::{Placement, Placements};
use crate::plan::Routes;
use crate::shard::Dims;
use crate::spec::{Ragged, Spec, Typed};

impl DTensor {
    /// Labels each rank's `local` tensor as its piece of a global one. No communication.
    ///
    /// The length of a sharded dimension is the local length times the sizes of the axes that shard it, so all ranks must
    /// hold equal shapes; otherwise see [`from_local_ragged`](DTensor::from_local_ragged), or
    /// [`from_local_of`](DTensor::from_local_of) for pieces that follow the ceil-chunk rule. A rank outside the mesh gets an absent
    /// tensor, whatever `local` is, and does not learn its shape and element type.
    ///
    /// `local` is detached: what it was computed from gets no gradient through the distributed tensor. Where it should,
    /// [`Sources`](crate::call::Sources) say what that is.
    ///
    /// # Errors
    /// The placements do not fit the tensor or the mesh.
    pub fn from_local(local: Tensor, mesh: &DeviceMesh, placements: &[Placement]) -> Result<DTensor> {
        if mesh.coordinate().is_none() {
            // Whatever `local` is, it is not a piece: it says nothing of the global tensor.
            return absent(mesh, placements);
        }
        let mut shape: Dims = local.dims().into();
        for (placement, size) in placements.iter().zip(mesh.sizes()) {
            let dim = placement.normalized(shape.len()).and_then(Placement::shard_dim);
            if let Some(dim) = dim {
                shape[dim] = shape[dim].saturating_mul(*size);
            }
        }
        let spec = Spec::new((**mesh).clone(), placements, &shape, local.dtype())?;
        Ok(DTensor::within(spec, mesh, local))
    }

    /// Labels each rank's `local` tensor as its piece of a global one, whatever the lengths of the sharded dimensions, which
    /// the ranks exchange: such as the rows that each rank's data loader has read. Other dimensions must be equal.
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use local_map::prelude::*;
    /// use local_map::Result;
    /// let shapes = launch(3, |world| -> Result<Vec<usize>> {
    ///     let mesh = world.mesh([("dp", 3)])?;
    ///     let rows = [5, 0, 2][world.rank()];
    ///     let x = DTensor::from_local_ragged(Tensor::zeros((rows, 4), DType::F32, &Device::Cpu)?, &mesh, &[Shard(0)])?;
    ///     Ok(x.shape()?.to_vec())
    /// })?;
    /// assert_eq!(shapes, [[7, 4]; 3]);
    /// # Ok::<(), local_map::Error>(())
    /// ```
    ///
    /// # Errors
    /// The placements do not fit the tensor or the mesh; another rank failed, disagrees or does not come.
    #[track_caller]
    pub fn from_local_ragged(local: Tensor, mesh: &DeviceMesh, placements: &[Placement]) -> Result<DTensor> {
        let site = Location::caller();
        if mesh.coordinate().is_none() {
            return absent(mesh, placements);
        }
        // Checks the placements before the exchange.
        let even = Spec::new((**mesh).clone(), placements, local.dims(), local.dtype())?;
        let mut shape: Dims = local.dims().into();
        let mut ragged = Vec::new();
        for dim in 0..shape.len() {
            let axes = even.axes_of(dim);
            if !axes.is_empty() {
                let lens = gathered_lengths(mesh, &axes, shape[dim], site)?;
                shape[dim] = lens.iter().sum();
                ragged.push(Ragged { dim, lens });
            }
        }
        let spec = Spec::ragged((**mesh).clone(), placements, &shape, local.dtype(), ragged)?;
        Ok(DTensor::within(spec, mesh, local))
    }

    /// Labels each rank's `local` tensor as its piece of a global tensor of the given shape, cut by the ceil-chunk rule, which
    /// need not divide it evenly. No communication.
    ///
    /// # Errors
    /// The placements do not fit, or `local` is not the piece that this rank must hold.
    pub fn from_local_of(
        local: Tensor,
        mesh: &DeviceMesh,
        placements: &[Placement],
        shape: &[usize],
    ) -> Result<DTensor> {
        let spec = Spec::new((**mesh).clone(), placements, shape, local.dtype())?;
        if let Some(coord) = mesh.coordinate() {
            let expected = spec.piece(coord).shape();
            if *expected != *local.dims() {
                return Err(wrong_piece(&spec, mesh, &local, &expected));
            }
        }
        Ok(DTensor::within(spec, mesh, local))
    }

    fn within(spec: Spec, mesh: &DeviceMesh, local: Tensor) -> DTensor {
        let local = mesh.coordinate().map(|_| local.detach());
        DTensor::assembled(Arc::new(spec), mesh.clone(), local)
    }

    /// Cuts each rank's piece out of a tensor that every rank has whole. No communication; the pieces are views. A rank
    /// outside the mesh gets an absent tensor of the same shape.
    ///
    /// # Errors
    /// The placements do not fit the tensor or the mesh.
    #[track_caller]
    pub fn shard(whole: &Tensor, mesh: &DeviceMesh, placements: &[Placement]) -> Result<DTensor> {
        let everywhere = Placements::new(placements.iter().map(|_| Placement::Replicate));
        let spec = Spec::new((**mesh).clone(), &everywhere, whole.dims(), whole.dtype())?;
        DTensor::within(spec, mesh, whole.clone()).reshard_at(placements, Location::caller())
    }

    /// Cuts each rank's piece out of a tensor that only world rank `root` has; the others give `None`. A rank outside the
    /// mesh gets an absent tensor, and does not learn its shape and element type.
    ///
    /// ```
    /// use candle_core::{Device, Tensor};
    /// use local_map::prelude::*;
    /// use local_map::Result;
    /// let pieces = launch(3, |world| -> Result<Vec<f32>> {
    ///     let mesh = world.mesh([("dp", 3)])?;
    ///     let whole = (world.rank() == 1).then(|| Tensor::arange(0f32, 7.0, &Device::Cpu)).transpose()?;
    ///     let piece = DTensor::shard_from(1, whole.as_ref(), &mesh, &[Shard(0)])?;
    ///     Ok(piece.to_local()?.to_vec1()?)
    /// })?;
    /// assert_eq!(pieces, [vec![0.0, 1.0, 2.0], vec![3.0, 4.0, 5.0], vec![6.0]]);
    /// # Ok::<(), local_map::Error>(())
    /// ```
    ///
    /// # Errors
    /// On every rank of the mesh: the root is outside it, has no tensor, or the placements do not fit its tensor. Also if
    /// another rank failed, disagrees or does not come.
    #[track_caller]
    pub fn shard_from(
        root: usize,
        whole: Option<&Tensor>,
        mesh: &DeviceMesh,
        placements: &[Placement],
    ) -> Result<DTensor> {
        let site = Location::caller();
        let Some(root) = mesh.position_of(root) else {
            return Err(Error::Mesh(
                Report::new(format!("rank {root} cannot be the root: it is outside the mesh"))
                    .on(mesh)
                    .advice("give the number that a rank of the mesh has in its world"),
            ));
        };
        let Some(coord) = mesh.coordinate() else {
            return absent(mesh, placements);
        };
        one_per_axis(mesh, placements)?;
        let whole = whole.filter(|_| root == flatten(coord, mesh.sizes()));
        let (dtype, shape) = heading(mesh, root, whole, site)?;
        let first: Placements = Placements::new(placements.iter().map(|p| match p {
            Placement::Partial(_) => Placement::Replicate,
            other => *other,
        }));
        // All checks come before the pieces move.
        let spec = Spec::new((**mesh).clone(), placements, &shape, dtype)?.placed(&first)?;
        let local = piece_from(mesh, root, whole, &spec, site)?;
        DTensor::assembled(Arc::new(spec), mesh.clone(), Some(local)).reshard_at(placements, site)
    }
}

/// A tensor of which this rank, outside the mesh, can only know the placements.
pub(super) fn absent(mesh: &DeviceMesh, placements: &[Placement]) -> Result<DTensor> {
    one_per_axis(mesh, placements)?;
    Ok(DTensor::absent(placements.into(), mesh.clone()))
}

/// All that can be said of placements without a shape.
fn one_per_axis(mesh: &DeviceMesh, placements: &[Placement]) -> Result<()> {
    let (given, axes) = (placements.len(), mesh.axis_count());
    if given == axes {
        return Ok(());
    }
    let wanted = Placements::from(placements);
    Err(Error::Placement(
        Report::new(format!("a tensor cannot be placed as {wanted}"))
            .on(mesh)
            .offender(format!("placements given: {given}, mesh axes: {axes}"))
            .advice("give one placement per axis of the mesh"),
    ))
}

/// The most dimensions that a heading can hold.
const MOST_DIMS: usize = 13;

/// Learns the root's element type and shape: a code (or -1), the number of dimensions, and the lengths.
fn heading(
    mesh: &DeviceMesh,
    root: usize,
    whole: Option<&Tensor>,
    site: &'static Location<'static>,
) -> Result<(DType, Dims)> {
    let mut words = vec![0i64; MOST_DIMS + 3];
    words[0] = -1;
    if let Some(whole) = whole.filter(|w| w.rank() <= MOST_DIMS) {
        words[0] = DTYPES.iter().position(|d| *d == whole.dtype()).map_or(-1, |i| i as i64);
        words[1] = whole.rank() as i64;
        whole.dims().iter().zip(&mut words[2..]).for_each(|(&n, word)| *word = n as i64);
    }
    let count = words.len();
    let tensor = Tensor::from_vec(words, count, &Device::Cpu)?;
    let mut call = Call { site, ..Call::new("shard from one rank", DType::I64, &[count]) };
    call.root = Some(root);
    let routes = Routes::broadcast(root, count, 0..mesh.size());
    let group = mesh.group_by_name(&[])?;
    let words = tensor_of(group.exchange(&call, Some(buffer_of(&tensor)?), &routes, &plain(&[count]))?)?;
    let words: Vec<i64> = words.to_vec1()?;
    let dtype = usize::try_from(words[0]).ok().and_then(|i| DTYPES.get(i));
    match dtype {
        Some(dtype) => {
            let dims = words[2..].iter().take(words[1] as usize).map(|&n| n as usize);
            Ok((*dtype, dims.collect()))
        }
        None => Err(Error::Shape(
            Report::new(format!("{}: the root has no tensor that can be exchanged", call.name))
                .on(mesh)
                .advice("give the tensor on the root rank, and `None` on the others"),
        )),
    }
}

fn piece_from(
    mesh: &DeviceMesh,
    root: usize,
    whole: Option<&Tensor>,
    spec: &Spec,
    site: &'static Location<'static>,
) -> Result<Tensor> {
    let coord = mesh.inside()?;
    let mut call = described("shard from one rank", spec, site);
    call.root = Some(root);
    call.detail = Some(format!("to {}", spec.placements()).into());
    let routes = Routes::from_root(spec, root, coord);
    let input = whole.map(buffer_of).transpose()?;
    let shape = spec.piece(coord).shape();
    tensor_of(mesh.group_by_name(&[])?.exchange(&call, input, &routes, &plain(&shape))?)
}

fn wrong_piece(spec: &Spec, mesh: &DeviceMesh, local: &Tensor, expected: &[usize]) -> Error {
    let rank = mesh.world().rank();
    let given = Typed(local.dtype(), local.dims());
    Error::Shape(
        Report::new(format!("rank {rank}: the local tensor is not its piece of {spec}"))
            .on(mesh)
            .offender(format!("the local tensor is {given}, required {expected:?}"))
            .advice("cut the piece with `DTensor::shard`; pieces of other lengths are labelled by `from_local_ragged`"),
    )
}

/// The lengths that the ranks along `axes` have, in the order of their positions.
pub(crate) fn gathered_lengths(
    mesh: &DeviceMesh,
    axes: &[usize],
    len: usize,
    site: &'static Location<'static>,
) -> Result<Arc<[usize]>> {
    let mine = Tensor::new(&[len as i64], &Device::Cpu)?;
    let lens: Vec<i64> = mesh.communicator_over(axes)?.all_gather_at(&mine, 0, site)?.to_vec1()?;
    Ok(lens.into_iter().map(|len| len as usize).collect())
}
