use candle_core::Tensor;
use local_map::prelude::*;

#[derive(Distribute)]
struct Mlp<T = DTensor> {
    #[place(Shard(1))]
    up: T,
    down: T,
}

type Res<T> = std::result::Result<Mlp<T>, local_map::Error>;

#[local_map(in = [[Replicate]], out = {..})]
fn f(x: &Tensor) -> Res<Tensor> {
    Ok(Mlp { up: x.clone(), down: x.clone() })
}

fn main() {}
