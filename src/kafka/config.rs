//! What the front door can be told.

use crate::connections::Budget;
use std::time::Duration;

/// How the Kafka port behaves.
#[derive(Clone, Debug)]
pub struct KafkaConfig {
    /// Host and port told to clients (`--kafka-advertise`); `None`: the address the client reached.
    pub advertise: Option<(String, u16)>,
    /// Namespace and database in which a bare topic name is looked up (`--kafka-database`).
    pub database: Option<(String, String)>,
    /// Identity of the store, as clients see it.
    pub cluster_id: String,
    /// Whether records are walked before they are accepted (`--kafka-validate`); else only their header is checked.
    pub walk_records: bool,
    /// Largest batch in bytes as sent, where the topic says nothing (`max.message.bytes`). Default 1 MiB + 12.
    pub max_message_bytes: u32,
    /// Bytes after which a segment file is closed, as clients are told. Default 512 MiB.
    pub segment_bytes: u64,
    /// The data folder, as DescribeLogDirs names it.
    pub log_dir: String,
    /// Largest frame in bytes. Default 100 MiB; minimum 1 KiB.
    pub max_frame: usize,
    /// Largest frame before sign-in, where sign-in is required. Default 512 KiB.
    pub max_frame_before_sign_in: usize,
    /// How long a sign-in lasts before a client must do it again (KIP-368, `connections.max.reauth.ms`). Default: no end.
    pub session: Option<Duration>,
    /// How long a refused sign-in waits for its answer (`connection.failed.authentication.delay.ms`). Default 100 ms.
    pub refusal_pause: Duration,
    /// What requests and answers hold at one time, over all connections, and one frame beyond; it may be shared with other
    /// ports. Default 512 MiB of its own.
    pub budget: Budget,
    /// Requests read ahead on one connection. Default 64; minimum 1.
    pub pipeline: usize,
    /// Bytes of requests read ahead on one connection. Default 128 MiB; one frame is always taken.
    pub pipeline_bytes: usize,
    /// Largest fetch answer in bytes, whatever the client asks (but for one batch). Default 64 MiB.
    pub max_fetch: usize,
    /// Connections in all. Default 16,384.
    pub max_connections: usize,
    /// Connections from one address. Default 16,384.
    pub max_connections_per_address: usize,
    /// Connections at one time that are in their TLS handshake, or not signed in where that is wanted. Default 1,000.
    pub max_unauthenticated: usize,
    /// How long these may take. Default 10 s.
    pub sign_in_time: Duration,
    /// A connection without a request for this long is closed (`connections.max.idle.ms`). Default 10 minutes.
    pub max_idle: Duration,
    /// A frame begun, or an answer being written, that moves no byte for this long closes the connection. Default 60 s.
    pub max_stall: Duration,
    /// Bytes of answers that the system holds for a client that has not taken them; `None`: as many as it likes.
    pub send_buffer: Option<usize>,
    /// Fetch sessions kept (KIP-227). Default 1,000; 0 keeps none.
    pub fetch_sessions: usize,
    /// How long a graceful stop waits for requests in flight. Default 5 s.
    pub drain: Duration,
}

impl KafkaConfig {
    /// The defaults.
    pub fn new(cluster_id: String) -> Self {
        Self {
            advertise: None,
            database: None,
            cluster_id,
            walk_records: true,
            max_message_bytes: 1_048_588,
            segment_bytes: 512 << 20,
            log_dir: "data".into(),
            max_frame: 100 << 20,
            max_frame_before_sign_in: 512 << 10,
            session: None,
            refusal_pause: Duration::from_millis(100),
            budget: Budget::new(512 << 20),
            pipeline: 64,
            pipeline_bytes: 128 << 20,
            max_fetch: 64 << 20,
            max_connections: 16_384,
            max_connections_per_address: 16_384,
            max_unauthenticated: 1_000,
            sign_in_time: Duration::from_secs(10),
            max_idle: Duration::from_secs(600),
            max_stall: Duration::from_secs(60),
            send_buffer: Some(512 << 10),
            fetch_sessions: 1000,
            drain: Duration::from_secs(5),
        }
    }
}
