//! A layout of one axis needs its comma.

#![allow(unused_parens)]

use local_map::prelude::*;

fn rows(x: &DTensor) -> local_map::Result<()> {
    x.reshard_to::<(Shard<0>)>()?;
    Ok(())
}

fn main() {}
