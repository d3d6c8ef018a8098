//! Checks of a region's inputs: one mesh, and the placements that the attribute requires.

use smallvec::SmallVec;

use super::region::{Handed, RegionCall};
use super::spec::{Want, Wanted};
use crate::comm::DeviceMesh;
use crate::error::{Error, Report, Result};
use crate::placement::{Placement, Placements};
use crate::spec::{Typed, differing_axes};

/// The inputs that must be resharded, with the placements they must get.
pub(super) type Misplaced = SmallVec<[(usize, Placements); 2]>;

/// The mesh that was given, or else that of the inputs, which must all agree.
pub(super) fn common_mesh(call: &RegionCall<'_>) -> Result<DeviceMesh> {
    let first = call.inputs.first().map(|handed| handed.tensor.mesh());
    let Some(mesh) = call.mesh.as_ref().or(first) else {
        let name = call.spec.name;
        return Err(Error::Mesh(
            Report::new(format!("{name}: there is no mesh, because no distributed tensor is given"))
                .advice("add `mesh = ..` to the attribute"),
        ));
    };
    if call.inputs.iter().all(|handed| handed.tensor.mesh().is_same(mesh)) {
        return Ok(mesh.clone());
    }
    Err(different_meshes(call))
}

fn different_meshes(call: &RegionCall<'_>) -> Error {
    let name = call.spec.name;
    let report = Report::new(format!("{name}: the arguments live on different meshes"));
    let given = call.mesh.iter().map(|mesh| format!("`mesh`: {mesh}"));
    let inputs = call.inputs.iter().map(|handed| {
        let first = call.mesh.as_ref().unwrap_or(call.inputs[0].tensor.mesh());
        format!("`{}`: {}", param_name(handed), handed.tensor.mesh().unlike(first))
    });
    let report = given.chain(inputs).fold(report, Report::offender);
    Error::Mesh(
        report.advice("put all arguments on one mesh: the same ranks in the same order, and the same axis names"),
    )
}

/// The argument as its author would write it: `x`, `xs[1]`, or `mlp.up`.
pub(super) fn param_name(handed: &Handed<'_>) -> String {
    handed.path.to_string()
}

/// What is wrong with one input.
enum Fault {
    /// Nothing can make it right.
    Impossible(String),
    /// A reshard makes it right.
    Elsewhere(Placements),
}

/// All inputs against their entries, without communication.
pub(super) fn check(call: &RegionCall<'_>, mesh: &DeviceMesh) -> Result<Misplaced> {
    let mut misplaced = Misplaced::new();
    let mut impossible = false;
    let mut lines: SmallVec<[(usize, String); 2]> = SmallVec::new();
    for (index, handed) in call.inputs.iter().enumerate() {
        let wanted = handed.param.wanted;
        match wanted.and_then(|wanted| fault(handed, wanted, mesh)) {
            None => {}
            Some(Fault::Impossible(line)) => {
                impossible = true;
                lines.push((index, line));
            }
            Some(Fault::Elsewhere(placements)) if call.spec.reshard => misplaced.push((index, placements)),
            Some(Fault::Elsewhere(placements)) => lines.push((index, differs(handed, &placements, mesh))),
        }
    }
    if lines.is_empty() {
        return Ok(misplaced);
    }
    Err(refused(call, mesh, &lines, impossible))
}

fn fault(handed: &Handed<'_>, wanted: &'static [Want], mesh: &DeviceMesh) -> Option<Fault> {
    let (given, axes) = (handed.tensor.placements(), mesh.axis_count());
    if wanted.len() != axes {
        let (entry, count) = (Wanted(wanted), wanted.len());
        return Some(Fault::Impossible(format!(
            "required {entry}, which speaks of {count} mesh axes, but the mesh has {axes}"
        )));
    }
    let rank = handed.tensor.shape().ok().map(<[usize]>::len);
    let exact = |want: &Want| match rank {
        Some(rank) => want.placement().normalized(rank),
        None => Some(want.placement()),
    };
    let fits = |(want, given): (&Want, &Placement)| match rank {
        Some(_) => exact(want) == Some(*given),
        None => want.placement().may_equal(*given),
    };
    if wanted.iter().zip(given.iter()).all(fits) {
        return None;
    }
    match wanted.iter().map(exact).collect::<Option<SmallVec<[Placement; 4]>>>() {
        Some(normal) => Some(Fault::Elsewhere(Placements::new(normal))),
        None => {
            let (entry, rank) = (Wanted(wanted), rank.unwrap_or(0));
            Some(Fault::Impossible(format!("required {entry}, but it has {rank} dimensions")))
        }
    }
}

fn differs(handed: &Handed<'_>, wanted: &Placements, mesh: &DeviceMesh) -> String {
    let axes = differing_axes(mesh, handed.tensor.placements(), wanted);
    let (axis, differ) = if axes.len() == 1 { ("axis", "differs") } else { ("axes", "differ") };
    format!("required {wanted}: {axis} {} {differ}", axes.join(", "))
}

fn refused(call: &RegionCall<'_>, mesh: &DeviceMesh, lines: &[(usize, String)], impossible: bool) -> Error {
    let name = call.spec.name;
    let names: Vec<String> = lines.iter().map(|(index, _)| format!("`{}`", param_name(&call.inputs[*index]))).collect();
    let (argument, are) = if names.len() == 1 { ("argument", "is") } else { ("arguments", "are") };
    let report = Report::new(format!("{name}: {argument} {} {are} not placed as `in` requires", names.join(", ")));
    let report = lines.iter().fold(report.on(mesh), |report, (index, line)| {
        let handed = &call.inputs[*index];
        report.offender(format!("{}: {}, {line}", param_name(handed), described(handed)))
    });
    Error::Placement(if impossible {
        report.advice("correct the attribute's `in`, or give a tensor and a mesh that it fits")
    } else {
        let first = param_name(&call.inputs[lines[0].0]);
        report.advice(format!("add `reshard` to the attribute, or call {first}.reshard(..) first"))
    })
}

/// `f32[16, 8] is (Shard(1))`.
fn described(handed: &Handed<'_>) -> String {
    let placements = handed.tensor.placements();
    match handed.tensor.spec() {
        Ok(spec) => format!("{} is {placements}", Typed(spec.dtype(), spec.shape())),
        Err(_) => format!("absent here, is {placements}"),
    }
}
