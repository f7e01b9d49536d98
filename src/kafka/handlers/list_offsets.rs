//! ListOffsets (2) and OffsetForLeaderEpoch (23): positions in a log by time and by epoch.

use crate::auth::Action;
use crate::broker::{AccessError, Look, LookInto, Looked};
use crate::kafka::access::Access;
use crate::kafka::call::Call;
use crate::kafka::errors;
use crate::kafka::partitions::{self, NO_EPOCH};
use crate::log::ReadError;
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

/// A partition's place in the answer, and what is known of it without looking, or looked for.
enum Asked {
    Known(ResponseError),
    /// A number in the list of looks.
    Look(usize),
}

pub(crate) async fn list_offsets(call: &Call, request: ListOffsetsRequest) -> ListOffsetsResponse {
    let state = call.view();
    let access = Access::new(call, &state);
    let duplicates = duplicates(&request.topics);
    let mut told = HashSet::new();
    let mut looks = Vec::new();
    let mut asked_of = Vec::with_capacity(request.topics.len());
    for asked in request.topics {
        let topic = access.topic(Action::Describe, &asked.name);
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        for partition in asked.partitions {
            let key = (asked.name.0.clone(), partition.partition_index);
            let twice = duplicates.contains(&key);
            if twice && !told.insert(key) {
                continue;
            }
            let into = match &topic {
                Ok(_) if twice => Err(ResponseError::InvalidRequest),
                Ok(topic) => partitions::index(topic, partition.partition_index).map(|index| LookInto {
                    topic: Arc::clone(topic),
                    index,
                    look: look_for(call.version, partition.timestamp),
                }),
                Err(error) => Err(*error),
            };
            partitions.push((
                match into {
                    Ok(into) => {
                        looks.push(into);
                        Asked::Look(looks.len() - 1)
                    }
                    Err(error) => Asked::Known(error),
                },
                partition,
            ));
        }
        if !partitions.is_empty() {
            asked_of.push((asked.name, partitions));
        }
    }
    let looked = call.shared.broker.look(looks).await;
    let topics = asked_of.into_iter().map(|(name, partitions)| {
        let partitions = partitions.iter().map(|(asked, partition)| {
            let found = match asked {
                Asked::Known(error) => Err(*error),
                Asked::Look(at) => found(call.version, partition, &looked[*at]),
            };
            answer(call, partition.partition_index, found)
        });
        ListOffsetsTopicResponse::default()
            .with_partitions(partitions.collect())
            .with_name(name)
    });
    ListOffsetsResponse::default().with_topics(topics.collect())
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

/// Versions that know what is asked for.
fn since(timestamp: i64) -> i16 {
    match timestamp {
        0.. | LATEST | EARLIEST => 0,
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        _ => i16::MAX,
    }
}

fn look_for(version: i16, timestamp: i64) -> Look {
    match timestamp {
        _ if version < since(timestamp) => Look::Marks,
        EARLIEST | EARLIEST_LOCAL => Look::Earliest,
        MAX_TIMESTAMP => Look::MaxTimestamp,
        0.. => Look::ByTimestamp(timestamp),
        _ => Look::Marks,
    }
}

fn found(
    version: i16,
    asked: &ListOffsetsPartition,
    looked: &Result<Looked, AccessError>,
) -> Result<Found, ResponseError> {
    let looked = looked.as_ref().map_err(told)?;
    let marks = &looked.marks;
    marks
        .check_epoch(asked.current_leader_epoch)
        .map_err(|e| errors::access(&e))?;
    if version < since(asked.timestamp) {
        return Err(ResponseError::UnsupportedVersion);
    }
    match asked.timestamp {
        LATEST => Ok((marks.high_watermark, -1, marks.leader_epoch)),
        LATEST_TIERED => Ok(NOTHING),
        _ => Ok(looked.found.unwrap_or(NOTHING)),
    }
}

fn told(error: &AccessError) -> ResponseError {
    if let AccessError::Read(error @ ReadError::Storage { .. }) = error {
        tracing::error!(%error, "a partition cannot be read");
    }
    errors::access(error)
}

pub(crate) async fn offset_for_leader_epoch(
    call: &Call,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let state = call.view();
    let access = Access::new(call, &state);
    let mut looks = Vec::new();
    let mut asked_of = Vec::with_capacity(request.topics.len());
    for asked in request.topics {
        let topic = access.topic(Action::Describe, &asked.topic);
        let partitions = asked.partitions.into_iter().map(|partition| {
            let topic = topic.as_ref().map_err(|e| *e);
            let into = topic.and_then(|topic| Ok((topic, partitions::index(topic, partition.partition)?)));
            let asked = match into {
                Ok((topic, index)) => {
                    let look = match partition.leader_epoch {
                        epoch @ 0.. => Look::EpochEnd(epoch),
                        _ => Look::Marks,
                    };
                    let topic = Arc::clone(topic);
                    looks.push(LookInto { topic, index, look });
                    Asked::Look(looks.len() - 1)
                }
                Err(error) => Asked::Known(error),
            };
            (asked, partition)
        });
        let partitions: Vec<_> = partitions.collect();
        asked_of.push((asked.topic, partitions));
    }
    let looked = call.shared.broker.look(looks).await;
    let topics = asked_of.into_iter().map(|(name, partitions)| {
        let partitions = partitions.iter().map(|(asked, partition)| {
            let response = EpochEndOffset::default().with_partition(partition.partition);
            let end = match asked {
                Asked::Known(error) => Err(*error),
                Asked::Look(at) => epoch_end(partition, &looked[*at]),
            };
            match end {
                Ok((epoch, end)) => response.with_leader_epoch(epoch).with_end_offset(end),
                Err(error) => response.with_error_code(error.code()),
            }
        });
        OffsetForLeaderTopicResult::default()
            .with_partitions(partitions.collect())
            .with_topic(name)
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
}

/// The largest epoch not above the asked one and where it ends: the current one at the log end, one that is yet to come
/// nowhere (-1, -1). One from before all that is known ends where the log begins.
fn epoch_end(
    asked: &OffsetForLeaderPartition,
    looked: &Result<Looked, AccessError>,
) -> Result<(i32, i64), ResponseError> {
    let looked = looked.as_ref().map_err(told)?;
    let marks = &looked.marks;
    marks
        .check_epoch(asked.current_leader_epoch)
        .map_err(|e| errors::access(&e))?;
    let epoch = asked.leader_epoch;
    if epoch == marks.leader_epoch {
        return Ok((epoch, marks.log_end));
    }
    if epoch == NO_EPOCH || epoch > marks.leader_epoch {
        return Ok((NO_EPOCH, -1));
    }
    let end = looked.found.map(|(end, _, epoch)| (epoch, end));
    Ok(end.unwrap_or((epoch, marks.log_start)))
}
