use candle_core::{Result, Tensor};
use local_map::prelude::*;

struct Layer;

impl Layer {
    #[local_map(out = [Shard(0)], recompute)]
    fn not_clone(&self, x: &Tensor) -> Result<Tensor> {
        x.relu()
    }

    #[local_map(out = [Shard(0)], recompute)]
    fn written(&mut self, x: &Tensor) -> Result<Tensor> {
        x.relu()
    }

    #[local_map(out = [Shard(0)], recompute)]
    fn conditional(&self, x: &Tensor, #[cfg(any())] y: &Tensor) -> Result<Tensor> {
        x.relu()
    }
}

fn main() {}
