//! What `/metrics` shows of the rooms below the front doors, in Prometheus' text form.

use crate::auth::Auth;
use crate::broker::Broker;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// How sign-ins went, in Prometheus' text form.
pub fn sign_in(auth: &Auth, out: &mut String) {
    let (name, counts) = ("tessaridb_sign_ins_total", auth.counts());
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "# HELP {name} Sign-ins with a password, by outcome.\n# TYPE {name} counter"
    );
    for (outcome, count) in [
        ("good", &counts.good),
        ("refused", &counts.refused),
        ("throttled", &counts.throttled),
        ("busy", &counts.busy),
    ] {
        let _ = writeln!(out, "{name}{{outcome=\"{outcome}\"}} {}", count.load(Relaxed));
    }
}

/// Counters and gauges of the broker, in Prometheus' text form.
pub fn broker(broker: &Broker, out: &mut String) {
    let m = broker.metrics();
    let rows = [
        (
            "appended_bytes_total",
            "counter",
            "Bytes of record batches appended.",
            &m.appended_bytes,
        ),
        (
            "appended_records_total",
            "counter",
            "Records appended.",
            &m.appended_records,
        ),
        (
            "appended_batches_total",
            "counter",
            "Batches appended.",
            &m.appended_batches,
        ),
        (
            "repeated_batches_total",
            "counter",
            "Repeats of idempotent producers, answered and not stored.",
            &m.repeated_batches,
        ),
        ("read_bytes_total", "counter", "Bytes handed to readers.", &m.read_bytes),
        (
            "append_in_flight_bytes",
            "gauge",
            "Bytes of appends not yet answered.",
            &m.in_flight_bytes,
        ),
    ];
    for (name, kind, help, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "# HELP tessaridb_{name} {help}\n# TYPE tessaridb_{name} {kind}\ntessaridb_{name} {}",
            value.load(Relaxed)
        );
    }
}
