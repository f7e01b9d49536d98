//! ListOffsets (2) and OffsetForLeaderEpoch (23): positions in a log by time and by epoch.

use crate::auth::Action;
use crate::broker::{AccessError, Marks};
use crate::kafka::access::Access;
use crate::kafka::call::Call;
use crate::kafka::errors;
use crate::kafka::partitions::{self, NO_EPOCH, check_epoch};
use cluster::catalog::Topic;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_protocol::messages::{
    ListOffsetsRequest, ListOffsetsResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};
use std::collections::HashSet;
use std::sync::Arc;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// KIP-734, from version 7.
const MAX_TIMESTAMP: i64 = -3;
/// KIP-405, from version 8: the first offset not in tiered storage. There is none, so it is the first held.
const EARLIEST_LOCAL: i64 = -4;
/// KIP-1005, from version 9: the last offset in tiered storage.
const LATEST_TIERED: i64 = -5;

/// (offset, timestamp, leader epoch); -1 each where there is none.
type Found = (i64, i64, i32);
const NOTHING: Found = (-1, -1, NO_EPOCH);

pub(crate) async fn list_offsets(call: &Call, request: ListOffsetsRequest) -> ListOffsetsResponse {
    let state = call.view();
    let access = Access::new(call, &state);
    let duplicates = duplicates(&request.topics);
    let mut told = HashSet::new();
    let mut response = ListOffsetsResponse::default();
    for asked in request.topics {
        let topic = access.topic(Action::Describe, &asked.name);
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        for partition in asked.partitions {
            let key = (asked.name.0.clone(), partition.partition_index);
            let twice = duplicates.contains(&key);
            if twice && !told.insert(key) {
                continue;
            }
            let found = match &topic {
                Ok(_) if twice => Err(ResponseError::InvalidRequest),
                Ok(topic) => look(call, topic, &partition).await,
                Err(error) => Err(*error),
            };
            partitions.push(answer(call, partition.partition_index, found));
        }
        if !partitions.is_empty() {
            response.topics.push(
                ListOffsetsTopicResponse::default()
                    .with_name(asked.name)
                    .with_partitions(partitions),
            );
        }
    }
    response
}

fn duplicates(topics: &[ListOffsetsTopic]) -> HashSet<(kafka_protocol::protocol::StrBytes, i32)> {
    let mut seen = HashSet::new();
    topics
        .iter()
        .flat_map(|t| t.partitions.iter().map(|p| (t.name.0.clone(), p.partition_index)))
        .filter(|key| !seen.insert(key.clone()))
        .collect()
}

fn answer(call: &Call, index: i32, found: Result<Found, ResponseError>) -> ListOffsetsPartitionResponse {
    let response = ListOffsetsPartitionResponse::default().with_partition_index(index);
    match found {
        Ok((offset, timestamp, epoch)) => response
            .with_offset(offset)
            .with_timestamp(timestamp)
            .with_leader_epoch(if call.version >= 4 { epoch } else { NO_EPOCH }),
        Err(error) => response.with_error_code(error.code()),
    }
}

async fn look(call: &Call, topic: &Arc<Topic>, asked: &ListOffsetsPartition) -> Result<Found, ResponseError> {
    let broker = &call.shared.broker;
    let index = partitions::index(topic, asked.partition_index)?;
    let marks = broker.marks(topic, index).map_err(|e| errors::access(&e))?;
    check_epoch(asked.current_leader_epoch, marks.leader_epoch)?;
    let since = match asked.timestamp {
        0.. | LATEST | EARLIEST => 0,
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        _ => i16::MAX,
    };
    if call.version < since {
        return Err(ResponseError::UnsupportedVersion);
    }
    match asked.timestamp {
        LATEST => Ok((marks.high_watermark, -1, marks.leader_epoch)),
        EARLIEST | EARLIEST_LOCAL => Ok((marks.log_start, -1, epoch_of_start(call, topic, index, &marks)?)),
        LATEST_TIERED => Ok(NOTHING),
        timestamp => {
            // Reads from disk, and may decompress a batch.
            let (broker, topic) = (broker.clone(), topic.clone());
            let read = move || match timestamp {
                MAX_TIMESTAMP => broker.offset_of_max_timestamp(&topic, index),
                _ => broker.offset_by_timestamp(&topic, index, timestamp),
            };
            let found = tokio::task::spawn_blocking(read)
                .await
                .map_err(|_| ResponseError::KafkaStorageError)?
                .map_err(|e| told(&e))?;
            Ok(found.unwrap_or(NOTHING))
        }
    }
}

fn told(error: &AccessError) -> ResponseError {
    if let AccessError::Read(error) = error {
        tracing::error!(%error, "a partition cannot be read");
    }
    errors::access(error)
}

/// The epoch of the first record held: the smallest whose end lies beyond it. Ends grow with epochs.
fn epoch_of_start(call: &Call, topic: &Topic, index: u32, marks: &Marks) -> Result<i32, ResponseError> {
    let (mut low, mut high) = (0, marks.leader_epoch);
    while low < high {
        let middle = low + (high - low) / 2;
        let end = call.broker().epoch_end(topic, index, middle).map_err(|e| told(&e))?;
        match end {
            Some((_, end)) if end > marks.log_start => high = middle,
            _ => low = middle + 1,
        }
    }
    Ok(low)
}

pub(crate) async fn offset_for_leader_epoch(
    call: &Call,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let state = call.view();
    let access = Access::new(call, &state);
    let topics = request.topics.into_iter().map(|asked| {
        let topic = access.topic(Action::Describe, &asked.topic);
        let partitions = asked.partitions.iter().map(|partition| {
            let response = EpochEndOffset::default().with_partition(partition.partition);
            match topic
                .as_ref()
                .map_err(|e| *e)
                .and_then(|t| epoch_end(call, t, partition))
            {
                Ok((epoch, end)) => response.with_leader_epoch(epoch).with_end_offset(end),
                Err(error) => response.with_error_code(error.code()),
            }
        });
        OffsetForLeaderTopicResult::default()
            .with_partitions(partitions.collect())
            .with_topic(asked.topic)
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
}

/// The largest epoch not above the asked one and where it ends: the current one at the log end, one that is yet to come
/// nowhere (-1, -1). One from before all that is known ends where the log begins.
fn epoch_end(call: &Call, topic: &Topic, asked: &OffsetForLeaderPartition) -> Result<(i32, i64), ResponseError> {
    let index = partitions::index(topic, asked.partition)?;
    let marks = call.broker().marks(topic, index).map_err(|e| errors::access(&e))?;
    check_epoch(asked.current_leader_epoch, marks.leader_epoch)?;
    let epoch = asked.leader_epoch;
    if epoch == marks.leader_epoch {
        return Ok((epoch, marks.log_end));
    }
    if epoch == NO_EPOCH || epoch > marks.leader_epoch {
        return Ok((NO_EPOCH, -1));
    }
    let end = match epoch {
        0.. => call.broker().epoch_end(topic, index, epoch).map_err(|e| told(&e))?,
        _ => None,
    };
    Ok(end.unwrap_or((epoch, marks.log_start)))
}
