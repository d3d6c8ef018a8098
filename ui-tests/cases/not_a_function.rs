use local_map::prelude::*;

#[local_map(out = [Shard(0)])]
struct Layer;

fn main() {
    let _ = Layer;
}
