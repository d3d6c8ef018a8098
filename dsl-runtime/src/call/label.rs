//! Labels of a region's results: which global tensor the ranks' local results make up.

use std::sync::Arc;

use candle_core::Tensor;
use smallvec::SmallVec;

use super::region::Running;
use super::spec::{Want, Wanted};
use crate::comm::DeviceMesh;
use crate::error::{Error, Report, Result};
use crate::placement::{Placement, Placements};
use crate::shard::Dims;
use crate::spec::{AxisList, Ragged, Spec, Typed, cutting_axes};
use crate::tensor::{DTensor, gathered_lengths};

/// Labels the local result `local` of output `output`, on whose mesh this rank is.
pub(super) fn label(region: &Running<'_>, output: usize, wanted: &[Want], local: &Tensor) -> Result<DTensor> {
    let mesh = region.mesh_of(output);
    let spec = Labelling { region, mesh, output, wanted, local }.spec()?;
    Ok(DTensor::assembled(Arc::new(spec), mesh.clone(), Some(local.detach())))
}

struct Labelling<'a> {
    region: &'a Running<'a>,
    /// That of the output.
    mesh: &'a DeviceMesh,
    output: usize,
    wanted: &'a [Want],
    local: &'a Tensor,
}

/// How long a sharded dimension of the global tensor is.
enum Length {
    /// Cut by the ceil-chunk rule.
    Chunked(usize),
    /// The lengths at all positions of the axes that shard it.
    Ragged(Arc<[usize]>),
}

impl Labelling<'_> {
    fn spec(&self) -> Result<Spec> {
        let placements = self.placements()?;
        let mut shape: Dims = self.local.dims().into();
        let mut ragged = Vec::new();
        for dim in 0..shape.len() {
            let axes = cutting_axes(&placements, self.mesh.sizes(), dim);
            if axes.is_empty() {
                continue;
            }
            match self.length(&placements, dim, &axes)? {
                Length::Chunked(len) => shape[dim] = len,
                Length::Ragged(lens) => {
                    shape[dim] = lens.iter().sum();
                    ragged.push(Ragged { dim, lens });
                }
            }
        }
        let mesh = (**self.mesh).clone();
        Spec::ragged(mesh, &placements, &shape, self.local.dtype(), ragged)
            .map_err(|e| e.within(self.region.result(self.output)))
    }

    fn placements(&self) -> Result<Placements> {
        let axes = self.mesh.axis_count();
        if self.wanted.len() != axes {
            let given = self.wanted.len();
            let line = format!("`out` speaks of {given} mesh axes, but the mesh has {axes}");
            return Err(Error::Placement(self.report().offender(line)));
        }
        let rank = self.local.rank();
        let normal = self.wanted.iter().map(|want| want.placement().normalized(rank));
        let normal: Option<SmallVec<[Placement; 4]>> = normal.collect();
        normal.map(Placements::new).ok_or_else(|| {
            let line = format!("the local result has {rank} dimensions");
            Error::Placement(self.report().offender(line))
        })
    }

    /// The global length of a dimension that `axes` cut, from specs alone unless the attribute says `ragged`.
    fn length(&self, placements: &Placements, dim: usize, axes: &AxisList) -> Result<Length> {
        if axes.iter().any(|&axis| matches!(self.wanted[axis], Want::Ragged(_))) {
            let len = self.local.dims()[dim];
            return gathered_lengths(self.mesh, axes, len, self.region.site).map(Length::Ragged);
        }
        let local = self.local.dims()[dim];
        let evenly = || {
            let parts: usize = axes.iter().map(|&a| self.mesh.sizes()[a]).product();
            Ok(Length::Chunked(local.saturating_mul(parts)))
        };
        let uneven = |(spec, dim): &(&Spec, usize)| !spec.is_even(*dim);
        if !self.inputs_cut_by(axes).any(|input| uneven(&input)) {
            return evenly();
        }
        let inputs = self.inputs_cut_alike(placements, dim, axes);
        let Some(&(spec, input_dim)) = inputs.iter().find(|input| uneven(input)) else {
            return evenly();
        };
        if inputs.iter().any(|&(other, other_dim)| !same_cut(spec, input_dim, other, other_dim)) {
            return Err(self.undecided(dim, "the inputs along these axes have different lengths, not all even"));
        }
        let expected = spec.span(input_dim, self.mesh.inside()?).len;
        if local != expected {
            let line =
                format!("the input along these axes is cut unevenly, with {expected} here, but the result has {local}");
            return Err(self.undecided(dim, &line));
        }
        Ok(match spec.ragged_of(input_dim) {
            Some(lens) => Length::Ragged(lens.clone()),
            None => Length::Chunked(spec.shape()[input_dim]),
        })
    }

    /// The input dimensions that exactly these axes cut; the axes of another mesh cut none.
    fn inputs_cut_by<'s>(&'s self, axes: &'s AxisList) -> impl Iterator<Item = (&'s Spec, usize)> {
        let here = self.region.elsewhere.mesh_of(self.output).is_none();
        let inputs = self.region.inputs.iter().filter(move |_| here);
        let specs = inputs.filter_map(|handed| handed.tensor.spec().ok());
        let dims = specs.flat_map(|spec| (0..spec.shape().len()).map(move |dim| (spec, dim)));
        dims.filter(move |(spec, dim)| spec.axes_of(*dim) == *axes)
    }

    /// The input dimensions that are sharded by exactly the axes that shard this one, as they are written. Where there is none,
    /// those that the same axes cut: an axis of size 1 cuts nothing.
    fn inputs_cut_alike<'s>(
        &'s self,
        placements: &Placements,
        dim: usize,
        axes: &'s AxisList,
    ) -> SmallVec<[(&'s Spec, usize); 4]> {
        let written = |placements: &Placements, dim: usize| -> AxisList {
            let all = placements.iter().enumerate();
            all.filter(|(_, p)| p.shard_dim() == Some(dim)).map(|(axis, _)| axis).collect()
        };
        let cut: SmallVec<[(&Spec, usize); 4]> = self.inputs_cut_by(axes).collect();
        let ours = written(placements, dim);
        let alike = |(spec, dim): &&(&Spec, usize)| written(spec.placements(), *dim) == ours;
        let exactly: SmallVec<[(&Spec, usize); 4]> = cut.iter().filter(alike).copied().collect();
        if exactly.is_empty() { cut } else { exactly }
    }

    fn report(&self) -> Report {
        let (entry, result) = (Wanted(self.wanted), self.region.result(self.output));
        let local = Typed(self.local.dtype(), self.local.dims());
        Report::new(format!("{result}, locally {local}, cannot be placed as {entry}")).on(self.mesh)
    }

    fn undecided(&self, dim: usize, why: &str) -> Error {
        Error::Shape(
            self.report()
                .offender(format!("dim {dim}: {why}"))
                .advice(format!("write `Shard({dim}, ragged)` in `out`: the ranks then exchange their lengths")),
        )
    }
}

/// Whether two sharded dimensions have the same length on every rank.
fn same_cut(a: &Spec, a_dim: usize, b: &Spec, b_dim: usize) -> bool {
    a.shape()[a_dim] == b.shape()[b_dim] && a.ragged_of(a_dim) == b.ragged_of(b_dim)
}
