use local_map::prelude::*;

#[derive(Distribute)]
struct Mlp<T = DTensor> {
    #[place(Shard(0, ragged))]
    ragged: T,
    #[place(Sharded(0))]
    unknown: T,
    #[place(Replicate, Replicate)]
    longer: T,
    #[place()]
    empty: T,
    #[place]
    bare: T,
    #[place(Replicate)]
    #[place(Replicate)]
    twice: T,
}

fn main() {
    let _: Option<Mlp> = None;
}
