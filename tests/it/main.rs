//! Integration tests: real processes, real sockets, real clients. One binary, so that it links once.
//!
//! * [`kafka_wire`]: the Kafka port on raw sockets, with [`wire`] for a client.
//! * [`process`]: a tessaridb process of a test's own.

mod kafka_wire;
#[allow(dead_code)]
mod process;
mod wire;
