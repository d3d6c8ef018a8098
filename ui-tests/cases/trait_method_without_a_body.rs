use candle_core::Result;
use local_map::prelude::*;

trait Layer {
    #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
    fn forward(&self, x: &candle_core::Tensor) -> Result<candle_core::Tensor>;
}

fn main() {}
