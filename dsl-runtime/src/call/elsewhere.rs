//! Results on other meshes than the region's: `entry on expr` in `out`.

use super::region::RegionCall;
use super::spec::{Out, Wanted};
use crate::comm::DeviceMesh;
use crate::error::{Error, Report, Result};

/// The outputs that live on another mesh than the region's, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Elsewhere(Vec<(usize, DeviceMesh)>);

impl Elsewhere {
    pub(super) fn mesh_of(&self, output: usize) -> Option<&DeviceMesh> {
        self.0.iter().find(|(of, _)| *of == output).map(|(_, mesh)| mesh)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, output: usize, mesh: DeviceMesh) {
        self.0.push((output, mesh));
    }
}

/// What is wrong with one such output.
enum Fault {
    /// Ranks of its mesh do not run the region.
    Ranks(String),
    /// The entry speaks of another number of axes.
    Axes(String),
}

/// Checks the meshes of the outputs against that of the region, alike on every rank, without communication. Those that live on
/// the region's own mesh after all are taken out: they are as any other.
pub(super) fn check(call: &mut RegionCall<'_>, mesh: &DeviceMesh) -> Result<()> {
    call.elsewhere.0.retain(|(_, on)| !on.is_same(mesh));
    let faults: Vec<(usize, Fault)> =
        call.elsewhere.0.iter().filter_map(|(output, on)| Some((*output, fault(call, *output, on, mesh)?))).collect();
    let of_ranks = |(_, fault): &&(usize, Fault)| matches!(fault, Fault::Ranks(_));
    let outside = faults.iter().find(of_ranks);
    let Some((first, _)) = outside.or(faults.first()) else { return Ok(()) };
    let what = match outside {
        Some(_) => "cannot live on a mesh with ranks that do not run the region",
        None => "cannot be placed on its mesh",
    };
    let report = Report::new(format!("{} {what}", call.spec.result(*first))).on(mesh);
    let report = faults.iter().fold(report, |report, (output, fault)| {
        let (Fault::Ranks(line) | Fault::Axes(line)) = fault;
        report.offender(format!("{}: {line}", call.spec.result(*output)))
    });
    Err(match outside {
        Some(_) => Error::Mesh(report.advice("give, after `on`, a mesh all of whose ranks are in the region's mesh")),
        None => Error::Placement(report.advice("write one placement per axis of the mesh that stands after `on`")),
    })
}

fn fault(call: &RegionCall<'_>, output: usize, on: &DeviceMesh, mesh: &DeviceMesh) -> Option<Fault> {
    let shown = on.unlike(mesh);
    if !on.is_of_the_world_of(mesh) {
        return Some(Fault::Ranks(format!("it lives on {shown}")));
    }
    if let Some(rank) = mesh.first_outside(on) {
        return Some(Fault::Ranks(format!("it lives on {shown}, of which rank {rank} is outside")));
    }
    let Some(Out::Placed(wanted)) = call.spec.outs.get(output) else { return None };
    let (given, axes) = (wanted.len(), on.axis_count());
    (given != axes).then(|| {
        let entry = Wanted(wanted);
        Fault::Axes(format!("{entry} speaks of {given} mesh axes, but {shown} has {axes}"))
    })
}
