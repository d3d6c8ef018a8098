//! W2 and W3: reshards on one axis and on two.

use std::hint::black_box;

use candle_core::{DType, Device, Tensor};
use local_map::prelude::*;
use local_map::{Result, launch};

use crate::measure::{sample, slowest};
use crate::rows::Row;

/// A reshard of a tensor of some size.
struct Case {
    workload: &'static str,
    name: &'static str,
    axes: &'static [(&'static str, usize)],
    from: &'static [Placement],
    to: &'static [Placement],
    dtype: DType,
    bytes: usize,
}

/// The tuned C program's microseconds of BENCH at 4 KiB, 256 KiB, 4 MiB and 64 MiB, where it has them.
type Tuned = [Option<f64>; 4];

const SIZES: [(usize, &str); 4] = [(4 << 10, "4KiB"), (256 << 10, "256KiB"), (4 << 20, "4MiB"), (64 << 20, "64MiB")];

const S0: Placement = Shard(0);
const S1: Placement = Shard(1);
const P: Placement = Partial(Sum);
const R: Placement = Replicate;

const fn some(us: [f64; 4]) -> Tuned {
    [Some(us[0]), Some(us[1]), Some(us[2]), Some(us[3])]
}

pub(crate) fn w2(ranks: usize, rows: &mut Vec<Row>) -> Result<()> {
    let axes: &'static [(&'static str, usize)] = Box::leak(Box::new([("dp", ranks)]));
    let tuned = |two: Tuned, four: Tuned| match ranks {
        2 => two,
        4 => four,
        _ => [None; 4],
    };
    let cases: [(&'static str, &'static [Placement], &'static [Placement], Tuned); 5] = [
        ("S0->R", &[S0], &[R], tuned(some([0.20, 7.7, 151.0, 6587.0]), [None; 4])),
        ("P->R", &[P], &[R], tuned(some([0.29, 7.6, 145.0, 6381.0]), some([6.4, 23.0, 342.0, 11718.0]))),
        ("P->S0", &[P], &[S0], tuned(some([0.25, 5.4, 108.0, 4413.0]), [None; 4])),
        ("S0->S1", &[S0], &[S1], tuned(some([0.31, 4.2, 80.0, 3712.0]), [None; 4])),
        ("R->S0", &[R], &[S0], [None; 4]),
    ];
    for (name, from, to, tuned) in cases {
        for ((bytes, size), tuned) in SIZES.into_iter().zip(tuned) {
            let case = Case { workload: "W2", name, axes, from, to, dtype: DType::F32, bytes };
            rows.push(measure(&case, size, tuned)?);
        }
    }
    let halves = tuned([None, None, Some(214.0), Some(6358.0)], [None; 4]);
    for ((bytes, size), tuned) in SIZES.into_iter().zip(halves).skip(2) {
        let case = Case { workload: "W2", name: "P->R", axes, from: &[P], to: &[R], dtype: DType::BF16, bytes };
        rows.push(measure(&case, size, tuned)?);
    }
    Ok(())
}

pub(crate) fn w3(rows: &mut Vec<Row>) -> Result<()> {
    let cases: [(&'static str, &'static [Placement], &'static [Placement], f64); 3] = [
        ("[S0,S0]->[R,R]", &[S0, S0], &[R, R], 356.0),
        ("[P,S0]->[S0,R]", &[P, S0], &[S0, R], 147.0),
        ("[S0,S1]->[S1,S0]", &[S0, S1], &[S1, S0], 70.0),
    ];
    let axes: &'static [(&'static str, usize)] = &[("a", 2), ("b", 2)];
    for (name, from, to, tuned) in cases {
        let case = Case { workload: "W3", name, axes, from, to, dtype: DType::F32, bytes: 4 << 20 };
        rows.push(measure(&case, "4MiB", Some(tuned))?);
    }
    Ok(())
}

/// The most nearly square shape of so many elements, a power of two.
fn shape(elements: usize) -> (usize, usize) {
    let rows = 1 << (elements.ilog2() / 2);
    (rows, elements / rows)
}

impl Case {
    fn ranks(&self) -> usize {
        self.axes.iter().map(|(_, size)| size).product()
    }

    /// This rank's local tensor: small integers by global position, exact in every element type; all addends are equal.
    fn start(&self, mesh: &DeviceMesh) -> Result<DTensor> {
        let (rows, columns) = shape(self.bytes / self.dtype.size_in_bytes());
        let counting = |n: usize, modulus: usize| -> Vec<f32> { (0..n).map(|i| (i % modulus) as f32).collect() };
        let row = Tensor::new(counting(columns, 7), &Device::Cpu)?;
        let column = Tensor::new(counting(rows, 5), &Device::Cpu)?;
        let whole = column.unsqueeze(1)?.broadcast_add(&row.unsqueeze(0)?)?.to_dtype(self.dtype)?;
        let cut: Vec<Placement> = self.from.iter().map(|p| if *p == P { R } else { *p }).collect();
        let local = DTensor::shard(&whole, mesh, &cut)?.to_local()?.force_contiguous()?;
        DTensor::from_local(local, mesh, self.from)
    }

    /// The result against the one that goes through plain tensors.
    fn check(&self, x: &DTensor) -> Result<()> {
        let addends: usize = self.axes.iter().zip(self.from).filter(|(_, p)| **p == P).map(|((_, n), _)| n).product();
        let cut: Vec<Placement> = self.from.iter().map(|p| if *p == P { R } else { *p }).collect();
        let whole = DTensor::from_local(x.to_local()?, x.mesh(), &cut)?.full()?;
        let expected = DTensor::shard(&(whole * addends as f64)?, x.mesh(), self.to)?.to_local()?;
        let given = x.reshard(self.to)?.to_local()?;
        let off = (given.to_dtype(DType::F32)? - expected.to_dtype(DType::F32)?)?.abs()?.max_all()?;
        assert_eq!(off.to_scalar::<f32>()?, 0.0, "{} is right", self.name);
        Ok(())
    }
}

fn measure(case: &Case, size: &str, tuned: Option<f64>) -> Result<Row> {
    let ranks = launch(case.ranks(), |world| -> Result<_> {
        let mesh = world.mesh(case.axes.iter().copied())?;
        let x = case.start(&mesh)?;
        case.check(&x)?;
        sample(&mesh.communicator(&[])?, || black_box(&x).reshard(case.to))
    })?;
    let samples = slowest(ranks);
    let mut row = Row::new(case.workload, case.name, case.ranks(), size, case.dtype.as_str(), samples);
    if let Some(tuned) = tuned {
        row.note = format!("{:.2} x tuned C", row.median() / tuned);
    }
    Ok(row)
}
