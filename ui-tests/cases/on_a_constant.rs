use local_map::prelude::*;

#[local_map(out = [Shard(0)])]
const BY: f64 = 2.0;

fn main() {}
