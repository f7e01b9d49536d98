//! Committed offsets.

use super::{address, error};
use crate::auth::{Action, On};
use crate::broker::Position;
use crate::groups::{Commit, Membership, Refusal};
use crate::kafka::access::Access;
use crate::kafka::call::Call;
use crate::kafka::partitions;
use cluster::ids::PartitionId;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The partition that a name and a number stand for now, if the caller may read it. A name that no topic can have is as
/// good as any that none has.
pub(super) fn partition(access: &Access<'_>, topic: &str, index: i32) -> Result<PartitionId, ResponseError> {
    let topic = access.topic(Action::Read, topic).map_err(|error| match error {
        ResponseError::InvalidTopicException => ResponseError::UnknownTopicOrPartition,
        error => error,
    })?;
    let index = partitions::index(topic, index)?;
    Ok(PartitionId { topic: topic.id, index })
}

/// Whether the topic is there for the caller. One that is, named without partitions, is passed over; a missing one is
/// echoed.
pub(super) fn exists(access: &Access<'_>, topic: &str) -> bool {
    access.topic(Action::Read, topic).is_ok()
}

pub(crate) async fn offset_commit(call: &Call, request: OffsetCommitRequest) -> OffsetCommitResponse {
    let state = call.view();
    let access = Access::new(call, &state);
    let names = request.topics.iter().map(|t| t.name.as_str());
    let address = address(call, &access, Action::Read, &request.group_id, names);
    let longest = call.shared.groups.config().max_offset_metadata;
    let mut commits = Vec::new();
    // What each partition is answered; `None` is up to the coordinator.
    let mut verdicts: Vec<Option<ResponseError>> = Vec::new();
    for topic in &request.topics {
        for p in &topic.partitions {
            let metadata = p.committed_metadata.as_deref().unwrap_or_default();
            verdicts.push(match partition(&access, &topic.name, p.partition_index) {
                Err(error) => Some(error),
                Ok(_) if metadata.encode_utf16().count() > longest => Some(ResponseError::OffsetMetadataTooLarge),
                Ok(partition) => {
                    commits.push(Commit {
                        partition,
                        offset: p.committed_offset,
                        leader_epoch: p.committed_leader_epoch,
                        metadata: metadata.to_owned(),
                    });
                    None
                }
            });
        }
    }
    // As Kafka: whether the committer is a member is asked only where there is a partition to commit to, and comes
    // before the length of metadata.
    let known = |v: &Option<ResponseError>| matches!(v, None | Some(ResponseError::OffsetMetadataTooLarge));
    let outcome = if let Err(error) = &address {
        // The whole request is refused, whatever it names.
        verdicts.fill(Some(*error));
        Ok(())
    } else if let Ok(address) = &address
        && verdicts.iter().any(known)
    {
        let who = Membership {
            member_id: Arc::from(request.member_id.as_str()),
            instance: request.group_instance_id.as_deref().map(Arc::from),
            generation: request.generation_id_or_member_epoch,
        };
        call.shared.groups.commit(address, &who, commits).await
    } else {
        Ok(())
    };
    let refused = outcome.err().map(|refusal| match refusal {
        Refusal::UnknownGroup if call.version < 9 => ResponseError::IllegalGeneration,
        refusal => error(refusal),
    });
    let mut verdicts = verdicts.into_iter();
    let asked = request
        .topics
        .into_iter()
        .filter(|t| !t.partitions.is_empty() || !exists(&access, &t.name));
    let topics = asked.map(|topic| {
        let partitions = topic.partitions.iter().map(|p| {
            let error = match verdicts.next().flatten() {
                Some(ResponseError::OffsetMetadataTooLarge) => refused.or(Some(ResponseError::OffsetMetadataTooLarge)),
                None => refused,
                verdict => verdict,
            };
            OffsetCommitResponsePartition::default()
                .with_partition_index(p.partition_index)
                .with_error_code(error.map_or(0, |e| e.code()))
        });
        OffsetCommitResponseTopic::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}

/// What one group is asked for: topics and partition numbers, or all.
type Asked = Option<Vec<(TopicName, Vec<i32>)>>;
/// What is answered of a partition: its number, and its position, if any.
type Answer = (i32, Result<Option<Position>, ResponseError>);
/// What is answered of a topic.
type Answers = (TopicName, Vec<Answer>);
/// What the group is answered.
type Found = Vec<Answers>;

pub(crate) async fn offset_fetch(call: &Call, request: OffsetFetchRequest) -> OffsetFetchResponse {
    if call.version >= 8 {
        let mut groups = Vec::with_capacity(request.groups.len());
        for group in request.groups {
            let topics = group.topics;
            let asked: Asked = topics.map(|topics| topics.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
            let found = fetch(call, &group.group_id, asked).await;
            let answer = OffsetFetchResponseGroup::default()
                .with_error_code(found.as_ref().map_or_else(ResponseError::code, |_| 0))
                .with_group_id(group.group_id);
            groups.push(answer.with_topics(found.into_iter().flatten().map(batched).collect()));
        }
        return OffsetFetchResponse::default().with_groups(groups);
    }
    let topics = request.topics;
    let asked: Asked = topics.map(|topics| topics.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
    let names = asked.clone();
    match fetch(call, &request.group_id, asked).await {
        Ok(found) => OffsetFetchResponse::default().with_topics(found.into_iter().map(single).collect()),
        Err(error) => {
            let answer = OffsetFetchResponse::default().with_error_code(error.code());
            // Version 1 has room for an error with each partition alone.
            let each = names.filter(|_| call.version < 2).into_iter().flatten();
            let none = each.map(|(name, indexes)| (name, indexes.into_iter().map(|i| (i, Err(error))).collect()));
            answer.with_topics(none.map(single).collect())
        }
    }
}

async fn fetch(call: &Call, group: &str, asked: Asked) -> Result<Found, ResponseError> {
    let state = call.view();
    let access = Access::new(call, &state);
    let names = asked.iter().flatten().map(|(name, _)| name.as_str());
    let address = address(call, &access, Action::Read, group, names)?;
    let positions = call.shared.groups.offsets(&address).await.map_err(error)?;
    let Some(asked) = asked else {
        let mut topics: BTreeMap<String, Vec<Answer>> = BTreeMap::new();
        for (id, position) in positions {
            // A topic dropped meanwhile has no name any more.
            let (Some(topic), Ok(index)) = (state.topic_by_id(id.topic), i32::try_from(id.index)) else {
                continue;
            };
            if !access.may(Action::Read, On::Topic(topic)) {
                continue;
            }
            topics
                .entry(topic.full_name())
                .or_default()
                .push((index, Ok(Some(position))));
        }
        let named = |(name, partitions)| (TopicName(StrBytes::from_string(name)), partitions);
        return Ok(topics.into_iter().map(named).collect());
    };
    let found = asked.into_iter().map(|(name, indexes)| {
        let each = indexes.into_iter().map(|index| {
            let position = match partition(&access, &name, index) {
                Ok(id) => Ok(positions.get(&id).cloned()),
                // Asked by name, a topic that is not there has no offset; that is no error.
                Err(ResponseError::UnknownTopicOrPartition) => Ok(None),
                Err(error) => Err(error),
            };
            (index, position)
        });
        let each = each.collect();
        (name, each)
    });
    Ok(found.collect())
}

/// Offset, leader epoch, metadata, error.
fn offset(position: Result<Option<Position>, ResponseError>) -> (i64, i32, StrBytes, i16) {
    match position {
        Ok(Some(p)) => (p.offset, p.leader_epoch, StrBytes::from_string(p.metadata), 0),
        Ok(None) => (-1, -1, StrBytes::default(), 0),
        Err(error) => (-1, -1, StrBytes::default(), error.code()),
    }
}

/// For versions that answer many groups.
fn batched((name, partitions): Answers) -> OffsetFetchResponseTopics {
    let partitions = partitions.into_iter().map(|(index, position)| {
        let (offset, epoch, metadata, code) = offset(position);
        OffsetFetchResponsePartitions::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_committed_leader_epoch(epoch)
            .with_metadata(Some(metadata))
            .with_error_code(code)
    });
    OffsetFetchResponseTopics::default()
        .with_partitions(partitions.collect())
        .with_name(name)
}

/// For versions that answer one group.
fn single((name, partitions): Answers) -> OffsetFetchResponseTopic {
    let partitions = partitions.into_iter().map(|(index, position)| {
        let (offset, epoch, metadata, code) = offset(position);
        OffsetFetchResponsePartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_committed_leader_epoch(epoch)
            .with_metadata(Some(metadata))
            .with_error_code(code)
    });
    OffsetFetchResponseTopic::default()
        .with_partitions(partitions.collect())
        .with_name(name)
}
