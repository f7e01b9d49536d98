//! Kafka semantics over ranges: append, read, list offsets, reader positions, retention.
//!
//! The one room that front doors and group coordinators talk to. It knows offsets and partitions, not wire formats.
//!
//! ```text
//!   front door --> Broker::append --> Range::submit --> log --> PartitionMachine::apply --> PartitionLog::append
//!              --> Broker::read   <------------------------------ PartitionLog::read
//! ```

use crate::log::{BatchAt, Offset, ReadError, Slice};
use crate::record::BatchHeader;
use bytes::Bytes;
use cluster::catalog::{Catalog, Topic};
use cluster::ids::{NamespaceId, PartitionId, RangeId};
use cluster::range::{Leadership, ProposeError};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::watch;

/// A batch that was checked (`record::validate`) and may be stored.
#[derive(Clone, Debug)]
pub struct AppendBatch {
    /// Where to.
    pub partition: PartitionId,
    /// The range that holds the partition (from the catalog row).
    pub range: RangeId,
    /// Its header, already parsed.
    pub header: BatchHeader,
    /// The whole batch, a slice of the request's frame.
    pub bytes: Bytes,
    /// The topic's records carry the broker's append time.
    pub log_append_time: bool,
}

/// Where a batch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record (of the first copy, for a repeat).
    pub base_offset: Offset,
    /// The append time, where records carry it; -1 otherwise.
    pub log_append_time: i64,
    /// First offset held.
    pub log_start: Offset,
}

/// Why a batch was not, or may not have been, stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Not proposed, or its outcome is not known: see the class of the inner error.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// Invalid: the sequence is neither next nor a repeat (Kafka 45).
    #[error("sequence {got} where {expected} is next")]
    OutOfOrderSequence {
        /// The sequence wanted.
        expected: i32,
        /// The sequence sent.
        got: i32,
    },
    /// Invalid: a newer epoch of this producer has written (Kafka 47).
    #[error("producer epoch {got} is below {current}")]
    InvalidProducerEpoch {
        /// The epoch known.
        current: i16,
        /// The epoch sent.
        got: i16,
    },
    /// Invalid: the repeat of a batch so old that its offset is forgotten (Kafka 45/46; see docs/compatibility.md).
    #[error("a repeat older than the last five batches")]
    DuplicateSequence,
    /// Rejected: the partition was dropped.
    #[error("the partition is gone")]
    Gone,
}

/// Where a reader (a Kafka group's is named `kafka:<group>`) stands in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Committed Kafka offset = messages read = TessariQL position.
    pub offset: Offset,
    /// Leader epoch the client committed, -1 if none.
    pub leader_epoch: i32,
    /// What the client attached, as sent.
    pub metadata: String,
    /// When it was committed, milliseconds since the epoch.
    pub commit_ms: i64,
}

/// A change of reader positions, applied atomically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PositionChange {
    /// Sets a position.
    Set(PartitionId, Position),
    /// Sets a position if it still is what the caller saw (`None`: there was none); else the whole change is refused.
    SetIf(PartitionId, Option<Offset>, Position),
    /// Deletes one partition's position.
    Delete(PartitionId),
    /// Deletes all of the reader's positions.
    DeleteAll,
}

/// Why positions were not changed or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PositionError {
    /// See the class of the inner error.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// Invalid: another reader of the same name moved in between.
    #[error("the position moved meanwhile")]
    Moved,
    /// Invalid: there is no such namespace.
    #[error("the namespace is gone")]
    NoNamespace,
}

/// Why a partition can't be read here.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Rejected: this node does not lead it, or does not know yet that it does.
    #[error("not led here")]
    NotLeader,
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// What a partition's log holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Marks {
    pub log_start: Offset,
    pub high_watermark: Offset,
    pub log_end: Offset,
    /// The current leader epoch (term) of the partition's range.
    pub leader_epoch: i32,
    pub size: u64,
}

/// The broker. Cheap to share behind an `Arc`.
pub struct Broker {}

