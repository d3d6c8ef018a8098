//! The regions that random programs over several meshes are made of.

use candle_core::{Device, Result, Tensor};
use local_map::prelude::*;

macro_rules! regions {
    ($($name:ident $x:tt = $body:expr; $(($($in:tt)+) -> $out:tt),+;)+) => {
        $(pub(crate) fn $name(which: usize, all: &[DTensor]) -> Result<DTensor> {
            let choices: Vec<fn(&[DTensor]) -> Result<DTensor>> = vec![$(
                regions!(@one $x ($body) [$($in)+] $out)
            ),+];
            choices[which % choices.len()](all)
        })+
    };
    (@one ($($x:ident),+) ($body:expr) $ins:tt $out:tt) => {{
        #[local_map(in = $ins, out = $out, reshard)]
        fn region($($x: &Tensor),+) -> Result<Tensor> { $body }
        |all: &[DTensor]| {
            let [$($x,)+ ..] = all else { unreachable!() };
            Ok(region($($x),+)?.erase())
        }
    }};
}

pub(crate) fn product(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x.matmul(y)? * 0.4
}

regions! {
    tanh1(x) = x.tanh(); ([Shard(0)]) -> [Shard(0)], ([Shard(1)]) -> [Shard(1)], ([Replicate]) -> [Replicate],
        ([Replicate]) -> [Partial(Avg)];
    tanh2(x) = x.tanh(); ([Shard(0), Shard(1)]) -> [Shard(0), Shard(1)], ([Shard(0), Shard(0)]) -> [Shard(0), Shard(0)],
        ([Replicate, Replicate]) -> [Replicate, Replicate], ([Replicate, Shard(1)]) -> [Partial(Avg), Shard(1)],
        ([Shard(1), Replicate]) -> [Shard(1), Partial(Avg)];
    scale1(x) = x * 1.5; ([Partial(Sum)]) -> [Partial(Sum)], ([Partial(Avg)]) -> [Partial(Avg)], ([Shard(0)]) -> [Shard(0)];
    scale2(x) = x * 1.5; ([Partial(Sum), Shard(0)]) -> [Partial(Sum), Shard(0)], ([Partial(Avg), Partial(Sum)]) -> [Partial(Avg), Partial(Sum)],
        ([Shard(0), Replicate]) -> [Shard(0), Replicate];
    product1(x, y) = product(x, y); ([Shard(0)], [Replicate]) -> [Shard(0)], ([Replicate], [Shard(1)]) -> [Shard(1)],
        ([Shard(1)], [Shard(0)]) -> [Partial(Sum)], ([Replicate], [Replicate]) -> [Replicate], ([Partial(Sum)], [Replicate]) -> [Partial(Sum)];
    product2(x, y) = product(x, y); ([Shard(0), Replicate], [Replicate, Shard(1)]) -> [Shard(0), Shard(1)],
        ([Shard(1), Replicate], [Shard(0), Replicate]) -> [Partial(Sum), Replicate],
        ([Replicate, Shard(0)], [Replicate, Replicate]) -> [Replicate, Shard(0)],
        ([Shard(0), Shard(1)], [Replicate, Shard(0)]) -> [Shard(0), Partial(Sum)];
    first1(x, _y) = x * 2.0; ([Replicate], [Shard(0)]) -> [Replicate], ([Replicate], [Partial(Sum)]) -> [Replicate];
    first2(x, _y) = x * 2.0; ([Replicate, Replicate], [Shard(0), Shard(1)]) -> [Replicate, Replicate],
        ([Replicate, Shard(0)], [Shard(1), Replicate]) -> [Replicate, Shard(0)];
}

// From one mesh to another: of two axes to one, of one to one, of one to two.

#[local_map(in = [[Replicate, Replicate], _], out = [Replicate] on n, reshard)]
pub(crate) fn whole_21(x: &Tensor, n: &DeviceMesh) -> Result<Tensor> {
    x.tanh()
}

#[local_map(in = [[Replicate, Replicate], _, _], out = [Shard(0, ragged)] on n, reshard)]
pub(crate) fn rows_21(x: &Tensor, n: &DeviceMesh, cut: (usize, usize)) -> Result<Tensor> {
    x.narrow(0, cut.0, cut.1)?.tanh()
}

