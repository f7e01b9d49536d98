//! CREATE and INSERT: messages of one statement become one batch a partition, so that their positions are consecutive. And
//! messages that other front doors append the same way, one at a time ([`Engine::submit`]).

use super::super::error::ErrorKind;
use super::super::json::{Document, TYPES_HEADER};
use super::super::value::{Object, Value, prune};
use super::outcome::{Outcome, Record};
use super::read::{message, record_key};
use super::{Engine, now_ms};
use crate::broker::AppendBatch;
use crate::log::Offset;
use crate::record::{BatchBuilder, BatchHeader, NewRecord};
use bytes::Bytes;
use cluster::catalog::Topic;
use cluster::ids::PartitionId;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

/// Bytes of text in a message from which on it is encoded on a thread for such: it takes longer than others on its thread
/// should wait.
const LARGE: usize = 256 << 10;

impl Engine {
    /// Appends messages and answers them with their positions, in the order given.
    pub(super) async fn append(&self, topic: &Topic, mut values: Vec<Object>) -> Result<Outcome, ErrorKind> {
        let mut builders: BTreeMap<u32, BatchBuilder> = BTreeMap::new();
        // Partition and place in its batch, by message.
        let mut places = Vec::with_capacity(values.len());
        for value in &mut values {
            let document = document(topic, self.max_message_bytes(topic), value)?;
            let partition = self.placement.partition(topic, value);
            let builder = builders.entry(partition).or_insert_with(documents);
            places.push((partition, i64::from(builder.count())));
            push(builder, &document)?;
        }

        let mut batches = Vec::with_capacity(builders.len());
        let partitions: Vec<u32> = builders.keys().copied().collect();
        for (index, builder) in builders {
            batches.push(batch(topic, index, built(builder)?)?);
        }
        let appended = self.broker.append(batches).await.await;

        let mut results = BTreeMap::new();
        let mut failed = None;
        for (index, result) in partitions.iter().zip(appended) {
            match result {
                Ok(appended) => {
                    results.insert(*index, appended);
                }
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        if let Some(error) = failed {
            return Err(match results.len() {
                0 => error.into(),
                held => ErrorKind::OutcomeUnknown(format!(
                    "{held} of {} partitions hold their messages, others failed: {error}",
                    partitions.len()
                )),
            });
        }

        let several = topic.partitions.len() > 1;
        let mut records = Vec::with_capacity(values.len());
        for ((partition, place), value) in places.into_iter().zip(values) {
            let Some(appended) = results.get(&partition) else {
                return Err(ErrorKind::OutcomeUnknown("the answer is not complete".to_owned()));
            };
            let offset = appended.base_offset + place;
            records.push(Record {
                table: topic.name.clone(),
                key: record_key(several, partition, offset),
                fields: message(
                    several.then_some(partition),
                    offset,
                    appended.log_append_time,
                    Value::Object(value),
                ),
            });
        }
        Ok(Outcome::Records {
            records,
            notes: Vec::new(),
        })
    }
}

/// Where a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its partition.
    pub partition: u32,
    /// Its offset there; its position is one more.
    pub offset: Offset,
}

impl Engine {
    /// Bytes that a message of this topic may have, as JSON.
    pub fn max_message_bytes(&self, topic: &Topic) -> usize {
        topic.max_bytes.unwrap_or(self.settings.max_message_bytes) as usize
    }

    /// Submits one message, as CREATE appends it: to this partition of the topic, or to the one that its value places it in.
    /// Whether the caller may is its own to judge. When this returns, the message's place behind what the caller submitted
    /// before is fixed; the returned future resolves once it is durable.
    ///
    /// # Errors
    /// Nothing was submitted: the message is too large, this node takes no writes, or there is no such partition. The
    /// future's are those of an append.
    pub async fn submit(
        &self,
        topic: &Arc<Topic>,
        partition: Option<u32>,
        mut value: Object,
    ) -> Result<impl Future<Output = Result<Placed, ErrorKind>> + Send + use<>, ErrorKind> {
        if !self.takes_writes(&self.broker.catalog().view()) {
            return Err(ErrorKind::NotWritable);
        }
        let large = texts(&value) > LARGE;
        let limit = self.max_message_bytes(topic);
        let encode = {
            let topic = topic.clone();
            move || -> Result<_, ErrorKind> {
                let document = document(&topic, limit, &mut value)?;
                let mut builder = documents();
                push(&mut builder, &document)?;
                Ok((value, built(builder)?))
            }
        };
        let (value, built) = match large {
            false => encode()?,
            true => match cluster::threads::blocking(encode).await {
                Ok(encoded) => encoded?,
                Err(error) => return Err(ErrorKind::Internal(format!("the message was not encoded: {error}"))),
            },
        };
        let partition = partition.unwrap_or_else(|| self.placement.partition(topic, &value));
        let appended = self.broker.append(vec![batch(topic, partition, built)?]).await;
        Ok(async move {
            let appended = appended.await.pop();
            match appended.ok_or_else(|| ErrorKind::OutcomeUnknown("the answer is not complete".to_owned()))? {
                Ok(appended) => Ok(Placed {
                    partition,
                    offset: appended.base_offset,
                }),
                Err(error) => Err(error.into()),
            }
        })
    }
}

/// A message as it is stored, if it has no more than `limit` bytes.
fn document(topic: &Topic, limit: usize, value: &mut Object) -> Result<Document, ErrorKind> {
    prune(value);
    Document::encode(value, limit).ok_or_else(|| too_large(topic, limit))
}

/// That a message is larger than its topic takes.
pub fn too_large(topic: &Topic, limit: usize) -> ErrorKind {
    ErrorKind::TopicMessageTooLarge {
        topic: topic.name.clone(),
        limit: limit as u64,
    }
}

/// Bytes of the texts in a message's fields.
fn texts(value: &Object) -> usize {
    let text = |(name, value): (&String, &Value)| match value {
        Value::String(text) => name.len() + text.len(),
        _ => name.len(),
    };
    value.iter().map(text).sum()
}

/// A batch of messages with the node's own time.
fn documents() -> BatchBuilder {
    BatchBuilder::new()
        .attributes(BatchHeader::DOCUMENTS)
        .append_time(now_ms())
}

fn push(builder: &mut BatchBuilder, document: &Document) -> Result<(), ErrorKind> {
    let types = document.types.as_deref().map(|types| (TYPES_HEADER, Some(types)));
    let record = NewRecord {
        value: Some(&document.json),
        headers: types.as_slice(),
        ..NewRecord::default()
    };
    builder
        .push(record)
        .map_err(|error| ErrorKind::InvalidValue(error.to_string()))
}

fn internal(error: &dyn std::fmt::Display) -> ErrorKind {
    ErrorKind::Internal(format!("the batch was not built: {error}"))
}

fn built(builder: BatchBuilder) -> Result<(BatchHeader, Bytes), ErrorKind> {
    let bytes = builder.build().map_err(|error| internal(&error))?;
    let header = BatchHeader::parse(&bytes).map_err(|error| internal(&error))?;
    Ok((header, bytes))
}

fn batch(topic: &Topic, index: u32, (header, bytes): (BatchHeader, Bytes)) -> Result<AppendBatch, ErrorKind> {
    let range = topic.partitions.get(index as usize).copied();
    Ok(AppendBatch {
        partition: PartitionId { topic: topic.id, index },
        range: range.ok_or_else(|| internal(&"no such partition"))?,
        header,
        bytes,
        log_append_time: true,
    })
}
