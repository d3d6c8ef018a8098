//! An allocator that keeps large freed blocks. Allocators give those back to the kernel at once, and new pages cost about
//! 3 us per 4 KiB.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use mimalloc::MiMalloc;

/// From this size on, blocks are kept.
const LARGE: usize = 32 << 20;

/// From this size on, blocks are counted: what small ones add is not worth the time.
const COUNTED: usize = 64 << 10;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Runs `f`; also returns the most bytes in large blocks that were alive at a time, over those alive before.
pub(crate) fn peak_of<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let value = f();
    (value, PEAK.load(Ordering::Relaxed) - before)
}

fn count(layout: Layout) {
    if layout.size() >= COUNTED {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
    }
}

fn discount(layout: Layout) {
    if layout.size() >= COUNTED {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
    }
}

/// A freed block.
#[derive(Clone, Copy)]
struct Block {
    address: usize,
    layout: Layout,
}

static FREED: Mutex<[Option<Block>; 16]> = Mutex::new([None; 16]);

/// mimalloc, which is quick with the small blocks that threads hand each other, and a shelf for large ones.
pub(crate) struct Keep;

/// Runs `f` on the first place of the shelf that `fits`.
fn on_shelf(fits: impl Fn(&Option<Block>) -> bool, f: impl FnOnce(&mut Option<Block>)) -> bool {
    let mut shelf = FREED.lock().unwrap_or_else(PoisonError::into_inner);
    let place = shelf.iter_mut().find(|place| fits(place));
    place.map(f).is_some()
}

// SAFETY: a block on the shelf was allocated by `MiMalloc` with the layout that it is handed out for, and is handed out once.
unsafe impl GlobalAlloc for Keep {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        let mut address = 0;
        let same = |place: &Option<Block>| place.is_some_and(|block| block.layout == layout);
        if layout.size() >= LARGE && on_shelf(same, |place| address = place.take().map_or(0, |b| b.address)) {
            return address as *mut u8;
        }
        // SAFETY: the caller's contract is passed on.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        discount(layout);
        let block = Block { address: pointer as usize, layout };
        if layout.size() >= LARGE && on_shelf(Option::is_none, |place| *place = Some(block)) {
            return;
        }
        // SAFETY: the caller's contract is passed on.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }
}
