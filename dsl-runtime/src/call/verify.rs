//! Verification of a region's results by a collective: their number, that shapes fit labels, and that replicas are bitwise
//! equal. Every rank compares the same words, so all reach the same verdict.

use std::panic::Location;
use std::sync::OnceLock;

use candle_core::{Device, Tensor};

use super::region::Running;
use super::spec::{Out, RegionSpec};
use crate::comm::DeviceMesh;
use crate::error::{Error, Report, Result};
use crate::mesh::{Coord, flatten};
use crate::placement::Placement;
use crate::shard::Dims;
use crate::tensor::{DTensor, digest};

/// Whether `LOCAL_MAP_CHECK=1` asks for verification of every region.
fn everywhere() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED.get_or_init(|| std::env::var("LOCAL_MAP_CHECK").is_ok_and(|v| v == "1"))
}

/// Whether the results of this region, and the gradients of its inputs, are verified.
pub(super) fn wanted(spec: &RegionSpec) -> bool {
    spec.check || everywhere()
}

/// The most dimensions that are compared.
const MOST_DIMS: usize = 8;

/// Words that describe one rank's result: a digest, the global shape that it was labelled with, and its local shape.
const WORDS: usize = 2 + 2 * MOST_DIMS;

/// Compares a tensor, `name` in words, on all ranks.
pub(super) fn verify(mesh: &DeviceMesh, site: &'static Location<'static>, name: &str, result: &DTensor) -> Result<()> {
    let all = gathered(mesh, site, describe(result)?)?;
    let all: Vec<&[i64]> = all.iter().map(Vec::as_slice).collect();
    Comparison { mesh, name, result, all: &all }.check()
}

/// Compares all labelled results of a region, each given with the number of its output. One meeting compares how many tensors
/// each output holds, which `Option` and `Vec` leave to the body; one more, of words equally many everywhere, the tensors on the
/// region's mesh; and one of its ranks each output on another mesh.
pub(super) fn verify_results(region: &Running<'_>, results: &[(usize, DTensor)]) -> Result<()> {
    if region.spec.outs.iter().all(|out| matches!(out, Out::Plain)) {
        return Ok(());
    }
    check_counts(region, results)?;
    let is_here = |(output, _): &&(usize, DTensor)| region.elsewhere.mesh_of(*output).is_none();
    let (here, elsewhere): (Vec<_>, Vec<_>) = results.iter().partition(is_here);
    compare(region, &region.mesh, &here)?;
    elsewhere.chunk_by(|(a, _), (b, _)| a == b).try_for_each(|one| compare(region, region.mesh_of(one[0].0), one))
}

/// Compares results on one mesh; nothing on a rank outside it.
fn compare(region: &Running<'_>, mesh: &DeviceMesh, results: &[&(usize, DTensor)]) -> Result<()> {
    if results.is_empty() || mesh.coordinate().is_none() {
        return Ok(());
    }
    let words = results.iter().map(|(_, result)| describe(result)).collect::<Result<Vec<_>>>()?.concat();
    let all = gathered(mesh, region.site, words)?;
    for (index, (output, result)) in results.iter().enumerate() {
        let all: Vec<&[i64]> = all.iter().map(|words| &words[index * WORDS..][..WORDS]).collect();
        Comparison { mesh, name: &region.result(*output), result, all: &all }.check()?;
    }
    Ok(())
}

/// Every rank's words, of which all ranks bring equally many, in row-major order of the mesh.
fn gathered(mesh: &DeviceMesh, site: &'static Location<'static>, words: Vec<i64>) -> Result<Vec<Vec<i64>>> {
    let count = words.len();
    let mine = Tensor::from_vec(words, (1, count), &Device::Cpu)?;
    Ok(mesh.communicator(&[])?.all_gather_at(&mine, 0, site)?.to_vec2()?)
}

/// Every output must hold equally many tensors on all ranks.
fn check_counts(region: &Running<'_>, results: &[(usize, DTensor)]) -> Result<()> {
    let of = |output| results.iter().filter(|(o, _)| *o == output).count() as i64;
    let all = gathered(&region.mesh, region.site, (0..region.spec.outs.len()).map(of).collect())?;
    match (0..region.spec.outs.len()).find(|&output| all.iter().any(|counts| counts[output] != all[0][output])) {
        None => Ok(()),
        Some(output) => {
            let what = format!("{}: the ranks returned different numbers of tensors", region.result(output));
            let report = Report::new(what).on(&region.mesh);
            let counts: Vec<i64> = all.iter().map(|counts| counts[output]).collect();
            let report = by_count(&region.mesh, &counts).into_iter().fold(report, Report::offender);
            Err(Error::Mismatch(
                report.advice("return equally many on every rank, empty tensors where there is no data"),
            ))
        }
    }
}

