use candle_core::{Result, Tensor};
use local_map::prelude::*;

#[local_map(in = [{ .. }, [Shard(1)]], out = [Shard(1)])]
fn product(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    x.matmul(weight)
}

fn main() {}
