//! Tensors of a reduction's identity: what a rank holds that adds nothing to a partial value.

use candle_core::{DType, Device, Tensor};

use crate::error::Result;
use crate::placement::ReduceOp;

/// A tensor filled with the identity of `op`.
pub(super) fn identity(op: ReduceOp, dtype: DType, shape: &[usize], device: &Device) -> Result<Tensor> {
    let element = match op {
        ReduceOp::Sum | ReduceOp::Avg | ReduceOp::Any => Tensor::new(0f64, device)?,
        ReduceOp::Prod => Tensor::new(1f64, device)?,
        ReduceOp::Max => lowest(dtype, device)?,
        ReduceOp::Min | ReduceOp::All => highest(dtype, device)?,
    };
    Ok(element.to_dtype(dtype)?.broadcast_as(shape)?.contiguous()?)
}

fn lowest(dtype: DType, device: &Device) -> candle_core::Result<Tensor> {
    match dtype {
        DType::U8 | DType::U32 => Tensor::new(0i64, device),
        DType::I16 => Tensor::new(i64::from(i16::MIN), device),
        DType::I32 => Tensor::new(i64::from(i32::MIN), device),
        DType::I64 => Tensor::new(i64::MIN, device),
        // The type has no infinities.
        DType::F8E4M3 => Tensor::new(-448f64, device),
        _ => Tensor::new(f64::NEG_INFINITY, device),
    }
}

fn highest(dtype: DType, device: &Device) -> candle_core::Result<Tensor> {
    match dtype {
        DType::U8 => Tensor::new(i64::from(u8::MAX), device),
        DType::U32 => Tensor::new(i64::from(u32::MAX), device),
        DType::I16 => Tensor::new(i64::from(i16::MAX), device),
        DType::I32 => Tensor::new(i64::from(i32::MAX), device),
        DType::I64 => Tensor::new(i64::MAX, device),
        DType::F8E4M3 => Tensor::new(448f64, device),
        _ => Tensor::new(f64::INFINITY, device),
    }
}

/// Puts `tensor` among `left` and `right` identity elements along `dim`.
pub(super) fn padded(tensor: &Tensor, dim: usize, left: usize, right: usize, op: ReduceOp) -> Result<Tensor> {
    if left == 0 && right == 0 {
        return Ok(tensor.clone());
    }
    let fill = |len: usize| {
        let mut shape = tensor.dims().to_vec();
        shape[dim] = len;
        identity(op, tensor.dtype(), &shape, tensor.device())
    };
    if tensor.dims()[dim] == 0 {
        return fill(left + right);
    }
    let parts = [fill(left)?, tensor.clone(), fill(right)?];
    let full: Vec<&Tensor> = parts.iter().filter(|t| t.dims()[dim] > 0).collect();
    Ok(Tensor::cat(&full, dim)?)
}
