//! The digits as tokens and labels, four fifths to train on and one to test with.

use candle_core::{Device, Error, Result, Tensor};
use flate2::read::GzDecoder;

pub(crate) const PIXELS: usize = 64;
pub(crate) const CLASSES: usize = 10;

/// One in so many rows is held out.
const HELD_OUT: usize = 5;

/// Tokens `[n, PIXELS]` in 0..=1 and their labels `[n]`.
pub(crate) struct Part {
    pub(crate) tokens: Tensor,
    pub(crate) labels: Tensor,
}

pub(crate) struct Digits {
    pub(crate) training: Part,
    pub(crate) held_out: Part,
}

impl Digits {
    pub(crate) fn read() -> Result<Digits> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits.csv.gz");
        let lines = lines(path).map_err(|e| Error::Msg(format!("cannot read {path}: {e}")))?;
        let every = lines.into_iter().enumerate();
        let (held_out, training): (Vec<_>, Vec<_>) = every.partition(|(row, _)| row % HELD_OUT == 0);
        Ok(Digits { training: part(training)?, held_out: part(held_out)? })
    }
}

fn lines(path: &str) -> csv::Result<Vec<Vec<f64>>> {
    let file = GzDecoder::new(std::fs::File::open(path)?);
    let mut csv = csv::ReaderBuilder::new();
    let csv = csv.has_headers(false).from_reader(file);
    csv.into_deserialize().collect()
}

/// The pixels of each line, 0..=16, and the label that ends it.
fn part(rows: Vec<(usize, Vec<f64>)>) -> Result<Part> {
    let lines: Vec<Vec<f64>> = rows.into_iter().map(|(_, line)| line).collect();
    let lines = Tensor::new(lines, &Device::Cpu)?;
    let labels = lines.narrow(1, PIXELS, 1)?.flatten_all()?.to_dtype(candle_core::DType::U32)?;
    Ok(Part { tokens: (lines.narrow(1, 0, PIXELS)? / 16.0)?, labels })
}
