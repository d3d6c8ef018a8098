//! Functions for bodies that must also run on an empty shard.
//!
//! candle's `max` and `log_sum_exp`, and candle-nn's `softmax`, are errors on a tensor without elements; a rank whose
//! shard is empty would fail alone. These give the empty result instead, and are differentiable by candle everywhere.

use candle_core::{Result, Tensor, shape::Dim};

/// Exponentials along `dim`, divided by their sum: `exp(x) / sum(exp(x))`. Same shape as `x`.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use local_map::ops::softmax;
/// let none = Tensor::zeros((0, 8), DType::F32, &Device::Cpu)?;
/// assert_eq!(softmax(&none, 1)?.dims(), [0, 8]);
/// let even = Tensor::zeros((1, 4), DType::F32, &Device::Cpu)?;
/// assert_eq!(softmax(&even, 1)?.to_vec2::<f32>()?, [[0.25; 4]]);
/// # candle_core::Result::Ok(())
/// ```
///
/// # Errors
/// `x` has no such dimension.
pub fn softmax(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.to_index(x.shape(), "softmax")?;
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    let exp = x.broadcast_sub(&largest(x, dim)?)?.exp()?;
    exp.broadcast_div(&exp.sum_keepdim(dim)?)
}

/// The logarithm of [`softmax`]: `x - logsumexp(x)`. Same shape as `x`.
///
/// # Errors
/// `x` has no such dimension.
pub fn log_softmax(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.to_index(x.shape(), "log_softmax")?;
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    let shifted = x.broadcast_sub(&largest(x, dim)?)?;
    let norm = shifted.exp()?.sum_keepdim(dim)?.log()?;
    shifted.broadcast_sub(&norm)
}

/// The logarithm of the sum of exponentials along `dim`: `log(sum(exp(x)))`. The dimension is removed; over no elements
/// it is minus infinity.
///
/// # Errors
/// `x` has no such dimension, or is not of floating point.
pub fn logsumexp(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.to_index(x.shape(), "logsumexp")?;
    if x.elem_count() == 0 {
        let mut shape = x.dims().to_vec();
        shape.remove(dim);
        return Tensor::full(f64::NEG_INFINITY, shape, x.device())?.to_dtype(x.dtype());
    }
    let largest = largest(x, dim)?;
    let sum = x.broadcast_sub(&largest)?.exp()?.sum_keepdim(dim)?.log()?;
    (sum + largest)?.squeeze(dim)
}

/// The maxima along `dim`, a constant for differentiation: shifting by them changes no value.
fn largest(x: &Tensor, dim: usize) -> Result<Tensor> {
    Ok(x.max_keepdim(dim)?.detach())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use candle_core::{D, DType, Device};

    use super::*;

    #[test]
    fn they_agree_with_candle_where_candle_works() {
        let x = Tensor::new(&[[1f64, -2.0, 700.0], [0.5, 0.25, 0.0]], &Device::Cpu).unwrap();
        let expected = x.log_sum_exp(1).unwrap().to_vec1::<f64>().unwrap();
        assert_eq!(logsumexp(&x, 1).unwrap().to_vec1::<f64>().unwrap(), expected);
        let direct = softmax(&x, 1).unwrap().to_vec2::<f64>().unwrap();
        let through_log = log_softmax(&x, 1).unwrap().exp().unwrap().to_vec2::<f64>().unwrap();
        for (a, b) in direct.concat().into_iter().zip(through_log.concat()) {
            assert!((a - b).abs() < 1e-12);
        }
    }

    #[test]
    fn an_empty_shard_gives_the_empty_result() {
        let none = Tensor::zeros((0, 3), DType::F32, &Device::Cpu).unwrap();
        assert_eq!(log_softmax(&none, D::Minus1).unwrap().dims(), [0, 3]);
        assert_eq!(logsumexp(&none, 1).unwrap().dims(), [0]);
        let no_columns = Tensor::zeros((2, 0), DType::F32, &Device::Cpu).unwrap();
        assert_eq!(logsumexp(&no_columns, 1).unwrap().to_vec1::<f32>().unwrap(), [f32::NEG_INFINITY; 2]);
        assert!(softmax(&none, 2).is_err());
    }
}
