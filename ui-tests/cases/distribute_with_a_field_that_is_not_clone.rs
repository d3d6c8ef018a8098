use local_map::prelude::*;

struct Activation;

#[derive(Distribute)]
struct Scale<T = DTensor> {
    by: T,
    act: Activation,
}

fn main() {
    let _: Option<Scale> = None;
}
