//! Reading: stored bytes, marks, and offsets by time and epoch.

use super::metrics::Metrics;
use super::{AccessError, Broker, Marks};
use crate::log::{BatchAt, Offset, PartitionLog, Piece, ReadError, Slice};
use crate::record::{BatchHeader, DecodeError, RecordReader, TimestampType};
use cluster::catalog::Topic;
use cluster::ids::PartitionId;
use cluster::planted::{self, Bug};
use cluster::range::Leadership;
use std::sync::Arc;

/// A partition that this node leads.
struct Led {
    /// `None`: it never held a record.
    log: Option<Arc<PartitionLog>>,
    leader_epoch: i32,
}

impl Led {
    fn marks(&self) -> Marks {
        let leader_epoch = self.leader_epoch;
        match &self.log {
            // In this order, each is at least the one before even while the log moves on.
            Some(log) => {
                let log_start = log.log_start();
                let high_watermark = log.high_watermark();
                Marks {
                    log_start,
                    high_watermark,
                    log_end: log.log_end(),
                    leader_epoch,
                    size: log.size(),
                }
            }
            None => Marks {
                log_start: 0,
                high_watermark: 0,
                log_end: 0,
                leader_epoch,
                size: 0,
            },
        }
    }
}

impl Broker {
    fn own(&self, topic: &Topic, index: u32) -> Result<Led, AccessError> {
        let range = topic.partitions.get(index as usize).ok_or(AccessError::NotLeader)?;
        match self.ranges.leadership(*range) {
            Some(Leadership { here: true, term, .. }) => Ok(Led {
                log: self.logs.get(PartitionId { topic: topic.id, index }),
                leader_epoch: i32::try_from(term).unwrap_or(i32::MAX),
            }),
            Some(Leadership { term, .. }) if planted::has(Bug::ReadWithoutLead) => Ok(Led {
                log: self.logs.get(PartitionId { topic: topic.id, index }),
                leader_epoch: i32::try_from(term).unwrap_or(i32::MAX),
            }),
            _ => Err(AccessError::NotLeader),
        }
    }

    /// Stored bytes from `from` up to the high watermark: whole batches from the one that contains `from`, at most
    /// `max_bytes`; with `first_whole` the first batch comes whatever its size.
    pub fn read(
        &self,
        topic: &Topic,
        index: u32,
        from: Offset,
        max_bytes: usize,
        first_whole: bool,
    ) -> Result<(Marks, Slice), AccessError> {
        let led = self.own(topic, index)?;
        let slice = match &led.log {
            Some(log) => log.read(from, max_bytes, first_whole)?,
            None if from == 0 => Slice::default(),
            None => {
                return Err(AccessError::Read(ReadError::OutOfRange {
                    asked: from,
                    log_start: 0,
                    log_end: 0,
                }));
            }
        };
        Metrics::add(&self.metrics.read_bytes, slice.bytes as u64);
        // Taken after the read: never below what was read.
        Ok((led.marks(), slice))
    }

    /// The partition's marks.
    pub fn marks(&self, topic: &Topic, index: u32) -> Result<Marks, AccessError> {
        Ok(self.own(topic, index)?.marks())
    }

    /// Bytes this node stores of a partition, leading it or not; `None` where it does not hold the partition's range.
    pub fn replica_size(&self, topic: &Topic, index: u32) -> Option<u64> {
        self.ranges.get(*topic.partitions.get(index as usize)?)?;
        let log = self.logs.get(PartitionId { topic: topic.id, index });
        Some(log.map_or(0, |log| log.size()))
    }

    /// The first record at or after a timestamp: (offset, its timestamp, leader epoch).
    /// Decompresses at most one batch, with a cap.
    pub fn offset_by_timestamp(
        &self,
        topic: &Topic,
        index: u32,
        timestamp: i64,
    ) -> Result<Option<(Offset, i64, i32)>, AccessError> {
        let Some(log) = self.own(topic, index)?.log else {
            return Ok(None);
        };
        match log.batch_by_timestamp(timestamp)? {
            Some(at) => self.find(&log, at.base_offset, timestamp),
            None => Ok(None),
        }
    }

    /// The record with the largest timestamp: (offset, its timestamp, leader epoch).
    pub fn offset_of_max_timestamp(
        &self,
        topic: &Topic,
        index: u32,
    ) -> Result<Option<(Offset, i64, i32)>, AccessError> {
        let Some(log) = self.own(topic, index)?.log else {
            return Ok(None);
        };
        let Some(at) = log.batch_with_max_timestamp()? else {
            return Ok(None);
        };
        match read_batch(&log, at.base_offset)? {
            Some((header, _)) => self.find(&log, at.base_offset, header.max_timestamp),
            None => Ok(None),
        }
    }

