use candle_core::Tensor;
use local_map::prelude::*;

#[derive(Distribute)]
struct Scale<T = DTensor> {
    #[place(Replicate)]
    by: T,
}

#[local_layer(out = [Replicate])]
impl Scale<Tensor> {
    fn new(by: Tensor) -> Self {
        Scale { by }
    }
}

#[local_layer(out = [Replicate])]
impl Scale<Tensor> {}

fn main() {}
