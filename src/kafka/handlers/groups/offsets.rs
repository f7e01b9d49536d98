//! Committed offsets.

use super::{address, code, error};
use crate::broker::Position;
use crate::groups::{Commit, Membership, Refusal};
use crate::kafka::call::Call;
use cluster::catalog::State;
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

/// The partition that a name and a number stand for now.
pub(super) fn partition(call: &Call, state: &State, topic: &str, index: i32) -> Option<PartitionId> {
    let topic = call.shared.names.topic(state, topic).ok()?;
    let index = u32::try_from(index).ok()?;
    ((index as usize) < topic.partitions.len()).then_some(PartitionId { topic: topic.id, index })
}

/// Whether the topic is there. One that is, named without partitions, is passed over; a missing one is echoed.
pub(super) fn exists(call: &Call, state: &State, topic: &str) -> bool {
    call.shared.names.topic(state, topic).is_ok()
}

pub(crate) async fn offset_commit(call: &Call, request: OffsetCommitRequest) -> OffsetCommitResponse {
    let state = call.view();
    let names = request.topics.iter().map(|t| t.name.as_str());
    let address = address(call, &state, &request.group_id, names);
    let longest = call.shared.groups.config().max_offset_metadata;
    let mut commits = Vec::new();
    // What each partition is answered; `None` is up to the coordinator.
    let mut verdicts: Vec<Option<ResponseError>> = Vec::new();
    for topic in &request.topics {
        for p in &topic.partitions {
            let metadata = p.committed_metadata.as_deref().unwrap_or_default();
            verdicts.push(match partition(call, &state, &topic.name, p.partition_index) {
                None => Some(ResponseError::UnknownTopicOrPartition),
                Some(_) if metadata.encode_utf16().count() > longest => Some(ResponseError::OffsetMetadataTooLarge),
                Some(partition) => {
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
    let known = |v: &Option<ResponseError>| *v != Some(ResponseError::UnknownTopicOrPartition);
    let outcome = if verdicts.iter().any(known) {
        let who = Membership {
            member_id: Arc::from(request.member_id.as_str()),
            instance: request.group_instance_id.as_deref().map(Arc::from),
            generation: request.generation_id_or_member_epoch,
        };
        call.shared.groups.commit(&address, &who, commits).await
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
        .filter(|t| !t.partitions.is_empty() || !exists(call, &state, &t.name));
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
/// What it is answered: (partition number, its position, if any).
type Found = Vec<(TopicName, Vec<(i32, Option<Position>)>)>;

pub(crate) async fn offset_fetch(call: &Call, request: OffsetFetchRequest) -> OffsetFetchResponse {
    if call.version >= 8 {
        let mut groups = Vec::with_capacity(request.groups.len());
        for group in request.groups {
            let topics = group.topics;
            let asked: Asked = topics.map(|topics| topics.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
            let found = fetch(call, &group.group_id, asked).await;
            let answer = OffsetFetchResponseGroup::default()
                .with_error_code(code(&found))
                .with_group_id(group.group_id);
            groups.push(answer.with_topics(found.into_iter().flatten().map(batched).collect()));
        }
        return OffsetFetchResponse::default().with_groups(groups);
    }
    let topics = request.topics;
    let asked: Asked = topics.map(|topics| topics.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
    let names = asked.clone();
    match fetch(call, &request.group_id, asked).await {
        Ok(found) => OffsetFetchResponse::default().with_topics(found.into_iter().map(|t| single(t, 0)).collect()),
        Err(refusal) => {
            let code = error(refusal).code();
            let answer = OffsetFetchResponse::default().with_error_code(code);
            // Version 1 has room for an error with each partition alone.
            let each = names.filter(|_| call.version < 2).into_iter().flatten();
            let none = each.map(|(name, indexes)| (name, indexes.into_iter().map(|i| (i, None)).collect()));
            answer.with_topics(none.map(|t| single(t, code)).collect())
        }
    }
}

async fn fetch(call: &Call, group: &str, asked: Asked) -> Result<Found, Refusal> {
    let state = call.view();
    let names = asked.iter().flatten().map(|(name, _)| name.as_str());
    let positions = call.shared.groups.offsets(&address(call, &state, group, names)).await?;
    let Some(asked) = asked else {
        let mut topics: BTreeMap<String, Vec<(i32, Option<Position>)>> = BTreeMap::new();
        for (id, position) in positions {
            // A topic dropped meanwhile has no name any more.
            let (Some(topic), Ok(index)) = (state.topic_by_id(id.topic), i32::try_from(id.index)) else {
                continue;
            };
            topics
                .entry(topic.full_name())
                .or_default()
                .push((index, Some(position)));
        }
        let named = |(name, partitions)| (TopicName(StrBytes::from_string(name)), partitions);
        return Ok(topics.into_iter().map(named).collect());
    };
    let found = asked.into_iter().map(|(name, indexes)| {
        let each = indexes.into_iter().map(|index| {
            let position = partition(call, &state, &name, index).and_then(|id| positions.get(&id).cloned());
            (index, position)
        });
        let each = each.collect();
        (name, each)
    });
    Ok(found.collect())
}

fn offset(position: &Option<Position>) -> (i64, i32, StrBytes) {
    match position {
        Some(p) => (p.offset, p.leader_epoch, StrBytes::from_string(p.metadata.clone())),
        None => (-1, -1, StrBytes::default()),
    }
}

/// For versions that answer many groups.
fn batched((name, partitions): (TopicName, Vec<(i32, Option<Position>)>)) -> OffsetFetchResponseTopics {
    let partitions = partitions.into_iter().map(|(index, position)| {
        let (offset, epoch, metadata) = offset(&position);
        OffsetFetchResponsePartitions::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_committed_leader_epoch(epoch)
            .with_metadata(Some(metadata))
    });
    OffsetFetchResponseTopics::default()
        .with_partitions(partitions.collect())
        .with_name(name)
}

/// For versions that answer one group.
fn single((name, partitions): (TopicName, Vec<(i32, Option<Position>)>), code: i16) -> OffsetFetchResponseTopic {
    let partitions = partitions.into_iter().map(|(index, position)| {
        let (offset, epoch, metadata) = offset(&position);
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
