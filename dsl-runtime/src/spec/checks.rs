//! The rules that make a spec valid.

use candle_core::DType;
use smallvec::SmallVec;

use super::{Ragged, Spec, Typed};
use crate::error::{Error, Report, Result};
use crate::mesh::Mesh;
use crate::placement::{Placement, Placements, ReduceOp};

/// Placements with dimensions counted from the front, or every offender at once.
pub(super) fn normalize(mesh: &Mesh, placements: &[Placement], shape: &[usize], dtype: DType) -> Result<Placements> {
    let report = || {
        let given = Placements::from(placements);
        let what = Typed(dtype, shape);
        Report::new(format!("{what} cannot be placed as {given}")).on(mesh)
    };
    if placements.len() != mesh.axis_count() {
        let (given, axes) = (placements.len(), mesh.axis_count());
        return Err(Error::Placement(report().offender(format!("placements given: {given}, mesh axes: {axes}"))));
    }
    let normal: Option<SmallVec<[Placement; 4]>> = placements.iter().map(|p| p.normalized(shape.len())).collect();
    if let Some(normal) = normal {
        return Ok(Placements::new(normal));
    }
    let dims = shape.len();
    let outside = placements.iter().enumerate().filter(|(_, p)| p.normalized(dims).is_none());
    Err(Error::Placement(outside.fold(report(), |report, (axis, placement)| {
        let name = mesh.name(axis);
        report.offender(format!("axis `{name}`: {placement}, but the tensor has {dims} dimensions"))
    })))
}

pub(super) fn check(spec: &Spec) -> Result<()> {
    countable(spec)?;
    commuting(spec)?;
    reducible(spec)?;
    spec.ragged.iter().enumerate().try_for_each(|(i, r)| ragged(spec, i, r))
}

fn refused(spec: &Spec) -> Report {
    let (what, placements) = (Typed(spec.dtype, &spec.shape), &spec.placements);
    Report::new(format!("{what} cannot be placed as {placements}")).on(&spec.mesh)
}

fn countable(spec: &Spec) -> Result<()> {
    let size = spec.dtype.size_in_bytes();
    if size == 0 {
        let line = format!("elements of type {} have no whole bytes", spec.dtype.as_str());
        return Err(Error::DType(refused(spec).offender(line)));
    }
    // Without the zeros: what is between them must be countable, too.
    let lens = spec.shape.iter().filter(|&&len| len > 0);
    let bytes = lens.into_iter().try_fold(size, |n, &len| n.checked_mul(len));
    match bytes {
        Some(n) if n <= isize::MAX as usize => Ok(()),
        _ => {
            let line = "it has more bytes than can be addressed";
            Err(Error::Shape(refused(spec).offender(line)))
        }
    }
}

/// The order of the reductions over two axes must not matter.
fn commuting(spec: &Spec) -> Result<()> {
    let axes = spec.partial_axes();
    let op = |axis: usize| spec.placements[axis].partial_op();
    for pair in axes.windows(2) {
        if let (Some(a), Some(b)) = (op(pair[0]), op(pair[1]))
            && !a.commutes_with(b)
        {
            let (x, y) = (spec.mesh.name(pair[0]), spec.mesh.name(pair[1]));
            let line = format!(
                "Partial({a}) on `{x}` and Partial({b}) on `{y}` do not commute: the order of the two would decide the value"
            );
            return Err(Error::Placement(
                refused(spec).offender(line).advice("use one operation on all partial axes, or Sum and Avg together"),
            ));
        }
    }
    Ok(())
}

fn reducible(spec: &Spec) -> Result<()> {
    let ops = spec.placements.iter().filter_map(|p| p.partial_op());
    ops.map(|op| can_reduce(op, spec.dtype))
        .find_map(|verdict| verdict.err())
        .map_or(Ok(()), |line| Err(Error::DType(refused(spec).offender(line))))
}

/// Whether elements of `dtype` can be reduced with `op`; the error says why not.
pub(crate) fn can_reduce(op: ReduceOp, dtype: DType) -> std::result::Result<(), String> {
    let name = dtype.as_str();
    match op {
        ReduceOp::Avg if dtype.is_int() => {
            Err(format!("Partial(Avg) of {name} would truncate: convert to a floating-point type, or use Sum"))
        }
        ReduceOp::Any | ReduceOp::All if !matches!(dtype, DType::U8 | DType::U32) => {
            Err(format!("Partial({op}) reduces truth values, which are u8 or u32, not {name}"))
        }
        _ => match dtype {
            DType::F8E8M0 | DType::F4 | DType::F6E2M3 | DType::F6E3M2 => Err(format!("{name} has no arithmetic")),
            _ => Ok(()),
        },
    }
}

fn ragged(spec: &Spec, index: usize, ragged: &Ragged) -> Result<()> {
    let dim = ragged.dim;
    let axes = spec.axes_of(dim);
    let positions: usize = axes.iter().map(|&a| spec.mesh.sizes()[a]).product();
    let total = ragged.lens.iter().try_fold(0usize, |n, &len| n.checked_add(len));
    let shards = |p: &Placement| p.shard_dim() == Some(dim);
    let line = if !spec.placements.iter().any(shards) {
        format!("dim {dim} is called ragged, but no axis shards it")
    } else if spec.ragged[..index].iter().any(|r| r.dim == dim) {
        format!("dim {dim} is called ragged twice")
    } else if ragged.lens.len() != positions {
        let given = ragged.lens.len();
        format!("dim {dim} has {given} ragged lengths for {positions} positions")
    } else if total != Some(spec.shape[dim]) {
        let len = spec.shape[dim];
        format!("the ragged lengths of dim {dim} do not add up to {len}")
    } else {
        return Ok(());
    };
    Err(Error::Shape(refused(spec).offender(line)))
}
