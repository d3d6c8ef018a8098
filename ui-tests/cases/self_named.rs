use candle_core::{Result, Tensor};
use local_map::prelude::*;

struct Scale(f64);

impl Scale {
    #[local_map(in = { self: _, x: [Shard(0)] }, out = [Shard(0)])]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x * self.0
    }
}

fn main() {
    let _ = Scale(1.0);
}
