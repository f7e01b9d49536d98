//! Raft for the node's ranges: openraft over the one write-ahead log.
//!
//! ```text
//!   Range::submit --> openraft core --> store (wal::Group) --> wal writer, fdatasync
//!                         ^                                        |
//!                         +------------- durable ------------------+
//!                         |--> net --> the range's other members (`peer`)
//!                         +--> fold (Machine::apply, in log order) --> answer
//!
//!   every 64 MiB or 30 s: Machine::checkpoint --> job on a blocking thread --> purge --> segments are used anew
//! ```
//!
//! [`RangeHost`] is the entrance: it opens the log and starts ranges. openraft's types stay inside this module.

mod change;
mod checkpoint;
mod fold;
mod host;
#[cfg(test)]
pub(crate) mod many_tests;
mod net;
mod reply;
mod store;
mod succession;
#[cfg(test)]
mod tests;
mod told;

pub use change::{ChangeError, MemberProgress, RangeProgress};
pub use host::{HostConfig, HostError, RangeHost, Start};

pub(crate) use fold::Fold;
pub(crate) use reply::Reply;

use crate::ids::NodeId;
use crate::machine::Payload;
use crate::wal;
use bytes::Bytes;
use openraft::impls::{BoxedErrorSource, InlineBatch, leader_id_std};
use openraft::vote::RaftLeaderId;
use openraft::{EmptyNode, OptionalSend, RaftTypeConfig, TokioRuntime};

/// What Raft is made of here. One leader per term, so that (range, term) names one leader for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Types;

impl RaftTypeConfig for Types {
    type D = Payload;
    type R = Bytes;
    type NodeId = NodeId;
    type Node = EmptyNode;
    type Term = u64;
    type LeaderId = leader_id_std::LeaderId<u64, NodeId>;
    type Vote = openraft::Vote<Self::LeaderId>;
    type Payload = openraft::EntryPayload<Payload, NodeId, EmptyNode>;
    type Entry = openraft::Entry<<Self::LeaderId as RaftLeaderId>::Committed, Self::Payload>;
    type AsyncRuntime = TokioRuntime;
    type Responder<T>
        = Reply<T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type ErrorSource = BoxedErrorSource;
}

pub(crate) type Raft = openraft::Raft<Types, Fold>;
pub(crate) type LogId = openraft::alias::LogIdOf<Types>;
pub(crate) type Vote = openraft::alias::VoteOf<Types>;
pub(crate) type Entry = openraft::alias::EntryOf<Types>;
pub(crate) type StoredMembership = openraft::alias::StoredMembershipOf<Types>;
pub(crate) type SnapshotMeta = openraft::alias::SnapshotMetaOf<Types>;

pub(crate) fn from_raft(id: LogId) -> wal::LogId {
    wal::LogId {
        term: id.leader_id.term,
        index: id.index,
    }
}

pub(crate) fn to_raft(id: wal::LogId) -> LogId {
    LogId::new_term_index(id.term, id.index)
}
