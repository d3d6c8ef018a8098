//! Labels of a region's results: which global tensor the ranks' local results make up.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::region::Running;
use super::spec::{Want, Wanted};
use crate::error::{Error, Report, Result};
use crate::placement::{Placement, Placements};
use crate::shard::Dims;
use crate::spec::{AxisList, Ragged, Spec, Typed, cutting_axes};
use crate::tensor::DTensor;

/// Labels the local result `local` of output `output`.
pub(super) fn label(region: &Running<'_>, output: usize, wanted: &'static [Want], local: &Tensor) -> Result<DTensor> {
    let labelling = Labelling { region, output, wanted, local };
    let spec = labelling.spec()?;
    Ok(DTensor::assembled(Arc::new(spec), region.mesh.clone(), Some(local.detach())))
}

struct Labelling<'a> {
    region: &'a Running<'a>,
    output: usize,
    wanted: &'static [Want],
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
            let axes = cutting_axes(&placements, self.region.mesh.sizes(), dim);
            if axes.is_empty() {
                continue;
            }
            match self.length(dim, &axes)? {
                Length::Chunked(len) => shape[dim] = len,
                Length::Ragged(lens) => {
                    shape[dim] = lens.iter().sum();
                    ragged.push(Ragged { dim, lens });
                }
            }
        }
        let mesh = (*self.region.mesh).clone();
        Spec::ragged(mesh, &placements, &shape, self.local.dtype(), ragged)
            .map_err(|e| e.within(self.region.result(self.output)))
    }

    fn placements(&self) -> Result<Placements> {
        let axes = self.region.mesh.axis_count();
        if self.wanted.len() != axes {
            let given = self.wanted.len();
            let line = format!("`out` speaks of {given} mesh axes, but the mesh has {axes}");
            return Err(Error::Placement(self.report().offender(line)));
        }
        let rank = self.local.rank();
        let normal = self.wanted.iter().map(|want| want.placement().normalized(rank));
        let normal: Option<smallvec::SmallVec<[Placement; 4]>> = normal.collect();
        normal.map(Placements::new).ok_or_else(|| {
            let line = format!("the local result has {rank} dimensions");
            Error::Placement(self.report().offender(line))
        })
    }

    /// The global length of a dimension that `axes` shard, from specs alone unless the attribute says `ragged`.
    fn length(&self, dim: usize, axes: &AxisList) -> Result<Length> {
        if axes.iter().any(|&axis| matches!(self.wanted[axis], Want::Ragged(_))) {
            return self.exchanged_lengths(dim, axes).map(Length::Ragged);
        }
        let local = self.local.dims()[dim];
        let evenly = || {
            let parts: usize = axes.iter().map(|&a| self.region.mesh.sizes()[a]).product();
            local.saturating_mul(parts)
        };
        let mut uneven: Option<(&Spec, usize)> = None;
        let mut first: Option<(&Spec, usize)> = None;
        for (spec, dim) in self.inputs_cut_by(axes) {
            let same = |(other, d): (&Spec, usize)| same_cut(other, d, spec, dim);
            first.get_or_insert((spec, dim));
            if !spec.is_even(dim) && uneven.is_none() {
                uneven = Some((spec, dim));
            }
            if uneven.is_some() && !(first.is_some_and(same) && uneven.is_some_and(same)) {
                return Err(self.undecided(dim, "the inputs along these axes have different lengths, not all even"));
            }
        }
        let Some((spec, input_dim)) = uneven else {
            return Ok(Length::Chunked(evenly()));
        };
        let expected = spec.span(input_dim, self.region.mesh.inside()?).len;
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

    /// The input dimensions that are sharded by exactly these axes.
    fn inputs_cut_by<'s>(&'s self, axes: &'s AxisList) -> impl Iterator<Item = (&'s Spec, usize)> {
        let specs = self.region.inputs.iter().filter_map(|handed| handed.tensor.spec().ok());
        specs.flat_map(move |spec| {
            let dims = 0..spec.shape().len();
            dims.filter(move |&dim| spec.axes_of(dim) == *axes).map(move |dim| (spec, dim))
        })
    }

    fn exchanged_lengths(&self, dim: usize, axes: &AxisList) -> Result<Arc<[usize]>> {
        let names: Vec<String> = axes.iter().map(|&a| self.region.mesh.name(a)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let group = self.region.mesh.communicator(&names)?;
        let mine = Tensor::new(&[self.local.dims()[dim] as i64], &Device::Cpu)?;
        let lens: Vec<i64> = group.all_gather_at(&mine, 0, self.region.site)?.to_vec1()?;
        Ok(lens.into_iter().map(|len| len as usize).collect())
    }

    fn report(&self) -> Report {
        let (entry, result) = (Wanted(self.wanted), self.region.result(self.output));
        let local = Typed(self.local.dtype(), self.local.dims());
        Report::new(format!("{result}, locally {local}, cannot be placed as {entry}")).on(&self.region.mesh)
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
