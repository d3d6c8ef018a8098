use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[derive(Distribute)]
struct Mlp<T = DTensor> {
    up: T,
}

#[local_map(in = [{..}], out = [Replicate])]
fn references(mlps: [&Mlp<Tensor>; 2]) -> Result<Tensor> {
    Ok(mlps[0].up.clone())
}

#[local_map(out = [Replicate])]
fn vector(mlps: &Vec<Mlp<Tensor>>) -> Result<Tensor> {
    Ok(mlps[0].up.clone())
}

#[local_map(in = [{..}], out = [Replicate])]
fn option(mlp: &Option<Mlp<Tensor>>) -> Result<Tensor> {
    Ok(mlp.as_ref().unwrap().up.clone())
}

#[local_map(in = [[Replicate]], grad = [{..}], out = [Replicate])]
fn gradient(mlp: &Mlp<Tensor>) -> Result<Tensor> {
    Ok(mlp.up.clone())
}

fn main() {}
