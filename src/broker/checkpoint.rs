//! How a range's applied state lies in the metadata store.
//!
//! ```text
//!   table            key                                      value
//!   range_markers    range u32                                the range's marker
//!   partition_logs   range u32 | topic u64 | index u32        version u8 | log_start i64 | log_end i64 | segment i64 (-1: none)
//!                                                             | segment_len u64 | count u32 | count x (epoch i32 | offset i64)
//!   producers        range u32 | topic u64 | index u32        version u8 | producer table
//!   positions        range u32 | namespace u32 | reader       version u8 | the reader's positions
//!   dropped_topics   range u32 | topic u64                    nothing
//! ```
//!
//! All rows of a range that one write changes belong to one applied index, the one its marker names; rows that it does not
//! change have not changed since the write before. Big-endian throughout.

use super::encoding::{
    Malformed, PARTITION_LEN, finish, get_count, get_namespace, get_optional_offset, get_partition, put_count,
    put_optional_offset, put_partition,
};
use super::positions::Positions;
use super::producers::ProducerTable;
use crate::log::LogCheckpoint;
use bytes::{Buf, BufMut};
use cluster::ids::{NamespaceId, PartitionId, RangeId, TopicId};
use cluster::meta::{Change, MetaError, MetaStore};
use std::collections::{BTreeSet, HashMap};
use std::io;
use tokio_util::sync::CancellationToken;

const MARKERS: &str = "range_markers";
const LOGS: &str = "partition_logs";
const PRODUCERS: &str = "producers";
const POSITIONS: &str = "positions";
const DROPPED: &str = "dropped_topics";
const VERSION: u8 = 1;

/// What a range's last checkpoint says.
#[derive(Default)]
pub(super) struct Recovered {
    pub(super) marker: Option<Vec<u8>>,
    /// Partitions that ever held a record, and their producers.
    pub(super) partitions: HashMap<PartitionId, ProducerTable>,
    pub(super) positions: Positions,
    pub(super) dropped: BTreeSet<TopicId>,
}

impl Recovered {
    pub(super) fn read(meta: &MetaStore, range: RangeId) -> Result<Self, MetaError> {
        let prefix = range.0.to_be_bytes();
        let mut found = Self {
            marker: meta.get(MARKERS, &prefix)?,
            ..Self::default()
        };
        for (key, _) in meta.scan(LOGS, &prefix)? {
            let (_, id) = partition_of(&key).map_err(MetaError::corrupt)?;
            found.partitions.insert(id, ProducerTable::default());
        }
        for (key, value) in meta.scan(PRODUCERS, &prefix)? {
            let (_, id) = partition_of(&key).map_err(MetaError::corrupt)?;
            let table = versioned(&value)
                .and_then(ProducerTable::decode)
                .map_err(MetaError::corrupt)?;
            found.partitions.insert(id, table);
        }
        for (key, value) in meta.scan(POSITIONS, &prefix)? {
            let (namespace, reader) = reader_of(&key).map_err(MetaError::corrupt)?;
            versioned(&value)
                .and_then(|value| found.positions.restore(namespace, reader, value))
                .map_err(MetaError::corrupt)?;
        }
        for (key, _) in meta.scan(DROPPED, &prefix)? {
            found.dropped.insert(topic_of(&key).map_err(MetaError::corrupt)?);
        }
        Ok(found)
    }
}

/// Where all partition logs of the node stood at the last checkpoint: what [`Logs::open`](crate::log::Logs::open) wants,
/// before any machine is made.
pub fn log_checkpoints(meta: &MetaStore) -> Result<Vec<(PartitionId, LogCheckpoint)>, MetaError> {
    meta.scan(LOGS, &[])?
        .into_iter()
        .map(|(key, value)| {
            let (_, id) = partition_of(&key)?;
            Ok((id, decode_log(&value)?))
        })
        .collect::<Result<_, Malformed>>()
        .map_err(MetaError::corrupt)
}

/// Collects the rows of one checkpoint.
pub(super) struct Rows {
    range: RangeId,
    changes: Vec<Change>,
}

impl Rows {
    pub(super) fn new(range: RangeId, marker: Vec<u8>) -> Self {
        let changes = vec![Change::put(MARKERS, range.0.to_be_bytes(), marker)];
        Self { range, changes }
    }

