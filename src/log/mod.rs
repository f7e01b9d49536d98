//! Partition logs: what a range's committed appends become, and what fetches read.
//!
//! ```text
//!   log_start <= high_watermark <= log_end           (one voter: high_watermark == log_end)
//!
//!   append --> tail (memory, stamped batches by reference) --> writer thread --> segment files (page cache)
//!                 |                                                                    |
//!   read <--------+--------------------------------------------------------------------+   whole batches, never parsed
//!                                                                                      checkpoint: sync, then durable
//! ```
//!
//! An append is visible to reads as soon as it returns; it needs no sync, since the write-ahead log already holds it.
//! A partition that never held a record has no file and costs only its entry in a map.

use bytes::Bytes;
use cluster::fs::{File, FileSystem};
use cluster::ids::PartitionId;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A Kafka offset: a record's number in its partition, from 0.
pub type Offset = i64;

/// How partition logs are kept.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Folder of all partition logs.
    pub dir: PathBuf,
    /// Bytes after which a segment is closed. Default 512 MiB; minimum 1 MiB.
    pub segment_bytes: u64,
    /// Bytes between two index entries. Default 4096.
    pub index_interval: u32,
    /// Bytes appended but not yet written to files, over all partitions, beyond which an append waits. Default 64 MiB.
    pub tail_bytes: usize,
}

/// One stored batch on its way in: stamped, by reference.
#[derive(Clone, Debug)]
pub struct StampedBatch {
    /// First bytes of the batch, with base offset and leader epoch in place.
    pub head: Bytes,
    /// The remaining bytes as they came.
    pub rest: Bytes,
    /// Offset of the first record; must be the log end.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// Leader epoch: the Raft term of the entry.
    pub leader_epoch: i32,
    /// When the leader took it, milliseconds since the epoch; kept exactly, per batch.
    pub append_ms: i64,
    /// Largest timestamp in the batch, milliseconds since the epoch.
    pub max_timestamp: i64,
}

/// A run of stored bytes: whole batches, in order.
#[derive(Clone)]
pub enum Piece {
    /// From memory.
    Memory(Bytes),
    /// From a file: may be sent by the kernel, or read.
    File {
        /// The segment; stays readable while held, even when dropped by retention.
        file: Arc<dyn File>,
        /// Where in the file.
        position: u64,
        /// How many bytes.
        len: usize,
    },
}

/// What a read found.
#[derive(Clone, Default)]
pub struct Slice {
    /// Whole batches; empty when `from` is the high watermark.
    pub pieces: Vec<Piece>,
    /// Bytes in all pieces.
    pub bytes: usize,
    /// Offset after the last record returned.
    pub next: Offset,
}

/// Where a partition's log stood at a checkpoint; what lies beyond is cut off at open and replayed.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct LogCheckpoint {
    /// First offset held.
    pub log_start: Offset,
    /// Next offset to be given.
    pub log_end: Offset,
    /// Base offset of the segment being written, if there is any file.
    pub segment: Option<Offset>,
    /// Its length in bytes.
    pub segment_len: u64,
    /// Leader epochs and the first offset of each, oldest first.
    pub epochs: Vec<(i32, Offset)>,
}

/// A batch found by time or offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchAt {
    /// Offset of the batch's first record.
    pub base_offset: Offset,
    /// When the leader took it.
    pub append_ms: i64,
}

/// Why a read brings nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Below the log start or above the log end (Kafka: OFFSET_OUT_OF_RANGE).
    #[error("offset {asked} is not in {log_start}..={log_end}")]
    OutOfRange {
        /// The offset asked for.
        asked: Offset,
        /// First offset held.
        log_start: Offset,
        /// Next offset to be given.
        log_end: Offset,
    },
    /// A file could not be read, or what it holds fails its checksum: named, never served.
    #[error("{file} at byte {position}: {why}")]
    Storage {
        /// The file.
        file: String,
        /// Where.
        position: u64,
        /// What is wrong.
        why: String,
    },
}

/// All partition logs of a node.
pub struct Logs {}

