use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(out = [Shard(0)])]
fn f(x: &Tensor, #[place(Replicate)] ctx: &Region) -> Result<Tensor> {
    x * ctx.size("dp")? as f64
}

fn main() {}
