//! Front door 1: the Kafka protocol.
//!
//! ```text
//!   socket -> frame -> header -> table -> guard -> codec -> dispatch -> handlers -> broker / groups / catalog
//!     ^                                                                     |
//!     +----------------- write (vectored, sendfile) <---- reply <-----------+
//! ```
//!
//! Nothing is decoded before the guard has checked every count and length of the frame against the bytes that are there.
//! Answers leave in request order. A produce fixes its order when it is submitted, and the next request of the
//! connection may be another produce at once; every other request runs when all before it are answered.

mod access;
mod call;
mod carry;
mod config;
mod connection;
mod dispatch;
mod endpoints;
mod errors;
mod fetch_response;
mod fetch_sessions;
mod frame;
mod guard;
mod handlers;
mod metrics;
mod partitions;
mod plain;
mod pool;
mod probe;
mod reply;
mod schema;
mod server;
mod sign_in;
mod skipped;
mod table;
mod topic_configs;
mod watch;
mod write;

pub use config::KafkaConfig;
pub use probe::{DecodedFrame, decode_frame};
pub use server::KafkaServer;
pub use table::{Api, TABLE};
