use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in_placements = [[Shard(0)], _], ouut = [Shard(0)])]
fn f(x: &Tensor, scale: f64) -> Result<Tensor> {
    x * scale
}

fn call(x: &DTensor) -> Result<DTensor<(Shard<0>,)>> {
    f(x, 2.0)
}

fn main() {}
