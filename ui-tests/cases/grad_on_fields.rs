use local_map::prelude::*;

#[derive(Distribute)]
struct Inner<T = DTensor>(T);

#[derive(Distribute)]
struct Wrong<T = DTensor> {
    #[grad(Partial(Max))]
    max: T,
    #[grad(Shard(0, ragged))]
    ragged: T,
    #[grad(Replicate, Replicate)]
    axes: T,
    #[grad()]
    empty: T,
    #[grad]
    bare: T,
    #[grad(Replicate)]
    #[grad(Replicate)]
    twice: T,
    #[grad(Replicate)]
    plain: f64,
    #[grad(Replicate)]
    inner: Inner<T>,
}

fn main() {}
