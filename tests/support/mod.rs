//! What several test files need: launches, and tensors as lists of numbers.
#![allow(dead_code)]

use std::time::Duration;

use candle_core::{DType, Device, Tensor};
use local_map::{Error, Launch, Result, World};

/// What [`Error::Rank`] holds.
pub(crate) struct Failure {
    pub(crate) rank: usize,
    pub(crate) cause: Box<dyn std::error::Error + Send + Sync>,
    /// The other ranks that failed, and their messages.
    pub(crate) seen: Vec<(usize, String)>,
}

/// A launch whose waits last an hour: a test that ends was not ended by the deadline.
pub(crate) fn patient(n: usize) -> Launch {
    Launch::new(n).deadline(Duration::from_secs(3600))
}

/// Every rank's value.
pub(crate) fn launched<T: Send>(n: usize, program: impl Fn(World) -> Result<T> + Sync) -> Vec<T> {
    let launch = Launch::new(n).deadline(Duration::from_secs(60));
    launch.run(program).unwrap()
}

/// Runs the test on each of these numbers of ranks.
pub(crate) fn on_ranks(ns: &[usize], test: impl Fn(World) -> Result<()> + Sync) {
    ns.iter().for_each(|&n| drop(launched(n, &test)));
}

/// How the launch fails, which must not wait for its deadline.
pub(crate) fn failure<T, E>(n: usize, program: impl Fn(World) -> std::result::Result<T, E> + Sync) -> Failure
where
    T: Send + std::fmt::Debug,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match patient(n).run(program).unwrap_err() {
        Error::Rank { rank, cause, seen } => Failure { rank, cause, seen },
        other => panic!("not the failure of a rank: {other}"),
    }
}

/// The elements in row-major order; exact for all element types but large i64.
pub(crate) fn elements(x: &Tensor) -> Vec<f64> {
    wide(x).flatten_all().unwrap().to_vec1().unwrap()
}

/// The tensor in f64. candle 0.11.1 never returns from a conversion of f8e4m3 to f64: its `to_f64` calls itself.
pub(crate) fn wide(x: &Tensor) -> Tensor {
    let x = match x.dtype() {
        DType::F8E4M3 => x.to_dtype(DType::F32).unwrap(),
        _ => x.clone(),
    };
    x.to_dtype(DType::F64).unwrap()
}

/// The numbers 0, 1, 2, .. in this shape.
pub(crate) fn counting(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|i| i as f32).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// These numbers, in f64.
pub(crate) fn vector(values: &[f64]) -> Tensor {
    Tensor::new(values, &Device::Cpu).unwrap()
}

/// Numbers in f64 that differ from seed to seed.
pub(crate) fn numbers(seed: usize, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f64> = (0..count).map(|i| ((i * 7 + seed * 13) % 11) as f64 / 7.0 - 0.6).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// Fails unless the two are equal to 1e-9.
#[track_caller]
pub(crate) fn assert_near(given: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(given.dims(), expected.dims(), "{what}");
    for (given, expected) in elements(given).into_iter().zip(elements(expected)) {
        assert!((given - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{what}: {given} is not {expected}");
    }
}

/// The message of an error of a region, without the line that it was called at, which must be there.
pub(crate) fn said(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let (site, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("  called at tests/"));
    assert_eq!(site.len(), 1, "{text}");
    rest.join("\n")
}
