use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_layer(in = [[Replicate]], out = [Replicate])]
fn f(x: &Tensor) -> Result<Tensor> {
    x.sqr()
}

fn main() {
    let _ = f;
}
