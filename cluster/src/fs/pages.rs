//! Memory that the disk can read from by itself.

use std::fmt::Debug;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;

/// What lies in a file past the page cache is written in multiples of this, in bytes.
pub const PAGE: usize = 4096;

/// Whole pages of memory, filled from the front. As large as they may get they are made once and used again, so that writing
/// from them takes no new memory; until filled they take none.
pub struct Pages {
    start: NonNull<u8>,
    capacity: usize,
    len: usize,
}

// SAFETY: it owns its memory, and hands it out by the usual rules of borrowing.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Room for `capacity` bytes, at least one, in whole pages; all zeros.
    pub fn new(capacity: usize) -> io::Result<Self> {
        let capacity = capacity.max(1).next_multiple_of(PAGE);
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: asks for new memory anywhere; what is there is not touched.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), capacity, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start: NonNull<u8> = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // Fewer, larger pages: the system takes less time to hand them to the disk. A hint, so its outcome does not matter.
        #[cfg(target_os = "linux")]
        // SAFETY: exactly the memory just mapped.
        unsafe {
            libc::madvise(start.as_ptr().cast(), capacity, libc::MADV_HUGEPAGE);
        }
        Ok(Self {
            start,
            capacity,
            len: 0,
        })
    }

    /// `len` zeros, in whole pages; as long as nobody writes to them they take no memory.
    pub fn zeros(len: usize) -> io::Result<Self> {
        let mut pages = Self::new(len)?;
        pages.len = pages.capacity;
        Ok(pages)
    }

    /// Adds the first bytes of `bytes` while there is room; how many.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.capacity - self.len);
        // SAFETY: `n` bytes from `len` on are within the mapping, and nobody else holds a reference to it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(self.len), n) };
        self.len += n;
        n
    }

    /// Whether there is no room.
    pub fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// Drops what it holds.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl Deref for Pages {
    type Target = [u8];

    /// What it was filled with.
    fn deref(&self) -> &[u8] {
        // SAFETY: mapped memory is readable, and the first `len` bytes are within it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and no reference outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.capacity) };
    }
}

impl Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pages({} of {})", self.len, self.capacity)
    }
}
