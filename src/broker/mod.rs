//! Kafka semantics over ranges: append, read, list offsets, reader positions, retention.
//!
//! The one room that front doors and group coordinators talk to. It knows offsets and partitions, not wire formats.
//!
//! ```text
//!   front door --> Broker::append --> Range::submit --> log --> PartitionMachine::apply --> PartitionLog::append
//!              --> Broker::read   <------------------------------ PartitionLog::read
//! ```
//!
//! What another member leads is asked of it (`carried`).
//!
//! Start order, for the composition root:
//!
//! 1. open the metadata store; [`log_checkpoints`] of it go to [`Logs::open`](crate::log::Logs::open);
//! 2. start the system range, and with it the catalog;
//! 3. [`Broker::start`];
//! 4. for each range of the catalog that this node holds, now and as ranges are made: start a range with
//!    [`Broker::machine`], then [`Broker::add_range`].
//!
//! Stop order: front doors, [`Broker::stop`], ranges, logs.

mod append;
mod carried;
mod checkpoint;
mod command;
mod declared;
mod encoding;
mod fetch;
mod look;
mod machine;
mod metrics;
mod picture;
mod positions;
mod producers;
mod ranges;
mod read;
mod readers;
mod retention;
mod run;
mod topics;
mod wakeups;

#[cfg(test)]
pub(crate) mod tests;

use crate::log::{Health, Logs, Offset, ReadError};
use crate::record::{BatchHeader, Limits};
use bytes::Bytes;
use cluster::catalog::Catalog;
use cluster::forward::Forward;
use cluster::ids::{NodeId, PartitionId, RangeId};
use cluster::meta::MetaStore;
use cluster::range::ProposeError;
use cluster::routes::Routes;
use ranges::Ranges;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use wakeups::Wakeups;

pub use carried::{FetchAsked, FetchElsewhere, Heard, Lost};
pub use checkpoint::log_checkpoints;
pub use declared::{Declared, Live};
pub use fetch::{FetchFrom, Fetched};
pub use look::{Look, LookInto, Looked};
pub use machine::PartitionMachine;
pub use metrics::Metrics;
pub use ranges::admit;
pub use run::Run;
pub use wakeups::Subscription;

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
    /// Invalid: the caller knows an earlier leader epoch than the current one (Kafka 74).
    #[error("the leader epoch is over")]
    FencedEpoch,
    /// Rejected: the caller knows a later leader epoch than this node (Kafka 75).
    #[error("the leader epoch is not known here yet")]
    UnknownEpoch,
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

impl Marks {
    /// KIP-320: whether the caller knows the leader epoch that is current. -1: it does not say.
    pub fn check_epoch(&self, known: i32) -> Result<(), AccessError> {
        match known.cmp(&self.leader_epoch) {
            _ if known < 0 => Ok(()),
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less => Err(AccessError::FencedEpoch),
            std::cmp::Ordering::Greater => Err(AccessError::UnknownEpoch),
        }
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

/// Bounds and times of the broker.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// Bytes of appends that may be submitted and not yet answered; further ones wait. One larger than this goes alone.
    /// Default 128 MiB.
    pub in_flight_bytes: usize,
    /// A producer that did not write to a partition for this long is forgotten there. Default 24 h.
    pub producer_expiry: Duration,
    /// How long a request waits for a range that is starting or electing. Default 3 s.
    pub range_wait: Duration,
    /// Most bytes that looking for a timestamp decompresses of one batch. Default: what a batch may decompress to when it
    /// is produced.
    pub max_decompressed: u64,
    /// Time between two looks for what retention lets go. Default 30 s.
    pub retention_interval: Duration,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            in_flight_bytes: 128 << 20,
            producer_expiry: Duration::from_secs(24 * 60 * 60),
            range_wait: Duration::from_secs(3),
            max_decompressed: Limits::DEFAULT_MAX_DECOMPRESSED_BYTES,
            retention_interval: Duration::from_secs(30),
        }
    }
}

/// What a broker is made of.
pub struct BrokerParts {
    /// This node.
    pub node: NodeId,
    /// The catalog, its system range started.
    pub catalog: Catalog,
    /// Who leads what.
    pub routes: Routes,
    /// The way to ranges that other members lead; made with [`admit`].
    pub forward: Forward,
    /// The partition logs, opened with [`log_checkpoints`] of `meta`.
    pub logs: Arc<Logs>,
    /// The metadata store.
    pub meta: Arc<MetaStore>,
    /// Who of the others should know a declaration before it is answered.
    pub live: Live,
    /// Bounds and times.
    pub config: BrokerConfig,
}

/// The broker. Cheap to share behind an `Arc`.
///
/// Methods that take a topic and a partition number want a number below the topic's partition count; any other is answered
/// as a partition that is not led here.
pub struct Broker {
    node: NodeId,
    catalog: Catalog,
    logs: Arc<Logs>,
    meta: Arc<MetaStore>,
    config: BrokerConfig,
    ranges: Ranges,
    routes: Routes,
    forward: Forward,
    live: Live,
    wakeups: Arc<Wakeups>,
    metrics: Arc<Metrics>,
    budget: Arc<Semaphore>,
    health: watch::Receiver<Health>,
    /// Producer ids taken from the catalog and not yet handed out.
    producer_ids: tokio::sync::Mutex<std::ops::Range<i64>>,
    stop: CancellationToken,
}

impl Broker {
    /// Starts the broker and its retention task, within a tokio runtime. It holds no range yet.
    pub fn start(parts: BrokerParts) -> Arc<Self> {
        let in_flight_bytes = parts
            .config
            .in_flight_bytes
            .clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        let broker = Arc::new(Self {
            routes: parts.routes,
            forward: parts.forward,
            live: parts.live,
            node: parts.node,
            catalog: parts.catalog,
            health: parts.logs.health(),
            logs: parts.logs,
            meta: parts.meta,
            ranges: Ranges::default(),
            wakeups: Arc::default(),
            metrics: Arc::default(),
            budget: Arc::new(Semaphore::new(in_flight_bytes)),
            producer_ids: tokio::sync::Mutex::new(0..0),
            stop: CancellationToken::new(),
            config: BrokerConfig {
                in_flight_bytes,
                ..parts.config
            },
        });
        tokio::spawn(retention::run(Arc::downgrade(&broker), broker.stop.clone()));
        broker.answer_members();
        broker
    }

    /// Ends the broker's tasks. What was submitted is still answered.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Who leads what, here and elsewhere.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// The way to other members.
    pub fn forward(&self) -> &Forward {
        &self.forward
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What the broker counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// A subscription that resolves when any of `partitions` may hold more than when it was made. Subscribe, re-check,
    /// then wait: no wake-up is lost. Costs nothing while nothing happens.
    pub fn subscribe(&self, partitions: &[PartitionId]) -> Subscription {
        self.wakeups.subscribe(partitions)
    }

    /// How many partitions are waited for.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.wakeups.waiting()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The node's clock, milliseconds since the epoch.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
