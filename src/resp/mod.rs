//! Front door 3: the Redis protocol (RESP2 and RESP3), for its commands about streams, over topics.
//!
//! ```text
//!   socket -> decode -> table -> dispatch --+-- session   AUTH, HELLO, PING, ..
//!     ^                                     +-- write     XADD -> ql::exec::Engine::submit (as CREATE), XTRIM -> broker
//!     |                                     +-- read, xread   stream -> broker, wherever a partition is led -> entries
//!     +----------- connection <---- reply <-+
//! ```
//!
//! A key is a topic's name, a partition a stream, an entry's id its position. docs/redis.md is what users are told.

mod call;
mod config;
mod connection;
mod decode;
mod dispatch;
mod entries;
mod errors;
mod id;
mod keys;
mod metrics;
mod number;
mod read;
mod reply;
mod server;
mod session;
mod stream;
mod table;
mod watch;
mod write;
mod xread;

#[cfg(test)]
mod tests;

pub use config::RespConfig;
pub use decode::{Command, CommandLimits, Decoder, Malformed};
pub use server::RespServer;
