//! The element types that ranks exchange, and runs of them in host memory.

use std::hash::Hasher;
use std::mem::MaybeUninit;

use super::fold::{fold_native, fold_through_f32};
use crate::plan::Reduction;

/// An element of a tensor.
pub(crate) trait Element: Copy + Send + Sync + 'static {
    /// The elements, if they are of this type.
    fn slice<'a>(elements: &HostSlice<'a>) -> Option<&'a [Self]>;

    /// The elements as a typed run.
    fn wrap(elements: Vec<Self>) -> HostVec;

    /// Writes to `out` the reduction of the sources in their order.
    fn reduce(reduction: Reduction, sources: &[&[Self]], out: &mut [MaybeUninit<Self>]);

    /// The element's bits, for comparing replicas.
    fn bits(self) -> u64;
}

macro_rules! elements {
    ($($variant:ident($ty:ty) $reduce:ident $bits:expr;)*) => {
        /// Borrowed elements of one type.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum HostSlice<'a> {
            $(#[doc = concat!("Elements of type ", stringify!($ty), ".")] $variant(&'a [$ty]),)*
        }

        /// Owned elements of one type.
        #[derive(Debug)]
        pub(crate) enum HostVec {
            $(#[doc = concat!("Elements of type ", stringify!($ty), ".")] $variant(Vec<$ty>),)*
        }

        $(impl Element for $ty {
            fn slice<'a>(elements: &HostSlice<'a>) -> Option<&'a [Self]> {
                match elements {
                    HostSlice::$variant(slice) => Some(slice),
                    _ => None,
                }
            }

            fn wrap(elements: Vec<Self>) -> HostVec {
                HostVec::$variant(elements)
            }

            fn reduce(reduction: Reduction, sources: &[&[Self]], out: &mut [MaybeUninit<Self>]) {
                $reduce(reduction, sources, out);
            }

            fn bits(self) -> u64 {
                $bits(self)
            }
        })*

        /// All these types, in an order that ranks share.
        pub(crate) const DTYPES: &[candle_core::DType] = &[$(candle_core::DType::$variant),*];

        impl HostSlice<'_> {
            /// A hash of the elements' bits.
            pub(crate) fn digest(&self) -> u64 {
                let mut hasher = std::hash::DefaultHasher::new();
                match self {
                    $(HostSlice::$variant(slice) => {
                        slice.iter().for_each(|&x| hasher.write_u64(x.bits()));
                    })*
                }
                hasher.finish()
            }
        }

        impl From<HostVec> for candle_core::CpuStorage {
            fn from(elements: HostVec) -> Self {
                match elements {
                    $(HostVec::$variant(vec) => candle_core::CpuStorage::$variant(vec),)*
                }
            }
        }

        /// The elements of a candle storage; `None` for the types without arithmetic.
        pub(crate) fn host_slice(storage: &candle_core::CpuStorage) -> Option<HostSlice<'_>> {
            match storage {
                $(candle_core::CpuStorage::$variant(vec) => Some(HostSlice::$variant(vec)),)*
                _ => None,
            }
        }

        impl<'a> HostSlice<'a> {
            /// The elements with indices in `range`, or `None` where there are none.
            pub(crate) fn part(self, range: std::ops::Range<usize>) -> Option<HostSlice<'a>> {
                match self {
                    $(HostSlice::$variant(slice) => slice.get(range).map(HostSlice::$variant),)*
                }
            }
        }

        /// Runs `$body` with `$t` bound to the Rust type of a run-time element type; the second arm where candle has no
        /// arithmetic for it.
        macro_rules! with_element {
            ($dtype:expr, $t:ident => $body:expr, else $other:expr) => {
                match $dtype {
                    $(candle_core::DType::$variant => { type $t = $ty; $body })*
                    _ => $other,
                }
            };
        }
    };
}

elements! {
    U8(u8) fold_native u64::from;
    U32(u32) fold_native u64::from;
    I16(i16) fold_native (|x| x as u64);
    I32(i32) fold_native (|x| x as u64);
    I64(i64) fold_native (|x| x as u64);
    BF16(half::bf16) fold_through_f32 (|x: half::bf16| u64::from(x.to_bits()));
    F16(half::f16) fold_through_f32 (|x: half::f16| u64::from(x.to_bits()));
    F32(f32) fold_native (|x: f32| u64::from(x.to_bits()));
    F64(f64) fold_native f64::to_bits;
    F8E4M3(float8::F8E4M3) fold_through_f32 (|x: float8::F8E4M3| u64::from(x.to_bits()));
}
pub(crate) use with_element;
