//! A method of a trait cannot have layouts that the trait does not mention: `dynamic` leaves them out.

use candle_core::{Result, Tensor};
use local_map::prelude::*;

trait Module {
    fn forward(&self, x: &DTensor) -> Result<DTensor>;
}

struct Square;

impl Module for Square {
    #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.sqr()
    }
}

fn main() {}
