use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[derive(Distribute)]
struct Scale<T = DTensor> {
    #[place(Replicate)]
    by: T,
}

#[local_layer(in = [[Replicate]], out = [Replicate])]
impl Scale {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.sqr()
    }
}

fn main() {
    let _ = Scale::<DTensor>::forward;
}
