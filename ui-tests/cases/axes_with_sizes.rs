use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(axes = (dp: 2, tp: 4), in = [{ dp: Shard(0) }], out = { dp: Shard(0) })]
fn f(x: &Tensor) -> Result<Tensor> {
    x.relu()
}

fn main() {}
