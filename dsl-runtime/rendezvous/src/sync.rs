//! The one door through which the protocol reaches threads and atomics.
//!
//! `tests/loom.rs` compiles the protocol's files over a module of the same name that hands out loom's types instead.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;

/// Whether a wait may spin before it parks; a model checker would only see more of the same states.
pub(crate) const SPINS: bool = true;
