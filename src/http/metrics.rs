//! What `/metrics` prints, in the Prometheus text format.

use axum::http::StatusCode;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Adds another room's metrics to the text.
pub type Collector = Box<dyn Fn(&mut String) + Send + Sync>;

/// Upper bounds of the buckets of script durations, in milliseconds.
const BUCKETS: [u64; 10] = [1, 2, 5, 10, 25, 50, 100, 500, 1_000, 5_000];

/// Why a connection was refused or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Too many.
    Connections,
    /// In the clear on a port with TLS.
    NoTls,
    /// Under TLS on a port in the clear.
    TlsUnasked,
    /// No TLS handshake, or none in time.
    Handshake,
    /// It takes no answers.
    SlowReader,
}

/// With their labels, in the order of their counters.
const REASONS: [(Reason, &str); 5] = [
    (Reason::Connections, "connections"),
    (Reason::NoTls, "no_tls"),
    (Reason::TlsUnasked, "tls_unasked"),
    (Reason::Handshake, "handshake"),
    (Reason::SlowReader, "slow_reader"),
];

pub(super) struct Metrics {
    started: Instant,
    connections: AtomicU64,
    closed: [AtomicU64; REASONS.len()],
    collectors: Vec<Collector>,
    scripts: Mutex<BTreeMap<u16, u64>>,
    running: AtomicU64,
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Metrics {
    pub(super) fn new(collectors: Vec<Collector>) -> Self {
        Self {
            started: Instant::now(),
            connections: AtomicU64::new(0),
            closed: Default::default(),
            collectors,
            scripts: Mutex::default(),
            running: AtomicU64::new(0),
            buckets: Default::default(),
            count: AtomicU64::new(0),
            micros: AtomicU64::new(0),
        }
    }

    /// Counts a connection as open as long as the guard is held.
    pub(super) fn connected(&self) -> Running<'_> {
        self.connections.fetch_add(1, Relaxed);
        Running(&self.connections)
    }

    /// Counts a connection that was refused or closed.
    pub(super) fn closed(&self, why: Reason) {
        self.closed[why as usize].fetch_add(1, Relaxed);
    }

    /// Counts a script as running as long as the guard is held.
    pub(super) fn running(&self) -> Running<'_> {
        self.running.fetch_add(1, Relaxed);
        Running(&self.running)
    }

    /// Counts a script that was answered.
    pub(super) fn script(&self, status: StatusCode, took: Duration) {
        *self.scripts.lock().entry(status.as_u16()).or_default() += 1;
        for (bound, bucket) in BUCKETS.iter().zip(&self.buckets) {
            if took <= Duration::from_millis(*bound) {
                bucket.fetch_add(1, Relaxed);
            }
        }
        self.count.fetch_add(1, Relaxed);
        self.micros
            .fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(super) fn print(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        self.collectors.iter().for_each(|collect| collect(&mut out));
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "# HELP tessaridb_build_info The version that runs.\n# TYPE tessaridb_build_info gauge"
        )?;
        writeln!(
            out,
            "tessaridb_build_info{{version=\"{}\"}} 1",
            env!("CARGO_PKG_VERSION")
        )?;
        writeln!(
            out,
            "# HELP tessaridb_uptime_seconds Time since the start.\n# TYPE tessaridb_uptime_seconds gauge"
        )?;
        writeln!(out, "tessaridb_uptime_seconds {}", self.started.elapsed().as_secs_f64())?;

        let name = "tessaridb_http_connections";
        writeln!(out, "# HELP {name} Connections open.\n# TYPE {name} gauge")?;
        writeln!(out, "{name} {}", self.connections.load(Relaxed))?;
        let name = "tessaridb_http_connections_closed_total";
        writeln!(
            out,
            "# HELP {name} Connections refused or closed by the node, by reason."
        )?;
        writeln!(out, "# TYPE {name} counter")?;
        for ((_, label), count) in REASONS.iter().zip(&self.closed) {
            writeln!(out, "{name}{{reason=\"{label}\"}} {}", count.load(Relaxed))?;
        }
        let name = "tessaridb_http_scripts_total";
        writeln!(out, "# HELP {name} Scripts answered, by status.\n# TYPE {name} counter")?;
        for (status, count) in self.scripts.lock().iter() {
            writeln!(out, "{name}{{status=\"{status}\"}} {count}")?;
        }
        let name = "tessaridb_http_scripts_running";
        writeln!(out, "# HELP {name} Scripts being carried out.\n# TYPE {name} gauge")?;
        writeln!(out, "{name} {}", self.running.load(Relaxed))?;
        let name = "tessaridb_http_script_seconds";
        writeln!(
            out,
            "# HELP {name} Time from a script's arrival to its answer.\n# TYPE {name} histogram"
        )?;
        for (bound, bucket) in BUCKETS.iter().zip(&self.buckets) {
            let bound = Duration::from_millis(*bound).as_secs_f64();
            writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {}", bucket.load(Relaxed))?;
        }
        let count = self.count.load(Relaxed);
        writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}")?;
        writeln!(
            out,
            "{name}_sum {}",
            Duration::from_micros(self.micros.load(Relaxed)).as_secs_f64()
        )?;
        writeln!(out, "{name}_count {count}")
    }
}

pub(super) struct Running<'m>(&'m AtomicU64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_counter() {
        for (at, (why, _)) in REASONS.into_iter().enumerate() {
            assert_eq!(why as usize, at);
        }
    }
}
