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

#[local_map(in = [[Replicate]], out = {..})]
fn one(x: &Tensor) -> Result<Mlp<Tensor>> {
    Ok(Mlp { up: x.clone(), down: x.clone() })
}

#[local_map(in = [[Replicate]], out = [{..}, _])]
fn nested(x: &Tensor) -> Result<(Model<Tensor>, f64)> {
    Ok((Model { block: one(x)? }, 1.0))
}

#[local_map(in = [[Replicate]], out = {..})]
fn tensor(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

type Res<T> = std::result::Result<Mlp<T>, local_map::Error>;

#[local_map(in = [[Replicate]], out = {..})]
fn alias(x: &Tensor) -> Res<Tensor> {
    Ok(Mlp { up: x.clone(), down: x.clone() })
}

fn main() {}
