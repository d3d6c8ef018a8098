//! Typed buffers: what crosses the seam between tensors and engines.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use candle_core::DType;

use super::elements::{HostSlice, HostVec};

/// An immutable run of elements, in host memory or on a device.
#[derive(Clone)]
pub struct Buffer {
    /// The element type.
    pub dtype: DType,
    /// The number of elements.
    pub len: usize,
    /// Where they are.
    pub memory: Memory,
}

/// Where the elements of a buffer are.
#[derive(Clone)]
pub enum Memory {
    /// In this process.
    Host(Arc<dyn HostMemory>),
    /// On a device.
    Device(DeviceMemory),
}

/// Elements in host memory, kept alive by whoever holds this.
pub trait HostMemory: Send + Sync {
    /// Keeps writers out while the guard lives.
    fn read(&self) -> Box<dyn HostRead + '_>;

    /// For the owner's own type.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// A reader's hold on host memory.
pub trait HostRead {
    /// The elements.
    fn elements(&self) -> HostSlice<'_>;
}

/// Elements on a device.
#[derive(Clone)]
pub struct DeviceMemory {
    /// The device, as its driver counts them.
    pub ordinal: usize,
    /// The address of the first element in the device's memory.
    pub address: u64,
    /// The stream on which the elements are written, as the driver's handle.
    pub stream: usize,
    /// Keeps the memory alive.
    pub owner: Arc<dyn Any + Send + Sync>,
}

/// Turns the elements that an engine has produced into the buffer that the caller keeps, once for all ranks that share
/// them.
pub trait Finish {
    /// Takes over the elements.
    fn finish(&self, elements: HostVec) -> Buffer;
}

impl Buffer {
    /// A buffer in host memory.
    pub fn host(dtype: DType, len: usize, memory: Arc<dyn HostMemory>) -> Buffer {
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
