//! Messages out of partitions' stored batches, merged by append time.

use super::super::error::ErrorKind;
use super::super::json::{Document, TYPES_HEADER};
use super::super::value::Value;
use super::Answer;
use crate::broker::{AccessError, Broker};
use crate::log::{Offset, Piece, ReadError, Slice};
use crate::record::{BatchHeader, Limits, RecordReader, RecordView, TimestampType};
use cluster::catalog::Topic;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bytes asked of one partition at a time when it is the only one.
const RUN_BYTES: usize = 1024 * 1024;
/// Where reading starts in a partition, and later where it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    pub(super) partition: u32,
    pub(super) next: Offset,
    /// Messages that were gone when their turn came.
    pub(super) passed_over: u64,
}

/// A message found.
pub(super) struct Found {
    pub(super) partition: u32,
    pub(super) offset: Offset,
    pub(super) appended_ms: i64,
    pub(super) value: Value,
}

/// Merges the partitions by append time. Answers what was found and where each partition's reading ended.
pub(super) fn collect(
    broker: &Broker,
    topic: &Topic,
    mut cursors: Vec<Cursor>,
    limit: usize,
    answer: &mut Answer,
) -> Result<(Vec<Found>, Vec<Cursor>), ErrorKind> {
    let mut found = Vec::new();
    // (append time of the next batch, which cursor)
    let mut heap = BinaryHeap::new();
    for (at, cursor) in cursors.iter_mut().enumerate() {
        if let Some(time) = next_time(broker, topic, cursor)? {
            heap.push(Reverse((time, at)));
        }
    }
    while let Some(Reverse((_, at))) = heap.pop() {
        let cursor = &mut cursors[at];
        // Alone, a partition may be read in long runs; among others, batch by batch.
        let run = if heap.is_empty() { RUN_BYTES } else { 1 };
        let slice = match broker.read(topic, cursor.partition, cursor.next, run, true) {
            Ok((_, slice)) => slice,
            // Retention was faster: look again where the log begins now.
            Err(AccessError::Read(ReadError::OutOfRange { .. })) => Slice::default(),
            Err(error) => return Err(error.into()),
        };
        let before = cursor.next;
        let stored = gather(&slice)?;
        let mut rest = stored.as_slice();
        while !rest.is_empty() {
            let batch = split_batch(&mut rest)?;
            if found.len() >= limit {
                return Ok((found, cursors));
            }
            let full = take_batch(broker, topic, cursor, batch, limit, answer, &mut found)?;
            if full {
                return Ok((found, cursors));
            }
        }
        if found.len() >= limit {
            break;
        }
        let time = next_time(broker, topic, cursor)?;
        if time.is_some() && cursor.next == before {
            let stuck = format!("{} holds nothing readable at position {}", topic.name, before + 1);
            return Err(ErrorKind::Internal(stuck));
        }
        if let Some(time) = time {
            heap.push(Reverse((time, at)));
        }
    }
    Ok((found, cursors))
}

