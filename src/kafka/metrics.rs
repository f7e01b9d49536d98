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

/// Why the port closed or refused a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Too many in all.
    Connections,
    /// Too many from one address.
    Address,
    /// Too many that have not signed in.
    Unauthenticated,
    /// No sign-in in time.
    SignInTime,
    /// In the clear on a port with TLS.
    NoTls,
    /// The TLS handshake failed.
    Handshake,
    /// No frame has that length; TLS and HTTP clients look so on a plain port.
    Frame,
    /// A request that can't be answered.
    Request,
    /// It stopped within a frame.
    HalfFrame,
    /// It takes no answers.
    SlowReader,
    /// It was silent for long.
    Idle,
}

impl Reason {
    const ALL: [Self; 11] = [
        Self::Connections,
        Self::Address,
        Self::Unauthenticated,
        Self::SignInTime,
        Self::NoTls,
        Self::Handshake,
        Self::Frame,
        Self::Request,
        Self::HalfFrame,
        Self::SlowReader,
        Self::Idle,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Address => "address",
            Self::Unauthenticated => "unauthenticated",
            Self::SignInTime => "sign_in_time",
            Self::NoTls => "no_tls",
            Self::Handshake => "handshake",
            Self::Frame => "frame",
            Self::Request => "request",
            Self::HalfFrame => "half_frame",
            Self::SlowReader => "slow_reader",
            Self::Idle => "idle",
        }
    }
}

/// Counters of a port.
pub(crate) struct Metrics {
    accepted: AtomicU64,
    closed: [AtomicU64; Reason::ALL.len()],
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

/// What the registry knows at the moment.
pub(crate) struct Open {
    /// Connections.
    pub connections: usize,
    /// Of these, not signed in or in their handshake.
    pub newcomers: usize,
    /// Bytes read, over all connections there ever were.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            accepted: AtomicU64::new(0),
            closed: Default::default(),
            requests: Box::new(std::array::from_fn(|_| Times::default())),
        }
    }

    /// Counts a connection that was taken.
    pub(crate) fn accepted(&self) {
        self.accepted.fetch_add(1, Relaxed);
    }

    /// Counts a connection that was refused or closed.
    pub(crate) fn closed(&self, why: Reason) {
        self.closed[why as usize].fetch_add(1, Relaxed);
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
    pub(crate) fn print(&self, open: &Open, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = self.write(open, out);
    }

    fn write(&self, open: &Open, out: &mut String) -> std::fmt::Result {
        let mut one = |name: &str, kind: &str, help: &str, value: u64| {
            writeln!(
                out,
                "# HELP tessaridb_kafka_{name} {help}\n# TYPE tessaridb_kafka_{name} {kind}\ntessaridb_kafka_{name} {value}"
            )
        };
        one("connections", "gauge", "Connections open.", open.connections as u64)?;
        let help = "Connections in their TLS handshake, or not signed in where that is wanted.";
        one("connections_unauthenticated", "gauge", help, open.newcomers as u64)?;
        let accepted = self.accepted.load(Relaxed);
        one("connections_accepted_total", "counter", "Connections taken.", accepted)?;
        one("received_bytes_total", "counter", "Bytes of requests.", open.bytes_in)?;
        one("sent_bytes_total", "counter", "Bytes of answers.", open.bytes_out)?;

        let name = "tessaridb_kafka_connections_closed_total";
        writeln!(
            out,
            "# HELP {name} Connections refused or closed by the node, by reason."
        )?;
        writeln!(out, "# TYPE {name} counter")?;
        for (why, count) in Reason::ALL.iter().zip(&self.closed) {
            writeln!(out, "{name}{{reason=\"{}\"}} {}", why.label(), count.load(Relaxed))?;
        }

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
    fn every_served_key_and_every_reason_has_its_place() {
        assert!(TABLE.iter().all(|api| (api.key as usize) < KEYS));
        for (at, why) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, at);
        }
    }

    #[test]
    fn counts_are_printed_and_buckets_add_up() {
        let metrics = Metrics::new();
        metrics.accepted();
        metrics.closed(Reason::HalfFrame);
        let produce = TABLE.iter().find(|api| api.key == ApiKey::Produce).unwrap();
        for micros in [10, 2_000, 60_000_000] {
            metrics.done(&Timed {
                key: produce.key,
                since: Instant::now() - Duration::from_micros(micros),
            });
        }
        let open = Open {
            connections: 3,
            newcomers: 1,
            bytes_in: 7,
            bytes_out: 8,
        };
        let mut out = String::new();
        metrics.print(&open, &mut out);
        for line in [
            "tessaridb_kafka_connections 3",
            "tessaridb_kafka_connections_accepted_total 1",
            "tessaridb_kafka_received_bytes_total 7",
            "tessaridb_kafka_connections_closed_total{reason=\"half_frame\"} 1",
            "tessaridb_kafka_connections_closed_total{reason=\"idle\"} 0",
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
