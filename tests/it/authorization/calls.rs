//! Requests of each kind that ask little, and the error code that comes back.

use super::*;

pub(super) fn text(s: &str) -> StrBytes {
    StrBytes::from_string(s.to_owned())
}

pub(super) fn topic(s: &str) -> TopicName {
    TopicName(text(s))
}

pub(super) fn group(s: &str) -> GroupId {
    GroupId(text(s))
}

pub(super) fn batch() -> Bytes {
    let mut builder = BatchBuilder::new();
    builder
        .push(NewRecord {
            timestamp: 1,
            value: Some(b"value"),
            ..Default::default()
        })
        .expect("a record");
    builder.build().expect("a batch")
}

pub(super) fn produce_request(name: &str, id: Uuid) -> ProduceRequest {
    let partition = PartitionProduceData::default()
        .with_index(0)
        .with_records(Some(batch()));
    ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![
            TopicProduceData::default()
                .with_name(topic(name))
                .with_topic_id(id)
                .with_partition_data(vec![partition]),
        ])
}

pub(super) fn fetch_request(name: &str, id: Uuid, offset: i64, wait_ms: i32) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_session_epoch(-1)
        .with_max_wait_ms(wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_topics(vec![
            FetchTopic::default()
                .with_topic(topic(name))
                .with_topic_id(id)
                .with_partitions(vec![partition]),
        ])
}

pub(super) fn produce(wire: &mut Wire, name: &str) -> i16 {
    let answer: Option<ProduceResponse> = wire.ask(ApiKey::Produce, 9, &produce_request(name, Uuid::nil()));
    answer.map_or(CLOSED, |a| a.responses[0].partition_responses[0].error_code)
}

pub(super) fn fetch(wire: &mut Wire, name: &str) -> i16 {
    let answer: Option<FetchResponse> = wire.ask(ApiKey::Fetch, 12, &fetch_request(name, Uuid::nil(), 0, 0));
    answer.map_or(CLOSED, |a| a.responses[0].partitions[0].error_code)
}

pub(super) fn list_offsets(wire: &mut Wire, name: &str) -> i16 {
    let partition = ListOffsetsPartition::default().with_timestamp(-1);
    let request = ListOffsetsRequest::default().with_topics(vec![
        ListOffsetsTopic::default()
            .with_name(topic(name))
            .with_partitions(vec![partition]),
    ]);
    let answer: Option<ListOffsetsResponse> = wire.ask(ApiKey::ListOffsets, 7, &request);
    answer.map_or(CLOSED, |a| a.topics[0].partitions[0].error_code)
}

pub(super) fn metadata(wire: &mut Wire, name: Option<&str>, id: Uuid) -> i16 {
    let asked = MetadataRequestTopic::default()
        .with_name(name.map(topic))
        .with_topic_id(id);
    let request = MetadataRequest::default().with_topics(Some(vec![asked]));
    let answer: Option<MetadataResponse> = wire.ask(ApiKey::Metadata, 12, &request);
    answer.map_or(CLOSED, |a| a.topics[0].error_code)
}

pub(super) fn offset_commit(wire: &mut Wire, of: &str, name: &str) -> i16 {
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(1);
    let request = OffsetCommitRequest::default()
        .with_group_id(group(of))
        .with_topics(vec![
            OffsetCommitRequestTopic::default()
                .with_name(topic(name))
                .with_partitions(vec![partition]),
        ]);
    let answer: Option<OffsetCommitResponse> = wire.ask(ApiKey::OffsetCommit, 8, &request);
    answer.map_or(CLOSED, |a| a.topics[0].partitions[0].error_code)
}

/// The group's error, else the partition's.
pub(super) fn offset_fetch(wire: &mut Wire, of: &str, name: &str) -> i16 {
    let topics = vec![
        OffsetFetchRequestTopics::default()
            .with_name(topic(name))
            .with_partition_indexes(vec![0]),
    ];
    let asked = OffsetFetchRequestGroup::default()
        .with_group_id(group(of))
        .with_topics(Some(topics));
    let request = OffsetFetchRequest::default().with_groups(vec![asked]);
    let answer: Option<OffsetFetchResponse> = wire.ask(ApiKey::OffsetFetch, 8, &request);
    answer.map_or(CLOSED, |a| match a.groups[0].error_code {
        0 => a.groups[0].topics[0].partitions[0].error_code,
        error => error,
    })
}

pub(super) fn join(wire: &mut Wire, of: &str, name: &str) -> i16 {
    let answer: Option<JoinGroupResponse> = wire.ask(ApiKey::JoinGroup, 3, &join_request(of, name, ""));
    answer.map_or(CLOSED, |a| a.error_code)
}

pub(super) fn join_request(of: &str, name: &str, member: &str) -> JoinGroupRequest {
    let mut subscription = vec![0, 1, 0, 0, 0, 1];
    subscription.extend((name.len() as i16).to_be_bytes());
    subscription.extend(name.as_bytes());
    subscription.extend((-1i32).to_be_bytes());
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(subscription.into());
    JoinGroupRequest::default()
        .with_group_id(group(of))
        .with_member_id(text(member))
        .with_session_timeout_ms(300_000)
        .with_rebalance_timeout_ms(300_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol])
}

