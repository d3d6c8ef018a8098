use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn f(x: &Tensor, #[place(Replicate)] w: &Tensor) -> Result<Tensor> {
    x.broadcast_mul(w)
}

fn main() {}
