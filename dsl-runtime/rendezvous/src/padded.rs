//! Keeping what different threads write on different cache lines.

use std::ops::Deref;

/// A value alone on its cache lines: two of 64 bytes, since processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
