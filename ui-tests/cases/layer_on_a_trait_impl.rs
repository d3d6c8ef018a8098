use candle_core::{Result, Tensor};
use local_map::prelude::*;

trait Forward {
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
}

#[derive(Distribute)]
struct Scale<T = DTensor> {
    #[place(Replicate)]
    by: T,
}

#[local_layer(in = [[Replicate]], out = [Replicate])]
impl Forward for Scale<Tensor> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x * &self.by
    }
}

fn main() {}
