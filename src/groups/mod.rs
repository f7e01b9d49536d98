//! Consumer groups.
//!
//! ```text
//!   handler --> Coordinator --> Group (a step function) --> outputs --> parked answers, timers, the stored generation
//! ```
//!
//! Membership lives in memory; after a restart members join anew. What must outlive it, committed offsets and the
//! group's generation, lies with the positions of the reader `kafka:<group>` in the home range of its namespace.

mod answer;
mod group;
mod join;
mod member;
pub mod subscription;

pub use answer::{
    DescribedMember, Description, GroupState, JoinAnswer, JoinedMember, Leaving, Output, Refusal, SyncAnswer,
};
pub use group::{Group, Limits};
pub use member::{Join, Millis, Protocol, Ticket};

/// The consumer group coordinator.
pub struct Coordinator {}
