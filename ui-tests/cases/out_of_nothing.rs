use candle_core::Tensor;
use local_map::prelude::*;

#[local_map(out = [Shard(0)])]
fn f(x: &Tensor) {
    println!("{x}");
}

fn main() {}
