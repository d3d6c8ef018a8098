//! The output of an exchange: memory that several ranks fill in parts and that becomes one immutable buffer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use candle_core::DType;

use crate::comm::assemble::{OutOfBounds, Window, assemble};
use crate::comm::buffer::{Buffer, Finish};
use crate::comm::elements::{Element, HostSlice, HostVec, with_element};
use crate::plan::Routes;

/// Why there is no memory for an output.
pub(super) enum NoOutput {
    /// The element type cannot be exchanged.
    NoArithmetic,
    /// It has more elements than there is memory for.
    NoMemory,
}

/// Memory for `len` elements that `parts` ranks fill together.
pub(super) struct Output {
    /// The vector whose spare capacity is filled; its length stays 0 until all parts are.
    vec: Mutex<Option<HostVec>>,
    memory: Start,
    len: usize,
    dtype: DType,
    /// How the ranks have agreed to tile it.
    tiling: u64,
    left: AtomicUsize,
    done: OnceLock<Buffer>,
}

/// The address of the first element. Ranks write disjoint elements through it.
struct Start(*mut u8);

// SAFETY: what the address points to is written in disjoint parts, and read after all parts are done.
unsafe impl Send for Start {}
// SAFETY: as above.
unsafe impl Sync for Start {}

impl Output {
    /// Memory for the output of such routes, which nobody has touched yet.
    pub(super) fn new(dtype: DType, routes: &Routes, parts: usize) -> Result<Output, NoOutput> {
        let len = routes.len;
        let (vec, start) = with_element!(dtype, T => {
            let mut vec = Vec::<T>::new();
            vec.try_reserve_exact(len).map_err(|_| NoOutput::NoMemory)?;
            advise_huge_pages(&mut vec);
            let start = vec.as_mut_ptr().cast::<u8>();
            (T::wrap(vec), start)
        }, else return Err(NoOutput::NoArithmetic));
        Ok(Output {
            vec: Mutex::new(Some(vec)),
            memory: Start(start),
            len,
            dtype,
            tiling: routes.tiling,
            left: AtomicUsize::new(parts),
            done: OnceLock::new(),
        })
    }

    /// Fills part `part` of `parts` from the sources; whoever fills the last part makes the buffer.
    ///
    /// Each part is filled once: it belongs to one rank, which is in one call of its group at a time. Routes that tile the output
    /// in another way are refused.
    pub(super) fn fill(
        &self,
        routes: &Routes,
        part: (usize, usize),
        sources: &[Option<HostSlice<'_>>],
        finish: &dyn Finish,
    ) -> Result<(), OutOfBounds> {
        if routes.tiling != self.tiling {
            return Err(OutOfBounds);
        }
        with_element!(self.dtype, T => {
            let typed: smallvec::SmallVec<[Option<&[T]>; 8]> =
                sources.iter().map(|s| s.as_ref().and_then(T::slice)).collect();
            assemble::<T>(routes, part, &typed, &mut self.window::<T>())?;
        }, else return Err(OutOfBounds));
        // The release half publishes this part; the acquire half of the last sees all the others.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.seal(finish);
        }
        Ok(())
    }

    /// The finished buffer, once every part is filled.
    pub(super) fn buffer(&self) -> Option<Buffer> {
        self.done.get().cloned()
    }

    fn window<T>(&self) -> Window<'_, T> {
        // SAFETY: the vector has this capacity and lives as long as the output. Parts of one tiling are disjoint and each is one
        // rank's; nobody reads before all are filled.
        unsafe { Window::new(self.memory.0.cast::<T>(), self.len) }
    }

    fn seal(&self, finish: &dyn Finish) {
        let taken = self.vec.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut vec) = taken {
            // SAFETY: every part is filled, once each: `left` has counted them, and routes of one tiling cover all of `len`
            // elements, which are within capacity.
            unsafe { set_len(&mut vec, self.len) };
            let _ = self.done.set(finish.finish(vec));
        }
    }
}

/// # Safety
/// The first `len` elements are written and within capacity.
unsafe fn set_len(vec: &mut HostVec, len: usize) {
    macro_rules! each {
        ($($variant:ident)*) => {
            match vec {
                // SAFETY: passed on to the caller.
                $(HostVec::$variant(vec) => unsafe { vec.set_len(len) },)*
            }
        };
    }
    each!(U8 U32 I16 I32 I64 BF16 F16 F32 F64 F8E4M3)
}

/// Fresh pages are the cost of large results: ask for large ones, which the kernel clears and maps 512 at a time.
fn advise_huge_pages<T>(vec: &mut Vec<T>) {
    const HUGE: usize = 2 << 20;
    let bytes = vec.capacity() * size_of::<T>();
    if bytes < 2 * HUGE {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        let start = vec.as_mut_ptr() as usize;
        let (first, last) = (start.next_multiple_of(HUGE), (start + bytes) / HUGE * HUGE);
        if first < last {
            // SAFETY: the range lies within the vector's allocation; the advice does not change contents.
            unsafe { libc::madvise(first as *mut _, last - first, libc::MADV_HUGEPAGE) };
        }
    }
}
