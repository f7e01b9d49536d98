//! READ FROM: messages in order, and named readers' positions.
//!
//! ```text
//!   position = offset + 1          reader's position = messages read = next offset to read
//! ```
//!
//! Several partitions are merged by the time their batches were appended; each keeps its own order.

use super::super::ast::Read;
use super::super::error::ErrorKind;
use super::super::value::{Object, Value};
use super::collect::{Cursor, Found, Source, collect};
use super::outcome::{Note, Outcome, Record};
use super::{Answer, Engine, Session, now_ms};
use crate::broker::{AccessError, Look, Position, PositionChange, PositionError};
use crate::log::Offset;
use cluster::catalog::Topic;
use cluster::ids::PartitionId;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Messages answered where no LIMIT says otherwise.
const DEFAULT_LIMIT: u64 = 100;
/// Bytes a reader's name may have: it is kept with every position.
const MAX_READER: usize = 1024;
/// How often a reader's move is tried against others of the same name.
const MOVES: usize = 16;

impl Engine {
    pub(super) async fn read(
        &self,
        session: &Session,
        read: &Read,
        topic: Arc<Topic>,
        answer: &mut Answer,
    ) -> Result<Outcome, ErrorKind> {
        let count = topic.partitions.len() as u32;
        let partitions = match read.partition {
            Some(index) if index < count => index..index + 1,
            Some(index) => {
                return Err(ErrorKind::Unknown {
                    what: "the partition",
                    name: format!("{index} of {}", topic.name),
                });
            }
            None if read.after.is_some() && count > 1 => {
                return Err(ErrorKind::InvalidPosition(format!(
                    "AFTER needs PARTITION: {} has {count} partitions, each with positions of its own",
                    topic.name
                )));
            }
            None => 0..count,
        };
        self.led(&topic, partitions.clone()).await?;
        let limit = usize::try_from(read.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(usize::MAX);
        let Some(consumer) = &read.consumer else {
            let cursors = partitions
                .map(|partition| Cursor {
                    partition,
                    next: read.after.map_or(0, offset_after),
                    passed_over: 0,
                })
                .collect();
            let (found, _) = self.collect(&topic, cursors, limit, answer).await?;
            return Ok(outcome(&topic, read.partition.is_some(), found, Vec::new()));
        };
        if consumer.is_empty() || consumer.len() > MAX_READER {
            return Err(ErrorKind::InvalidValue(format!(
                "a reader's name has 1 to {MAX_READER} bytes"
            )));
        }
        let namespace = session.namespace_id(&self.broker.catalog().view())?;
        for _ in 0..MOVES {
            let before = *answer;
            match self
                .advance(namespace, consumer, read, &topic, partitions.clone(), limit, answer)
                .await
            {
                Ok(outcome) => return Ok(outcome),
                Err(Advance::Moved) => *answer = before,
                Err(Advance::Failed(kind)) => return Err(kind),
            }
        }
        Err(ErrorKind::Retry(format!(
            "other readers named {consumer} keep moving its position"
        )))
    }

    /// Reads what follows the reader's position and moves it, unless it has moved meanwhile.
    #[allow(clippy::too_many_arguments)]
    async fn advance(
        &self,
        namespace: cluster::ids::NamespaceId,
        consumer: &str,
        read: &Read,
        topic: &Arc<Topic>,
        partitions: std::ops::Range<u32>,
        limit: usize,
        answer: &mut Answer,
    ) -> Result<Outcome, Advance> {
        let seen: BTreeMap<u32, Offset> = self
            .broker
            .positions(namespace, consumer)
            .await?
            .into_iter()
            .filter(|(partition, _)| partition.topic == topic.id)
            .map(|(partition, position)| (partition.index, position.offset))
            .collect();
        if let Some(after) = read.after {
            let looked = self.broker.look_into(topic, partitions.start, Look::Marks).await?;
            let last = looked.marks.high_watermark;
            if offset_after(after) > last {
                return Err(Advance::Failed(ErrorKind::InvalidPosition(format!(
                    "the position {after} was not given yet; the last is {last}"
                ))));
            }
        }
        let start = |partition| read.after.map(offset_after).or_else(|| seen.get(&partition).copied());
        let cursors = partitions
            .map(|partition| Cursor {
                partition,
                next: start(partition).unwrap_or(0),
                passed_over: 0,
            })
            .collect();
        let (found, ends) = self.collect(topic, cursors, limit, answer).await?;

        let commit_ms = now_ms();
        let mut changes = Vec::new();
        let mut notes = Vec::new();
        for end in ends {
            let was = seen.get(&end.partition).copied();
            let id = PartitionId {
                topic: topic.id,
                index: end.partition,
            };
            // A reader new to a partition starts at the oldest message: it missed nothing.
            if end.passed_over > 0 && was.is_some() && read.after.is_none() {
                notes.push(Note::Lapsed {
                    consumer: consumer.to_owned(),
                    partition: end.partition,
                    passed_over: end.passed_over,
                });
            }
            let position = Position {
                offset: end.next,
                leader_epoch: -1,
                metadata: String::new(),
                commit_ms,
            };
            if read.after.is_some() {
                changes.push(PositionChange::Set(id, position));
            } else if end.next != was.unwrap_or(0) {
                changes.push(PositionChange::SetIf(id, was, position));
            }
        }
        if !changes.is_empty() {
            self.broker.change_positions(namespace, consumer, changes).await?;
        }
        Ok(outcome(topic, read.partition.is_some(), found, notes))
    }

    /// Reads on a blocking thread: bytes may have to come from disk, and batches may have to be decompressed.
    async fn collect(
        &self,
        topic: &Arc<Topic>,
        cursors: Vec<Cursor>,
        limit: usize,
        answer: &mut Answer,
    ) -> Result<(Vec<Found>, Vec<Cursor>), ErrorKind> {
        let source = Source {
            broker: self.broker.clone(),
            topic: topic.clone(),
            runtime: Handle::current(),
        };
        let mut budget = *answer;
        let work = move || collect(&source, cursors, limit, &mut budget).map(|found| (found, budget));
        let (found, budget) = tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| ErrorKind::Internal(format!("the read ended early: {error}")))??;
        *answer = budget;
        Ok(found)
    }
}

