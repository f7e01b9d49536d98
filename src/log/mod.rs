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

mod epochs;
mod files;
mod format;
mod hop;
mod index;
mod logs;
mod partition;
mod reader;
mod recovery;
mod segment;
mod shared;
mod tail;
mod times;
mod transfer;
mod writer;

#[cfg(test)]
mod tests;

pub use logs::Logs;
pub use partition::PartitionLog;
pub use shared::Health;

use bytes::Bytes;
use cluster::fs::File;
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
    /// When the leader took it; -1 where the index that says so is damaged.
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
