//! Tests of partition logs over real files and over files that fail and crash.

mod damage;
mod faults;
mod model;
mod small;

use super::*;
use crate::record::HEADER_LEN;
use cluster::fs::FileSystem;
use cluster::ids::{PartitionId, TopicId};
use std::sync::Arc;

fn id(n: u32) -> PartitionId {
    PartitionId {
        topic: TopicId(1),
        index: n,
    }
}

fn config(dir: impl Into<PathBuf>) -> LogConfig {
    LogConfig {
        dir: dir.into(),
        segment_bytes: 4096,
        index_interval: 300,
        tail_bytes: 1 << 20,
    }
}

fn open(fs: &Arc<dyn FileSystem>, config: &LogConfig, from: &[(PartitionId, LogCheckpoint)]) -> Arc<Logs> {
    Logs::open(fs.clone(), config.clone(), from.iter().cloned()).unwrap()
}

/// A batch of `count` records (whose bytes are no records) and `size` bytes after the header.
fn batch(base: Offset, count: i32, size: usize, epoch: i32, append_ms: i64, max_timestamp: i64) -> StampedBatch {
    let mut bytes = vec![0; HEADER_LEN + size];
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes[8..12].copy_from_slice(&((HEADER_LEN + size - 12) as i32).to_be_bytes());
    bytes[12..16].copy_from_slice(&epoch.to_be_bytes());
    bytes[16] = 2;
    bytes[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    bytes[35..43].copy_from_slice(&max_timestamp.to_be_bytes());
    bytes[57..61].copy_from_slice(&count.to_be_bytes());
    for (n, byte) in bytes[HEADER_LEN..].iter_mut().enumerate() {
        *byte = (n as i64 * 31 + base) as u8;
    }
    let crc = format::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    let bytes = Bytes::from(bytes);
    StampedBatch {
        head: bytes.slice(..16),
        rest: bytes.slice(16..),
        base_offset: base,
        last_offset: base + i64::from(count) - 1,
        leader_epoch: epoch,
        append_ms,
        max_timestamp,
    }
}

fn content(batch: &StampedBatch) -> Vec<u8> {
    [&batch.head[..], &batch.rest[..]].concat()
}

fn fetched(slice: &Slice) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in &slice.pieces {
        match piece {
            Piece::Memory(part) => bytes.extend_from_slice(part),
            Piece::File { file, position, len } => {
                let mut part = vec![0; *len];
                file.read_exact_at(&mut part, *position).unwrap();
                bytes.extend_from_slice(&part);
            }
        }
    }
    assert_eq!(bytes.len(), slice.bytes);
    bytes
}

/// Makes the logs durable and says where they stand.
fn checkpoint(logs: &Logs, ids: &[PartitionId]) -> std::io::Result<Vec<(PartitionId, LogCheckpoint)>> {
    let job = logs.sync_job(ids.to_vec());
    let checkpoints = ids.iter().map(|id| (*id, logs.partition(*id).checkpoint())).collect();
    job().map(|()| checkpoints)
}
