use candle_core::{Result, Tensor};
use local_map::prelude::*;

struct Scale(f64);

#[local_map(out = [Shard(0)], recompute)]
fn f(x: &Tensor, scale: Scale) -> Result<Tensor> {
    x * scale.0
}

fn main() {}
