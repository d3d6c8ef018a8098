//! Rows of the report.

use std::error::Error;

use serde_json::{Value, json};

use crate::measure::Samples;

/// What was measured, and the samples in microseconds per call.
pub(crate) struct Row {
    pub(crate) workload: &'static str,
    pub(crate) case: String,
    pub(crate) ranks: usize,
    pub(crate) size: String,
    pub(crate) dtype: &'static str,
    pub(crate) note: String,
    pub(crate) inner: usize,
    pub(crate) samples: Vec<f64>,
}

impl Row {
    /// A row without a note.
    pub(crate) fn new(
        workload: &'static str,
        case: impl Into<String>,
        ranks: usize,
        size: impl Into<String>,
        dtype: &'static str,
        samples: Samples,
    ) -> Row {
        let Samples { inner, micros: samples } = samples;
        Row { workload, case: case.into(), ranks, size: size.into(), dtype, note: String::new(), inner, samples }
    }

    fn quantile(&self, q: f64) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len().saturating_sub(1)) as f64 * q;
        sorted.get(at.round() as usize).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    fn json(&self) -> Value {
        json!({
            "peer": "local-map", "version": env!("CARGO_PKG_VERSION"), "workload": self.workload, "case": self.case,
            "ranks": self.ranks, "size": self.size, "dtype": self.dtype, "median_us": self.median(),
            "p10": self.quantile(0.1), "p90": self.quantile(0.9), "min_us": self.quantile(0.0),
            "samples": self.samples.len(), "inner": self.inner, "note": self.note,
        })
    }
}

/// A number of microseconds with three significant digits.
fn digits(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.3}"),
        us if us < 100.0 => format!("{us:.1}"),
        us => format!("{us:.0}"),
    }
}

pub(crate) fn print_table(rows: &[Row]) {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["", "case", "ranks", "size", "dtype", "median us", "p10", "p90", "min", "note"]);
    for row in rows {
        let [median, p10, p90, min] = [0.5, 0.1, 0.9, 0.0].map(|q| digits(row.quantile(q)));
        let ranks = row.ranks.to_string();
        table.add_row([row.workload, &row.case, &ranks, &row.size, row.dtype, &median, &p10, &p90, &min, &row.note]);
    }
    println!("{table}");
}

pub(crate) fn write_json(file: &str, rows: &[Row]) -> Result<(), Box<dyn Error>> {
    let rows: Vec<Value> = rows.iter().map(Row::json).collect();
    std::fs::write(file, serde_json::to_string_pretty(&rows)?).map_err(|e| format!("cannot write {file}: {e}"))?;
    Ok(())
}
