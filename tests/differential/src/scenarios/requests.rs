//! Requests in their plainest form; scenarios change what they are about.

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    CreateTopicsRequest, FetchRequest, HeartbeatRequest, InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest,
    ListOffsetsRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest, ProducerId,
    SyncGroupRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

/// Text for the wire.
pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// A topic name as written.
pub fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

/// A topic as a request names it: by name below the versions with ids, by id from there on.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Name.
    pub name: TopicName,
    /// Id.
    pub id: Uuid,
}

/// One batch for one partition.
pub fn produce(topic: &Topic, partition: i32, records: Bytes) -> ProduceRequest {
    produce_all(topic, vec![(partition, Some(records))])
}

/// Bytes for each partition named; acks all.
pub fn produce_all(topic: &Topic, partitions: Vec<(i32, Option<Bytes>)>) -> ProduceRequest {
    let partitions = partitions
        .into_iter()
        .map(|(index, records)| PartitionProduceData::default().with_index(index).with_records(records))
        .collect();
    let topic = TopicProduceData::default()
        .with_name(topic.name.clone())
        .with_topic_id(topic.id)
        .with_partition_data(partitions);
    ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(10_000)
        .with_topic_data(vec![topic])
}

/// A fetch of 1 MiB at most from one partition, without waiting.
pub fn fetch(topic: &Topic, partition: i32, offset: i64) -> FetchRequest {
    fetch_all(topic, &[(partition, offset)])
}

/// A fetch from several partitions of a topic, without waiting.
pub fn fetch_all(topic: &Topic, partitions: &[(i32, i64)]) -> FetchRequest {
    let partitions = partitions
        .iter()
        .map(|(partition, offset)| {
            FetchPartition::default()
                .with_partition(*partition)
                .with_fetch_offset(*offset)
                .with_partition_max_bytes(1 << 20)
        })
        .collect();
    let topic = FetchTopic::default()
        .with_topic(topic.name.clone())
        .with_topic_id(topic.id)
        .with_partitions(partitions);
    FetchRequest::default()
        .with_max_wait_ms(0)
        .with_min_bytes(0)
        .with_max_bytes(8 << 20)
        .with_topics(vec![topic])
}

/// Partition and time, -1 latest, -2 earliest.
pub fn list_offsets(topic: &TopicName, wanted: &[(i32, i64)]) -> ListOffsetsRequest {
    let partitions = wanted
        .iter()
        .map(|(index, time)| {
            ListOffsetsPartition::default()
                .with_partition_index(*index)
                .with_timestamp(*time)
        })
        .collect();
    let topic = ListOffsetsTopic::default()
        .with_name(topic.clone())
        .with_partitions(partitions);
    ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_topics(vec![topic])
}

/// Metadata of the topics named.
pub fn metadata(names: &[TopicName]) -> MetadataRequest {
    let topics = names
        .iter()
        .map(|name| MetadataRequestTopic::default().with_name(Some(name.clone())))
        .collect();
    MetadataRequest::default()
        .with_topics(Some(topics))
        .with_allow_auto_topic_creation(false)
}

/// One topic to create, one replica.
pub fn create_topic(name: &TopicName, partitions: i32) -> CreateTopicsRequest {
    let topic = CreatableTopic::default()
        .with_name(name.clone())
        .with_num_partitions(partitions)
        .with_replication_factor(1);
    CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(10_000)
}

/// A new producer's request for an id.
pub fn init_producer() -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1)
}

/// A consumer's join with one protocol, `range`, and a subscription to nothing with the user data given.
pub fn join(group: &StrBytes, member: &StrBytes, user_data: &[u8]) -> JoinGroupRequest {
    join_with(group, member, &[("range", &subscription(&[], user_data))])
}

/// A consumer's subscription as clients encode it, version 0. Kafka reads it, where the protocol type is `consumer`.
pub fn subscription(topics: &[&TopicName], user_data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend((user_data.len() as i32).to_be_bytes());
    bytes.extend(user_data);
    bytes
}

