//! What the port counts, and how it is printed.

use super::table::{Api, TABLE};
use kafka_protocol::messages::ApiKey;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Upper bounds of the buckets of request times, in microseconds.
const BUCKETS: [u64; 12] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000,
];
/// Keys that have a place; every served key is below.
const KEYS: usize = 128;

/// Counters of requests.
pub(crate) struct Metrics {
    requests: Box<[Times; KEYS]>,
}

#[derive(Default)]
struct Times {
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

/// A request that is counted when its answer is written, or given up.
pub(crate) struct Timed {
    key: ApiKey,
    since: Instant,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            requests: Box::new(std::array::from_fn(|_| Times::default())),
        }
    }

    /// Begins to time a request.
    pub(crate) fn begin(api: &Api) -> Timed {
        Timed {
            key: api.key,
            since: Instant::now(),
        }
    }

    /// Counts a request whose answer is written.
    pub(crate) fn done(&self, timed: &Timed) {
        let Some(times) = self.requests.get(timed.key as usize) else {
            return;
        };
        let micros = u64::try_from(timed.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = BUCKETS.iter().position(|bound| micros <= *bound) {
            times.buckets[bucket].fetch_add(1, Relaxed);
        }
        times.count.fetch_add(1, Relaxed);
        times.micros.fetch_add(micros, Relaxed);
    }

    /// In Prometheus' text form.
    pub(crate) fn print(&self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = self.write(out);
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let name = "tessaridb_kafka_request_seconds";
        writeln!(
            out,
            "# HELP {name} Time from a request's arrival to its answer's departure, waiting that was asked for included."
        )?;
        writeln!(out, "# TYPE {name} histogram")?;
        for api in TABLE {
            let times = &self.requests[api.key as usize];
            let count = times.count.load(Relaxed);
            if count == 0 {
                continue;
            }
            let mut below = 0;
            for (bound, bucket) in BUCKETS.iter().zip(&times.buckets) {
                below += bucket.load(Relaxed);
                let bound = Duration::from_micros(*bound).as_secs_f64();
                writeln!(out, "{name}_bucket{{api=\"{:?}\",le=\"{bound}\"}} {below}", api.key)?;
            }
            writeln!(out, "{name}_bucket{{api=\"{:?}\",le=\"+Inf\"}} {count}", api.key)?;
            let seconds = Duration::from_micros(times.micros.load(Relaxed)).as_secs_f64();
            writeln!(out, "{name}_sum{{api=\"{:?}\"}} {seconds}", api.key)?;
            writeln!(out, "{name}_count{{api=\"{:?}\"}} {count}", api.key)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_served_key_has_its_place() {
        assert!(TABLE.iter().all(|api| (api.key as usize) < KEYS));
    }

    #[test]
    fn counts_are_printed_and_buckets_add_up() {
        let metrics = Metrics::new();
        let produce = TABLE.iter().find(|api| api.key == ApiKey::Produce).unwrap();
        for micros in [10, 2_000, 60_000_000] {
            metrics.done(&Timed {
                key: produce.key,
                since: Instant::now() - Duration::from_micros(micros),
            });
        }
        let mut out = String::new();
        metrics.print(&mut out);
        for line in [
            "tessaridb_kafka_request_seconds_bucket{api=\"Produce\",le=\"0.0005\"} 1",
            "tessaridb_kafka_request_seconds_bucket{api=\"Produce\",le=\"5\"} 2",
            "tessaridb_kafka_request_seconds_bucket{api=\"Produce\",le=\"+Inf\"} 3",
            "tessaridb_kafka_request_seconds_count{api=\"Produce\"} 3",
        ] {
            assert!(out.lines().any(|l| l == line), "{line} in {out}");
        }
        assert!(!out.contains("Fetch"));
    }
}
