//! tessaridb: a durable message store that unchanged Kafka clients use as their broker.
//!
//! ```text
//!   kafka   http   resp          front doors: no state, don't know each other
//!      \     |     /
//!       \   ql    /              TessariQL
//!        \   |   /              auth: who is asking, and what they may do
//!      groups |                  consumer group coordinator
//!          \  |
//!          broker                Kafka semantics over ranges
//!          /    \
//!       log      cluster         partition logs | ranges, write-ahead log, catalog, file-system seam
//! ```
//!
//! Only [`node`] builds rooms. docs/architecture.md is the map.

pub mod auth;
pub mod broker;
pub mod complaints;
pub mod config;
pub mod connections;
pub mod descriptors;
pub mod groups;
pub mod http;
pub mod kafka;
pub mod log;
pub mod names;
pub mod node;
pub mod ql;
pub mod record;
pub mod resp;
pub mod shell;
pub mod tls;
