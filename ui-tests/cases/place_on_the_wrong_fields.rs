use local_map::prelude::*;

#[derive(Distribute)]
struct Inner<T = DTensor> {
    by: T,
}

#[derive(Distribute)]
struct Mlp<T = DTensor> {
    #[place(Shard(0))]
    up: Option<Vec<T>>,
    #[place(Replicate)]
    rate: f64,
    #[place(Replicate)]
    inner: Vec<Inner<T>>,
}

fn main() {
    let _: Option<Mlp> = None;
}
