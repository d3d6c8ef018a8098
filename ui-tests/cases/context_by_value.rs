use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(out = [Shard(0)])]
fn f(x: &Tensor, ctx: local_map::Region) -> Result<Tensor> {
    Ok(ctx.all_reduce(x, "dp", Sum)?)
}

fn main() {}
