//! CUDA tensors as buffers: an address in device memory and the stream that writes it.

use std::sync::Arc;

use candle_core::Tensor;
use candle_core::cuda_backend::cudarc::driver::DevicePtr;
use candle_core::cuda_backend::{CudaStorage, CudaStorageSlice};

use crate::comm::buffer::DeviceMemory;
use crate::error::{Error, Report, Result};

/// The memory of a contiguous CUDA tensor, which it keeps alive.
pub(super) fn memory_of(storage: &CudaStorage, tensor: &Tensor) -> Result<DeviceMemory> {
    let stream = storage.device.cuda_stream();
    macro_rules! first_element {
        ($($variant:ident)*) => {
            match &storage.slice {
                // The guard would record a read on the stream when dropped; nothing has been read yet.
                $(CudaStorageSlice::$variant(slice) => Some(slice.device_ptr(&stream).0),)*
                _ => None,
            }
        };
    }
    let first = first_element!(U8 U32 I16 I32 I64 BF16 F16 F32 F64 F8E4M3).ok_or_else(|| {
        let name = tensor.dtype().as_str();
        Error::DType(Report::new(format!("CUDA tensors of type {name} cannot be exchanged between ranks")))
    })?;
    let offset = tensor.layout().start_offset() * tensor.dtype().size_in_bytes();
    Ok(DeviceMemory {
        ordinal: stream.context().ordinal(),
        address: first + offset as u64,
        stream: stream.cu_stream() as usize,
        owner: Arc::new(tensor.clone()),
    })
}
