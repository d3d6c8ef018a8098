//! The classifier: an embedding, the mixture-of-experts layer and a linear head.

use candle_core::{Device, Result, Tensor};
use local_map::prelude::*;

use crate::digits::{CLASSES, PIXELS};
use crate::layer::mixture;
use crate::{EXPERTS, SEED};

/// The length of an embedded token, and of an expert's hidden layer.
const WIDTH: usize = 32;
const HIDDEN: usize = 32;

/// Gradients are reduced once per step, all together: `defer_reduction` leaves them partial until then.
pub(crate) struct Model {
    embedding: Param,
    router: Param,
    up: Param,
    down: Param,
    head: Param,
}

/// What one forward pass gives: class scores, and what the router did.
pub(crate) struct Forward {
    pub(crate) scores: DTensor,
    pub(crate) logits: DTensor,
    pub(crate) choice: DTensor,
}

impl Model {
    /// The same values on every mesh, each rank taking its piece.
    pub(crate) fn new(mesh: &DeviceMesh) -> Result<Model> {
        let mut random = Random(SEED);
        let mut param = |shape: &[usize], experts: Placement| -> Result<Param> {
            let whole = random.matrices(shape)?;
            Ok(Param::new(&DTensor::shard(&whole, mesh, &[Replicate, experts])?)?.defer_reduction()?)
        };
        Ok(Model {
            embedding: param(&[PIXELS, WIDTH], Replicate)?,
            router: param(&[WIDTH, EXPERTS], Replicate)?,
            up: param(&[EXPERTS, WIDTH, HIDDEN], Shard(0))?,
            down: param(&[EXPERTS, HIDDEN, WIDTH], Shard(0))?,
            head: param(&[WIDTH, CLASSES], Replicate)?,
        })
    }

    pub(crate) fn parameters(&self) -> [&Param; 5] {
        [&self.embedding, &self.router, &self.up, &self.down, &self.head]
    }

    pub(crate) fn forward(&self, tokens: &DTensor) -> Result<Forward> {
        let x = project(tokens, &self.embedding)?;
        let (x, logits, choice) = mixture(&x, &self.router, &self.up, &self.down)?;
        let scores = project(&x, &self.head)?;
        Ok(Forward { scores: scores.erase(), logits: logits.erase(), choice: choice.erase() })
    }
}

#[local_map(in = [[Shard(0), Shard(0)], [Replicate, Replicate]], out = [Shard(0), Shard(0)])]
fn project(x: &Tensor, weights: &Tensor) -> Result<Tensor> {
    x.matmul(weights)
}

/// Random numbers that are the same in every run: SplitMix64.
struct Random(u64);

impl Random {
    /// Uniform in -1..1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let z = z ^ (z >> 31);
        (z >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// Matrices, along the last two dimensions, that keep the size of a row that they are multiplied with (Glorot).
    fn matrices(&mut self, shape: &[usize]) -> Result<Tensor> {
        let sides: usize = shape.iter().rev().take(2).sum();
        let bound = (6.0 / sides as f64).sqrt();
        let values = (0..shape.iter().product()).map(|_| bound * self.uniform()).collect();
        // In f64, so that a token's nearly equal experts rank alike whatever rows share its matrix product.
        Tensor::from_vec(values, shape, &Device::Cpu)
    }
}
