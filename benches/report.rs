//! The report: what the workloads cost, as a table and as machine-readable rows.
//!
//! `cargo bench --bench report -- [-n RANKS] [-w W1,W1b,W2,W3,W4,W5,W6,W7,memory] [--json FILE]`. One sample is a number of back-to-back calls
//! between two barriers, at least 2 ms long, divided by that number; for several ranks it is the slowest rank's.

#![allow(missing_docs)]

#[path = "report/compile.rs"]
mod compile;
#[path = "report/gradients.rs"]
mod gradients;
#[path = "report/keep.rs"]
mod keep;
#[path = "report/measure.rs"]
mod measure;
#[path = "report/memory.rs"]
mod memory;
#[path = "report/moe.rs"]
mod moe;
#[path = "report/regions.rs"]
mod regions;
#[path = "report/reshards.rs"]
mod reshards;
#[path = "report/rows.rs"]
mod rows;
#[path = "report/worlds.rs"]
mod worlds;

use std::error::Error;

use moe::CHOSEN;
use rows::{Row, print_table, write_json};

/// Results are the cost of new pages unless freed ones are kept, as any long-running program would have it.
#[global_allocator]
static ALLOCATOR: keep::Keep = keep::Keep;

struct Options {
    ranks: Option<usize>,
    workloads: Option<String>,
    json: Option<String>,
}

impl Options {
    fn parse() -> Result<Options, Box<dyn Error>> {
        let mut args = pico_args::Arguments::from_env();
        // cargo passes this to every benchmark.
        args.contains("--bench");
        Ok(Options {
            ranks: args.opt_value_from_str("-n")?,
            workloads: args.opt_value_from_str("-w")?,
            json: args.opt_value_from_str("--json")?,
        })
    }

    fn wants(&self, workload: &str) -> bool {
        let listed = |list: &String| list.split(',').any(|w| w.trim() == workload);
        self.workloads.as_ref().is_none_or(listed)
    }

    /// The numbers of ranks to run a workload on, unless one is asked for.
    fn ranks<'a>(&'a self, usual: &'a [usize]) -> &'a [usize] {
        self.ranks.as_ref().map_or(usual, std::slice::from_ref)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::var_os("RAYON_NUM_THREADS").is_none() {
        return Err("set RAYON_NUM_THREADS=1: the peers' figures have one compute thread per rank".into());
    }
    let options = Options::parse()?;
    let mut rows: Vec<Row> = Vec::new();
    if options.wants("W1") {
        options.ranks(&[1, 2]).iter().try_for_each(|&n| regions::w1(n, &mut rows))?;
    }
    if options.wants("W1b") {
        options.ranks(&[1, 2]).iter().try_for_each(|&n| gradients::w1b(n, &mut rows))?;
    }
    if options.wants("W2") {
        options.ranks(&[2, 4]).iter().try_for_each(|&n| reshards::w2(n, &mut rows))?;
    }
    if options.wants("W3") {
        reshards::w3(&mut rows)?;
    }
    if options.wants("W4") {
        options.ranks(&[1, 2, 4]).iter().try_for_each(|&n| moe::w4(n, &mut rows))?;
    }
    if options.wants("W5") {
        options.ranks(&[1, 2, 4]).iter().try_for_each(|&n| gradients::w5(n, &mut rows))?;
    }
    if options.wants("memory") {
        memory::recompute(&mut rows)?;
    }
    if options.wants("W6") {
        worlds::w6(&mut rows)?;
    }
    if options.wants("W7") {
        compile::w7(&mut rows)?;
    }
    print_table(&rows);
    options.json.map_or(Ok(()), |file| write_json(&file, &rows))
}
