//! Messages out of partitions' stored batches, merged by append time.

use super::super::error::ErrorKind;
use super::super::json::{Document, TYPES_HEADER};
use super::super::value::Value;
use super::Answer;
use crate::broker::{AccessError, Broker, Run};
use crate::log::{Offset, ReadError};
use crate::record::{BatchHeader, Limits, RecordReader, RecordView};
use bytes::Bytes;
use cluster::catalog::Topic;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Bytes asked of one partition at a time when it is the only one.
const RUN_BYTES: usize = 1024 * 1024;
/// Bytes asked of another member to learn when a partition's next batch was appended.
const PEEK_BYTES: usize = 64 * 1024;
/// Bytes read for that and kept until their turn comes, over all partitions.
const AHEAD_BYTES: usize = 4 * 1024 * 1024;

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

/// Batches that were read and whose turn has not come yet, with the time each was appended.
type Ahead = VecDeque<(i64, Bytes)>;

/// A topic's partitions, wherever they are led. For a thread that may block.
pub(super) struct Source {
    pub(super) broker: Arc<Broker>,
    pub(super) topic: Arc<Topic>,
    pub(super) runtime: Handle,
}

impl Source {
    fn run(&self, partition: u32, offset: Offset, max_bytes: usize) -> Result<Run, AccessError> {
        let (broker, topic) = (&self.broker, &self.topic);
        match broker.led_elsewhere(topic, partition) {
            None => broker.run_here(topic, partition, offset, max_bytes),
            Some(_) => self.runtime.block_on(broker.run(topic, partition, offset, max_bytes)),
        }
    }

    /// The batches at the cursor; moves a cursor below the log start up to it.
    fn batches(&self, cursor: &mut Cursor, max_bytes: usize) -> Result<Ahead, ErrorKind> {
        let run = self.run(cursor.partition, cursor.next, max_bytes)?;
        if run.from > cursor.next {
            cursor.passed_over += run.from.abs_diff(cursor.next);
            cursor.next = run.from;
        }
        Ok(run.batches.into())
    }

    /// When the batch at the cursor was appended; `None` at the end. What had to be read for that is kept in `ahead` while
    /// little is kept in all: another member is not asked twice.
    fn next_time(&self, cursor: &mut Cursor, ahead: &mut Ahead, kept: &mut usize) -> Result<Option<i64>, ErrorKind> {
        if self.broker.led_elsewhere(&self.topic, cursor.partition).is_none() {
            return next_time(&self.broker, &self.topic, cursor);
        }
        let batches = self.batches(cursor, PEEK_BYTES)?;
        let time = batches.front().map(|(time, _)| *time);
        let size: usize = batches.iter().map(|(_, batch)| batch.len()).sum();
        if *kept + size <= AHEAD_BYTES {
            *kept += size;
            *ahead = batches;
        }
        Ok(time)
    }
}

/// Merges the partitions by append time. Answers what was found and where each partition's reading ended.
pub(super) fn collect(
    source: &Source,
    mut cursors: Vec<Cursor>,
    limit: usize,
    answer: &mut Answer,
) -> Result<(Vec<Found>, Vec<Cursor>), ErrorKind> {
    let mut found = Vec::new();
    let mut aheads: Vec<Ahead> = cursors.iter().map(|_| Ahead::new()).collect();
    let mut kept = 0;
    // (append time of the next batch, which cursor)
    let mut heap = BinaryHeap::new();
    for (at, cursor) in cursors.iter_mut().enumerate() {
        if let Some(time) = source.next_time(cursor, &mut aheads[at], &mut kept)? {
            heap.push(Reverse((time, at)));
        }
    }
    while let Some(Reverse((_, at))) = heap.pop() {
        let cursor = &mut cursors[at];
        let before = cursor.next;
        let mut batches = std::mem::take(&mut aheads[at]);
        if batches.is_empty() {
            // Alone, a partition may be read in long runs; among others, batch by batch.
            let run = if heap.is_empty() { RUN_BYTES } else { 1 };
            batches = source.batches(cursor, run)?;
        } else {
            kept -= batches.iter().map(|(_, batch)| batch.len()).sum::<usize>();
        }
        let mut first = true;
        while let Some((appended_ms, batch)) = batches.pop_front() {
            if found.len() >= limit {
                return Ok((found, cursors));
            }
            let others = heap.peek().map(|Reverse((time, _))| *time);
            if !first && others.is_some_and(|time| time < appended_ms) {
                batches.push_front((appended_ms, batch));
                break;
            }
            first = false;
            if take_batch(cursor, appended_ms, &batch, limit, answer, &mut found)? {
                return Ok((found, cursors));
            }
        }
        if found.len() >= limit {
            break;
        }
        let time = match batches.front() {
            Some((time, _)) => {
                kept += batches.iter().map(|(_, batch)| batch.len()).sum::<usize>();
                let time = *time;
                aheads[at] = batches;
                Some(time)
            }
            None => source.next_time(cursor, &mut aheads[at], &mut kept)?,
        };
        if time.is_some() && cursor.next == before {
            let stuck = format!(
                "{} holds nothing readable at position {}",
                source.topic.name,
                before + 1
            );
            return Err(ErrorKind::Internal(stuck));
        }
        if let Some(time) = time {
            heap.push(Reverse((time, at)));
        }
    }
    Ok((found, cursors))
}

/// When the batch at the cursor was appended, in a partition led here; `None` at the end. Moves a cursor below the log
/// start up to it.
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

/// Takes the records at and after the cursor out of a batch, up to the limit. Answers whether the answer is full.
fn take_batch(
    cursor: &mut Cursor,
    appended_ms: i64,
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
