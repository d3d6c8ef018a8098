//! What a person sees of the training: a progress bar, or lines where there is no terminal, and tables in the end.

use std::fmt;

use candle_core::{Error, Result};
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{EXPERTS, History, Run, Shape};

/// Steps from one line to the next where there is no terminal for a bar.
const LINE_EVERY: usize = 20;

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(dp={}, ep={})", self.dp, self.ep)
    }
}

pub(crate) struct Progress {
    shape: Shape,
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(shape: Shape, steps: usize) -> Result<Progress> {
        let template = "mesh {prefix} {bar:40} step {pos:>3} of {len}\n{wide_msg}";
        let style = ProgressStyle::with_template(template).map_err(Error::wrap)?;
        let bar = ProgressBar::new(steps as u64).with_style(style).with_prefix(shape.to_string());
        Ok(Progress { shape, bar })
    }

    /// Shows where the training is.
    pub(crate) fn show(&self, history: &History) {
        let step = history.loss.len();
        let line = state(history);
        if self.bar.is_hidden() && step.is_multiple_of(LINE_EVERY) {
            println!("mesh {}, step {step:>3}: {line}", self.shape);
        }
        self.bar.set_message(line);
        self.bar.set_position(step as u64);
        if Some(step as u64) == self.bar.length() {
            self.bar.abandon();
        }
    }
}

pub(crate) fn percent(share: f64) -> f64 {
    100.0 * share
}

/// The latest loss, held-out accuracy and load.
fn state(history: &History) -> String {
    let loss = history.loss.last().unwrap_or(&f64::NAN);
    let accuracy = history.accuracy.last().map_or(f64::NAN, |last| percent(last.1));
    let load = history.load.last().map(Vec::as_slice).unwrap_or_default();
    let load: Vec<String> = load.iter().map(|tokens| format!("{tokens:>3}")).collect();
    format!("loss {loss:.4}, held out {accuracy:.1} %, tokens per expert {}", load.join(" "))
}

/// A table whose columns, but for the first, are numbers.
fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The tokens of each expert in the first and the last step.
pub(crate) fn load_table(run: &Run) -> Table {
    let load = &run.history.load;
    let row = |expert: usize| {
        let tokens = |step: Option<&Vec<u32>>| step.map_or(0, |load| load[expert]).to_string();
        vec![expert.to_string(), tokens(load.first()), tokens(load.last())]
    };
    table(&["expert", "tokens, first step", "tokens, last step"], (0..EXPERTS).map(row))
}

/// One row for each run.
pub(crate) fn run_table(runs: &[&Run]) -> Table {
    let row = |run: &&Run| {
        let loss = |loss: Option<&f64>| loss.map_or_else(String::new, |loss| format!("{loss:.6}"));
        let losses = &run.history.loss;
        let accuracy = format!("{:.1} %", percent(run.accuracy()));
        let seconds = format!("{:.1} s", run.seconds);
        vec![run.shape.to_string(), loss(losses.first()), loss(losses.last()), accuracy, seconds]
    };
    table(&["mesh", "first loss", "last loss", "held-out accuracy", "time"], runs.iter().map(row))
}