/// A consumer's join with the protocols named, in its order of preference.
pub fn join_with(group: &StrBytes, member: &StrBytes, protocols: &[(&str, &[u8])]) -> JoinGroupRequest {
    let protocols = protocols
        .iter()
        .map(|(name, metadata)| {
            JoinGroupRequestProtocol::default()
                .with_name(text(name))
                .with_metadata(Bytes::copy_from_slice(metadata))
        })
        .collect();
    JoinGroupRequest::default()
        .with_group_id(group.clone().into())
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(10_000)
        .with_member_id(member.clone())
        .with_protocol_type(text("consumer"))
        .with_protocols(protocols)
}

/// A sync with the assignments given, which only the leader has.
pub fn sync(
    group: &StrBytes,
    member: &StrBytes,
    generation: i32,
    assignments: &[(&StrBytes, &[u8])],
) -> SyncGroupRequest {
    let assignments = assignments
        .iter()
        .map(|(member, assignment)| {
            SyncGroupRequestAssignment::default()
                .with_member_id((*member).clone())
                .with_assignment(Bytes::copy_from_slice(assignment))
        })
        .collect();
    SyncGroupRequest::default()
        .with_group_id(group.clone().into())
        .with_generation_id(generation)
        .with_member_id(member.clone())
        .with_protocol_type(Some(text("consumer")))
        .with_protocol_name(Some(text("range")))
        .with_assignments(assignments)
}

/// The request below the version that has protocol type and name.
pub fn for_version(request: SyncGroupRequest, version: i16) -> SyncGroupRequest {
    if version >= 5 {
        request
    } else {
        request.with_protocol_type(None).with_protocol_name(None)
    }
}

/// A heartbeat.
pub fn heartbeat(group: &StrBytes, member: &StrBytes, generation: i32) -> HeartbeatRequest {
    HeartbeatRequest::default()
        .with_group_id(group.clone().into())
        .with_member_id(member.clone())
        .with_generation_id(generation)
}

/// A member leaving, in the form of `version`.
pub fn leave(group: &StrBytes, member: &StrBytes, version: i16) -> LeaveGroupRequest {
    let request = LeaveGroupRequest::default().with_group_id(group.clone().into());
    if version < 3 {
        return request.with_member_id(member.clone());
    }
    request.with_members(vec![MemberIdentity::default().with_member_id(member.clone())])
}

/// Offsets of one topic to commit, from outside any generation.
pub fn commit(group: &StrBytes, topic: &TopicName, offsets: &[(i32, i64)]) -> OffsetCommitRequest {
    let partitions = offsets
        .iter()
        .map(|(index, offset)| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(*index)
                .with_committed_offset(*offset)
                .with_committed_metadata(Some(text("note")))
        })
        .collect();
    let topic = OffsetCommitRequestTopic::default()
        .with_name(topic.clone())
        .with_partitions(partitions);
    OffsetCommitRequest::default()
        .with_group_id(group.clone().into())
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic])
}

/// The offsets of a group in the form of `version`; `None`: all it has.
pub fn offsets(group: &StrBytes, topics: Option<&[(TopicName, Vec<i32>)]>, version: i16) -> OffsetFetchRequest {
    if version < 8 {
        let topics = topics.map(|topics| {
            topics
                .iter()
                .map(|(name, partitions)| {
                    OffsetFetchRequestTopic::default()
                        .with_name(name.clone())
                        .with_partition_indexes(partitions.clone())
                })
                .collect()
        });
        return OffsetFetchRequest::default()
            .with_group_id(group.clone().into())
            .with_topics(topics);
    }
    let topics = topics.map(|topics| {
        topics
            .iter()
            .map(|(name, partitions)| {
                OffsetFetchRequestTopics::default()
                    .with_name(name.clone())
                    .with_partition_indexes(partitions.clone())
            })
            .collect()
    });
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(group.clone().into())
        .with_topics(topics);
    OffsetFetchRequest::default().with_groups(vec![group])
}
