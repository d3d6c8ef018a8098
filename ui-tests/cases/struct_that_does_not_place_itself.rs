use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[derive(Distribute)]
struct Mlp<T = DTensor> {
    #[place(Shard(1))]
    up: T,
    down: T,
}

#[local_map(in = [[Replicate]], out = {..})]
fn f(x: &Tensor) -> Result<Mlp<Tensor>> {
    Ok(Mlp { up: x.clone(), down: x.clone() })
}

fn main() {}
