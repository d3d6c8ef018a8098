use local_map::prelude::*;

#[derive(Distribute)]
struct Pair<T = DTensor> {
    both: [T; 2],
}

#[derive(Distribute)]
struct Shelves<T = DTensor> {
    named: std::collections::HashMap<String, T>,
    boxed: Vec<Box<T>>,
}

fn main() {
    let _: (Option<Pair>, Option<Shelves>) = (None, None);
}
