use candle_core::{Result, Tensor};
use local_map::prelude::*;

trait Forward {
    fn forward(&self, x: &DTensor) -> Result<DTensor>;
}

#[derive(Clone)]
struct Layer;

impl Forward for Layer {
    #[local_map(out = [Shard(0)], recompute, dynamic)]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.relu()
    }
}

fn main() {}
