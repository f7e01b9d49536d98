//! Everything about many nodes, knowing nothing of Kafka.
//!
//! ```text
//!   broker (crate tessaridb)
//!      |  Range::submit(Payload)            implements: Machine
//!      v                                       ^
//!   range ----> openraft ----> machine task ---+   apply, in log order
//!                  |
//!                  v
//!   wal: one write-ahead log for all groups of the node, one fdatasync for all that wait
//!                  |
//!                  v
//!   fs: the only code that touches files (real, and faulty in memory for tests)
//! ```
//!
//! * [`ids`]: the identities every room shares.
//! * [`fs`]: the file-system seam.
//! * [`threads`]: where work that blocks is done.
//! * [`wal`]: the node's write-ahead log.
//! * [`machine`]: what a range's log folds into (a port, filled by the broker and by the catalog).
//! * [`raft`]: Raft for the node's ranges; [`raft::RangeHost`] opens the log and starts them.
//! * [`range`]: one Raft group: submit commands, watch leadership.
//! * [`peer`]: gRPC over mutual TLS between the nodes of a store.
//! * [`forward`]: carries commands and questions to the member that must answer them.
//! * [`meta`]: the node's metadata store, durable at checkpoints.
//! * [`routes`]: which member answers for what.
//! * [`membership`]: who belongs to the store and what they hold.
//! * [`planted`]: bugs put in on purpose, in simulations.
//! * [`catalog`]: namespaces, databases, topics, ranges, replica rows: the system range's machine.

pub mod catalog;
pub mod forward;
pub mod fs;
pub mod ids;
pub mod machine;
pub mod membership;
pub mod meta;
pub mod peer;
pub mod planted;
pub mod raft;
pub mod range;
pub mod routes;
pub mod threads;
pub mod wal;