    /// Makes the rows durable. While the disk is full it waits, until `stop`.
    pub(super) fn write(self, meta: &MetaStore, stop: &CancellationToken) -> io::Result<()> {
        meta.write_when_room(self.changes, stop, &format_args!("range {}", self.range))
    }

    pub(super) fn log(&mut self, id: PartitionId, checkpoint: &LogCheckpoint) {
        let key = self.partition_key(id);
        self.changes.push(Change::put(LOGS, key, encode_log(checkpoint)));
    }

    pub(super) fn producers(&mut self, id: PartitionId, table: &ProducerTable) {
        let key = self.partition_key(id);
        let mut value = vec![VERSION];
        table.encode(&mut value);
        self.changes.push(Change::put(PRODUCERS, key, value));
    }

    pub(super) fn drop_partition(&mut self, id: PartitionId) {
        let key = self.partition_key(id);
        self.changes.push(Change::delete(LOGS, key.clone()));
        self.changes.push(Change::delete(PRODUCERS, key));
    }

    pub(super) fn drop_topic(&mut self, topic: TopicId) {
        let mut key = self.range.0.to_be_bytes().to_vec();
        key.put_u64(topic.0);
        self.changes.push(Change::put(DROPPED, key, []));
    }

    /// `encoded`: the reader's positions, `None` to forget it.
    pub(super) fn positions(&mut self, namespace: NamespaceId, reader: &str, encoded: Option<Vec<u8>>) {
        let mut key = Vec::with_capacity(8 + reader.len());
        key.put_u32(self.range.0);
        key.put_u32(namespace.0);
        key.put_slice(reader.as_bytes());
        self.changes.push(match encoded {
            Some(encoded) => Change::put(POSITIONS, key, [&[VERSION], &encoded[..]].concat()),
            None => Change::delete(POSITIONS, key),
        });
    }

    fn partition_key(&self, id: PartitionId) -> Vec<u8> {
        let mut key = Vec::with_capacity(4 + PARTITION_LEN);
        key.put_u32(self.range.0);
        put_partition(&mut key, id);
        key
    }
}

fn partition_of(mut key: &[u8]) -> Result<(RangeId, PartitionId), Malformed> {
    let key = &mut key;
    let range = RangeId(key.try_get_u32()?);
    let id = get_partition(key)?;
    finish(key)?;
    Ok((range, id))
}

fn reader_of(mut key: &[u8]) -> Result<(NamespaceId, String), Malformed> {
    let key = &mut key;
    key.try_get_u32()?;
    let namespace = get_namespace(key)?;
    let name = std::str::from_utf8(key).map_err(|_| Malformed("not UTF-8"))?;
    Ok((namespace, name.to_owned()))
}

fn topic_of(mut key: &[u8]) -> Result<TopicId, Malformed> {
    let key = &mut key;
    key.try_get_u32()?;
    let topic = TopicId(key.try_get_u64()?);
    finish(key)?;
    Ok(topic)
}

fn versioned(value: &[u8]) -> Result<&[u8], Malformed> {
    match value {
        [VERSION, rest @ ..] => Ok(rest),
        _ => Err(Malformed("a version of a newer node")),
    }
}

fn encode_log(checkpoint: &LogCheckpoint) -> Vec<u8> {
    let mut out = Vec::with_capacity(37 + 12 * checkpoint.epochs.len());
    out.put_u8(VERSION);
    out.put_i64(checkpoint.log_start);
    out.put_i64(checkpoint.log_end);
    put_optional_offset(&mut out, checkpoint.segment);
    out.put_u64(checkpoint.segment_len);
    put_count(&mut out, checkpoint.epochs.len());
    for (epoch, offset) in &checkpoint.epochs {
        out.put_i32(*epoch);
        out.put_i64(*offset);
    }
    out
}

fn decode_log(value: &[u8]) -> Result<LogCheckpoint, Malformed> {
    let input = &mut versioned(value)?;
    let log_start = input.try_get_i64()?;
    let log_end = input.try_get_i64()?;
    let segment = get_optional_offset(input)?;
    let segment_len = input.try_get_u64()?;
    let count = get_count(input, 12)?;
    let mut epochs = Vec::with_capacity(count);
    for _ in 0..count {
        epochs.push((input.try_get_i32()?, input.try_get_i64()?));
    }
    finish(input)?;
    Ok(LogCheckpoint {
        log_start,
        log_end,
        segment,
        segment_len,
        epochs,
    })
}