    /// The first record at or after `timestamp` in the batches from `offset` on.
    fn find(
        &self,
        log: &PartitionLog,
        mut offset: Offset,
        timestamp: i64,
    ) -> Result<Option<(Offset, i64, i32)>, AccessError> {
        // More than one batch is looked into only where the records that match were deleted from the front of the first.
        while let Some((header, batch)) = read_batch(log, offset)? {
            if header.max_timestamp >= timestamp {
                let found = find_in_batch(
                    &header,
                    &batch,
                    log.log_start(),
                    timestamp,
                    self.config.max_decompressed,
                )
                .map_err(|why| unreadable(&header, why))?;
                if let Some((offset, timestamp)) = found {
                    return Ok(Some((offset, timestamp, header.leader_epoch)));
                }
            }
            offset = header.base_offset + header.offset_count();
        }
        Ok(None)
    }

    /// When the leader took the batch that contains `offset`.
    pub fn batch_at(&self, topic: &Topic, index: u32, offset: Offset) -> Result<Option<BatchAt>, AccessError> {
        let Some(log) = self.own(topic, index)?.log else {
            return Ok(None);
        };
        let Some(append_ms) = log.append_ms(offset)? else {
            return Ok(None);
        };
        Ok(read_batch(&log, offset)?.map(|(header, _)| BatchAt {
            base_offset: header.base_offset,
            append_ms,
        }))
    }

    /// When the leader took the batch that contains `offset`, milliseconds since the epoch, without reading the batch.
    pub fn append_ms(&self, topic: &Topic, index: u32, offset: Offset) -> Result<Option<i64>, AccessError> {
        match self.own(topic, index)?.log {
            Some(log) => Ok(log.append_ms(offset)?),
            None => Ok(None),
        }
    }

    /// KIP-320: (largest epoch not above `epoch`, first offset after it), `None` for an unknown one.
    pub fn epoch_end(&self, topic: &Topic, index: u32, epoch: i32) -> Result<Option<(i32, Offset)>, AccessError> {
        let led = self.own(topic, index)?;
        let log_end = led.marks().log_end;
        if epoch >= led.leader_epoch {
            // The leader's own epoch may hold no record yet; those above it are of the future.
            return Ok((epoch == led.leader_epoch).then_some((epoch, log_end)));
        }
        let Some(log) = led.log else {
            return Ok(None);
        };
        Ok(match log.latest_epoch() {
            Some(latest) if latest <= epoch => Some((latest, log_end)),
            _ => log.epoch_end(epoch),
        })
    }
}

/// The batch that contains `offset`, or the first one held where that was deleted; `None` at the end of the log.
fn read_batch(log: &PartitionLog, mut offset: Offset) -> Result<Option<(BatchHeader, Vec<u8>)>, ReadError> {
    offset = offset.max(log.log_start());
    let slice = loop {
        match log.read(offset, 0, true) {
            Err(ReadError::OutOfRange { asked, log_start, .. }) if asked < log_start => offset = log_start,
            Err(ReadError::OutOfRange { .. }) => return Ok(None),
            slice => break slice?,
        }
    };
    let mut batch = Vec::with_capacity(slice.bytes);
    for piece in &slice.pieces {
        match piece {
            Piece::Memory(bytes) => batch.extend_from_slice(bytes),
            Piece::File { file, position, len } => {
                let from = batch.len();
                batch.resize(from + len, 0);
                file.read_exact_at(&mut batch[from..], *position)
                    .map_err(|e| storage(offset, e))?;
            }
        }
    }
    if batch.is_empty() {
        return Ok(None);
    }
    let header = BatchHeader::parse(&batch).map_err(|e| storage(offset, e))?;
    Ok(Some((header, batch)))
}

fn find_in_batch(
    header: &BatchHeader,
    batch: &[u8],
    log_start: Offset,
    timestamp: i64,
    max_decompressed: u64,
) -> Result<Option<(Offset, i64)>, DecodeError> {
    if header.timestamp_type() == TimestampType::LogAppendTime {
        let last = header.base_offset + header.offset_count() - 1;
        return Ok((last >= log_start).then_some((header.base_offset.max(log_start), header.max_timestamp)));
    }
    let mut reader = RecordReader::new(batch, max_decompressed)?;
    while let Some(record) = reader.next()? {
        if record.timestamp >= timestamp && record.offset >= log_start {
            return Ok(Some((record.offset, record.timestamp)));
        }
    }
    Ok(None)
}

fn unreadable(header: &BatchHeader, why: DecodeError) -> AccessError {
    AccessError::Read(storage(header.base_offset, why))
}

pub(super) fn storage(offset: Offset, why: impl std::fmt::Display) -> ReadError {
    ReadError::Storage {
        file: format!("the batch at offset {offset}"),
        position: 0,
        why: why.to_string(),
    }
}