pub(super) fn create_topic(wire: &mut Wire, name: &str) -> i16 {
    let asked = CreatableTopic::default()
        .with_name(topic(name))
        .with_num_partitions(1)
        .with_replication_factor(-1);
    let request = CreateTopicsRequest::default()
        .with_topics(vec![asked])
        .with_timeout_ms(30_000);
    let answer: Option<CreateTopicsResponse> = wire.ask(ApiKey::CreateTopics, 7, &request);
    answer.map_or(CLOSED, |a| a.topics[0].error_code)
}

pub(super) fn delete_topic(wire: &mut Wire, name: Option<&str>, id: Uuid) -> i16 {
    let asked = DeleteTopicState::default().with_name(name.map(topic)).with_topic_id(id);
    let request = DeleteTopicsRequest::default()
        .with_topics(vec![asked])
        .with_timeout_ms(30_000);
    let answer: Option<DeleteTopicsResponse> = wire.ask(ApiKey::DeleteTopics, 6, &request);
    answer.map_or(CLOSED, |a| a.responses[0].error_code)
}

pub(super) fn delete_records(wire: &mut Wire, name: &str) -> i16 {
    let partition = DeleteRecordsPartition::default().with_offset(0);
    let request = DeleteRecordsRequest::default()
        .with_timeout_ms(30_000)
        .with_topics(vec![
            DeleteRecordsTopic::default()
                .with_name(topic(name))
                .with_partitions(vec![partition]),
        ]);
    let answer: Option<DeleteRecordsResponse> = wire.ask(ApiKey::DeleteRecords, 2, &request);
    answer.map_or(CLOSED, |a| a.topics[0].partitions[0].error_code)
}

pub(super) fn epoch_end(wire: &mut Wire, name: &str) -> i16 {
    let partition = OffsetForLeaderPartition::default()
        .with_current_leader_epoch(-1)
        .with_leader_epoch(0);
    let request = OffsetForLeaderEpochRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(vec![
            OffsetForLeaderTopic::default()
                .with_topic(topic(name))
                .with_partitions(vec![partition]),
        ]);
    let answer: Option<OffsetForLeaderEpochResponse> = wire.ask(ApiKey::OffsetForLeaderEpoch, 4, &request);
    answer.map_or(CLOSED, |a| a.topics[0].partitions[0].error_code)
}

pub(super) const OF_TOPIC: i8 = 2;
pub(super) const OF_BROKER: i8 = 4;

pub(super) fn describe_configs(wire: &mut Wire, kind: i8, name: &str) -> i16 {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let answer: Option<DescribeConfigsResponse> = wire.ask(ApiKey::DescribeConfigs, 4, &request);
    answer.map_or(CLOSED, |a| a.results[0].error_code)
}

pub(super) fn alter_configs(wire: &mut Wire, kind: i8, name: &str) -> i16 {
    let config = WholeConfig::default()
        .with_name(text("retention.ms"))
        .with_value(Some(text("86400000")));
    let resource = AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(vec![config]);
    let request = AlterConfigsRequest::default().with_resources(vec![resource]);
    let answer: Option<AlterConfigsResponse> = wire.ask(ApiKey::AlterConfigs, 2, &request);
    answer.map_or(CLOSED, |a| a.responses[0].error_code)
}

pub(super) fn incremental_alter_configs(wire: &mut Wire, kind: i8, name: &str) -> i16 {
    let config = AlterableConfig::default()
        .with_name(text("retention.ms"))
        .with_value(Some(text("86400000")));
    let resource = OneByOne::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer: Option<IncrementalAlterConfigsResponse> = wire.ask(ApiKey::IncrementalAlterConfigs, 1, &request);
    answer.map_or(CLOSED, |a| a.responses[0].error_code)
}

pub(super) fn create_partitions(wire: &mut Wire, name: &str) -> i16 {
    let asked = CreatePartitionsTopic::default()
        .with_name(topic(name))
        .with_count(5)
        .with_assignments(None);
    let request = CreatePartitionsRequest::default()
        .with_topics(vec![asked])
        .with_timeout_ms(30_000)
        .with_validate_only(true);
    let answer: Option<CreatePartitionsResponse> = wire.ask(ApiKey::CreatePartitions, 3, &request);
    answer.map_or(CLOSED, |a| a.results[0].error_code)
}

pub(super) fn offset_delete(wire: &mut Wire, of: &str, name: &str) -> i16 {
    let partition = OffsetDeleteRequestPartition::default();
    let request = OffsetDeleteRequest::default()
        .with_group_id(group(of))
        .with_topics(vec![
            OffsetDeleteRequestTopic::default()
                .with_name(topic(name))
                .with_partitions(vec![partition]),
        ]);
    let answer: Option<OffsetDeleteResponse> = wire.ask(ApiKey::OffsetDelete, 0, &request);
    answer.map_or(CLOSED, |a| match a.error_code {
        0 => a.topics[0].partitions[0].error_code,
        error => error,
    })
}

pub(super) fn describe_acls_request() -> DescribeAclsRequest {
    DescribeAclsRequest::default()
        .with_resource_type_filter(1)
        .with_pattern_type_filter(1)
        .with_resource_name_filter(None)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(1)
        .with_permission_type(1)
}
