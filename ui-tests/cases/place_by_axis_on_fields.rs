use local_map::prelude::*;

#[derive(Distribute)]
struct Mlp<T = DTensor> {
    #[place(tp: Shard(0), tp: Replicate)]
    twice: T,
    #[place(tp: Shrad(0))]
    unknown: T,
    #[place(tp: Shard(0), Replicate)]
    mixed: T,
    #[place(.., tp: Shard(0))]
    first: T,
    #[place(tp: Shard(0), ..)]
    right: T,
}

fn main() {
    let _: Option<Mlp> = None;
}
