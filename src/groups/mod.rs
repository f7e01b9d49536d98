//! Consumer groups.
//!
//! ```text
//!   handler --> Coordinator --> Group (a step function) --> outputs --> parked answers, timers, the stored generation
//! ```
//!
//! Membership lives in memory; after a restart members join anew. What must outlive it, committed offsets and the
//! group's generation, lies with the positions of the reader `kafka:<group>` in the home range of its namespace.

mod answer;
mod commits;
mod config;
mod coordinator;
mod group;
mod join;
mod member;
mod offsets;
mod requests;
pub mod subscription;
mod timers;

pub use answer::{
    DescribedMember, Description, GroupState, JoinAnswer, JoinedMember, Leaving, Output, Refusal, SyncAnswer,
};
pub use config::GroupConfig;
pub use coordinator::{Address, Coordinator};
pub use group::{Group, Limits};
pub use member::{Join, Millis, Protocol, Ticket};
pub use offsets::{Commit, ListedGroup, Subscribed};
pub use requests::{Membership, Sync};