impl Logs {
    /// Opens the folder, cuts every log back to its checkpoint and removes files that no checkpoint names.
    /// Takes time in the number of partitions with files, not in bytes held.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        config: LogConfig,
        checkpoints: impl IntoIterator<Item = (PartitionId, LogCheckpoint)>,
    ) -> io::Result<Arc<Self>> {
        let _ = (fs, config, checkpoints.into_iter().count());
        todo!()
    }

    /// The log of a partition, made (in memory only) at first call.
    pub fn partition(&self, id: PartitionId) -> Arc<PartitionLog> {
        let _ = id;
        todo!()
    }

    /// The log of a partition, if it has one.
    pub fn get(&self, id: PartitionId) -> Option<Arc<PartitionLog>> {
        let _ = id;
        todo!()
    }

    /// Forgets a partition and deletes its files (in the background; readers holding pieces are not disturbed).
    pub fn drop_partition(&self, id: PartitionId) {
        let _ = id;
        todo!()
    }

    /// A job that makes durable all that was appended to `partitions` before this call: waits for the writer thread,
    /// then syncs files and folders. Call between applies; run on a blocking thread.
    pub fn sync_job(&self, partitions: Vec<PartitionId>) -> Box<dyn FnOnce() -> io::Result<()> + Send> {
        let _ = partitions;
        todo!()
    }

    /// Stops the writer thread once all that was appended is written.
    pub fn close(&self) {
        todo!()
    }
}

/// One partition's log.
pub struct PartitionLog {}

impl PartitionLog {
    /// Appends a batch at the log end. Only the range's machine calls this. Waits while too much is unwritten.
    pub fn append(&self, batch: StampedBatch) {
        let _ = batch;
        todo!()
    }

    /// First offset held.
    pub fn log_start(&self) -> Offset {
        todo!()
    }

    /// First offset not yet committed.
    pub fn high_watermark(&self) -> Offset {
        todo!()
    }

    /// Next offset to be given.
    pub fn log_end(&self) -> Offset {
        todo!()
    }

    /// Bytes held in files and memory.
    pub fn size(&self) -> u64 {
        todo!()
    }

    /// Moves the log start up to `to` (never back, never beyond the log end) and deletes segments that fall below.
    pub fn trim(&self, to: Offset) {
        let _ = to;
        todo!()
    }

    /// Whole batches from the one that contains `from`, up to the high watermark, at most `max_bytes`; with
    /// `first_whole` the first batch comes whatever its size.
    pub fn read(&self, from: Offset, max_bytes: usize, first_whole: bool) -> Result<Slice, ReadError> {
        let _ = (from, max_bytes, first_whole);
        todo!()
    }

    /// The first batch whose max timestamp is at least `timestamp`; the record within it is the caller's to find.
    pub fn batch_by_timestamp(&self, timestamp: i64) -> Result<Option<BatchAt>, ReadError> {
        let _ = timestamp;
        todo!()
    }

    /// The batch with the largest timestamp (ListOffsets -3, KIP-734).
    pub fn batch_with_max_timestamp(&self) -> Result<Option<BatchAt>, ReadError> {
        todo!()
    }

    /// When the leader took the batch that contains `offset`.
    pub fn append_ms(&self, offset: Offset) -> Result<Option<i64>, ReadError> {
        let _ = offset;
        todo!()
    }

    /// The offset that retention by time (of append) and by bytes would trim to at `now_ms`: whole closed segments.
    pub fn retention_point(&self, now_ms: i64, retain_ms: Option<u64>, retain_bytes: Option<u64>) -> Offset {
        let _ = (now_ms, retain_ms, retain_bytes);
        todo!()
    }

    /// KIP-101: the largest epoch not above `epoch` and the first offset after it; `None` for a future or unknown one.
    pub fn epoch_end(&self, epoch: i32) -> Option<(i32, Offset)> {
        let _ = epoch;
        todo!()
    }

    /// Epoch of the newest batch.
    pub fn latest_epoch(&self) -> Option<i32> {
        todo!()
    }

    /// Where the log stands now; to be made durable after [`Logs::sync_job`].
    pub fn checkpoint(&self) -> LogCheckpoint {
        todo!()
    }
}
