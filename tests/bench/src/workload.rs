//! What to do to a broker.

use crate::{consume, e2e, latency, produce, startup};
use clap::{Args, ValueEnum};
use serde_json::Value;

/// The kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// As fast as the broker takes records.
    Produce,
    /// As fast as it gives them.
    Consume,
    /// One record in flight at a time.
    Latency,
    /// From produce to consume at a steady rate.
    E2e,
    /// From process start to the first acknowledged record.
    Startup,
}

/// One workload.
#[derive(Clone, Debug, Args)]
pub struct Load {
    /// What to measure.
    #[arg(long, value_enum)]
    pub mode: Mode,
    /// Broker address.
    #[arg(long, default_value = "127.0.0.1:9092")]
    pub bootstrap: String,
    /// Topic.
    #[arg(long, default_value = "load")]
    pub topic: String,
    /// Partitions of the topic.
    #[arg(long, default_value_t = 1)]
    pub partitions: u32,
    /// Make the topic first, by CreateTopics.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub create: bool,
    /// Records to send or receive.
    #[arg(long, default_value_t = 1_000_000)]
    pub records: u64,
    /// Bytes of a record's value.
    #[arg(long, default_value_t = 100)]
    pub size: usize,
    /// Spread records round robin over the partitions, each record; otherwise as librdkafka likes.
    #[arg(long)]
    pub round_robin: bool,
    /// Records a second (e2e).
    #[arg(long, default_value_t = 1000)]
    pub rate: u64,
    /// Give up after this many seconds.
    #[arg(long, default_value_t = 120)]
    pub seconds: u64,
    /// Broker process, or several: their CPU and memory together are reported.
    #[arg(long, value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Command to start the broker with (startup).
    #[arg(long)]
    pub spawn: Option<String>,
    /// Any librdkafka property as key=value, last word.
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    pub properties: Vec<String>,
}

impl Load {
    /// Does the work and says how it went.
    pub fn run(&self) -> anyhow::Result<Value> {
        match self.mode {
            Mode::Produce => produce::run(self),
            Mode::Consume => consume::run(self),
            Mode::Latency => latency::run(self),
            Mode::E2e => e2e::run(self),
            Mode::Startup => startup::run(self),
        }
    }

    /// A pool of distinct JSON payloads, to be cycled.
    pub fn payloads(&self) -> Vec<Vec<u8>> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let count = ((16 << 20) / self.size.max(1)).clamp(16, 16_384);
        (0..count)
            .map(|_| {
                let mut value = Vec::with_capacity(self.size + 160);
                while value.len() < self.size {
                    let (p, q) = (next(), next());
                    let status = ["new", "paid", "shipped", "returned"][(q % 4) as usize];
                    value.extend_from_slice(
                        format!(
                            r#"{{"id":{},"user":"u{:08x}","price":{}.{:02},"status":"{status}","ok":true}}"#,
                            p >> 40,
                            p as u32,
                            (q >> 50) % 1000,
                            (q >> 30) % 100,
                        )
                        .as_bytes(),
                    );
                }
                value.truncate(self.size);
                value
            })
            .collect()
    }
}
