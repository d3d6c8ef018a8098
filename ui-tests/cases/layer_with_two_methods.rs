use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[derive(Distribute)]
struct Scale<T = DTensor> {
    #[place(Replicate)]
    by: T,
}

#[local_layer(in = [[Replicate]], out = [Replicate])]
impl Scale<Tensor> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x * &self.by
    }

    fn again(&self, x: &Tensor) -> Result<Tensor> {
        self.forward(x)
    }
}

fn main() {
    let _ = Scale::<DTensor>::forward::<Dyn>;
}
