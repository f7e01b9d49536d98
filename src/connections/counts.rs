//! How many connections a port took, and why it closed or refused others.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a port closed or refused a connection.
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
    /// No request begins like that; TLS and HTTP clients look so on a plain port.
    Frame,
    /// A request that can't be answered.
    Request,
    /// It stopped within a request.
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

/// Counters of a port's connections.
#[derive(Default)]
pub(crate) struct Counts {
    accepted: AtomicU64,
    closed: [AtomicU64; Reason::ALL.len()],
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

impl Counts {
    /// Counts a connection that was taken.
    pub(crate) fn accepted(&self) {
        self.accepted.fetch_add(1, Relaxed);
    }

    /// Counts a connection that was refused or closed.
    pub(crate) fn closed(&self, why: Reason) {
        self.closed[why as usize].fetch_add(1, Relaxed);
    }

    /// In Prometheus' text form; each name begins with `port`.
    pub(crate) fn print(&self, port: &str, open: &Open, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = self.write(port, open, out);
    }

    fn write(&self, port: &str, open: &Open, out: &mut String) -> std::fmt::Result {
        let mut one = |name: &str, kind: &str, help: &str, value: u64| {
            writeln!(
                out,
                "# HELP {port}_{name} {help}\n# TYPE {port}_{name} {kind}\n{port}_{name} {value}"
            )
        };
        one("connections", "gauge", "Connections open.", open.connections as u64)?;
        let help = "Connections in their TLS handshake, or not signed in where that is wanted.";
        one("connections_unauthenticated", "gauge", help, open.newcomers as u64)?;
        let accepted = self.accepted.load(Relaxed);
        one("connections_accepted_total", "counter", "Connections taken.", accepted)?;
        one("received_bytes_total", "counter", "Bytes of requests.", open.bytes_in)?;
        one("sent_bytes_total", "counter", "Bytes of answers.", open.bytes_out)?;

        let name = format!("{port}_connections_closed_total");
        writeln!(
            out,
            "# HELP {name} Connections refused or closed by the node, by reason."
        )?;
        writeln!(out, "# TYPE {name} counter")?;
        for (why, count) in Reason::ALL.iter().zip(&self.closed) {
            writeln!(out, "{name}{{reason=\"{}\"}} {}", why.label(), count.load(Relaxed))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_place_and_is_printed() {
        let counts = Counts::default();
        counts.accepted();
        counts.closed(Reason::HalfFrame);
        for (at, why) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, at);
        }
        let open = Open {
            connections: 3,
            newcomers: 1,
            bytes_in: 7,
            bytes_out: 8,
        };
        let mut out = String::new();
        counts.print("tessaridb_port", &open, &mut out);
        for line in [
            "tessaridb_port_connections 3",
            "tessaridb_port_connections_accepted_total 1",
            "tessaridb_port_received_bytes_total 7",
            "tessaridb_port_connections_closed_total{reason=\"half_frame\"} 1",
            "tessaridb_port_connections_closed_total{reason=\"idle\"} 0",
        ] {
            assert!(out.lines().any(|l| l == line), "{line} in {out}");
        }
    }
}
