//! What happened, as one number: two runs with the same trace did the same things at the same times.

use parking_lot::Mutex;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Clones are the same trace.
#[derive(Clone, Default)]
pub struct Trace {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    hasher: Mutex<DefaultHasher>,
    count: AtomicU64,
    print: std::sync::atomic::AtomicBool,
}

impl Trace {
    /// Prints each event as it comes, too.
    pub fn print(&self) {
        self.inner.print.store(true, Ordering::Relaxed);
    }

    /// Notes an event.
    pub fn note(&self, at: u64, what: std::fmt::Arguments<'_>) {
        let line = what.to_string();
        let mut hasher = self.inner.hasher.lock();
        (at, &line).hash(&mut *hasher);
        self.inner.count.fetch_add(1, Ordering::Relaxed);
        if self.inner.print.load(Ordering::Relaxed) {
            println!("{at:>7} {line}");
        }
    }

    /// Number of events, and what they come to.
    pub fn sum(&self) -> (u64, u64) {
        (
            self.inner.count.load(Ordering::Relaxed),
            self.inner.hasher.lock().finish(),
        )
    }
}
