use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[derive(Distribute)]
struct Mlp<T = DTensor> {
    #[place(Replicate)]
    up: T,
}

#[local_layer(in = [[Replicate]], out = [Replicate], recompute)]
impl Mlp<Tensor> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.up)
    }
}

#[local_map(in = [{..}], out = [Replicate], recompute)]
fn lent(mlp: &Mlp<Tensor>) -> Result<Tensor> {
    Ok(mlp.up.clone())
}

#[local_map(in = [{..}], out = [Replicate], recompute)]
fn optional(mlp: Option<&Mlp<Tensor>>) -> Result<Tensor> {
    Ok(mlp.unwrap().up.clone())
}

fn main() {}
