//! The seam to candle's storage: tensors as buffers, and elements as tensors.

use std::any::Any;
use std::ops::{Deref, Range};
use std::sync::Arc;

use candle_core::op::BackpropOp;
use candle_core::{Storage, Tensor};

use crate::comm::buffer::{Buffer, Finish, HostMemory, HostRead, Memory};
use crate::comm::elements::{HostSlice, HostVec, host_slice};
use crate::error::{Error, Report, Result};
use crate::shard::Dims;

/// A contiguous tensor with elements that can be exchanged, in host memory.
struct HostTensor {
    tensor: Tensor,
    /// What readers need not find out from the tensor: its elements within the storage, and where that is.
    range: Range<usize>,
    storage: usize,
}

impl HostTensor {
    fn new(tensor: Tensor) -> HostTensor {
        // An empty view may start beyond its storage.
        let (start, end) = tensor.layout().contiguous_offsets().filter(|(s, e)| s < e).unwrap_or_default();
        let storage = std::ptr::from_ref::<Storage>(&tensor.storage_and_layout().0).addr();
        HostTensor { tensor, range: start..end, storage }
    }
}

/// A hold on a tensor's storage.
struct Guard<G>(G);

impl HostMemory for HostTensor {
    fn storage(&self) -> usize {
        self.storage
    }

    fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    fn read(&self) -> Box<dyn HostRead + '_> {
        Box::new(Guard(self.tensor.storage_and_layout().0))
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl<G: Deref<Target = Storage>> HostRead for Guard<G> {
    fn elements(&self, range: Range<usize>) -> HostSlice<'_> {
        let elements = match &*self.0 {
            Storage::Cpu(cpu) => host_slice(cpu).and_then(|s| s.part(range)),
            _ => None,
        };
        elements.unwrap_or(HostSlice::U8(&[]))
    }
}

/// The tensor as a buffer; a strided one is packed first.
pub(super) fn buffer_of(tensor: &Tensor) -> Result<Buffer> {
    let packed = tensor.detach().contiguous()?;
    let (dtype, len) = (packed.dtype(), packed.elem_count());
    let memory = {
        let (storage, _) = packed.storage_and_layout();
        match &*storage {
            Storage::Cpu(cpu) if host_slice(cpu).is_some() => None,
            Storage::Cpu(_) => return Err(not_exchangeable(tensor, "its element type has no arithmetic")),
            #[cfg(feature = "cuda")]
            Storage::Cuda(cuda) => Some(Memory::Device(super::cuda::memory_of(cuda, &packed)?)),
            _ => return Err(not_exchangeable(tensor, "it is on a device that no engine reaches")),
        }
    };
    let memory = memory.unwrap_or_else(|| Memory::Host(Arc::new(HostTensor::new(packed))));
    Ok(Buffer { dtype, len, memory })
}

fn not_exchangeable(tensor: &Tensor, why: &str) -> Error {
    let (dtype, shape) = (tensor.dtype().as_str(), tensor.dims());
    Error::Unsupported(
        Report::new(format!("{dtype}{shape:?} cannot be exchanged between ranks"))
            .offender(why.to_owned())
            .advice("convert it, or move it to the CPU, first"),
    )
}

/// Makes a tensor of the given shape, which candle differentiates with respect to if it is a leaf.
pub(super) struct IntoTensor<'a> {
    pub(super) shape: &'a [usize],
    pub(super) leaf: bool,
}

/// Makes a plain tensor of the given shape.
pub(super) fn plain(shape: &[usize]) -> IntoTensor<'_> {
    IntoTensor { shape, leaf: false }
}

impl Finish for IntoTensor<'_> {
    fn finish(&self, elements: HostVec) -> Buffer {
        let storage = Storage::Cpu(elements.into());
        let tensor = Tensor::from_storage(storage, self.shape, BackpropOp::none(), self.leaf);
        let (dtype, len) = (tensor.dtype(), tensor.elem_count());
        Buffer::host(dtype, len, Arc::new(HostTensor::new(tensor)))
    }
}

/// The tensor that [`IntoTensor`] made.
pub(super) fn tensor_of(buffer: Buffer) -> Result<Tensor> {
    if let Memory::Host(memory) = buffer.memory
        && let Ok(host) = memory.into_any().downcast::<HostTensor>()
    {
        return Ok(host.tensor.clone());
    }
    Err(Error::Unsupported(Report::new("an engine returned a buffer that is no tensor")))
}

/// A plain tensor without elements, which nothing can refuse to make.
pub(crate) fn no_elements() -> Tensor {
    let storage = Storage::Cpu(candle_core::CpuStorage::F32(Vec::new()));
    Tensor::from_storage(storage, 0, BackpropOp::none(), false)
}

/// A hash of the tensor's shape and bits, equal for bitwise equal tensors.
pub(crate) fn digest(tensor: &Tensor) -> Result<u64> {
    let shape: Dims = tensor.dims().into();
    let Memory::Host(memory) = buffer_of(&tensor.to_device(&candle_core::Device::Cpu)?)?.memory else {
        return Err(not_exchangeable(tensor, "its bits cannot be read"));
    };
    let bits = memory.read().elements(memory.range()).digest();
    let salt =
        shape.iter().fold(shape.len() as u64, |h, &n| h.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(n as u64));
    Ok(bits ^ salt)
}
