//! One Raft group, as its users see it: submit commands in order, watch who leads.

use crate::ids::{NodeId, RangeId};
use crate::machine::Payload;
use crate::raft::{Raft, Reply, Types};
use crate::wal::Wal;
use bytes::Bytes;
use openraft::ReadPolicy;
use openraft::errors::{ClientWriteError, LinearizableReadError, RaftError};
use openraft::raft::ClientWriteResult;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot, watch};

/// The longest command, in bytes; several times what a front door lets in.
pub const MAX_COMMAND: usize = 512 << 20;

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

/// A command that is durable and applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Where it lies in the range's log.
    pub index: u64,
    /// What the machine answered.
    pub answer: Bytes,
}

/// A handle to one Raft group of this node. Cheap to clone.
#[derive(Clone)]
pub struct Range {
    inner: Arc<Inner>,
}

struct Inner {
    id: RangeId,
    node: NodeId,
    raft: Raft,
    wal: Arc<Wal>,
    leadership: watch::Sender<Leadership>,
    fatal: watch::Receiver<Option<Arc<str>>>,
    /// Bytes of commands that may be in flight; its permits go with the replies.
    room: Arc<Semaphore>,
    capacity: usize,
}

impl Range {
    pub(crate) fn new(
        id: RangeId,
        node: NodeId,
        raft: Raft,
        wal: Arc<Wal>,
        leadership: watch::Sender<Leadership>,
        fatal: watch::Receiver<Option<Arc<str>>>,
        capacity: usize,
    ) -> Self {
        let capacity = capacity.clamp(1, u32::MAX as usize);
        Self {
            inner: Arc::new(Inner {
                id,
                node,
                raft,
                wal,
                leadership,
                fatal,
                room: Arc::new(Semaphore::new(capacity)),
                capacity,
            }),
        }
    }

    /// Takes no more commands and wakes who waits.
    pub(crate) fn stop(&self) {
        self.inner.room.close();
        self.inner.leadership.send_replace(Leadership::default());
    }

    /// The range's number.
    pub fn id(&self) -> RangeId {
        self.inner.id
    }

    /// Hands a command to the log. When this returns `Ok` the command's place among all submissions made by this caller
    /// is fixed; the returned future resolves to the machine's answer once the entry is durable and applied. Waits while
    /// too many bytes are in flight. Dropping the future does not take the command back.
    pub async fn submit(
        &self,
        command: Payload,
    ) -> Result<impl Future<Output = Result<Bytes, ProposeError>> + Send + use<>, ProposeError> {
        let applied = self.submit_indexed(command).await?;
        Ok(async move { applied.await.map(|applied| applied.answer) })
    }

    /// The same, with the entry's place.
    pub(crate) async fn submit_indexed(
        &self,
        command: Payload,
    ) -> Result<impl Future<Output = Result<Applied, ProposeError>> + Send + use<>, ProposeError> {
        let inner = &self.inner;
        let size = command.size();
        if size > MAX_COMMAND {
            return Err(ProposeError::Unknown("the command is too long"));
        }
        inner.check_writes()?;
        let leader = inner.leadership.borrow().leader;
        if leader != Some(inner.node) {
            return Err(inner.not_leader(leader));
        }
        if !inner.wal.admits(!command.parts.is_empty()) {
            return Err(ProposeError::NoSpace);
        }
        let share = size.clamp(1, inner.capacity) as u32;
        let Ok(bytes) = inner.room.clone().acquire_many_owned(share).await else {
            return Err(ProposeError::Fatal("the range is stopping".into()));
        };
        let (reply, answer) = Reply::new(Some(bytes));
        if let Err(fatal) = inner.raft.client_write_ff(command, Some(reply)).await {
            // openraft refuses once its core has stopped; it did not take the command then.
            return Err(ProposeError::Fatal(fatal.to_string()));
        }
        Ok(wait(self.inner.clone(), answer))
    }

    /// `submit` and wait.
    pub async fn propose(&self, command: Payload) -> Result<Bytes, ProposeError> {
        self.submit(command).await?.await
    }

    /// Whether all that was submitted here is answered.
    pub(crate) fn is_quiet(&self) -> bool {
        self.inner.room.available_permits() == self.inner.capacity
    }

    /// Leadership as it changes.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.inner.leadership.subscribe()
    }

    /// Resolves once this node is known to lead still and has applied all that was committed when it was called
    /// (read index), or says who leads.
    pub async fn read_barrier(&self) -> Result<(), ProposeError> {
        let inner = &self.inner;
        inner.check_writes()?;
        let Leadership { leader, here, .. } = *inner.leadership.borrow();
        if leader != Some(inner.node) {
            return Err(inner.not_leader(leader));
        }
        // The only voter can't have been voted out, and whoever was answered was answered after the fold.
        if here && inner.raft.voter_ids().eq([inner.node]) {
            return Ok(());
        }
        match inner.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(to))) => {
                Err(inner.not_leader(to.leader_id.filter(|id| *id != inner.node)))
            }
            Err(RaftError::APIError(_)) => Err(inner.not_leader(None)),
            Err(RaftError::Fatal(fatal)) => Err(ProposeError::Fatal(fatal.to_string())),
        }
    }
}

impl Inner {
    fn not_leader(&self, leader: Option<NodeId>) -> ProposeError {
        ProposeError::NotLeader { range: self.id, leader }
    }

    fn check_writes(&self) -> Result<(), ProposeError> {
        match &*self.fatal.borrow() {
            Some(why) => Err(ProposeError::Fatal(why.to_string())),
            None => Ok(()),
        }
    }
}

async fn wait(inner: Arc<Inner>, answer: oneshot::Receiver<ClientWriteResult<Types>>) -> Result<Applied, ProposeError> {
    match answer.await {
        Ok(Ok(response)) => Ok(Applied {
            index: response.log_id.index,
            answer: response.data,
        }),
        // Refused before it was appended. A leader whose lease ran out names itself: nobody to send the caller to.
        Ok(Err(ClientWriteError::ForwardToLeader(to))) => {
            Err(inner.not_leader(to.leader_id.filter(|id| *id != inner.node)))
        }
        Ok(Err(ClientWriteError::LogEntryDiscarded(_))) => Err(ProposeError::Unknown("leadership was lost")),
        Ok(Err(_)) => Err(ProposeError::Unknown("an answer of another kind")),
        Err(_) => Err(ProposeError::Unknown("this node stopped writing")),
    }
}
