//! The engine for ranks that are threads of one process: they read each other's buffers in place.

mod output;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use local_map_rendezvous::{Broken, Group, Roster};
use smallvec::SmallVec;

use super::buffer::{Buffer, Finish, HostMemory, HostRead, Memory};
use super::call::{Call, check_agreement, fingerprint};
use super::{Counts, Transport};
use crate::error::{Error, Report, Result};
use crate::plan::Routes;
use crate::shard::Span;
use output::{NoOutput, Output};

/// The ranks of one process and the groups they have formed.
pub(super) struct Threads {
    roster: Arc<Roster>,
    /// By the list of their ranks.
    groups: Mutex<HashMap<Vec<usize>, Arc<Meeting>>>,
}

/// A group that exchanges deposits.
struct Meeting {
    group: Arc<Group<Arc<Deposit>>>,
    /// Whether the member at this position is in a meeting: a round belongs to one call of each.
    busy: Vec<Busy>,
}

/// One member's flag, on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Busy(AtomicBool);

/// A member's stay in a meeting.
struct Stay<'a>(&'a Busy);

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

/// What a rank brings to a meeting.
///
/// What every peer reads stands at its beginning, apart from the counter that all of them write.
#[repr(C)]
struct Deposit {
    /// Of `call`.
    fingerprint: u64,
    input: Option<Buffer>,
    counts: Option<Counts>,
    /// Brought by the first of the ranks that share a result.
    output: Option<Output>,
    call: Call,
    /// In the first rank's deposit: how many ranks have read all they need.
    finished: AtomicUsize,
}

/// One thread's membership in a group.
struct Member {
    meeting: Arc<Meeting>,
    me: usize,
}

impl Threads {
    pub(super) fn new(roster: Arc<Roster>) -> Threads {
        Threads { roster, groups: Mutex::default() }
    }

    /// The membership of the rank at position `me`; the members of a group find each other by its list of ranks.
    pub(super) fn join(&self, ranks: Vec<usize>, me: usize) -> Arc<dyn Transport> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let meeting = groups.entry(ranks).or_insert_with_key(|ranks| {
            let busy = ranks.iter().map(|_| Busy::default()).collect();
            Arc::new(Meeting { group: Group::new(&self.roster, ranks.clone()), busy })
        });
        Arc::new(Member { meeting: meeting.clone(), me })
    }
}

impl Deposit {
    fn new(call: &Call, input: Option<Buffer>) -> Deposit {
        Deposit {
            fingerprint: fingerprint(call),
            call: call.clone(),
            input,
            counts: None,
            output: None,
            finished: AtomicUsize::new(0),
        }
    }
}

impl Transport for Member {
    fn position(&self) -> usize {
        self.me
    }

    fn ready(&self, _: &Call) -> Result<()> {
        Ok(())
    }

    fn size(&self) -> usize {
        self.meeting.group.members().len()
    }

    fn exchange(&self, call: &Call, input: Option<Buffer>, routes: &Routes, finish: &dyn Finish) -> Result<Buffer> {
        let mut deposit = Deposit::new(call, self.in_host_memory(call, input)?);
        if routes.share.first() == Some(&self.me) {
            deposit.output = Some(output_for(call, routes, routes.share.len())?);
        }
        let _stay = self.enter(call)?;
        let all = self.meet(deposit)?;
        let result = self.take_part(&all, routes, finish);
        self.finish(&all)?;
        result?;
        let leader = routes.share.first().map_or(self.me, |&first| first);
        let output = all[leader].output.as_ref();
        output.and_then(Output::buffer).ok_or_else(|| self.disagreement(call))
    }

    fn all_to_all(&self, call: &Call, input: Buffer, counts: &Counts, finish: &dyn Finish) -> Result<Buffer> {
        let mut deposit = Deposit::new(call, self.in_host_memory(call, Some(input))?);
        deposit.counts = Some(counts.clone());
        let _stay = self.enter(call)?;
        let all = self.meet(deposit)?;
        let result = self.take_runs(call, &all, finish);
        self.finish(&all)?;
        result
    }

    fn send(&self, call: &Call, to: usize, input: Buffer, finish: &dyn Finish) -> Result<()> {
        let len = input.len;
        let input = self.in_host_memory(call, Some(input))?;
        let copy = produce(call, &Routes::broadcast(0, len, [0]), &[&input], finish)?;
        let deposit = Arc::new(Deposit::new(call, Some(copy)));
        self.meeting.group.send(self.me, to, deposit).map_err(|b| broken(call, b))
    }

    fn recv(&self, call: &Call, from: usize) -> Result<Buffer> {
        let deposit = self.meeting.group.recv(self.me, from, call).map_err(|b| broken(call, b))?;
        let ranks = self.meeting.group.members();
        let pair = [(ranks[from], &deposit.call), (ranks[self.me], call)];
        check_agreement(pair.into_iter())?;
        deposit.input.clone().ok_or_else(|| self.disagreement(call))
    }

