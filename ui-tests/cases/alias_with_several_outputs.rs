use candle_core::{Result, Tensor};
use local_map::prelude::*;

type Pair = Result<(Tensor, Tensor)>;

#[local_map(out = [[Shard(0)], [Shard(0)]])]
fn f(x: &Tensor) -> Pair {
    Ok((x.relu()?, x.sqr()?))
}

fn main() {}
