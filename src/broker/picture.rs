//! A range's applied state as one member sends it to another: positions and folds, no record data.
//!
//! ```text
//!   picture     version u8
//!               | count u32 | count x (topic u64 | index u32 | log_start i64 | log_end i64
//!                                      | epochs u32 x (epoch i32 | offset i64) | length u32 | producer table)
//!               | count u32 | count x (namespace u32 | reader str | length u32 | the reader's positions)
//!               | count u32 | count x topic u64 (dropped)
//!   ask         version u8 | topic u64 | index u32 | from i64 | to i64
//! ```
//!
//! Big-endian. The batches between the receiver's log ends and those of the picture are asked for one stretch after another
//! ([`PartitionLog::give`](crate::log::PartitionLog::give)).

use super::encoding::{
    Malformed, PARTITION_LEN, finish, get_count, get_namespace, get_partition, get_str, put_count, put_partition,
    put_str,
};
use super::machine::RangeView;
use super::positions::Positions;
use super::producers::ProducerTable;
use crate::log::{LogCheckpoint, Logs, Offset, PartitionLog};
use bytes::{Buf, BufMut, Bytes};
use cluster::ids::{PartitionId, TopicId};
use cluster::machine::{Bulk, Fetch};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

const VERSION: u8 = 1;

/// Bytes of batches given at a time, about.
pub(super) const STRETCH: usize = 2 << 20;

/// Where a partition's log is to be.
pub(super) struct Wanted {
    pub(super) log_start: Offset,
    pub(super) log_end: Offset,
    pub(super) epochs: Vec<(i32, Offset)>,
}

/// The state of a range.
#[derive(Default)]
pub(super) struct Picture {
    /// Where each partition's log is, and who produced to it.
    pub(super) partitions: BTreeMap<PartitionId, (Wanted, ProducerTable)>,
    pub(super) positions: Positions,
    pub(super) dropped: BTreeSet<TopicId>,
}

/// Writes a picture; partitions first, in any order.
pub(super) struct PictureWriter(Vec<u8>);

impl PictureWriter {
    pub(super) fn new(partitions: usize) -> Self {
        let mut out = vec![VERSION];
        put_count(&mut out, partitions);
        Self(out)
    }

    pub(super) fn partition(&mut self, id: PartitionId, log: &LogCheckpoint, producers: &ProducerTable) {
        let out = &mut self.0;
        put_partition(out, id);
        out.put_i64(log.log_start);
        out.put_i64(log.log_end);
        put_count(out, log.epochs.len());
        for (epoch, offset) in &log.epochs {
            out.put_i32(*epoch);
            out.put_i64(*offset);
        }
        let mut table = Vec::new();
        producers.encode(&mut table);
        put_count(out, table.len());
        out.put_slice(&table);
    }

    pub(super) fn finish(mut self, positions: &Positions, dropped: &BTreeSet<TopicId>) -> Bytes {
        let out = &mut self.0;
        let readers = positions.all();
        put_count(out, readers.len());
        for (namespace, reader) in readers {
            out.put_u32(namespace.0);
            put_str(out, &reader);
            let encoded = positions.encoded(namespace, &reader).unwrap_or_default();
            put_count(out, encoded.len());
            out.put_slice(&encoded);
        }
        put_count(out, dropped.len());
        dropped.iter().for_each(|topic| out.put_u64(topic.0));
        self.0.into()
    }
}

impl Picture {
    pub(super) fn decode(mut input: &[u8]) -> Result<Self, Malformed> {
        let input = &mut input;
        if input.try_get_u8()? != VERSION {
            return Err(Malformed("a version of a newer node"));
        }
        let mut picture = Self::default();
        for _ in 0..get_count(input, PARTITION_LEN + 24)? {
            let id = get_partition(input)?;
            let (log_start, log_end) = (input.try_get_i64()?, input.try_get_i64()?);
            if !(0..=log_end).contains(&log_start) {
                return Err(Malformed("a log that ends before it begins"));
            }
            let mut epochs = Vec::new();
            for _ in 0..get_count(input, 12)? {
                epochs.push((input.try_get_i32()?, input.try_get_i64()?));
            }
            let wanted = Wanted {
                log_start,
                log_end,
                epochs,
            };
            let producers = ProducerTable::decode(piece(input)?)?;
            picture.partitions.insert(id, (wanted, producers));
        }
        for _ in 0..get_count(input, 12)? {
            let namespace = get_namespace(input)?;
            let reader = get_str(input)?;
            picture.positions.restore(namespace, reader, piece(input)?)?;
        }
        for _ in 0..get_count(input, 8)? {
            picture.dropped.insert(TopicId(input.try_get_u64()?));
        }
        finish(input)?;
        Ok(picture)
    }
}

fn piece<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let len = get_count(input, 1)?;
    let (piece, rest) = input.split_at(len);
    *input = rest;
    Ok(piece)
}

/// Gives other members the batches of a range's partitions.
pub(super) struct Giver {
    pub(super) logs: Arc<Logs>,
    pub(super) view: Arc<RangeView>,
    /// Bytes of batches given at a time, about.
    pub(super) stretch: usize,
}

impl Bulk for Giver {
    fn read(&self, ask: &[u8]) -> io::Result<Bytes> {
        let (id, from, to) = decode_ask(ask).map_err(malformed)?;
        if self.view.dropped.lock().contains(&id.topic) {
            return Ok(PartitionLog::nothing_before(to));
        }
        let none = || io::Error::new(io::ErrorKind::NotFound, format!("partition {id} is not held here"));
        self.logs.get(id).ok_or_else(none)?.give(from, to, self.stretch)
    }
}

/// Brings a partition's log to where the picture wants it; blocks until then.
///
/// # Errors
///
/// Only where the node is stopping, or the log can't be written.
pub(super) fn fill(id: PartitionId, log: &PartitionLog, wanted: &Wanted, fetch: &mut dyn Fetch) -> io::Result<()> {
    let to = wanted.log_end;
    let mut at = log.log_end();
    while at < to {
        let answer = fetch.fetch(encode_ask(id, at, to))?;
        match log.take(answer, to) {
            Ok(next) if next > at => at = next,
            Ok(_) => fetch.refuse(&malformed("nothing where there must be more"))?,
            Err(error) => fetch.refuse(&error)?,
        }
        // What came before the bad one was taken.
        at = log.log_end().max(at);
    }
    log.taken(wanted.log_start, wanted.epochs.clone());
    Ok(())
}

fn encode_ask(id: PartitionId, from: Offset, to: Offset) -> Bytes {
    let mut out = vec![VERSION];
    put_partition(&mut out, id);
    out.put_i64(from);
    out.put_i64(to);
    out.into()
}

fn decode_ask(mut ask: &[u8]) -> Result<(PartitionId, Offset, Offset), Malformed> {
    let input = &mut ask;
    if input.try_get_u8()? != VERSION {
        return Err(Malformed("a version of a newer node"));
    }
    let id = get_partition(input)?;
    let (from, to) = (input.try_get_i64()?, input.try_get_i64()?);
    finish(input)?;
    match 0 <= from && from <= to {
        true => Ok((id, from, to)),
        false => Err(Malformed("offsets that make no sense")),
    }
}

fn malformed(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}