/// When the batch at the cursor was appended; `None` at the end. Moves a cursor below the log start up to it.
fn next_time(broker: &Broker, topic: &Topic, cursor: &mut Cursor) -> Result<Option<i64>, ErrorKind> {
    loop {
        let marks = broker.marks(topic, cursor.partition)?;
        if cursor.next < marks.log_start {
            cursor.passed_over += marks.log_start.abs_diff(cursor.next);
            cursor.next = marks.log_start;
        }
        if cursor.next >= marks.high_watermark {
            return Ok(None);
        }
        match broker.append_ms(topic, cursor.partition, cursor.next) {
            Ok(Some(time)) => return Ok(Some(time)),
            // Retention was faster.
            Ok(None) | Err(AccessError::Read(ReadError::OutOfRange { .. }))
                if broker.marks(topic, cursor.partition)?.log_start > cursor.next => {}
            Ok(None) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The bytes of a slice in one piece.
pub(super) fn gather(slice: &Slice) -> Result<Vec<u8>, ErrorKind> {
    let mut out = Vec::with_capacity(slice.bytes);
    for piece in &slice.pieces {
        match piece {
            Piece::Memory(bytes) => out.extend_from_slice(bytes),
            Piece::File { file, position, len } => {
                let start = out.len();
                out.resize(start + len, 0);
                let mut filled = start;
                while filled < out.len() {
                    let at = position + (filled - start) as u64;
                    match file.read_at(&mut out[filled..], at) {
                        Ok(0) => return Err(ErrorKind::Internal(format!("a log ends early at byte {at}"))),
                        Ok(count) => filled += count,
                        Err(error) => return Err(ErrorKind::Internal(format!("a log cannot be read: {error}"))),
                    }
                }
            }
        }
    }
    Ok(out)
}

/// Takes one whole batch off the front.
fn split_batch<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8], ErrorKind> {
    let invalid = || ErrorKind::Internal("a stored batch is cut short".to_owned());
    let header = BatchHeader::parse(rest).map_err(|error| ErrorKind::Internal(error.to_string()))?;
    let length = usize::try_from(header.batch_len()).map_err(|_| invalid())?;
    if length < crate::record::HEADER_LEN || length > rest.len() {
        return Err(invalid());
    }
    let (batch, after) = rest.split_at(length);
    *rest = after;
    Ok(batch)
}

/// Takes the records at and after the cursor out of a batch, up to the limit. Answers whether the answer is full.
fn take_batch(
    broker: &Broker,
    topic: &Topic,
    cursor: &mut Cursor,
    batch: &[u8],
    limit: usize,
    answer: &mut Answer,
    found: &mut Vec<Found>,
) -> Result<bool, ErrorKind> {
    let unreadable =
        |error: &dyn std::fmt::Display| ErrorKind::Internal(format!("a stored batch is not readable: {error}"));
    let mut records =
        RecordReader::new(batch, Limits::DEFAULT_MAX_DECOMPRESSED_BYTES).map_err(|error| unreadable(&error))?;
    let header = *records.header();
    let appended_ms = match header.timestamp_type() {
        TimestampType::LogAppendTime => header.max_timestamp,
        TimestampType::CreateTime => broker
            .append_ms(topic, cursor.partition, cursor.next.max(header.base_offset))?
            .unwrap_or(header.max_timestamp),
    };
    while let Some(record) = records.next().map_err(|error| unreadable(&error))? {
        if record.offset < cursor.next {
            continue;
        }
        if found.len() >= limit {
            return Ok(true);
        }
        let size = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
        // The first message of a script's answer comes whatever its size.
        if !answer.take(size) {
            return match found.is_empty() {
                true => Err(ErrorKind::AnswerTooLarge(answer.size)),
                false => Ok(true),
            };
        }
        found.push(Found {
            partition: cursor.partition,
            offset: record.offset,
            appended_ms,
            value: record_value(&record, &header),
        });
        cursor.next = record.offset + 1;
    }
    cursor.next = cursor.next.max(header.base_offset + header.offset_count());
    Ok(false)
}

/// What a record is in TessariQL: the value it was written with, or the parts of a Kafka client's record.
fn record_value(record: &RecordView<'_>, header: &BatchHeader) -> Value {
    if header.is_documents() {
        let mut headers = record.headers;
        let types = headers.find(|one| one.key == TYPES_HEADER.as_bytes());
        let document = Document::decode(record.value.unwrap_or_default(), types.and_then(|one| one.value));
        if let Some(value) = document {
            return value;
        }
    }
    let bytes = |part: Option<&[u8]>| part.map_or(Value::Null, |part| Value::Bytes(part.to_vec().into()));
    let headers = record.headers.map(|header| {
        Value::object([
            ("key", String::from_utf8_lossy(header.key).into_owned().into()),
            ("value", bytes(header.value)),
        ])
    });
    Value::object([
        ("headers", Value::Array(headers.collect())),
        ("key", bytes(record.key)),
        ("timestamp", Value::from_millis(record.timestamp)),
        ("value", bytes(record.value)),
    ])
}
