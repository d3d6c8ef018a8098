use candle_core::{Result, Tensor};
use local_map::prelude::*;

struct Scale<T> {
    by: T,
}

#[local_layer(in = [[Replicate]], out = [Replicate])]
impl Scale<Tensor> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x * &self.by
    }
}

fn main() {
    let _ = Scale::<DTensor>::forward;
}
