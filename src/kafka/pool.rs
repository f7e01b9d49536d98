//! Large frame buffers, used again: fresh ones cost a page fault for every 4 KiB.

use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// Smallest and largest capacity kept, as powers of two: 64 KiB and 16 MiB.
const SMALLEST: u32 = 16;
const LARGEST: u32 = 24;

/// Buffers by size class.
pub(crate) struct Pool {
    classes: Mutex<Classes>,
    /// Bytes kept at most.
    limit: usize,
}

struct Classes {
    free: [Vec<Vec<u8>>; (LARGEST - SMALLEST + 1) as usize],
    bytes: usize,
}

/// A buffer that goes back to its pool when dropped.
pub(crate) struct Pooled {
    buffer: Vec<u8>,
    pool: Arc<Pool>,
}

impl Pool {
    /// Keeps at most `limit` bytes of free buffers.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            classes: Mutex::new(Classes {
                free: Default::default(),
                bytes: 0,
            }),
            limit,
        })
    }

    /// An empty buffer of at least `capacity` bytes.
    pub(crate) fn take(self: &Arc<Self>, capacity: usize) -> Pooled {
        let class = class_for(capacity);
        let kept = class.and_then(|class| {
            let mut classes = self.classes.lock();
            let kept = classes.free[class].pop()?;
            classes.bytes -= kept.capacity();
            Some(kept)
        });
        let buffer = kept.unwrap_or_else(|| match class {
            Some(class) => Vec::with_capacity(1 << (class as u32 + SMALLEST)),
            None => Vec::with_capacity(capacity),
        });
        Pooled {
            buffer,
            pool: self.clone(),
        }
    }

    fn put(&self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let Some(class) = class_for(capacity).filter(|class| capacity == 1 << (*class as u32 + SMALLEST)) else {
            return;
        };
        buffer.clear();
        let mut classes = self.classes.lock();
        if classes.bytes + capacity <= self.limit {
            classes.bytes += capacity;
            classes.free[class].push(buffer);
        }
    }
}

/// The smallest class with that capacity; `None` below half the smallest class (not worth it) and above the largest.
fn class_for(capacity: usize) -> Option<usize> {
    if capacity <= 1 << (SMALLEST - 1) || capacity > 1 << LARGEST {
        return None;
    }
    let bits = usize::BITS - (capacity - 1).leading_zeros();
    Some((bits.max(SMALLEST) - SMALLEST) as usize)
}

impl Pooled {
    /// The buffer.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Makes room for `capacity` bytes, keeping the content.
    pub(crate) fn grow(&mut self, capacity: usize) {
        if capacity > self.buffer.capacity() {
            let mut larger = self.pool.take(capacity);
            larger.buffer.extend_from_slice(&self.buffer);
            std::mem::swap(self, &mut larger);
        }
    }

    /// The content, shared; the buffer goes back when the last slice is dropped.
    pub(crate) fn freeze(mut self) -> Bytes {
        if class_for(self.buffer.capacity()).is_some() {
            Bytes::from_owner(self)
        } else {
            Bytes::from(std::mem::take(&mut self.buffer))
        }
    }
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        self.pool.put(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_last_slice_is_gone() {
        let pool = Pool::new(1 << 20);
        let mut taken = pool.take(100_000);
        taken.buffer().extend_from_slice(b"hello");
        let at = taken.buffer().as_ptr();
        let bytes = taken.freeze();
        let slice = bytes.slice(1..3);
        drop(bytes);
        assert_ne!(pool.take(100_000).buffer().as_ptr(), at);
        assert_eq!(&slice[..], b"el");
        drop(slice);
        let mut again = pool.take(70_000);
        assert!(again.buffer().is_empty() && again.buffer().capacity() == 128 << 10);
        // The one dropped last is on top.
        assert_eq!(again.buffer().as_ptr(), at);
    }

    #[test]
    fn the_pool_keeps_no_more_than_its_limit() {
        let pool = Pool::new(256 << 10);
        let many: Vec<_> = (0..8).map(|_| pool.take(128 << 10)).collect();
        drop(many);
        assert_eq!(pool.classes.lock().bytes, 256 << 10);
        drop(pool.take(64 << 20));
        drop(pool.take(10));
        assert_eq!(pool.classes.lock().bytes, 256 << 10);
    }
}
