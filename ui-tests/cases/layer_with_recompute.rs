use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[derive(Distribute)]
struct Scale<T = DTensor> {
    #[place(Replicate)]
    by: T,
}

#[local_layer(in = [[Replicate]], out = [Replicate], recompute)]
impl Scale<Tensor> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x * &self.by
    }
}

fn main() {
    let _ = Scale::<DTensor>::forward::<Dyn>;
}
