//! Trains a mixture-of-experts classifier of handwritten digits on a (dp=2, ep=2) mesh of four ranks.
//!
//! Tokens, here one digit each, are cut over all ranks; the eight experts are cut over `ep`. The router picks two experts for
//! every token, and the body of one region sends each token to the ranks that hold them, and brings the answers back,
//! in lots that differ from rank to rank and from step to step. The loss is that of the whole batch, and `backward` gives its
//! gradient as one device would: the program trains once more on one rank, and asserts that the losses are the same.
//!
//! Run it with `cargo run --example moe_train`; it writes two pictures to a temporary folder, or to that given as an argument.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use candle_core::{Result, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use local_map::prelude::*;

use crate::digits::{Digits, Part};
use crate::model::Model;
use crate::report::Progress;

#[path = "moe_train/digits.rs"]
mod digits;
#[path = "moe_train/dispatch.rs"]
mod dispatch;
#[path = "moe_train/layer.rs"]
mod layer;
#[path = "moe_train/losses.rs"]
mod losses;
#[path = "moe_train/model.rs"]
mod model;
#[path = "moe_train/pictures.rs"]
mod pictures;
#[path = "moe_train/report.rs"]
mod report;

const EXPERTS: usize = 8;
const CHOSEN: usize = 2; // experts per token
const SEED: u64 = 1;
const STEPS: usize = 120;
const EVERY: usize = 5; // steps from one look at the held-out digits to the next
const LEARNING_RATE: f64 = 0.01;
const CLIP: f64 = 1.0; // the largest norm of all gradients together
const LOSS_TOLERANCE: f64 = 1e-4;
const LEAST_ACCURACY: f64 = 0.95;

/// Sizes of the mesh axes.
#[derive(Clone, Copy)]
struct Shape {
    dp: usize,
    ep: usize,
}

/// What a training run went through.
#[derive(Clone, PartialEq)]
struct History {
    /// The loss before each step.
    loss: Vec<f64>,
    /// Tokens of each expert in each step.
    load: Vec<Vec<u32>>,
    /// The share of held-out digits that are classified rightly, after so many steps.
    accuracy: Vec<(usize, f64)>,
}

/// A training run, as all its ranks saw it.
struct Run {
    shape: Shape,
    history: History,
    seconds: f64,
}

impl Run {
    fn accuracy(&self) -> f64 {
        self.history.accuracy.last().map_or(0.0, |last| last.1)
    }
}

/// A part of the digits, cut over the ranks.
struct Sharded {
    tokens: DTensor,
    labels: DTensor,
}

impl Sharded {
    fn new(part: &Part, mesh: &DeviceMesh) -> Result<Sharded> {
        let cut = |whole| DTensor::shard(whole, mesh, &[Shard(0), Shard(0)]);
        Ok(Sharded { tokens: cut(&part.tokens)?, labels: cut(&part.labels)? })
    }
}

/// One rank's side of the training.
struct Trainer {
    model: Model,
    optimizer: AdamW,
    training: Sharded,
    held_out: Sharded,
}

impl Trainer {
    fn new(mesh: &DeviceMesh, digits: &Digits) -> Result<Trainer> {
        let model = Model::new(mesh)?;
        let vars = model.parameters().into_iter().map(Param::var).collect::<local_map::Result<Vec<Var>>>()?;
        let settings = ParamsAdamW { lr: LEARNING_RATE, ..ParamsAdamW::default() };
        Ok(Trainer {
            optimizer: AdamW::new(vars, settings)?,
            training: Sharded::new(&digits.training, mesh)?,
            held_out: Sharded::new(&digits.held_out, mesh)?,
            model,
        })
    }

    /// One step on all digits to train on; the loss before it, and the tokens of each expert.
    fn step(&mut self) -> Result<(f64, Vec<u32>)> {
        let forward = self.model.forward(&self.training.tokens)?;
        let loss = losses::total(&forward.scores, &self.training.labels, &forward.logits, &forward.choice)?;
        let mut gradients = loss.backward()?;
        gradients.reduce()?;
        gradients.clip_global_norm(CLIP)?;
        self.optimizer.step(&gradients.to_store(self.model.parameters())?)?;
        Ok((loss.full()?.to_scalar()?, losses::load(&forward.choice)?.full()?.to_vec1()?))
    }

    fn accuracy(&self) -> Result<f64> {
        no_grad(|| {
            let forward = self.model.forward(&self.held_out.tokens)?;
            let hits: u32 = losses::hits(&forward.scores, &self.held_out.labels)?.full()?.to_scalar()?;
            Ok(f64::from(hits) / self.held_out.tokens.shape()?[0] as f64)
        })
    }
}

/// The program of one rank.
fn train(world: &World, shape: Shape, digits: &Digits, progress: &Progress) -> Result<History> {
    let mesh = world.mesh([("dp", shape.dp), ("ep", shape.ep)])?;
    let mut trainer = Trainer::new(&mesh, digits)?;
    let mut history = History { loss: Vec::new(), load: Vec::new(), accuracy: vec![(0, trainer.accuracy()?)] };
    for step in 1..=STEPS {
        let (loss, load) = trainer.step()?;
        if step.is_multiple_of(EVERY) {
            history.accuracy.push((step, trainer.accuracy()?));
        }
        history.loss.push(loss);
        history.load.push(load);
        if world.rank() == 0 {
            progress.show(&history);
        }
    }
    Ok(history)
}

fn run(shape: Shape, digits: &Digits) -> Result<Run> {
    let start = Instant::now();
    let progress = Progress::new(shape, STEPS)?;
    let mut ranks = launch(shape.dp * shape.ep, |world| train(&world, shape, digits, &progress))?;
    let seconds = start.elapsed().as_secs_f64();
    let history = ranks.swap_remove(0);
    assert!(ranks.iter().all(|other| *other == history), "all ranks see the same, to the last bit");
    Ok(Run { shape, history, seconds })
}

/// The largest difference between the losses of two runs at one step.
fn deviation(a: &Run, b: &Run) -> f64 {
    let differences = a.history.loss.iter().zip(&b.history.loss).map(|(a, b)| (a - b).abs());
    // In the total order what is not a number is the largest, so it does not pass for equality.
    differences.max_by(f64::total_cmp).unwrap_or(f64::NAN)
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let digits = Digits::read()?;
    let sharded = run(Shape { dp: 2, ep: 2 }, &digits)?;
    let single = run(Shape { dp: 1, ep: 1 }, &digits)?;
    let deviation = deviation(&sharded, &single);
    println!("\n{}\n", report::load_table(&sharded));
    println!("{}\n", report::run_table(&[&sharded, &single]));
    println!("the losses of the two runs differ by at most {deviation:.1e}");
    std::fs::create_dir_all(&folder)?;
    for path in [pictures::curves(&folder, &sharded, &single)?, pictures::load(&folder, &sharded)?] {
        println!("wrote {}", path.display());
    }
    assert!(deviation <= LOSS_TOLERANCE, "four ranks and one must have the same losses");
    assert!(sharded.accuracy() >= LEAST_ACCURACY, "held-out accuracy is {}", sharded.accuracy());
    Ok(())
}
