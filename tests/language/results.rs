//! Result types.

use candle_core::Var;

use super::*;

#[local_map(in = [[Shard(0)]], out = [[Shard(0)], _, _, [Partial(Sum)]])]
fn several(x: &Tensor) -> Result<(Tensor, f32, Tensor, Option<Tensor>)> {
    Ok((x.clone(), 1.5, x.clone(), Some(x.sum_all()?)))
}

#[test]
fn tuples() {
    let (values, plain) = on_two(|mesh| {
        let (x, plain, local, sum) = several(&rows(&mesh, 4)?)?;
        assert_eq!(local.dims(), [2]);
        Ok(([all(&x)?, all(&sum.unwrap())?].concat(), plain))
    });
    assert_eq!((values, plain), (vec![0.0, 1.0, 2.0, 3.0, 6.0], 1.5));
}

#[local_map(out = _)]
fn plain(x: &Tensor, weight: &Var) -> Result<Tensor> {
    x.broadcast_mul(weight.as_tensor())
}

#[local_map(out = _)]
fn plain_pair(x: &Tensor, weight: &Var) -> Result<(Tensor, usize)> {
    Ok((x.broadcast_mul(weight)?, 3))
}

#[local_map(out = [_, [Shard(0)]])]
fn plain_element(x: &Tensor, weight: &Var) -> (Tensor, Tensor) {
    (x.broadcast_mul(weight).unwrap(), x.clone())
}

#[test]
fn tensors_without_a_placement_are_plain_and_detached() {
    let values = on_two(|mesh| {
        let x = rows(&mesh, 4)?;
        let weight = Var::new(&[2f32], &Device::Cpu)?;
        let tensors: [Tensor; 3] = [plain(&x, &weight)?, plain_pair(&x, &weight)?.0, plain_element(&x, &weight)?.0];
        for tensor in &tensors {
            assert_eq!(tensor.dims(), [2]);
            assert!(tensor.sum_all()?.backward()?.get(&weight).is_none());
        }
        Ok(plain_pair(&x, &weight)?.1)
    });
    assert_eq!(values, 3);
}

#[local_map(out = [])]
fn rows_of(x: &Tensor) -> usize {
    x.dims()[0]
}

#[local_map(out = _)]
fn nothing(x: &Tensor) {
    assert_eq!(x.rank(), 1);
}

#[local_map(out = [Shard(0)])]
fn tensor(x: &Tensor) -> Tensor {
    x.clone()
}

#[local_map(out = [Shard(0)])]
fn three(x: &Tensor) -> [Tensor; 3] {
    [x.clone(), x.clone(), x.clone()]
}

#[local_map(out = [Shard(0)])]
fn none(_x: &Tensor) -> Option<Tensor> {
    None
}

#[local_map(out = [Shard(0)])]
fn list(x: &Tensor, n: usize) -> Result<Vec<Tensor>> {
    Ok(vec![x.clone(); n])
}

#[test]
fn those_that_cannot_fail() {
    let values = on_two(|mesh| {
        let x = rows(&mesh, 4)?;
        let nothing: local_map::Result<()> = nothing(&x);
        nothing?;
        let [_, _, third] = three(&x)?;
        assert!(none(&x)?.is_none());
        assert_eq!(list(&x, 5)?.len(), 5);
        Ok((rows_of(&x)?, all(&tensor(&third)?)?))
    });
    assert_eq!(values, (2, vec![0.0, 1.0, 2.0, 3.0]));
}

type Loss = candle_core::Result<Tensor>;
type Same<T> = std::result::Result<T, candle_core::Error>;
type Count = Same<usize>;

#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn loss(x: &Tensor) -> Loss {
    x.sum_all()
}

#[local_map(in = [[Shard(0)]], out = [[Partial(Sum)]])]
fn losses(x: &Tensor) -> Same<Vec<Tensor>> {
    Ok(vec![x.sum_all()?; 2])
}

#[local_map(in = [[Shard(0)]], out = _)]
fn count(x: &Tensor) -> Count {
    Ok(x.elem_count())
}

#[local_map(in = [[Shard(0)], _], out = _)]
fn nth(x: &Tensor, n: usize) -> Result<impl Fn(f32) -> f32 + use<>> {
    let x: f32 = x.get(n)?.to_scalar()?;
    Ok(move |by| by * x)
}

#[test]
fn aliases_and_opaque_types() {
    let values = on_two(|mesh| {
        let x = rows(&mesh, 4)?;
        let count: candle_core::Result<usize> = count(&x);
        let rank = mesh.world().rank() as f32;
        assert_eq!(nth(&x, 1)?(2.0), 2.0 * (2.0 * rank + 1.0));
        Ok((all(&loss(&x)?)?, all(&losses(&x)?[1])?, count?))
    });
    assert_eq!(values, (vec![6.0], vec![6.0], 2));
}

#[derive(Debug)]
enum Mine {
    Odd(usize),
    Tensor(candle_core::Error),
    Distributed(local_map::Error),
}

impl From<local_map::Error> for Mine {
    fn from(error: local_map::Error) -> Self {
        Mine::Distributed(error)
    }
}

impl From<candle_core::Error> for Mine {
    fn from(error: candle_core::Error) -> Self {
        Mine::Tensor(error)
    }
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn pairs(x: &Tensor) -> std::result::Result<Tensor, Mine> {
    match x.elem_count() {
        n if n % 2 == 1 => Err(Mine::Odd(n)),
        n => Ok(x.reshape((n / 2, 2))?.narrow(0, 0, 1)?),
    }
}

type Boxed = Box<dyn std::error::Error + Send + Sync>;

#[local_map(in = [[Shard(0)], _], out = [[Shard(0)], _])]
fn parsed(x: &Tensor, text: &str) -> std::result::Result<(Tensor, i32), Boxed> {
    Ok(((x * 2.0)?, text.parse()?))
}

#[test]
fn error_types_of_the_author() {
    let values = on_two(|mesh| {
        let x = rows(&mesh, 4)?;
        assert!(matches!(pairs(&rows(&mesh, 2)?), Err(Mine::Odd(1))));
        assert!(matches!(pairs(&rows(&mesh, 0)?), Err(Mine::Tensor(error)) if !error.to_string().is_empty()));
        let elsewhere = pairs(&replicated(&mesh, &[1.0])?);
        assert!(matches!(elsewhere, Err(Mine::Distributed(local_map::Error::Placement(_)))));
        assert_eq!(parsed(&x, "x").unwrap_err().to_string(), "invalid digit found in string");
        let (doubled, number) = parsed(&x, "5").unwrap();
        Ok((pairs(&doubled).unwrap().shape()?.to_vec(), number))
    });
    assert_eq!(values, (vec![2, 2], 5));
}