/// A line for each number of tensors, with the ranks that returned so many.
fn by_count(mesh: &DeviceMesh, counts: &[i64]) -> Vec<String> {
    let mut different = counts.to_vec();
    different.sort_unstable();
    different.dedup();
    let line = |count: i64| {
        let ranks = mesh.ranks().zip(counts).filter(|(_, c)| **c == count);
        let ranks: Vec<String> = ranks.map(|(rank, _)| rank.to_string()).collect();
        let (shown, more) = (ranks[..ranks.len().min(8)].join(", "), if ranks.len() > 8 { ", .." } else { "" });
        format!("{count}: rank{} {shown}{more}", if ranks.len() == 1 { "" } else { "s" })
    };
    different.into_iter().map(line).collect()
}

fn describe(result: &DTensor) -> Result<Vec<i64>> {
    let local = result.local()?;
    let mut words = vec![0; WORDS];
    words[0] = digest(local)? as i64;
    words[1] = local.rank() as i64;
    let shapes = [result.shape()?, local.dims()];
    for (half, shape) in shapes.into_iter().enumerate() {
        let start = 2 + half * MOST_DIMS;
        words[start..].iter_mut().zip(shape.iter().take(MOST_DIMS)).for_each(|(w, &n)| *w = n as i64);
    }
    Ok(words)
}

struct Comparison<'a> {
    mesh: &'a DeviceMesh,
    name: &'a str,
    result: &'a DTensor,
    /// In row-major order of the mesh.
    all: &'a [&'a [i64]],
}

impl Comparison<'_> {
    fn check(&self) -> Result<()> {
        let mesh = self.mesh;
        // All global shapes first: the pieces are those of this rank's label.
        mesh.coords().try_for_each(|coord| self.check_label(&coord))?;
        for coord in mesh.coords() {
            self.check_piece(&coord)?;
            for (axis, placement) in self.result.placements().iter().enumerate() {
                if *placement == Placement::Replicate {
                    self.check_replica(axis, &coord)?;
                }
            }
        }
        Ok(())
    }

    fn words(&self, coord: &[usize]) -> &[i64] {
        self.all[flatten(coord, self.mesh.sizes())]
    }

    /// The rank at `coord` must have labelled the same global tensor as the first.
    fn check_label(&self, coord: &Coord) -> Result<()> {
        let (first, global) = (self.all[0], &self.words(coord)[1..2 + MOST_DIMS]);
        if *global != first[1..2 + MOST_DIMS] {
            let line = format!(
                "{} has a global shape of {:?}, {} has {:?}",
                self.rank(&self.first()),
                shape(&first[1..]),
                self.rank(coord),
                shape(global)
            );
            return Err(self.wrong(
                "the ranks do not agree on the shape",
                line,
                "make all ranks return pieces of one tensor",
            ));
        }
        Ok(())
    }

    /// The rank at `coord` must hold its piece of that tensor.
    fn check_piece(&self, coord: &Coord) -> Result<()> {
        let local = &self.words(coord)[2 + MOST_DIMS..];
        let expected = self.result.spec()?.piece(coord).shape();
        let given: Dims = local.iter().take(expected.len()).map(|&n| n as usize).collect();
        if expected.len() <= MOST_DIMS && given != expected {
            let line = format!("{} returned {given:?}, its piece is {expected:?}", self.rank(coord));
            return Err(self.wrong(
                "a rank returned another shape than that of its piece",
                line,
                "write `Shard(.., ragged)` in `out`, or return the piece",
            ));
        }
        Ok(())
    }

    /// The rank at `coord` must hold the same bits as the first rank along a replicated axis.
    fn check_replica(&self, axis: usize, coord: &Coord) -> Result<()> {
        let mut other = coord.clone();
        other[axis] = 0;
        if self.words(&other)[0] == self.words(coord)[0] {
            return Ok(());
        }
        let name = self.mesh.name(axis);
        let line = format!("axis `{name}`: {} and {} hold different bits", self.rank(&other), self.rank(coord));
        Err(self.wrong(
            "it is labelled Replicate, but its replicas differ",
            line,
            "label it Partial or Shard, or make the body compute the same on every rank of the axis",
        ))
    }

    fn first(&self) -> Coord {
        self.mesh.sizes().iter().map(|_| 0).collect()
    }

    fn rank(&self, coord: &[usize]) -> String {
        match self.mesh.rank_at(coord) {
            Some(rank) => format!("rank {rank}"),
            None => "no rank".to_owned(),
        }
    }

    fn wrong(&self, what: &str, line: String, advice: &str) -> Error {
        Error::Placement(Report::new(format!("{}: {what}", self.name)).on(self.mesh).offender(line).advice(advice))
    }
}

/// The shape in words that begin with the number of dimensions.
fn shape(words: &[i64]) -> &[i64] {
    let rank = usize::try_from(words[0]).unwrap_or(0).min(MOST_DIMS);
    &words[1..=rank]
}