impl Broker {
    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        todo!()
    }

    /// Who leads the partition's range, as it changes. `None` while this node does not hold the range.
    pub fn leadership(&self, range: RangeId) -> Option<watch::Receiver<Leadership>> {
        let _ = range;
        todo!()
    }

    /// Submits batches. When this returns, their order against later calls of the same caller is fixed (the caller
    /// awaits it before submitting more); the returned future resolves once they are durable and applied, one answer a
    /// batch, in the order given. Waits while too many bytes are in flight. A range that is just starting is waited for,
    /// briefly.
    pub async fn append(
        &self,
        batches: Vec<AppendBatch>,
    ) -> impl Future<Output = Vec<Result<Appended, AppendError>>> + Send + use<> {
        std::future::ready(vec![Err(AppendError::Gone); batches.len()])
    }

    /// Stored bytes from `from` up to the high watermark.
    pub fn read(
        &self,
        topic: &Topic,
        index: u32,
        from: Offset,
        max_bytes: usize,
        first_whole: bool,
    ) -> Result<(Marks, Slice), AccessError> {
        let _ = (topic, index, from, max_bytes, first_whole);
        todo!()
    }

    /// The partition's marks.
    pub fn marks(&self, topic: &Topic, index: u32) -> Result<Marks, AccessError> {
        let _ = (topic, index);
        todo!()
    }

    /// A subscription that resolves when any of `partitions` may hold more than when it was made. Subscribe, re-check,
    /// then wait: no wake-up is lost. Costs nothing while nothing happens.
    pub fn subscribe(&self, partitions: &[PartitionId]) -> Subscription {
        let _ = partitions;
        todo!()
    }

    /// The first record at or after a timestamp: (offset, its timestamp, leader epoch).
    /// Decompresses at most one batch, with a cap.
    pub fn offset_by_timestamp(
        &self,
        topic: &Topic,
        index: u32,
        timestamp: i64,
    ) -> Result<Option<(Offset, i64, i32)>, AccessError> {
        let _ = (topic, index, timestamp);
        todo!()
    }

    /// The record with the largest timestamp: (offset, its timestamp, leader epoch).
    pub fn offset_of_max_timestamp(
        &self,
        topic: &Topic,
        index: u32,
    ) -> Result<Option<(Offset, i64, i32)>, AccessError> {
        let _ = (topic, index);
        todo!()
    }

    /// When the leader took the batch that contains `offset`.
    pub fn batch_at(&self, topic: &Topic, index: u32, offset: Offset) -> Result<Option<BatchAt>, AccessError> {
        let _ = (topic, index, offset);
        todo!()
    }

    /// KIP-320: (largest epoch not above `epoch`, first offset after it), `None` for an unknown one.
    pub fn epoch_end(&self, topic: &Topic, index: u32, epoch: i32) -> Result<Option<(i32, Offset)>, AccessError> {
        let _ = (topic, index, epoch);
        todo!()
    }

    /// Moves the log start up to `to` (`None`: the high watermark) and answers the new log start.
    /// Above the high watermark: `ReadError::OutOfRange`.
    pub async fn delete_records(&self, topic: &Topic, index: u32, to: Option<Offset>) -> Result<Offset, DeleteError> {
        let _ = (topic, index, to);
        todo!()
    }

    /// Changes a reader's positions: one entry in the log of the namespace's home range.
    pub async fn change_positions(
        &self,
        namespace: NamespaceId,
        reader: &str,
        changes: Vec<PositionChange>,
    ) -> Result<(), PositionError> {
        let _ = (namespace, reader, changes);
        todo!()
    }

    /// All positions of one reader.
    pub async fn positions(
        &self,
        namespace: NamespaceId,
        reader: &str,
    ) -> Result<Vec<(PartitionId, Position)>, PositionError> {
        let _ = (namespace, reader);
        todo!()
    }

    /// Names of all readers of a namespace that have a position.
    pub async fn readers(&self, namespace: NamespaceId) -> Result<Vec<String>, PositionError> {
        let _ = namespace;
        todo!()
    }

    /// All readers' positions in one topic: (reader, partition, position).
    pub async fn positions_in(&self, topic: &Topic) -> Result<Vec<(String, u32, Position)>, PositionError> {
        let _ = topic;
        todo!()
    }

    /// A block of producer ids, from the catalog, handed out one by one.
    pub async fn producer_id(&self) -> Result<i64, ProposeError> {
        todo!()
    }

    /// Drops a topic: the catalog row first, then its data and positions in the ranges (finished after a crash).
    pub async fn drop_topic(&self, topic: Arc<Topic>) -> Result<(), cluster::catalog::CatalogFailure> {
        let _ = topic;
        todo!()
    }
}

/// Why records were not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// Not led here, or out of range.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// See the class of the inner error.
    #[error(transparent)]
    Propose(#[from] ProposeError),
}

/// See [`Broker::subscribe`].
pub struct Subscription {}

impl Subscription {
    /// Resolves at the first change since the subscription was made or last woke.
    pub async fn changed(&mut self) {
        todo!()
    }
}
