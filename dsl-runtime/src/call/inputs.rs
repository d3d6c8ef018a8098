//! Checks of a region's inputs: one mesh, and the placements that the attribute requires.

use smallvec::SmallVec;

use super::entry::{Wants, first_open};
use super::region::{Handed, RegionCall};
use super::spec::{Axes, Want, Wanted};
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
    if !call.inputs.iter().all(|handed| handed.tensor.mesh().is_same(mesh)) {
        return Err(different_meshes(call));
    }
    has_axes(call, mesh)?;
    Ok(mesh.clone())
}

/// Whether the mesh has the axes that the attribute, and the fields of layers, speak of.
fn has_axes(call: &RegionCall<'_>, mesh: &DeviceMesh) -> Result<()> {
    let fits = match call.spec.axes {
        Axes::Unnamed => true,
        Axes::Exactly(names) => mesh.names().eq(names.iter().copied()),
        Axes::Among(names) => names.iter().all(|name| mesh.names().any(|axis| axis == *name)),
    };
    if !fits {
        return Err(other_axes(call, mesh));
    }
    let lacks = |handed: &Handed<'_>| handed.param.wanted.is_some_and(|entry| entry.missing(mesh).next().is_some());
    if call.inputs.iter().any(lacks) { Err(axes_of_arguments(call, mesh)) } else { Ok(()) }
}

fn other_axes(call: &RegionCall<'_>, mesh: &DeviceMesh) -> Error {
    let name = call.spec.name;
    let (names, what, advice) = match call.spec.axes {
        Axes::Unnamed => (&[][..], "", ""),
        Axes::Exactly(names) => (
            names,
            "has other axes than the attribute speaks of",
            "give a mesh with exactly these axes in this order, or write `..` in the entries: the others then stay as they are",
        ),
        Axes::Among(names) => {
            (names, "lacks axes that the attribute speaks of", "give a mesh that has these axes, in any order")
        }
    };
    let report = Report::new(format!("{name}: the mesh {what}"));
    Error::Mesh(report.on(mesh).offender(format!("the attribute speaks of axes ({})", names.join(", "))).advice(advice))
}

fn axes_of_arguments(call: &RegionCall<'_>, mesh: &DeviceMesh) -> Error {
    let report =
        Report::new(format!("{}: the mesh lacks axes that the arguments are placed on", call.spec.name)).on(mesh);
    let missing = |handed: &Handed<'_>| -> Vec<String> {
        handed.param.wanted.iter().flat_map(|entry| entry.missing(mesh)).map(|axis| format!("`{axis}`")).collect()
    };
    let lines = call.inputs.iter().map(|handed| (param_name(handed), missing(handed)));
    let lines = lines.filter(|(_, missing)| !missing.is_empty());
    let report = lines.fold(report, |report, (name, missing)| {
        let (axis, verb) = if missing.len() == 1 { ("axis", "is") } else { ("axes", "are") };
        report.offender(format!("{name}: {axis} {} of its `#[place(..)]` {verb} missing", missing.join(", ")))
    });
    Error::Mesh(report.advice("give a mesh that has these axes, or correct `#[place(..)]`"))
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

/// How an error can be avoided; the worst of the faults decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Remedy {
    /// The flag, or a reshard.
    Reshard,
    /// The caller must decide which of two arguments to reshard.
    Agree,
    /// Other arguments, or another attribute.
    Correct,
}

/// What is said of one input.
struct Complaint {
    index: usize,
    line: String,
    remedy: Remedy,
}

/// All inputs against their entries, without communication.
pub(super) fn check(call: &RegionCall<'_>, mesh: &DeviceMesh) -> Result<Misplaced> {
    let mut misplaced = Misplaced::new();
    let mut complaints: SmallVec<[Complaint; 2]> = SmallVec::new();
    for (index, handed) in call.inputs.iter().enumerate() {
        let mut complain = |line, remedy| complaints.push(Complaint { index, line, remedy });
        if let Some(line) = disagrees(call, handed, mesh) {
            complain(line, Remedy::Agree);
        }
        match required(handed, mesh).and_then(|wanted| fault(handed, &wanted, mesh)) {
            None => {}
            Some(Fault::Impossible(line)) => complain(line, Remedy::Correct),
            Some(Fault::Elsewhere(placements)) if call.spec.reshard => misplaced.push((index, placements)),
            Some(Fault::Elsewhere(placements)) => complain(differs(handed, &placements, mesh), Remedy::Reshard),
        }
    }
    if complaints.is_empty() {
        return Ok(misplaced);
    }
    Err(refused(call, mesh, &complaints))
}

/// The placements that an input must have; on axes that its entry leaves open they are those that it has.
fn required(handed: &Handed<'_>, mesh: &DeviceMesh) -> Option<Wants> {
    let given = handed.tensor.placements();
    let open = |axis: usize, _: &str| given.get(axis).copied().map_or(Want::Replicate, Want::from);
    Some(handed.param.wanted?.on(mesh, open))
}

/// Inputs that leave an axis open must be placed alike there, as the first of them is.
fn disagrees(call: &RegionCall<'_>, handed: &Handed<'_>, mesh: &DeviceMesh) -> Option<String> {
    let entry = handed.param.wanted.filter(|entry| entry.has_rest())?;
    let known = |handed: &Handed<'_>| handed.tensor.shape().is_ok();
    let mut open = mesh.names().enumerate().filter(|(_, name)| entry.leaves_open(name));
    open.find_map(|(axis, name)| {
        let first = first_open(&call.inputs, name)?;
        let (own, others) = (*handed.tensor.placements().get(axis)?, *first.tensor.placements().get(axis)?);
        let both_known = known(handed) && known(first);
        let alike = own == others || (!both_known && own.may_equal(others));
        let other = param_name(first);
        (!alike).then(|| {
            format!(
                "and {other} is {}: they must agree on axis `{name}`, which `..` leaves open",
                first.tensor.placements()
            )
        })
    })
}

fn fault(handed: &Handed<'_>, wanted: &[Want], mesh: &DeviceMesh) -> Option<Fault> {
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

fn refused(call: &RegionCall<'_>, mesh: &DeviceMesh, complaints: &[Complaint]) -> Error {
    let name = call.spec.name;
    let mut indices: Vec<usize> = complaints.iter().map(|complaint| complaint.index).collect();
    indices.dedup();
    let names: Vec<String> = indices.iter().map(|&index| format!("`{}`", param_name(&call.inputs[index]))).collect();
    let (argument, are) = if names.len() == 1 { ("argument", "is") } else { ("arguments", "are") };
    let report = Report::new(format!("{name}: {argument} {} {are} not placed as `in` requires", names.join(", ")));
    let report = complaints.iter().fold(report.on(mesh), |report, Complaint { index, line, .. }| {
        let handed = &call.inputs[*index];
        report.offender(format!("{}: {}, {line}", param_name(handed), described(handed)))
    });
    let worst = complaints.iter().map(|complaint| complaint.remedy).max();
    let first = complaints.iter().find(|complaint| Some(complaint.remedy) == worst);
    let first = first.map_or_else(String::new, |complaint| param_name(&call.inputs[complaint.index]));
    Error::Placement(match worst {
        Some(Remedy::Correct) => {
            report.advice("correct the attribute's `in`, or give a tensor and a mesh that it fits")
        }
        Some(Remedy::Agree) => {
            report.advice(format!("call {first}.reshard(..) first, so that both are placed alike there"))
        }
        _ => report.advice(format!("add `reshard` to the attribute, or call {first}.reshard(..) first")),
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
