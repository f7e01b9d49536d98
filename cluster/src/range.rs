//! One Raft group, as its users see it: submit commands in order, watch who leads.

use crate::ids::{NodeId, RangeId};
use crate::machine::Payload;
use bytes::Bytes;
use std::future::Future;
use tokio::sync::watch;

/// Why a command was not, or may not have been, applied. Each variant names its outcome class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Rejected: surely not applied, another member leads (or nobody yet); the caller may try elsewhere.
    #[error("this node does not lead range {range}")]
    NotLeader {
        /// The range asked.
        range: RangeId,
        /// Who leads, where known.
        leader: Option<NodeId>,
    },
    /// Rejected: surely not applied; the disk has no room for the log. Recovers when space returns.
    #[error("no space left for the write-ahead log")]
    NoSpace,
    /// Unknown: it may be applied later; only the client may retry.
    #[error("the outcome is not known: {0}")]
    Unknown(&'static str),
    /// Fatal: this node no longer writes (a sync failed, or it is stopping).
    #[error("this node no longer writes: {0}")]
    Fatal(String),
}

/// Who leads a range, in which term. (range, term) has one leader for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The leading member, where known.
    pub leader: Option<NodeId>,
    /// Raft term: the leader epoch of the range's partitions.
    pub term: u64,
    /// Whether this node leads and has applied everything from before its term, so that it may answer.
    pub here: bool,
}

/// A handle to one Raft group of this node. Cheap to clone.
#[derive(Clone)]
pub struct Range {}

impl Range {
    /// The range's number.
    pub fn id(&self) -> RangeId {
        todo!()
    }

    /// Hands a command to the log. When this returns `Ok` the command's place among all submissions made by this caller
    /// is fixed; the returned future resolves to the machine's answer once the entry is durable and applied.
    pub async fn submit(
        &self,
        command: Payload,
    ) -> Result<impl Future<Output = Result<Bytes, ProposeError>> + Send + use<>, ProposeError> {
        let _ = command;
        Ok(std::future::pending())
    }

    /// `submit` and wait.
    pub async fn propose(&self, command: Payload) -> Result<Bytes, ProposeError> {
        self.submit(command).await?.await
    }

    /// Leadership as it changes.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        todo!()
    }

    /// Resolves once this node is known to lead still and has applied all that was committed when it was called
    /// (read index), or says who leads.
    pub async fn read_barrier(&self) -> Result<(), ProposeError> {
        todo!()
    }
}
