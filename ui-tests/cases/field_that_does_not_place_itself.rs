use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[derive(Distribute)]
struct Mlp<T = DTensor> {
    #[place(Shard(1))]
    up: T,
    down: T,
}

#[derive(Distribute)]
struct Model<T = DTensor> {
    block: Mlp<T>,
}

#[local_map(in = [[Replicate]], out = [{..}, _])]
fn f(x: &Tensor) -> Result<(Model<Tensor>, f64)> {
    let block = Mlp { up: x.clone(), down: x.clone() };
    Ok((Model { block }, 1.0))
}

fn main() {}
