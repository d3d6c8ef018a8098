use local_map::prelude::*;

#[derive(Distribute)]
struct Scale {
    by: DTensor,
}

fn main() {
    let _: Option<Scale> = None;
}
