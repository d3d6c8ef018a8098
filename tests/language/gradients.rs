//! `grad`, the context and `recompute`, and the ways to write what goes with them.

use super::*;
use std::sync::Arc;

/// The gradient of the sum of what `loss` makes of the rows `0.0, 1.0, 2.0`.
#[track_caller]
fn gradient<T: Into<DTensor>>(loss: impl Fn(&DTensor) -> Result<T> + Sync) -> Vec<f32> {
    on_two(|mesh| {
        let x = rows(&mesh, 3)?.requires_grad()?;
        let loss: DTensor = loss(&x)?.into();
        let loss = added(&loss)?.reshard(&[Replicate])?;
        all(loss.backward()?.get(&x).unwrap())
    })
}

#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn added(x: &Tensor) -> Result<Tensor> {
    x.sum_all()
}

#[local_map(in = [[Shard(0)], _], out = [Shard(0)])]
#[allow(clippy::needless_lifetimes)]
fn with_context<'a>(x: &'a Tensor, ctx: &'a Region, #[cfg(test)] by: f64) -> Result<Tensor> {
    x.affine(by, ctx.coordinate("dp")? as f64)
}

struct Shift(f64);

impl Shift {
    #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
    fn forward(&self, #[allow(unused_variables)] r#type: &local_map::Region, x: &Tensor) -> Result<Tensor> {
        x + self.0
    }
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn conditional(x: &Tensor, #[cfg(not(any()))] here: &Region) -> Result<Tensor> {
    x * here.size("dp")? as f64
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn without_one(x: &Tensor, #[cfg(any())] gone: &Region) -> Result<Tensor> {
    x * 3.0
}

#[local_map(in = [_], out = [Shard(0)], mesh = mesh)]
fn made(mesh: &DeviceMesh, _: &Region) -> Result<Tensor> {
    Tensor::ones(2, candle_core::DType::F32, &Device::Cpu)
}

#[test]
fn contexts() {
    let values = on_two(|mesh| {
        let x = rows(&mesh, 3)?;
        Ok([
            all(&with_context(&x, 2.0)?)?,
            all(&Shift(1.0).forward(&x)?)?,
            all(&conditional(&x)?)?,
            all(&without_one(&x)?)?,
            all(&made(&mesh)?)?,
        ])
    });
    assert_eq!(values[0], [0.0, 2.0, 5.0]);
    assert_eq!(values[1], [1.0, 2.0, 3.0]);
    assert_eq!(values[2], [0.0, 2.0, 4.0]);
    assert_eq!(values[3], [0.0, 3.0, 6.0]);
    assert_eq!(values[4], [1.0; 4]);
}

#[local_map(in = [_, [Shard(0)], [Replicate]], grad = [_, _, [Partial]], out = [Shard(0)])]
fn labelled(_n: usize, x: &Tensor, #[cfg(not(any()))] by: &Tensor) -> Result<Tensor> {
    x.sqr()?.broadcast_mul(by)
}

#[test]
fn labels() {
    let values = on_two(|mesh| {
        let (x, by) = (rows(&mesh, 3)?.requires_grad()?, replicated(&mesh, &[2.0])?.requires_grad()?);
        let loss = added(&labelled(1, &x, &by)?)?.reshard(&[Replicate])?;
        let gradients = loss.backward()?;
        Ok([all(gradients.get(&x).unwrap())?, all(gradients.get(&by).unwrap())?])
    });
    assert_eq!(values, [vec![0.0, 4.0, 8.0], vec![5.0]]);
}

#[derive(Clone)]
struct Scale {
    by: f64,
}

#[local_map(in = [_, [Shard(0)], _, _, _, _], out = [Shard(0)], recompute)]
fn run_again<T: Clone + Send + 'static, const N: usize>(
    #[allow(unused_mut)] mut times: usize,
    x: &Tensor,
    Scale { by }: Scale,
    (f, _): (impl Fn(&Tensor) -> Result<Tensor> + Clone + Send + 'static, T),
    ctx: &Region,
    name: &'static str,
    #[cfg(not(any()))] _more: [Arc<str>; N],
) -> Result<Tensor> {
    times += ctx.size("dp")? - name.len();
    f(x)? * (by * times as f64)
}

#[local_map(in = [[Shard(0)], _, _], out = [[Shard(0)], _], recompute, mesh = &mesh)]
fn two_values(mut x: Vec<Tensor>, mesh: DeviceMesh, factor: Tensor) -> Result<(Tensor, usize)> {
    let first = x.remove(0).sqr()?;
    Ok((first.broadcast_mul(&factor)?, mesh.size()))
}

#[test]
fn recomputed() {
    let once = gradient(|x| {
        let f = |x: &Tensor| x.sqr();
        run_again(2, x, Scale { by: 5.0 }, (f, "any"), "ab", ["text".into()])
    });
    assert_eq!(once, [0.0, 20.0, 40.0]);
    let two = gradient(|x| {
        let factor = Tensor::new(&[3f32], &Device::Cpu)?;
        let (value, ranks) = two_values(vec![x.clone()], x.mesh().clone(), factor)?;
        assert_eq!(ranks, 2);
        Ok(value)
    });
    assert_eq!(two, [0.0, 6.0, 12.0]);
}
