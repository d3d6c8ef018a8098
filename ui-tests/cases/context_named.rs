use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = { x: [Shard(0)], ctx: _ }, out = [Shard(0)])]
fn f(x: &Tensor, ctx: &Region) -> Result<Tensor> {
    x * ctx.size("dp")? as f64
}

fn main() {}
