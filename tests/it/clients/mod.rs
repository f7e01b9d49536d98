//! Stock clients against a node, unchanged: librdkafka (Rust and Python), kafka-python, aiokafka, kcat, and Java's.
//!
//! What they need is installed by the tests, pinned; nothing is skipped where `CI` is set.
//!
//! * [`install`]: the Python environment, Java's class path, and kcat;
//! * [`record`]: the records tests send, as the clients' programs read and print them;
//! * [`sign_in`]: users, over SASL;
//! * [`stock`]: one way to produce and consume with each of the clients;
//! * [`stored`]: what lies in a partition, byte for byte.

mod example;
mod groups;
pub(crate) mod install;
mod pairs;
mod placement;
mod record;
mod sign_in;
pub(crate) mod stock;
mod stored;