/// Why a reader did not move.
enum Advance {
    /// Another reader of the name was faster.
    Moved,
    Failed(ErrorKind),
}

impl From<PositionError> for Advance {
    fn from(error: PositionError) -> Self {
        match error {
            PositionError::Moved => Self::Moved,
            other => Self::Failed(other.into()),
        }
    }
}

impl From<AccessError> for Advance {
    fn from(error: AccessError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<ErrorKind> for Advance {
    fn from(kind: ErrorKind) -> Self {
        Self::Failed(kind)
    }
}

/// The first offset past a position.
fn offset_after(position: u64) -> Offset {
    Offset::try_from(position).unwrap_or(Offset::MAX)
}

/// The part of a message's id after its topic.
pub(super) fn record_key(several: bool, partition: u32, offset: Offset) -> String {
    match several {
        true => format!("{partition}:{}", offset + 1),
        false => (offset + 1).to_string(),
    }
}

/// A message as it is answered.
pub(super) fn message(partition: Option<u32>, offset: Offset, appended_ms: i64, value: Value) -> Object {
    let mut fields = Object::from([
        ("appended".to_owned(), Value::from_millis(appended_ms)),
        ("position".to_owned(), Value::Int(offset + 1)),
        ("value".to_owned(), value),
    ]);
    if let Some(partition) = partition {
        fields.insert("partition".to_owned(), partition.into());
    }
    fields
}

fn outcome(topic: &Topic, one_partition: bool, found: Vec<Found>, notes: Vec<Note>) -> Outcome {
    let several = !one_partition && topic.partitions.len() > 1;
    let records = found.into_iter().map(|found| Record {
        table: topic.name.clone(),
        key: record_key(several, found.partition, found.offset),
        fields: message(
            several.then_some(found.partition),
            found.offset,
            found.appended_ms,
            found.value,
        ),
    });
    Outcome::Records {
        records: records.collect(),
        notes,
    }
}

impl Engine {
    /// Waits, briefly, until the partitions are led: a topic just declared may have no leader for a moment.
    pub(super) async fn led(&self, topic: &Topic, partitions: std::ops::Range<u32>) -> Result<(), ErrorKind> {
        let mut ranges: Vec<_> = (partitions.start as usize..partitions.end as usize)
            .filter_map(|index| topic.partitions.get(index).copied())
            .collect();
        ranges.sort_unstable();
        ranges.dedup();
        for range in ranges {
            self.broker
                .led(range)
                .await
                .map_err(|error| ErrorKind::Unavailable(error.to_string()))?;
        }
        Ok(())
    }
}
