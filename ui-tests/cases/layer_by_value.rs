use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[derive(Distribute)]
struct Scale<T = DTensor> {
    #[place(Replicate)]
    by: T,
}

#[local_layer(in = [[Replicate]], out = [Replicate])]
impl Scale<Tensor> {
    fn forward(mut self, x: &Tensor) -> Result<Tensor> {
        self.by = x.clone();
        Ok(self.by)
    }
}

fn main() {}
