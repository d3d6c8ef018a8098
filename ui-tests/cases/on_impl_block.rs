use local_map::prelude::*;

struct Layer;

#[local_map(out = [Shard(0)])]
impl Layer {}

fn main() {
    let _ = Layer;
}
