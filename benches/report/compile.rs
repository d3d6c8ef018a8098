//! What annotated functions cost the compiler: `cargo check` of a crate with 200 of them, and of the same crate without attributes.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::measure::Samples;
use crate::rows::Row;

const FUNCTIONS: usize = 200;
const SAMPLES: usize = 5;

/// Shapes of functions that a model would have, over and over.
const SHAPES: [(&str, &str); 5] = [
    (
        "in = [[Shard(0), Replicate], [Replicate, Shard(1)]], out = [Shard(0), Shard(1)]",
        "(x: &Tensor, w: &Tensor) -> Result<Tensor> { x.matmul(w) }",
    ),
    (
        "in = [[Shard(0), Replicate], _], out = [[Partial(Sum), Replicate], [Shard(0), Replicate]], reshard",
        "(x: &Tensor, by: f64) -> Result<(Tensor, Tensor)> { Ok((x.sum_all()?, (x * by)?)) }",
    ),
    ("out = _", "(x: &Tensor, name: &str) -> Result<String> { Ok(format!(\"{name} {}\", x.rank())) }"),
    (
        "in = [[Shard(0)], [Shard(0)]], out = [Partial(Max)], check",
        "(all: &[Tensor], mask: Option<&Tensor>) -> Result<Tensor> { mask.unwrap_or(&all[0]).max(0) }",
    ),
    (
        "in = [[Shard(0)], _], out = [Shard(0)], recompute",
        "(x: &Tensor, layers: usize) -> Result<Tensor> { (0..layers).try_fold(x.clone(), |x, _| x.sin()) }",
    ),
];

/// The time of `cargo check` of both crates, and how much longer the first takes.
pub(crate) fn w7(rows: &mut Vec<Row>) -> Result<(), Box<dyn Error>> {
    let annotated = checked("annotated", &source(true))?;
    let plain = checked("plain", &source(false))?;
    let more = annotated.iter().zip(&plain).map(|(annotated, plain)| annotated - plain).collect();
    let size = format!("{FUNCTIONS} fns");
    for (case, micros) in [("check, annotated", annotated), ("check, plain", plain), ("the attributes", more)] {
        rows.push(Row::new("W7", case, 1, size.as_str(), "", Samples { inner: 1, micros }));
    }
    Ok(())
}

fn source(annotated: bool) -> String {
    let mut text =
        "#![allow(dead_code, unused_imports)]\nuse candle_core::{Result, Tensor};\nuse local_map::prelude::*;\n"
            .to_owned();
    for (number, (args, rest)) in SHAPES.iter().cycle().take(FUNCTIONS).enumerate() {
        let attribute = if annotated { format!("#[local_map({args})]\n") } else { String::new() };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{attribute}pub fn f{number}{rest}");
    }
    text
}

/// Seconds of checking a crate with this source, in microseconds; its dependencies are checked before.
fn checked(name: &str, source: &str) -> Result<Vec<f64>, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = target();
    let folder = target.join("w7").join(name);
    fs::create_dir_all(folder.join("src"))?;
    let manifest = format!(
        "[package]\nname = \"w7-{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         local-map = {{ path = {root:?} }}\ncandle-core = \"0.11\"\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let file = folder.join("src/lib.rs");
    fs::write(&file, source)?;
    let check = || -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        let output = Command::new(env!("CARGO"))
            .args(["check", "--quiet"])
            .current_dir(&folder)
            .env("CARGO_TARGET_DIR", target.join("w7/target"))
            .env("CARGO_INCREMENTAL", "0")
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(start.elapsed().as_secs_f64() * 1e6)
    };
    check()?;
    (0..SAMPLES)
        .map(|_| {
            fs::write(&file, source)?;
            check()
        })
        .collect()
}

/// The folder that this program was built into.
fn target() -> PathBuf {
    let folder = std::env::current_exe().ok().and_then(|exe| exe.ancestors().nth(3).map(Path::to_path_buf));
    folder.unwrap_or_else(|| PathBuf::from("target"))
}
