use local_map::prelude::*;

#[derive(Distribute)]
struct Pair<T = DTensor> {
    both: [T; 2],
}

fn main() {
    let _: Option<Pair> = None;
}
