//! An allocator that counts, by thread, the bytes held and the most ever held.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: isize) {
    // Thread-locals are gone while a thread ends; what it frees then is of no interest.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The most bytes of heap that `work` held at a time on this thread, beyond what was held before.
pub(crate) fn peak(work: impl FnOnce()) -> usize {
    let (before, outer) = (HELD.get(), PEAK.get());
    PEAK.set(before);
    work();
    let inner = PEAK.get();
    PEAK.set(outer.max(inner));
    (inner - before).max(0) as usize
}

#[cfg(test)]
mod tests {
    #[test]
    fn claims_are_seen_even_when_given_back() {
        let peak = super::peak(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(5 << 20))));
        assert!((5 << 20..6 << 20).contains(&peak), "{peak}");
    }
}
