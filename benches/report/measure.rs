//! Samples of a call, on one rank of several that make it together.

use std::hint::black_box;
use std::time::{Duration, Instant};

use candle_core::{Device, Tensor};
use local_map::Result;
use local_map::prelude::*;

const SAMPLES: usize = 21;
const SHORTEST: Duration = Duration::from_millis(2);

/// The scheduler takes tens of milliseconds to give new threads a core each.
const WARM_UP: Duration = Duration::from_millis(100);

/// The calls per sample, and the microseconds per call of each sample.
pub(crate) struct Samples {
    pub(crate) inner: usize,
    pub(crate) micros: Vec<f64>,
}

/// Samples `call` on every rank of `group`.
pub(crate) fn sample<T>(group: &Communicator, mut call: impl FnMut() -> Result<T>) -> Result<Samples> {
    let start = Instant::now();
    let mut inner = calibrate(group, &mut call)?;
    while everybody(group, start.elapsed())? < WARM_UP.as_secs_f64() {
        inner = calibrate(group, &mut call)?;
    }
    let mut micros = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        micros.push(timed(group, inner, &mut call)?.as_secs_f64() * 1e6 / inner as f64);
    }
    Ok(Samples { inner, micros })
}

/// How many calls last long enough, the same on all ranks.
fn calibrate<T>(group: &Communicator, call: &mut impl FnMut() -> Result<T>) -> Result<usize> {
    let mut inner = 1;
    loop {
        let mine = timed(group, inner, call)?;
        let slowest = everybody(group, mine)?;
        if slowest >= SHORTEST.as_secs_f64() {
            return Ok(inner);
        }
        let factor = (SHORTEST.as_secs_f64() * 1.3 / slowest.max(1e-9)).clamp(1.5, 16.0);
        inner = (inner as f64 * factor).ceil() as usize;
    }
}

/// The longest of all ranks' durations, in seconds.
fn everybody(group: &Communicator, mine: Duration) -> Result<f64> {
    let mine = Tensor::new(mine.as_secs_f64(), &Device::Cpu)?;
    Ok(group.all_reduce(&mine, Max)?.to_scalar()?)
}

fn timed<T>(group: &Communicator, inner: usize, call: &mut impl FnMut() -> Result<T>) -> Result<Duration> {
    group.barrier()?;
    let start = Instant::now();
    for _ in 0..inner {
        black_box(call()?);
    }
    let elapsed = start.elapsed();
    group.barrier()?;
    Ok(elapsed)
}

/// The slowest rank's samples.
pub(crate) fn slowest(ranks: Vec<Samples>) -> Samples {
    let mut ranks = ranks.into_iter();
    let first = ranks.next().unwrap_or(Samples { inner: 0, micros: Vec::new() });
    ranks.fold(first, |mut all, rank| {
        all.micros.iter_mut().zip(rank.micros).for_each(|(a, b)| *a = a.max(b));
        all
    })
}
