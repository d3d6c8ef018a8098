//! Typed buffers: what crosses the seam between tensors and engines.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use candle_core::DType;

use super::elements::{HostSlice, HostVec};

/// A run of elements, in host memory or on a device.
///
/// Contract: nobody writes the elements while anybody holds a clone, who may be another rank. Nothing enforces it: tensors
/// can be written in place, and whoever does that copies them first.
#[derive(Clone)]
pub(crate) struct Buffer {
    /// The element type.
    pub(crate) dtype: DType,
    /// The number of elements.
    pub(crate) len: usize,
    /// Where they are.
    pub(crate) memory: Memory,
}

/// Where the elements of a buffer are.
#[derive(Clone)]
pub(crate) enum Memory {
    /// In this process.
    Host(Arc<dyn HostMemory>),
    /// On a device.
    #[cfg_attr(not(any(test, feature = "cuda")), expect(dead_code, reason = "only CUDA tensors are there"))]
    Device(DeviceMemory),
}

/// Elements in host memory, kept alive by whoever holds this.
pub(crate) trait HostMemory: Send + Sync {
    /// What the storage is told apart by: equal for elements of one storage.
    fn storage(&self) -> usize;

    /// Where the elements are within the storage.
    fn range(&self) -> Range<usize>;

    /// Keeps writers out of the storage while the guard lives.
    fn read(&self) -> Box<dyn HostRead + '_>;

    /// For the owner's own type.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// A reader's hold on a storage.
pub(crate) trait HostRead {
    /// The elements in this range of the storage.
    fn elements(&self, range: Range<usize>) -> HostSlice<'_>;
}

/// Elements on a device.
#[allow(dead_code, reason = "the address and the stream are for engines that move device memory")]
#[derive(Clone)]
pub(crate) struct DeviceMemory {
    /// The device, as its driver counts them.
    pub(crate) ordinal: usize,
    /// The address of the first element in the device's memory.
    pub(crate) address: u64,
    /// The stream on which the elements are written, as the driver's handle.
    pub(crate) stream: usize,
    /// Keeps the memory alive.
    pub(crate) owner: Arc<dyn Any + Send + Sync>,
}

/// Turns the elements that an engine has produced into the buffer that the caller keeps, once for all ranks that share
/// them.
pub(crate) trait Finish {
    /// Takes over the elements.
    fn finish(&self, elements: HostVec) -> Buffer;
}

impl Buffer {
    /// A buffer in host memory.
    pub(crate) fn host(dtype: DType, len: usize, memory: Arc<dyn HostMemory>) -> Buffer {
        let memory = Memory::Host(memory);
        Buffer { dtype, len, memory }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.memory {
            Memory::Host(_) => "host".to_owned(),
            Memory::Device(device) => format!("device {}", device.ordinal),
        };
        write!(f, "{}[{}] on {place}", self.dtype.as_str(), self.len)
    }
}