    fn barrier(&self, call: &Call) -> Result<()> {
        let _stay = self.enter(call)?;
        self.meet(Deposit::new(call, None)).map(|_| ())
    }
}

impl Member {
    /// Begins a call; a second one of the same rank at the same time, from another thread, would take part in the same round.
    fn enter(&self, call: &Call) -> Result<Stay<'_>> {
        let busy = &self.meeting.busy[self.me];
        if busy.0.swap(true, Ordering::Acquire) {
            let rank = self.meeting.group.members()[self.me];
            return Err(Error::Mismatch(
                Report::new(format!("{call}: rank {rank} is in another collective of this group already"))
                    .advice("let one thread of a rank make its collective calls, one after the other"),
            ));
        }
        Ok(Stay(busy))
    }

    /// Meets all members, who must have called the same.
    fn meet(&self, deposit: Deposit) -> Result<Vec<Arc<Deposit>>> {
        let deposit = Arc::new(deposit);
        let all =
            self.meeting.group.meet(self.me, deposit.clone(), &deposit.call).map_err(|b| broken(&deposit.call, b))?;
        if all.iter().any(|d| d.fingerprint != all[0].fingerprint) {
            let ranks = self.meeting.group.members().iter().copied();
            check_agreement(ranks.zip(all.iter().map(|d| &d.call)))?;
        }
        Ok(all)
    }

    /// Fills this rank's part of the output that it shares.
    fn take_part(&self, all: &[Arc<Deposit>], routes: &Routes, finish: &dyn Finish) -> Result<()> {
        let call = &all[self.me].call;
        let leader = routes.share.first().map_or(self.me, |&first| first);
        let part = routes.share.iter().position(|&r| r == self.me).unwrap_or(0);
        let Some(output) = &all[leader].output else {
            return Err(self.disagreement(call));
        };
        let inputs: SmallVec<[&Option<Buffer>; 8]> = all.iter().map(|d| &d.input).collect();
        fill(output, routes, (part, routes.share.len()), &inputs, finish).map_err(|_| self.disagreement(call))
    }

    /// Concatenates the runs that the other ranks have cut for this one.
    fn take_runs(&self, call: &Call, all: &[Arc<Deposit>], finish: &dyn Finish) -> Result<Buffer> {
        let counts: Vec<&Counts> = all.iter().filter_map(|d| d.counts.as_ref()).collect();
        check_counts(call, self.meeting.group.members(), &counts)?;
        let runs: Vec<Span> = counts.iter().map(|c| c.run_to(self.me)).collect();
        let inputs: SmallVec<[&Option<Buffer>; 8]> = all.iter().map(|d| &d.input).collect();
        produce(call, &Routes::runs(self.me, &runs), &inputs, finish)
    }

    /// Waits until no member reads any other's input, so that inputs may be written again.
    fn finish(&self, all: &[Arc<Deposit>]) -> Result<()> {
        let (finished, count) = (&all[0].finished, all.len());
        if finished.fetch_add(1, Ordering::AcqRel) + 1 == count {
            self.meeting.group.notify();
            return Ok(());
        }
        let call = &all[self.me].call;
        let done = || finished.load(Ordering::Acquire) == count;
        self.meeting.group.wait_until(self.me, call, &done).map_err(|b| broken(call, b))
    }

    fn in_host_memory(&self, call: &Call, input: Option<Buffer>) -> Result<Option<Buffer>> {
        match input.as_ref().map(|b| &b.memory) {
            Some(Memory::Device(device)) => Err(Error::Unsupported(
                Report::new(format!("{call}: the threads engine moves host memory only"))
                    .offender(format!("the tensor is on CUDA device {}", device.ordinal))
                    .advice("build with the feature `nccl` and use its engine, or move the tensor to the CPU first"),
            )),
            _ => Ok(input),
        }
    }

    fn disagreement(&self, call: &Call) -> Error {
        let rank = self.meeting.group.members()[self.me];
        Error::Mismatch(
            Report::new(format!("{call}: rank {rank} expects other buffers than its peers brought"))
                .advice("make sure that the local tensors have the lengths that their specs say"),
        )
    }
}

fn output_for(call: &Call, routes: &Routes, parts: usize) -> Result<Output> {
    Output::new(call.dtype, routes, parts).map_err(|why| match why {
        NoOutput::NoArithmetic => {
            let name = call.dtype.as_str();
            Error::DType(Report::new(format!("{call}: tensors of type {name} cannot be exchanged")))
        }
        NoOutput::NoMemory => Error::Shape(
            Report::new(format!("{call}: there is no memory for the result"))
                .offender(format!("it has {} elements", routes.len))
                .advice("check the shapes and lengths that this rank gives"),
        ),
    })
}

/// A result of this rank alone.
fn produce(call: &Call, routes: &Routes, inputs: &[&Option<Buffer>], finish: &dyn Finish) -> Result<Buffer> {
    let output = output_for(call, routes, 1)?;
    let filled = fill(&output, routes, (0, 1), inputs, finish);
    filled
        .ok()
        .and_then(|()| output.buffer())
        .ok_or_else(|| Error::Mismatch(Report::new(format!("{call}: a buffer is shorter than its counts say"))))
}

