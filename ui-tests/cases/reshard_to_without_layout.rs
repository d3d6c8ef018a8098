//! An operand of `+` does not say which layout it has.

use local_map::prelude::*;

fn residual(x: &DTensor<(Replicate,)>, y: &DTensor<(Partial,)>) -> local_map::Result<DTensor<(Replicate,)>> {
    x + &y.reshard_to()?
}

fn main() {
    let _ = residual;
}
