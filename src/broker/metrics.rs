//! What the broker counts. Counters only grow; whoever prints them makes rates.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The broker's counters and gauges.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Bytes of record batches appended to partition logs, repeats and refused ones apart. Counts on every replica, and
    /// again what is replayed at start.
    pub appended_bytes: AtomicU64,
    /// Records appended, counted alike.
    pub appended_records: AtomicU64,
    /// Batches appended, counted alike.
    pub appended_batches: AtomicU64,
    /// Repeats of idempotent producers that were answered and not stored.
    pub repeated_batches: AtomicU64,
    /// Bytes handed to readers.
    pub read_bytes: AtomicU64,
    /// Bytes of appends that are submitted and not yet answered (a gauge).
    pub in_flight_bytes: AtomicU64,
}

impl Metrics {
    pub(super) fn add(counter: &AtomicU64, by: u64) {
        if by > 0 {
            counter.fetch_add(by, Relaxed);
        }
    }
}