/// Fills a part of the output while the sources that its routes name are held for reading.
///
/// Each storage is locked once and in the order of their identities: results are shared by ranks, and a thread that locked
/// one twice, or two in another order than its peers, could wait for ever beside a writer.
fn fill(
    output: &Output,
    routes: &Routes,
    part: (usize, usize),
    inputs: &[&Option<Buffer>],
    finish: &dyn Finish,
) -> std::result::Result<(), super::assemble::OutOfBounds> {
    let named = |position: usize| routes.routes.iter().any(|route| route.from.contains(&position));
    let memories: SmallVec<[Option<&dyn HostMemory>; 8]> = inputs
        .iter()
        .enumerate()
        .map(|(position, input)| match &input.as_ref().filter(|_| named(position))?.memory {
            Memory::Host(memory) => Some(&**memory),
            Memory::Device(_) => None,
        })
        .collect();
    let mut order: SmallVec<[&dyn HostMemory; 8]> = memories.iter().flatten().copied().collect();
    order.sort_by_key(|memory| memory.storage());
    order.dedup_by_key(|memory| memory.storage());
    let guards: SmallVec<[(usize, Box<dyn HostRead + '_>); 8]> =
        order.iter().map(|memory| (memory.storage(), memory.read())).collect();
    let source = |memory: &dyn HostMemory| {
        let guard = guards.iter().find(|(storage, _)| *storage == memory.storage());
        guard.map(|(_, guard)| guard.elements(memory.range()))
    };
    let sources: SmallVec<[_; 8]> = memories.iter().map(|memory| memory.and_then(source)).collect();
    output.fill(routes, part, &sources, finish)
}

/// Every rank must expect what its peers send; all ranks see all counts, so all agree on the verdict.
fn check_counts(call: &Call, ranks: &[usize], counts: &[&Counts]) -> Result<()> {
    let mut report = Report::new(format!("{call}: ranks expect other lengths than their peers send"));
    let mut agree = counts.len() == ranks.len();
    for (from, sender) in counts.iter().enumerate() {
        for (to, receiver) in counts.iter().enumerate() {
            let (sent, expected) = (sender.send[to], receiver.receive[from]);
            if sent != expected {
                agree = false;
                let (from, to) = (ranks[from], ranks[to]);
                report =
                    report.offender(format!("rows: rank {from} sends {sent} to rank {to}, which expects {expected}"));
            }
        }
    }
    let report = report.advice("make every `receive[r]` what rank r's `send` says for this rank");
    if agree { Ok(()) } else { Err(Error::Mismatch(report)) }
}

fn broken(call: &Call, broken: Broken) -> Error {
    let doing = call.to_string();
    match broken {
        Broken::PeerFailed { rank, cause } => Error::PeerFailed { doing, rank, cause: cause.to_string() },
        Broken::PeerReturned { rank } => Error::PeerReturned { doing, rank },
        Broken::TimedOut { waited, arrived, missing, .. } => {
            Error::TimedOut(timeout(doing, waited, &arrived, &missing))
        }
    }
}

fn timeout(
    doing: String,
    waited: std::time::Duration,
    arrived: &[(usize, String)],
    missing: &[(usize, String)],
) -> Report {
    let report = Report::new(format!("{doing}: not all ranks arrived within {waited:.1?}"));
    let report = missing.iter().fold(report, |r, (rank, place)| r.offender(format!("rank {rank} is missing: {place}")));
    let report = arrived.iter().fold(report, |r, (rank, place)| r.offender(format!("rank {rank} is here: {place}")));
    report.advice("look at the missing ranks first; LOCAL_MAP_TIMEOUT sets the deadline in seconds")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::panic::Location;

    use candle_core::DType;
    use local_map_rendezvous::Limits;

    use super::*;
    use crate::comm::buffer::DeviceMemory;
    use crate::comm::elements::HostVec;

    struct Nowhere;

    impl Finish for Nowhere {
        fn finish(&self, _: HostVec) -> Buffer {
            unreachable!("nothing is produced")
        }
    }

    #[test]
    fn a_cuda_tensor_is_refused_with_the_name_of_the_feature_that_moves_it() {
        let threads = Threads::new(Roster::new(1, Limits::default()));
        let owner = Arc::new(());
        let device = DeviceMemory { ordinal: 3, address: 0, stream: 0, owner };
        let input = Buffer { dtype: DType::F32, len: 2, memory: Memory::Device(device) };
        let call = Call { site: Location::caller(), ..Call::new("all-reduce", DType::F32, &[2]) };
        let routes = Routes::all_reduce(1, 2, crate::placement::ReduceOp::Sum);
        let refused = threads.join(vec![0], 0).exchange(&call, Some(input), &routes, &Nowhere);
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("CUDA device 3") && message.contains("`nccl`"), "{message}");
    }
}
