//! Tuples of tensors and other values, as parameters and as results.

use super::*;

#[local_map(in = [([Shard(0)], _), [Shard(0)]], out = [Shard(0)])]
fn scaled((x, mut by): (Tensor, f64), y: &Tensor) -> Result<Tensor> {
    by += 1.0;
    (x * by)? + y
}

#[local_map(out = [Shard(0)])]
fn added(pair: (&Tensor, Option<&Tensor>)) -> Result<Tensor> {
    pair.0 + pair.1.unwrap_or(pair.0)
}

#[local_map(in = { nested: ([Shard(0)], (_, [Replicate])) }, out = [Shard(0)], recompute)]
fn nested(nested: (Tensor, (f64, Tensor))) -> Result<Tensor> {
    let (x, (by, factor)) = nested;
    x.broadcast_mul(&(factor * by)?)
}

#[local_map(in = [[Shard(0)]], out = [([Shard(0)], _), [Partial(Sum)]])]
fn split(x: &Tensor) -> Result<((Tensor, usize), Tensor)> {
    Ok(((x.neg()?, x.dims()[0]), x.sum_all()?))
}

#[test]
fn parameters_that_are_tuples() {
    let values = on_two(|mesh| {
        let x = rows(&mesh, 3)?;
        let three = replicated(&mesh, &[3.0])?;
        let results = [scaled((x.clone(), 1.0), &x)?, added((&x, None))?, nested((x.clone(), (0.5, three)))?];
        results.iter().map(all).collect::<Result<Vec<_>>>()
    });
    assert_eq!(values, [[0.0, 3.0, 6.0], [0.0, 2.0, 4.0], [0.0, 1.5, 3.0]]);
}

#[test]
fn gradients_pass_through_tuples() {
    let gradients = on_two(|mesh| {
        let (x, factor) = (rows(&mesh, 3)?.requires_grad()?, replicated(&mesh, &[3.0])?.requires_grad()?);
        let ((negative, _), _) = split(&nested((x.clone(), (0.5, factor.clone())))?)?;
        let gradients = split(&negative)?.1.backward()?;
        Ok([all(gradients.get(&x).unwrap())?, all(gradients.get(&factor).unwrap())?])
    });
    assert_eq!(gradients, [vec![-1.5; 3], vec![-1.5]]);
}

#[test]
fn a_misplaced_element_is_named() {
    let message = on_two(|mesh| {
        let whole = replicated(&mesh, &[3.0])?;
        let pair = scaled((whole.clone(), 1.0), &rows(&mesh, 2)?).unwrap_err().to_string();
        Ok((pair, nested((rows(&mesh, 2)?, (1.0, rows(&mesh, 2)?))).unwrap_err().to_string()))
    });
    assert!(message.0.starts_with("scaled: argument `x` is not placed as `in` requires"), "{}", message.0);
    assert!(message.1.starts_with("nested: argument `nested.1.1` is not placed as `in` requires"), "{}", message.1);
}

#[test]
fn results_within_results() {
    let (values, lengths) = on_two(|mesh| {
        let ((negative, length), sum) = split(&rows(&mesh, 4)?)?;
        let negative: DTensor<(Shard<0>,)> = negative;
        Ok(([all(&negative)?, all(&sum)?], length))
    });
    assert_eq!((values, lengths), ([vec![0.0, -1.0, -2.0, -3.0], vec![6.0]], 2));
}
