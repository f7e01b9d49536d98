//! Limits of the client ports: what strangers and careless clients may take. Past one, a connection is closed, a line is
//! logged (at most one a second), and a counter in `/metrics` grows.

use clap::Args;
use clap::builder::RangedU64ValueParser;

/// What clients may take.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct Limits {
    /// Connections to the Kafka port at once.
    #[arg(long, value_name = "COUNT", env = "TESSARIDB_MAX_CONNECTIONS", default_value_t = 10_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub max_connections: usize,

    /// Connections to the Kafka port at once from one address.
    #[arg(long, value_name = "COUNT", env = "TESSARIDB_MAX_CONNECTIONS_PER_ADDRESS", default_value_t = 5_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub max_connections_per_address: usize,

    /// Connections to the HTTP port at once.
    #[arg(long, value_name = "COUNT", env = "TESSARIDB_MAX_HTTP_CONNECTIONS", default_value_t = 1_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub max_http_connections: usize,

    /// Connections to the RESP port at once; three quarters of them at most from one address.
    #[arg(long, value_name = "COUNT", env = "TESSARIDB_MAX_RESP_CONNECTIONS", default_value_t = 2_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub max_resp_connections: usize,

    /// Connections at once, on the Kafka port and on the RESP port, that have not signed in yet, where a sign-in is wanted, or are in their TLS handshake.
    /// One too many ends the one that has been silent longest.
    #[arg(long, value_name = "COUNT", env = "TESSARIDB_MAX_UNAUTHENTICATED", default_value_t = 1_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub max_unauthenticated: usize,

    /// Seconds a Kafka or RESP connection may take for its TLS handshake and sign-in.
    #[arg(long, value_name = "SECONDS", env = "TESSARIDB_SIGN_IN_SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=600))]
    pub sign_in_seconds: u64,

    /// Largest request on the Kafka and RESP ports, in bytes; before sign-in it is 524288 and 16384 at most.
    #[arg(long, value_name = "BYTES", env = "TESSARIDB_MAX_REQUEST_BYTES", default_value_t = 104_857_600,
          value_parser = clap::value_parser!(u32).range(1_048_576..=1_073_741_824))]
    pub max_request_bytes: u32,

    /// Bytes of requests held at once, over all Kafka and RESP connections: a quarter of it for requests that are still
    /// arriving.
    #[arg(long, value_name = "BYTES", env = "TESSARIDB_MAX_INFLIGHT_BYTES", default_value_t = 268_435_456,
          value_parser = clap::value_parser!(u32).range(4_194_304..))]
    pub max_inflight_bytes: u32,

    /// Bytes of requests held at once for one Kafka connection; one request is always taken.
    #[arg(long, value_name = "BYTES", env = "TESSARIDB_MAX_INFLIGHT_BYTES_PER_CONNECTION", default_value_t = 67_108_864,
          value_parser = clap::value_parser!(u32).range(65_536..=1_073_741_824))]
    pub max_inflight_bytes_per_connection: u32,

    /// Requests read ahead on one Kafka connection; XADDs on their way on one RESP connection.
    #[arg(long, value_name = "COUNT", env = "TESSARIDB_MAX_QUEUED_REQUESTS", default_value_t = 64,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_024))]
    pub max_queued_requests: usize,

    /// Seconds after which a silent Kafka or RESP connection is closed.
    #[arg(long, value_name = "SECONDS", env = "TESSARIDB_IDLE_SECONDS", default_value_t = 600,
          value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub idle_seconds: u64,

    /// Seconds after which a Kafka or RESP connection is closed that stops within a request, or takes no answer. While requests
    /// wait for memory it is two seconds for those that hold it and hardly move.
    #[arg(long, value_name = "SECONDS", env = "TESSARIDB_STALL_SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub stall_seconds: u64,

    /// Bytes of answers that the system holds for a Kafka or RESP client that has not taken them yet; 0: as many as the
    /// system likes, for clients that are far away.
    #[arg(long, value_name = "BYTES", env = "TESSARIDB_SEND_BUFFER_BYTES", default_value_t = 524_288,
          value_parser = clap::value_parser!(u32).range(..=1_073_741_824))]
    pub send_buffer_bytes: u32,
}

impl Limits {
    /// [`Self::send_buffer_bytes`], unless the system may choose.
    pub fn send_buffer(&self) -> Option<usize> {
        (self.send_buffer_bytes > 0).then_some(self.send_buffer_bytes as usize)
    }
}
