use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(out = [Shard(0)], in = [[Shard(0)], _])]
fn f(x: &Tensor, ctx: &Region) -> Result<Tensor> {
    Ok(ctx.all_reduce(x, "dp", Sum)?)
}

fn main() {}
