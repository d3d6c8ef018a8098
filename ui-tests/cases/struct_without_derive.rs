use candle_core::{Result, Tensor};
use local_map::prelude::*;

struct Mlp<T = DTensor> {
    up: T,
}

#[local_map(in = [{..}, [Replicate]], out = [Replicate])]
fn lent(mlp: &Mlp<Tensor>, x: &Tensor) -> Result<Tensor> {
    x.matmul(&mlp.up)
}

#[local_map(out = [Replicate])]
fn undeclared(x: &Tensor, mlp: Option<Mlp<Tensor>>) -> Result<Tensor> {
    x.matmul(&mlp.unwrap().up)
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn returned(x: &Tensor) -> Result<Mlp<Tensor>> {
    Ok(Mlp { up: x.clone() })
}

fn main() {}
