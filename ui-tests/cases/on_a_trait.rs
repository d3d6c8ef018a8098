use local_map::prelude::*;

#[local_map(out = [Shard(0)])]
trait Layer {
    fn forward(&self);
}

fn main() {}
