//! Kinds of parameters, and the ways to write them.

use super::*;

#[local_map(in = [[Shard(0)], [Replicate]], out = [Shard(0)])]
fn increased(mut x: Tensor, by: Tensor) -> Result<Tensor> {
    for _ in 0..2 {
        x = x.broadcast_add(&by)?;
    }
    Ok(x)
}

#[test]
fn owned_and_mutable() {
    let values = on_two(|mesh| all(&increased(rows(&mesh, 3)?, replicated(&mesh, &[1.0])?)?));
    assert_eq!(values, [2.0, 3.0, 4.0]);
}

struct Scale {
    by: f64,
}

#[local_map(in = [[Shard(0)], _, _], out = [Shard(0)])]
fn scaled(x: &Tensor, Scale { by }: Scale, (plus, _): (f64, &str)) -> Result<Tensor> {
    x.affine(by, plus)
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn difference([a, b]: [Tensor; 2]) -> Result<Tensor> {
    a - b
}

#[test]
fn patterns() {
    let values = on_two(|mesh| {
        let x = scaled(&rows(&mesh, 3)?, Scale { by: 3.0 }, (1.0, "ignored"))?;
        all(&difference([x.erase(), rows(&mesh, 3)?])?)
    });
    assert_eq!(values, [1.0, 3.0, 5.0]);
}

#[local_map(in = [[Shard(0)], [Replicate], _, _], out = [Shard(0)])]
fn first(x: &Tensor, _unused: &Tensor, _: usize, _also: f32) -> Result<Tensor> {
    Ok(x.clone())
}

#[test]
fn unused_ones() {
    let values = on_two(|mesh| all(&first(&rows(&mesh, 2)?, &replicated(&mesh, &[1.0])?, 0, 0.0)?));
    assert_eq!(values, [0.0, 1.0]);
}

#[local_map(in = [[Shard(0)], _], out = [Shard(0)])]
fn r#match(r#fn: &Tensor, r#type: f64) -> Result<Tensor> {
    r#fn * r#type
}

#[test]
fn raw_identifiers() {
    assert_eq!(on_two(|mesh| all(&r#match(&rows(&mesh, 2)?, 2.0)?)), [0.0, 2.0]);
}

#[local_map(in = [[Shard(0)], [Replicate], [Shard(0)]], out = [Shard(0)])]
fn biased(x: &Tensor, bias: Option<&Tensor>, more: Option<Tensor>) -> Result<Tensor> {
    let x = match bias {
        Some(bias) => x.broadcast_add(bias)?,
        None => x.clone(),
    };
    more.map_or(Ok(x.clone()), |more| x + more)
}

#[test]
fn options() {
    let values = on_two(|mesh| {
        let (x, bias) = (rows(&mesh, 2)?, replicated(&mesh, &[10.0])?);
        let with = biased(&x, Some(&bias), Some(x.clone()))?;
        Ok([all(&with)?, all(&biased(&x, None, None)?)?].concat())
    });
    assert_eq!(values, [10.0, 12.0, 0.0, 1.0]);
}

fn sum(tensors: &[Tensor]) -> Result<Tensor> {
    tensors[1..].iter().try_fold(tensors[0].clone(), |sum, x| sum + x)
}

#[local_map(in = [[Shard(0)], [Shard(0)], [Shard(0)]], out = [Shard(0)])]
fn summed(slice: &[Tensor], vec: Vec<Tensor>, array: [Tensor; 2]) -> Result<Tensor> {
    sum(slice)? + sum(&vec)? + sum(&array)?
}

#[local_map(in = [[Shard(0)], [Shard(0)]], out = [Shard(0)])]
fn nested<const N: usize>(array: [&Tensor; N], maybe: Option<&[Tensor]>) -> Result<Tensor> {
    let array = array.map(Tensor::clone);
    sum(&array)? + sum(maybe.unwrap_or(&array))?
}

#[test]
fn sequences() {
    let values = on_two(|mesh| {
        let x = rows(&mesh, 2)?;
        let three = vec![x.clone(), x.clone(), x.clone()];
        let six = summed(&three[..1], three.clone(), [x.clone(), x.clone()])?;
        let five = nested([&x, &x], Some(&three))?;
        Ok([all(&six)?, all(&five)?, all(&nested([&x], None)?)?].concat())
    });
    assert_eq!(values, [0.0, 6.0, 0.0, 5.0, 0.0, 2.0]);
}

#[local_map(out = [Shard(0)])]
fn some_are_absent(
    #[cfg(any())] gone: &Tensor,
    x: &Tensor,
    #[cfg(test)]
    #[allow(unused_variables)]
    here: &Tensor,
    #[cfg(any())] also_gone: usize,
    #[cfg(not(any()))] y: &Tensor,
    #[allow(unused_mut)] mut z: Tensor,
) -> Result<Tensor> {
    (x + y)? + z
}

#[local_map(in = [[Replicate], [Shard(0)], [Replicate]], out = [Shard(0)])]
fn named_right(#[cfg(any())] gone: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x.broadcast_add(y)
}

#[test]
fn conditional_ones() {
    let (values, message) = on_two(|mesh| {
        let x = rows(&mesh, 2)?;
        let values = all(&some_are_absent(&x, &x, &x, x.clone())?)?;
        Ok((values, named_right(&x, &x).unwrap_err().to_string()))
    });
    assert_eq!(values, [0.0, 3.0]);
    assert!(message.contains("argument `y` is not placed"), "{message}");
}

#[local_map(in = [[Shard(0)], _, _], out = [Shard(0)])]
fn applied(x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>, plain: &Tensor) -> Result<Tensor> {
    f(x)?.broadcast_mul(plain)
}

#[test]
fn closures_and_plain_tensors_pass_through() {
    let values = on_two(|mesh| all(&applied(&rows(&mesh, 3)?, Tensor::sqr, &Tensor::new(&[2f32], &Device::Cpu)?)?));
    assert_eq!(values, [0.0, 2.0, 8.0]);
}
