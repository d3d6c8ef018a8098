use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [[Sahrd(0)], [Shard("rows")], [Replicate]], out = [Partial(Total)], reshrad, axes = dp)]
fn f(x: &Tensor, y: &Tensor, scale: f64) -> Result<Tensor> {
    (x + y)? * scale
}

fn main() {}
