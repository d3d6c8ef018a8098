use local_map::prelude::*;

fn main() {
    let _ = #[local_map(out = _)]
    |x: usize| x + 1;
}
