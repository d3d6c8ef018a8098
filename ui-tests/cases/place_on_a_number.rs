use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(out = [Shard(0)])]
fn scaled(x: &Tensor, #[place(Replicate)] by: f64) -> Result<Tensor> {
    x * by
}

fn main() {}
