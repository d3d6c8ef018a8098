use local_map::prelude::*;

#[derive(Distribute)]
enum Either<T = DTensor> {
    Left(T),
    Right(T),
}

fn main() {
    let _: Option<Either> = None;
}
