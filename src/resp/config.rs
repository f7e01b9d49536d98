//! What the front door can be told.

use super::decode::CommandLimits;
use crate::connections::Budget;
use std::time::Duration;

/// How the RESP port behaves.
#[derive(Clone, Debug)]
pub struct RespConfig {
    /// Namespace and database in which a bare topic name is looked up (`--kafka-database`).
    pub database: Option<(String, String)>,
    /// How large a command may be. Default 100 MiB and 65,536 arguments.
    pub limits: CommandLimits,
    /// The same before sign-in, where sign-in is wanted. Default 16 KiB and 32 arguments.
    pub limits_before_sign_in: CommandLimits,
    /// What commands and answers hold at one time, over all connections, and one command beyond; it may be shared with
    /// other ports. Default 256 MiB of its own.
    pub budget: Budget,
    /// Bytes of entries in one answer; XREAD's first entry comes whatever its size. Default 16 MiB.
    pub answer_bytes: usize,
    /// XADDs of one connection that are on their way at one time. Default 64; minimum 1.
    pub pipeline: usize,
    /// Connections in all. Default 2,000.
    pub max_connections: usize,
    /// Connections at one time that are in their TLS handshake, or not signed in where that is wanted. Default 1,000.
    pub max_unauthenticated: usize,
    /// How long these may take. Default 10 s.
    pub sign_in_time: Duration,
    /// A connection without a command for this long is closed. Default 10 minutes.
    pub max_idle: Duration,
    /// A command begun, or an answer being written, that moves no byte for this long closes the connection. Default 60 s.
    pub max_stall: Duration,
    /// Bytes of answers that the system holds for a client that has not taken them; `None`: as many as it likes.
    pub send_buffer: Option<usize>,
    /// How long a graceful stop waits for commands under way. Default 5 s.
    pub drain: Duration,
}

impl Default for RespConfig {
    fn default() -> Self {
        Self {
            database: None,
            limits: CommandLimits {
                bytes: 100 << 20,
                arguments: 65_536,
            },
            limits_before_sign_in: CommandLimits {
                bytes: 16 << 10,
                arguments: 32,
            },
            budget: Budget::new(256 << 20),
            answer_bytes: 16 << 20,
            pipeline: 64,
            max_connections: 2_000,
            max_unauthenticated: 1_000,
            sign_in_time: Duration::from_secs(10),
            max_idle: Duration::from_secs(600),
            max_stall: Duration::from_secs(60),
            send_buffer: Some(512 << 10),
            drain: Duration::from_secs(5),
        }
    }
}

impl RespConfig {
    /// Connections from one address: three quarters of all, so that no single client takes the port from all others.
    pub(crate) fn max_connections_per_address(&self) -> usize {
        self.max_connections.saturating_mul(3).div_ceil(4).max(1)
    }
}
