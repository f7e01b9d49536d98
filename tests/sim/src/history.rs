//! What clients saw and nodes showed, and what is wrong with it. Invariants look at it as it grows.

use crate::invariants::Invariants;
use crate::trace::Trace;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An invariant that does not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Its name.
    pub invariant: &'static str,
    /// What was seen.
    pub what: String,
}

/// Clones are the same history.
#[derive(Clone)]
pub struct History {
    inner: Arc<Inner>,
}

struct Inner {
    now: AtomicU64,
    trace: Trace,
    invariants: Mutex<Invariants>,
    violation: Mutex<Option<Violation>>,
    /// The only invariant that counts.
    only: Option<String>,
}

impl History {
    /// With `only`, no other invariant counts: to see that this one notices something by itself.
    pub fn new(trace: Trace, only: Option<String>) -> Self {
        Self {
            inner: Arc::new(Inner {
                now: AtomicU64::new(0),
                trace,
                invariants: Mutex::default(),
                violation: Mutex::default(),
                only,
            }),
        }
    }

    pub fn pass(&self, now: u64) {
        self.inner.now.store(now, Ordering::Relaxed);
    }

    pub fn now(&self) -> u64 {
        self.inner.now.load(Ordering::Relaxed)
    }

    /// Notes an event.
    pub fn note(&self, what: std::fmt::Arguments<'_>) {
        self.inner.trace.note(self.now(), what);
    }

    /// Tells the invariants something; the first that is broken stays.
    pub fn tell<T>(&self, tell: impl FnOnce(&mut Invariants) -> Result<T, Violation>) -> Option<T> {
        match tell(&mut self.inner.invariants.lock()) {
            Ok(told) => Some(told),
            Err(violation) => {
                self.violate(violation);
                None
            }
        }
    }

    pub fn violate(&self, violation: Violation) {
        self.note(format_args!("violation: {}: {}", violation.invariant, violation.what));
        let counts = |only: &String| only == violation.invariant;
        if self.inner.only.as_ref().is_none_or(counts) {
            self.inner.violation.lock().get_or_insert(violation);
        }
    }

    pub fn violation(&self) -> Option<Violation> {
        self.inner.violation.lock().clone()
    }
}
