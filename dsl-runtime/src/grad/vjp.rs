//! Vector-Jacobian products of one body, by candle.

use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, CustomOp1, Layout, Shape, Tensor, Var};

use crate::error::Result;

/// A scalar whose gradient with respect to its argument is a given cotangent.
struct Seed(Tensor);

impl CustomOp1 for Seed {
    fn name(&self) -> &'static str {
        "seed"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(vec![0.0]), Shape::from(())))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        argument: &candle_core::CudaStorage,
        _: &Layout,
    ) -> candle_core::Result<(candle_core::CudaStorage, Shape)> {
        let device = argument.device.clone();
        let zero = device.alloc_zeros::<f32>(1)?;
        Ok((candle_core::CudaStorage::wrap_cuda_slice(zero, device), Shape::from(())))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, _: &Tensor) -> candle_core::Result<Option<Tensor>> {
        Ok(Some(self.0.clone()))
    }
}

/// The gradients of all variables that the outputs were computed from, when each output has the cotangent beside it.
pub(crate) fn vector_jacobian(outputs: &[(Tensor, Tensor)]) -> Result<GradStore> {
    let mut total: Option<Tensor> = None;
    for (output, cotangent) in outputs {
        let seed = output.apply_op1(Seed(cotangent.detach()))?;
        total = Some(match total {
            None => seed,
            Some(total) => (total + seed)?,
        });
    }
    Ok(match total {
        None => GradStore::default(),
        Some(total) => total.backward()?,
    })
}

/// A copy of the tensor that candle differentiates with respect to.
pub(crate) fn leaf_of(tensor: &Tensor) -> Result<Tensor> {
    Ok(Var::from_tensor(&tensor.detach())?.into_inner())
}

/// Adds candle's gradients to others.
pub(crate) fn add_all(total: &mut GradStore, more: &GradStore) -> Result<()> {
    for &id in more.get_ids() {
        let Some(gradient) = more.get_id(id) else { continue };
        let sum = match total.get_id(id) {
            None => gradient.clone(),
            Some(before) => (before + gradient)?,
        };
        total.insert_id(id, sum);
    }
    Ok(())
}