#[local_map(in = [[Replicate, Replicate], _, _], out = [Shard(0, ragged)] on n, reshard, recompute)]
pub(crate) fn rows_21_again(x: &Tensor, n: DeviceMesh, cut: (usize, usize)) -> Result<Tensor> {
    let _ = &n;
    x.narrow(0, cut.0, cut.1)?.tanh()
}

#[local_map(in = [[Replicate, Replicate], _, _], out = [Partial(Sum)] on n, reshard)]
pub(crate) fn addends_21(x: &Tensor, n: &DeviceMesh, weight: f64) -> Result<Tensor> {
    x.tanh()? * weight
}

#[local_map(in = [[Shard(0), Shard(0)], _, _, _], out = [Replicate] on n, reshard)]
pub(crate) fn gathered_21(x: &Tensor, n: &DeviceMesh, tp: [usize; 2], dp: [usize; 2], ctx: &Region) -> Result<Tensor> {
    let x = ctx.all_gather_varying(x, "tp", 0, &tp)?;
    ctx.all_gather_varying(&x, "dp", 0, &dp)?.tanh()
}

#[local_map(in = [[Partial(Sum), Replicate], _], out = [Partial(Avg)] on n, reshard)]
pub(crate) fn summed_21(x: &Tensor, n: &DeviceMesh, ctx: &Region) -> Result<Tensor> {
    ctx.all_reduce(x, "dp", Sum)?.tanh()
}

#[local_map(in = [[Replicate, Shard(1)], _], out = [[Replicate, Shard(1)], [Shard(1, ragged)] on n], reshard)]
pub(crate) fn both_21(x: &Tensor, n: &DeviceMesh) -> Result<(Tensor, Tensor)> {
    Ok((x.tanh()?, (x * 0.5)?.tanh()?))
}

#[local_map(in = [[Replicate], _], out = [Replicate] on n, reshard)]
pub(crate) fn whole_11(x: &Tensor, n: &DeviceMesh) -> Result<Tensor> {
    x.tanh()
}

#[local_map(in = [[Replicate], _, _], out = [Shard(0, ragged)] on n, reshard)]
pub(crate) fn rows_11(x: &Tensor, n: &DeviceMesh, cut: (usize, usize)) -> Result<Tensor> {
    x.narrow(0, cut.0, cut.1)?.tanh()
}

#[local_map(in = [[Replicate], _, _], out = [Partial(Sum)] on n, reshard)]
pub(crate) fn addends_11(x: &Tensor, n: &DeviceMesh, weight: f64) -> Result<Tensor> {
    x.tanh()? * weight
}

#[local_map(in = [[Replicate], _], out = [Replicate, Partial(Avg)] on m, reshard)]
pub(crate) fn whole_12(x: &Tensor, m: &DeviceMesh) -> Result<Tensor> {
    x.tanh()
}

#[local_map(in = [[Replicate], _, _], out = [Shard(0, ragged), Replicate] on m, reshard)]
pub(crate) fn rows_12(x: &Tensor, m: &DeviceMesh, cut: (usize, usize)) -> Result<Tensor> {
    x.narrow(0, cut.0, cut.1)?.tanh()
}

// What ends a program.

pub(crate) fn weighed(y: &Tensor) -> Result<Tensor> {
    let weights = (0..y.elem_count()).map(|i| 1.0 + 0.3 * (i as f64).cos()).collect();
    (y * Tensor::from_vec(weights, y.shape(), &Device::Cpu)?)?.sum_all()
}

#[local_map(in = [[Replicate]], out = [Replicate], reshard)]
pub(crate) fn loss1(y: &Tensor) -> Result<Tensor> {
    weighed(y)
}

#[local_map(in = [[Replicate, Replicate]], out = [Replicate, Replicate], reshard)]
pub(crate) fn loss2(y: &Tensor) -> Result<Tensor> {
    weighed(y)
}

#[local_map(in = [[Replicate]], out = [Replicate], reshard)]
pub(crate) fn around1(x: &Tensor, ctx: &Region) -> Result<Tensor> {
    let x = ctx.shift(&x.tanh()?, "n", 1)?;
    Ok(ctx.all_reduce(&x.sqr()?, "n", Avg)?)
}

#[local_map(in = [[Replicate, Replicate]], out = [Replicate, Replicate], reshard)]
pub(crate) fn around2(x: &Tensor, ctx: &Region) -> Result<Tensor> {
    let x = ctx.shift(&x.tanh()?, "tp", 1)?;
    Ok(ctx.all_reduce(&x.sqr()?, "dp", Avg)?)
}
