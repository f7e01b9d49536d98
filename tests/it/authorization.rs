//! Who may do what on the Kafka port: every request kind that is served, asked by everybody there is.

use crate::process::Process;
use crate::wire::Wire;
use bytes::Bytes;
use kafka_protocol::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig as WholeConfig};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource as OneByOne, AlterableConfig};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeSet;
use tessaridb::kafka::TABLE;
use tessaridb::record::{BatchBuilder, NewRecord};
use uuid::Uuid;

/// What the requests are about.
const TOPIC: &str = "shop.orders.orders";
/// The connection was closed instead.
const CLOSED: i16 = i16::MIN;
/// The password of every user here.
const PASSWORD: &str = "correct horse";

/// Everybody there is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Caller {
    /// Has not signed in.
    Nobody,
    /// Viewer of the topic's namespace.
    Viewer,
    /// Editor of the topic's database.
    Editor,
    /// Owner of the store.
    Owner,
    /// Editor of another namespace.
    Tenant,
    /// Was granted read on the topic.
    Reader,
    /// Was granted write on the topic.
    Writer,
    /// Was granted read and write on the topic, on this very connection, and has lost both.
    Revoked,
}

use Caller::{Editor, Nobody, Owner, Reader, Revoked, Tenant, Viewer, Writer};

const CALLERS: [Caller; 8] = [Nobody, Viewer, Editor, Owner, Tenant, Reader, Writer, Revoked];

impl Caller {
    fn name(self) -> &'static str {
        match self {
            Nobody => "nobody",
            Viewer => "viewer",
            Editor => "editor",
            Owner => "owner",
            Tenant => "tenant",
            Reader => "reader",
            Writer => "writer",
            Revoked => "revoked",
        }
    }
}

/// A node with users, and what is on it.
struct Node {
    process: Process,
    topic: Uuid,
    /// That of `Revoked`, signed in when it had its rights.
    revoked: Option<Wire>,
}

impl Node {
    fn start() -> Self {
        let process = Process::start(&[]);
        process.script(
            "DEFINE NAMESPACE bank; USE NAMESPACE bank; DEFINE DATABASE accounts; USE DATABASE accounts;
             DEFINE TOPIC accounts;
             DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders; USE DATABASE orders;
             DEFINE TOPIC orders; DEFINE TOPIC kept;",
        );
        for caller in CALLERS {
            let name = caller.name();
            process.script(&format!(
                "USE NAMESPACE shop DATABASE orders; DEFINE TOPIC gone_{name};"
            ));
        }
        let mut open = Wire::connect(process.kafka);
        let all: MetadataResponse = open.call(ApiKey::Metadata, 12, &MetadataRequest::default().with_topics(None));
        let topic = all
            .topics
            .iter()
            .find(|t| t.name.as_ref().is_some_and(|n| n.as_str() == TOPIC))
            .expect("declared")
            .topic_id;
        // The first user closes the store to who declares it; the rest is its owner's.
        process.script(&format!("DEFINE USER owner ROLE owner PASSWORD '{PASSWORD}'"));
        let mut node = Self {
            process,
            topic,
            revoked: None,
        };
        for user in [
            "viewer ON NAMESPACE shop ROLE viewer",
            "editor ON shop.orders ROLE editor",
            "tenant ON NAMESPACE bank ROLE editor",
            "reader ROLE editor",
            "writer ROLE editor",
            "revoked ROLE editor",
        ] {
            node.own(&format!("DEFINE USER {user} PASSWORD '{PASSWORD}'"));
        }
        node.own(
            "USE NAMESPACE shop DATABASE orders;
             GRANT read ON orders TO reader; GRANT write ON orders TO writer;
             GRANT read, write ON orders TO revoked; GRANT read ON kept TO revoked;",
        );
        let mut revoked = node.wire(Revoked);
        assert_eq!(list_offsets(&mut revoked, TOPIC), 0, "not yet revoked");
        node.own("USE NAMESPACE shop DATABASE orders; REVOKE read, write ON orders FROM revoked");
        node.revoked = Some(revoked);
        node
    }

    /// Runs a script as the owner.
    fn own(&self, script: &str) -> String {
        self.process.script_as("owner", PASSWORD, script)
    }

    /// A connection of this caller's.
    fn wire(&mut self, caller: Caller) -> Wire {
        match caller {
            Nobody => Wire::connect(self.process.kafka),
            Revoked if self.revoked.is_some() => self.revoked.take().expect("there"),
            _ => Wire::signed_in(self.process.kafka, caller.name(), PASSWORD),
        }
    }
}

fn text(s: &str) -> StrBytes {
    StrBytes::from_string(s.to_owned())
}

fn topic(s: &str) -> TopicName {
    TopicName(text(s))
}

fn group(s: &str) -> GroupId {
    GroupId(text(s))
}

fn batch() -> Bytes {
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

fn produce_request(name: &str, id: Uuid) -> ProduceRequest {
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

fn fetch_request(name: &str, id: Uuid, offset: i64, wait_ms: i32) -> FetchRequest {
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

fn produce(wire: &mut Wire, name: &str) -> i16 {
    let answer: Option<ProduceResponse> = wire.ask(ApiKey::Produce, 9, &produce_request(name, Uuid::nil()));
    answer.map_or(CLOSED, |a| a.responses[0].partition_responses[0].error_code)
}

fn fetch(wire: &mut Wire, name: &str) -> i16 {
    let answer: Option<FetchResponse> = wire.ask(ApiKey::Fetch, 12, &fetch_request(name, Uuid::nil(), 0, 0));
    answer.map_or(CLOSED, |a| a.responses[0].partitions[0].error_code)
}

fn list_offsets(wire: &mut Wire, name: &str) -> i16 {
    let partition = ListOffsetsPartition::default().with_timestamp(-1);
    let request = ListOffsetsRequest::default().with_topics(vec![
        ListOffsetsTopic::default()
            .with_name(topic(name))
            .with_partitions(vec![partition]),
    ]);
    let answer: Option<ListOffsetsResponse> = wire.ask(ApiKey::ListOffsets, 7, &request);
    answer.map_or(CLOSED, |a| a.topics[0].partitions[0].error_code)
}

fn metadata(wire: &mut Wire, name: Option<&str>, id: Uuid) -> i16 {
    let asked = MetadataRequestTopic::default()
        .with_name(name.map(topic))
        .with_topic_id(id);
    let request = MetadataRequest::default().with_topics(Some(vec![asked]));
    let answer: Option<MetadataResponse> = wire.ask(ApiKey::Metadata, 12, &request);
    answer.map_or(CLOSED, |a| a.topics[0].error_code)
}

fn offset_commit(wire: &mut Wire, of: &str, name: &str) -> i16 {
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
fn offset_fetch(wire: &mut Wire, of: &str, name: &str) -> i16 {
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

fn join(wire: &mut Wire, of: &str, name: &str) -> i16 {
    let answer: Option<JoinGroupResponse> = wire.ask(ApiKey::JoinGroup, 3, &join_request(of, name, ""));
    answer.map_or(CLOSED, |a| a.error_code)
}

fn join_request(of: &str, name: &str, member: &str) -> JoinGroupRequest {
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

fn create_topic(wire: &mut Wire, name: &str) -> i16 {
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

fn delete_topic(wire: &mut Wire, name: Option<&str>, id: Uuid) -> i16 {
    let asked = DeleteTopicState::default().with_name(name.map(topic)).with_topic_id(id);
    let request = DeleteTopicsRequest::default()
        .with_topics(vec![asked])
        .with_timeout_ms(30_000);
    let answer: Option<DeleteTopicsResponse> = wire.ask(ApiKey::DeleteTopics, 6, &request);
    answer.map_or(CLOSED, |a| a.responses[0].error_code)
}

fn delete_records(wire: &mut Wire, name: &str) -> i16 {
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

fn epoch_end(wire: &mut Wire, name: &str) -> i16 {
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

const OF_TOPIC: i8 = 2;
const OF_BROKER: i8 = 4;

fn describe_configs(wire: &mut Wire, kind: i8, name: &str) -> i16 {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let answer: Option<DescribeConfigsResponse> = wire.ask(ApiKey::DescribeConfigs, 4, &request);
    answer.map_or(CLOSED, |a| a.results[0].error_code)
}

fn alter_configs(wire: &mut Wire, kind: i8, name: &str) -> i16 {
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

fn incremental_alter_configs(wire: &mut Wire, kind: i8, name: &str) -> i16 {
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

fn create_partitions(wire: &mut Wire, name: &str) -> i16 {
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

fn offset_delete(wire: &mut Wire, of: &str, name: &str) -> i16 {
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

fn describe_acls_request() -> DescribeAclsRequest {
    DescribeAclsRequest::default()
        .with_resource_type_filter(1)
        .with_pattern_type_filter(1)
        .with_resource_name_filter(None)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(1)
        .with_permission_type(1)
}

/// One row of the matrix: a request kind, what of it is tried, and what each of [`CALLERS`] is answered.
type Row = (ApiKey, &'static str, fn(&mut Wire, &Node, Caller) -> i16, [i16; 8]);

const X: i16 = CLOSED;

/// In an order in which each finds what it needs.
const MATRIX: &[Row] = &[
    (
        ApiKey::ApiVersions,
        "",
        |wire, _, _| {
            let request = ApiVersionsRequest::default();
            let answer: Option<ApiVersionsResponse> = wire.ask(ApiKey::ApiVersions, 2, &request);
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [0, 0, 0, 0, 0, 0, 0, 0],
    ),
    (
        ApiKey::SaslHandshake,
        "",
        |wire, _, _| {
            let request = SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
            let answer: Option<SaslHandshakeResponse> = wire.ask(ApiKey::SaslHandshake, 1, &request);
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [0, 34, 34, 34, 34, 34, 34, 34],
    ),
    (
        ApiKey::SaslAuthenticate,
        "",
        |wire, _, _| {
            let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from_static(b"\0owner\0x"));
            let answer: Option<SaslAuthenticateResponse> = wire.ask(ApiKey::SaslAuthenticate, 2, &request);
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [X, 34, 34, 34, 34, 34, 34, 34],
    ),
    (
        ApiKey::Produce,
        "by name",
        |wire, _, _| produce(wire, TOPIC),
        [X, 29, 0, 0, 29, 29, 0, 29],
    ),
    (
        ApiKey::Produce,
        "by id",
        |wire, node, _| {
            let request = produce_request("", node.topic);
            let answer: Option<ProduceResponse> = wire.ask(ApiKey::Produce, 13, &request);
            answer.map_or(CLOSED, |a| a.responses[0].partition_responses[0].error_code)
        },
        [X, 29, 0, 0, 29, 29, 0, 29],
    ),
    (
        ApiKey::Fetch,
        "by name",
        |wire, _, _| fetch(wire, TOPIC),
        [X, 0, 0, 0, 29, 0, 29, 29],
    ),
    (
        ApiKey::Fetch,
        "by id",
        |wire, node, _| {
            let answer: Option<FetchResponse> = wire.ask(ApiKey::Fetch, 17, &fetch_request("", node.topic, 0, 0));
            answer.map_or(CLOSED, |a| a.responses[0].partitions[0].error_code)
        },
        [X, 0, 0, 0, 29, 0, 29, 29],
    ),
    (
        ApiKey::ListOffsets,
        "",
        |wire, _, _| list_offsets(wire, TOPIC),
        [X, 0, 0, 0, 29, 0, 0, 29],
    ),
    (
        ApiKey::Metadata,
        "by name",
        |wire, _, _| metadata(wire, Some(TOPIC), Uuid::nil()),
        [X, 0, 0, 0, 29, 0, 0, 29],
    ),
    (
        ApiKey::Metadata,
        "by id",
        |wire, node, _| metadata(wire, None, node.topic),
        [X, 0, 0, 0, 100, 0, 0, 100],
    ),
    (
        ApiKey::OffsetForLeaderEpoch,
        "",
        |wire, _, _| epoch_end(wire, TOPIC),
        [X, 0, 0, 0, 29, 0, 0, 29],
    ),
    (
        ApiKey::InitProducerId,
        "",
        |wire, _, _| {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
            let answer: Option<InitProducerIdResponse> = wire.ask(ApiKey::InitProducerId, 4, &request);
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [X, 31, 0, 0, 0, 31, 0, 31],
    ),
    (
        ApiKey::FindCoordinator,
        "of a group",
        |wire, _, caller| {
            let request = FindCoordinatorRequest::default().with_key(text(caller.name()));
            let answer: Option<FindCoordinatorResponse> = wire.ask(ApiKey::FindCoordinator, 3, &request);
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [X, 0, 0, 0, 0, 0, 30, 0],
    ),
    (
        ApiKey::FindCoordinator,
        "of a transaction",
        |wire, _, _| {
            let request = FindCoordinatorRequest::default()
                .with_key(text("transaction"))
                .with_key_type(1);
            let answer: Option<FindCoordinatorResponse> = wire.ask(ApiKey::FindCoordinator, 3, &request);
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [X, 53, 53, 53, 53, 53, 53, 53],
    ),
    (
        ApiKey::JoinGroup,
        "",
        |wire, _, caller| join(wire, &format!("joined_{}", caller.name()), TOPIC),
        [X, 0, 0, 0, 0, 0, 30, 0],
    ),
    (
        ApiKey::SyncGroup,
        "as a member that is none",
        |wire, _, caller| {
            let request = SyncGroupRequest::default()
                .with_group_id(group(caller.name()))
                .with_member_id(text("m"));
            let answer: Option<SyncGroupResponse> = wire.ask(ApiKey::SyncGroup, 3, &request);
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [X, 25, 25, 25, 25, 25, 30, 25],
    ),
    (
        ApiKey::Heartbeat,
        "as a member that is none",
        |wire, _, caller| {
            let request = HeartbeatRequest::default()
                .with_group_id(group(caller.name()))
                .with_member_id(text("m"));
            let answer: Option<HeartbeatResponse> = wire.ask(ApiKey::Heartbeat, 3, &request);
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [X, 25, 25, 25, 25, 25, 30, 25],
    ),
    (
        ApiKey::LeaveGroup,
        "as a member that is none",
        |wire, _, caller| {
            let request = LeaveGroupRequest::default()
                .with_group_id(group(caller.name()))
                .with_member_id(text("m"));
            let answer: Option<LeaveGroupResponse> = wire.ask(ApiKey::LeaveGroup, 2, &request);
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [X, 25, 25, 25, 25, 25, 30, 25],
    ),
    (
        ApiKey::OffsetCommit,
        "",
        |wire, _, caller| offset_commit(wire, caller.name(), TOPIC),
        [X, 0, 0, 0, 29, 0, 30, 29],
    ),
    (
        ApiKey::OffsetFetch,
        "of many groups",
        |wire, _, caller| offset_fetch(wire, caller.name(), TOPIC),
        [X, 0, 0, 0, 29, 0, 30, 29],
    ),
    (
        ApiKey::OffsetFetch,
        "of one group",
        |wire, _, caller| {
            let topics = vec![
                OffsetFetchRequestTopic::default()
                    .with_name(topic(TOPIC))
                    .with_partition_indexes(vec![0]),
            ];
            let request = OffsetFetchRequest::default()
                .with_group_id(group(caller.name()))
                .with_topics(Some(topics));
            let answer: Option<OffsetFetchResponse> = wire.ask(ApiKey::OffsetFetch, 7, &request);
            answer.map_or(CLOSED, |a| match a.error_code {
                0 => a.topics[0].partitions[0].error_code,
                error => error,
            })
        },
        [X, 0, 0, 0, 29, 0, 30, 29],
    ),
    (
        ApiKey::DescribeGroups,
        "",
        |wire, _, caller| {
            let request = DescribeGroupsRequest::default().with_groups(vec![group(caller.name())]);
            let answer: Option<DescribeGroupsResponse> = wire.ask(ApiKey::DescribeGroups, 5, &request);
            answer.map_or(CLOSED, |a| a.groups[0].error_code)
        },
        [X, 0, 0, 0, 0, 0, 30, 0],
    ),
    (
        ApiKey::ListGroups,
        "",
        |wire, _, _| {
            let answer: Option<ListGroupsResponse> = wire.ask(ApiKey::ListGroups, 4, &ListGroupsRequest::default());
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [X, 0, 0, 0, 0, 0, 0, 0],
    ),
    (
        ApiKey::OffsetDelete,
        "",
        |wire, _, caller| offset_delete(wire, caller.name(), TOPIC),
        [X, 30, 0, 0, 69, 30, 30, 30],
    ),
    (
        ApiKey::DeleteGroups,
        "",
        |wire, _, caller| {
            let request = DeleteGroupsRequest::default().with_groups_names(vec![group(caller.name())]);
            let _ = offset_commit(wire, caller.name(), TOPIC);
            let answer: Option<DeleteGroupsResponse> = wire.ask(ApiKey::DeleteGroups, 2, &request);
            answer.map_or(CLOSED, |a| a.results[0].error_code)
        },
        [X, 30, 0, 0, 69, 30, 30, 30],
    ),
    (
        ApiKey::CreateTopics,
        "a new one",
        |wire, _, caller| create_topic(wire, &format!("shop.orders.new_{}", caller.name())),
        [X, 29, 0, 0, 29, 29, 29, 29],
    ),
    (
        ApiKey::CreateTopics,
        "one that is there",
        |wire, _, _| create_topic(wire, TOPIC),
        [X, 29, 36, 36, 29, 29, 29, 29],
    ),
    (
        ApiKey::CreatePartitions,
        "",
        |wire, _, _| create_partitions(wire, TOPIC),
        [X, 29, 0, 0, 29, 29, 29, 29],
    ),
    (
        ApiKey::DeleteRecords,
        "",
        |wire, _, _| delete_records(wire, TOPIC),
        [X, 29, 0, 0, 29, 29, 29, 29],
    ),
    (
        ApiKey::DeleteTopics,
        "by name",
        |wire, _, caller| delete_topic(wire, Some(&format!("shop.orders.gone_{}", caller.name())), Uuid::nil()),
        [X, 29, 0, 0, 29, 29, 29, 29],
    ),
    (
        ApiKey::DeleteTopics,
        "by an id that none has",
        |wire, _, _| delete_topic(wire, None, Uuid::from_u128(7)),
        [X, 100, 100, 100, 100, 100, 100, 100],
    ),
    (
        ApiKey::DeleteTopics,
        "by id",
        |wire, node, caller| match caller {
            // It is needed.
            Editor | Owner => 0,
            _ => delete_topic(wire, None, node.topic),
        },
        [X, 29, 0, 0, 29, 29, 29, 29],
    ),
    (
        ApiKey::DescribeConfigs,
        "of a topic",
        |wire, _, _| describe_configs(wire, OF_TOPIC, TOPIC),
        [X, 0, 0, 0, 29, 0, 0, 29],
    ),
    (
        ApiKey::DescribeConfigs,
        "of the broker",
        |wire, _, _| describe_configs(wire, OF_BROKER, "1"),
        [X, 31, 31, 0, 31, 31, 31, 31],
    ),
    (
        ApiKey::AlterConfigs,
        "of a topic",
        |wire, _, _| alter_configs(wire, OF_TOPIC, TOPIC),
        [X, 29, 0, 0, 29, 29, 29, 29],
    ),
    (
        ApiKey::AlterConfigs,
        "of the broker",
        |wire, _, _| alter_configs(wire, OF_BROKER, "1"),
        [X, 31, 31, 42, 31, 31, 31, 31],
    ),
    (
        ApiKey::IncrementalAlterConfigs,
        "of a topic",
        |wire, _, _| incremental_alter_configs(wire, OF_TOPIC, TOPIC),
        [X, 29, 0, 0, 29, 29, 29, 29],
    ),
    (
        ApiKey::IncrementalAlterConfigs,
        "of the broker",
        |wire, _, _| incremental_alter_configs(wire, OF_BROKER, "1"),
        [X, 31, 31, 42, 31, 31, 31, 31],
    ),
    (
        ApiKey::DescribeAcls,
        "",
        |wire, _, _| {
            let answer: Option<DescribeAclsResponse> = wire.ask(ApiKey::DescribeAcls, 3, &describe_acls_request());
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [X, 31, 31, 0, 31, 31, 31, 31],
    ),
    (
        ApiKey::DescribeLogDirs,
        "",
        |wire, _, _| {
            let request = DescribeLogDirsRequest::default().with_topics(None);
            let answer: Option<DescribeLogDirsResponse> = wire.ask(ApiKey::DescribeLogDirs, 4, &request);
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [X, 31, 31, 0, 31, 31, 31, 31],
    ),
    (
        ApiKey::ListPartitionReassignments,
        "",
        |wire, _, _| {
            let request = ListPartitionReassignmentsRequest::default().with_topics(None);
            let answer: Option<ListPartitionReassignmentsResponse> =
                wire.ask(ApiKey::ListPartitionReassignments, 0, &request);
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [X, 31, 31, 0, 31, 31, 31, 31],
    ),
    (
        ApiKey::DescribeCluster,
        "",
        |wire, _, _| {
            let request = DescribeClusterRequest::default().with_endpoint_type(1);
            let answer: Option<DescribeClusterResponse> = wire.ask(ApiKey::DescribeCluster, 1, &request);
            answer.map_or(CLOSED, |a| a.error_code)
        },
        [X, 0, 0, 0, 0, 0, 0, 0],
    ),
];

#[test]
fn every_request_kind_answers_everybody_what_is_theirs() {
    let tried: BTreeSet<i16> = MATRIX.iter().map(|(key, ..)| *key as i16).collect();
    let served: BTreeSet<i16> = TABLE.iter().map(|api| api.key as i16).collect();
    assert_eq!(tried, served, "each request kind that is served has a row");

    let mut node = Node::start();
    let mut wrong = Vec::new();
    for (place, caller) in CALLERS.into_iter().enumerate() {
        let mut wire = node.wire(caller);
        for (key, what, ask, expected) in MATRIX {
            if caller == Nobody {
                // Each on a connection of its own: most close theirs.
                wire = node.wire(caller);
            }
            let code = ask(&mut wire, &node, caller);
            if code != expected[place] {
                wrong.push(format!("{key:?} {what} by {caller:?}: {code}, not {}", expected[place]));
            }
            if code == CLOSED {
                wire = node.wire(caller);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A way to ask about a topic by its name.
type AskByName = (&'static str, fn(&mut Wire, &str) -> i16);

#[test]
fn to_other_tenants_a_topic_that_is_there_looks_like_one_that_is_not() {
    let mut node = Node::start();
    let ways: &[AskByName] = &[
        ("Produce", produce),
        ("Fetch", fetch),
        ("ListOffsets", list_offsets),
        ("Metadata", |w, n| metadata(w, Some(n), Uuid::nil())),
        ("OffsetForLeaderEpoch", epoch_end),
        ("OffsetCommit", |w, n| offset_commit(w, "g", n)),
        ("OffsetFetch", |w, n| offset_fetch(w, "g", n)),
        ("CreateTopics", create_topic),
        ("DeleteTopics", |w, n| delete_topic(w, Some(n), Uuid::nil())),
        ("DeleteRecords", delete_records),
        ("CreatePartitions", create_partitions),
        ("DescribeConfigs", |w, n| describe_configs(w, OF_TOPIC, n)),
        ("AlterConfigs", |w, n| alter_configs(w, OF_TOPIC, n)),
        ("IncrementalAlterConfigs", |w, n| {
            incremental_alter_configs(w, OF_TOPIC, n)
        }),
    ];
    for caller in [Tenant, Reader, Writer, Revoked] {
        let mut wire = node.wire(caller);
        for (what, ask) in ways {
            let there = ask(&mut wire, "shop.orders.gone_viewer");
            for missing in ["shop.orders.missing", "shop.missing.missing", "missing.orders.orders"] {
                assert_eq!(ask(&mut wire, missing), there, "{what} of {missing} by {caller:?}");
            }
            assert!(matches!(there, 29 | 30), "{what} by {caller:?}: {there}");
            // What no topic can be called is told to everybody.
            let told = ask(&mut wire, "no-name");
            let plain = matches!(*what, "OffsetCommit" | "OffsetFetch") && told != 17;
            assert!(plain || told == 17, "{what} of a bad name by {caller:?}: {told}");
        }
    }
    // Those who may read all there is are told what is not.
    let mut viewer = node.wire(Viewer);
    assert_eq!(list_offsets(&mut viewer, "shop.orders.missing"), 3);
    assert_eq!(list_offsets(&mut viewer, "shop.missing.missing"), 3);
    assert_eq!(list_offsets(&mut viewer, "missing.orders.orders"), 29);
}

/// They were answered as if nothing had happened.
#[test]
fn a_join_and_a_sync_that_wait_are_judged_again_when_they_are_answered() {
    let mut node = Node::start();
    node.own("USE NAMESPACE bank DATABASE accounts; GRANT read ON accounts TO reader");
    let (mut owner, mut reader) = (node.wire(Owner), node.wire(Reader));
    let rights = |node: &Node, how: &str| {
        node.own(&format!("USE NAMESPACE shop DATABASE orders; {how} reader"));
    };
    let asked = join_request("parked", TOPIC, "");
    let first: JoinGroupResponse = owner.call(ApiKey::JoinGroup, 3, &asked);
    assert_eq!(first.error_code, 0);
    let heartbeat = |owner: &mut Wire, generation: i32| -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(group("parked"))
            .with_member_id(first.member_id.clone())
            .with_generation_id(generation);
        let answer: HeartbeatResponse = owner.call(ApiKey::Heartbeat, 3, &request);
        answer.error_code
    };
    let again = join_request("parked", TOPIC, &first.member_id);

    // The reader's join waits for the owner's.
    let waits = reader.send(ApiKey::JoinGroup, 3, &asked);
    let start = std::time::Instant::now();
    while heartbeat(&mut owner, first.generation_id) != 27 {
        assert!(start.elapsed() < crate::process::PATIENCE);
    }
    rights(&node, "REVOKE read ON orders FROM");
    let second: JoinGroupResponse = owner.call(ApiKey::JoinGroup, 3, &again);
    assert_eq!((second.error_code, second.members.len()), (0, 2));
    let refused: JoinGroupResponse = reader.receive(ApiKey::JoinGroup, 3, waits);
    assert_eq!((refused.error_code, refused.members.len()), (30, 0));

    // Its sync waits for the leader's.
    rights(&node, "GRANT read ON orders TO");
    let member = second.members.iter().find(|m| m.member_id != first.member_id);
    let member = member.expect("the reader").member_id.clone();
    let sync = |member: &StrBytes, assigned: &[&StrBytes]| {
        let assigned = assigned.iter().map(|member| {
            sync_group_request::SyncGroupRequestAssignment::default()
                .with_member_id((*member).clone())
                .with_assignment(Bytes::from_static(b"share"))
        });
        SyncGroupRequest::default()
            .with_group_id(group("parked"))
            .with_member_id(member.clone())
            .with_generation_id(second.generation_id)
            .with_assignments(assigned.collect())
    };
    let waits = reader.send(ApiKey::SyncGroup, 3, &sync(&member, &[]));
    rights(&node, "REVOKE read ON orders FROM");
    let leads: SyncGroupResponse = owner.call(
        ApiKey::SyncGroup,
        3,
        &sync(&first.member_id, &[&member, &first.member_id]),
    );
    assert_eq!((leads.error_code, &leads.assignment[..]), (0, &b"share"[..]));
    let refused: SyncGroupResponse = reader.receive(ApiKey::SyncGroup, 3, waits);
    assert_eq!((refused.error_code, refused.assignment.len()), (30, 0));
}

#[test]
fn all_topics_groups_and_offsets_are_those_that_one_may_see() {
    let mut node = Node::start();
    let names = |wire: &mut Wire| -> Vec<String> {
        let request = MetadataRequest::default().with_topics(None);
        let answer: MetadataResponse = wire.call(ApiKey::Metadata, 12, &request);
        let named = answer.topics.iter().filter_map(|t| t.name.as_ref());
        named.map(|n| n.to_string()).filter(|n| !n.contains("gone_")).collect()
    };
    let groups = |wire: &mut Wire| -> Vec<String> {
        let answer: ListGroupsResponse = wire.call(ApiKey::ListGroups, 4, &ListGroupsRequest::default());
        let mut groups: Vec<String> = answer.groups.iter().map(|g| g.group_id.to_string()).collect();
        groups.sort_unstable();
        groups
    };
    let offsets = |wire: &mut Wire, of: &str| -> (i16, Vec<String>) {
        let asked = OffsetFetchRequestGroup::default()
            .with_group_id(group(of))
            .with_topics(None);
        let request = OffsetFetchRequest::default().with_groups(vec![asked]);
        let answer: OffsetFetchResponse = wire.call(ApiKey::OffsetFetch, 8, &request);
        let topics = answer.groups[0].topics.iter().map(|t| t.name.to_string());
        (answer.groups[0].error_code, topics.collect())
    };
    let mut owner = node.wire(Owner);
    for topic in [TOPIC, "shop.orders.kept"] {
        assert_eq!(offset_commit(&mut owner, "shop_group", topic), 0);
    }
    assert_eq!(offset_commit(&mut owner, "bank_group", "bank.accounts.accounts"), 0);
    let (orders, kept, accounts) = (TOPIC, "shop.orders.kept", "bank.accounts.accounts");
    for (caller, topics, seen, read) in [
        (
            Owner,
            vec![accounts, kept, orders],
            vec!["bank_group", "shop_group"],
            Some(vec![kept, orders]),
        ),
        (Viewer, vec![kept, orders], vec!["shop_group"], Some(vec![kept, orders])),
        (Editor, vec![kept, orders], vec!["shop_group"], Some(vec![kept, orders])),
        (Tenant, vec![accounts], vec!["bank_group"], Some(vec![])),
        (Reader, vec![orders], vec!["shop_group"], Some(vec![orders])),
        (Writer, vec![orders], vec![], None),
        (Revoked, vec![kept], vec!["shop_group"], Some(vec![kept])),
    ] {
        let mut wire = node.wire(caller);
        let mut all = names(&mut wire);
        all.sort_unstable();
        assert_eq!(all, topics, "{caller:?}");
        assert_eq!(groups(&mut wire), seen, "{caller:?}");
        let (code, mut all) = offsets(&mut wire, "shop_group");
        all.sort_unstable();
        match read {
            Some(read) => assert_eq!(
                (code, all),
                (0, read.into_iter().map(str::to_owned).collect()),
                "{caller:?}"
            ),
            None => assert_eq!((code, all), (30, vec![]), "{caller:?}"),
        }
    }
}

#[test]
fn operations_are_told_as_bits_where_they_are_asked_for() {
    let mut node = Node::start();
    let (read, write) = (1 << 3, 1 << 4);
    let describe = 1 << 8 | 1 << 10;
    let declare = 1 << 5 | 1 << 6 | 1 << 7 | 1 << 11;
    let idempotent_write = 1 << 12;
    let whole = describe | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 11 | idempotent_write;
    for (caller, of_topic, of_cluster) in [
        (Viewer, read | describe, 0),
        (Editor, read | write | describe | declare, idempotent_write),
        (Owner, read | write | describe | declare, whole),
        (Reader, read | describe, 0),
        (Writer, write | describe, idempotent_write),
    ] {
        let mut wire = node.wire(caller);
        let asked = MetadataRequestTopic::default().with_name(Some(topic(TOPIC)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![asked]))
            .with_include_topic_authorized_operations(true)
            .with_include_cluster_authorized_operations(true);
        let answer: MetadataResponse = wire.call(ApiKey::Metadata, 10, &request);
        assert_eq!(answer.topics[0].topic_authorized_operations, of_topic, "{caller:?}");
        assert_eq!(answer.cluster_authorized_operations, of_cluster, "{caller:?}");
        let request = DescribeClusterRequest::default()
            .with_endpoint_type(1)
            .with_include_cluster_authorized_operations(true);
        let answer: DescribeClusterResponse = wire.call(ApiKey::DescribeCluster, 1, &request);
        assert_eq!(answer.cluster_authorized_operations, of_cluster, "{caller:?}");
        if caller == Writer {
            continue;
        }
        let request = DescribeGroupsRequest::default()
            .with_groups(vec![group("g")])
            .with_include_authorized_operations(true);
        let answer: DescribeGroupsResponse = wire.call(ApiKey::DescribeGroups, 5, &request);
        let of_group = match caller {
            Viewer | Reader => read | describe,
            _ => read | describe | 1 << 6 | 1 << 11,
        };
        assert_eq!(answer.groups[0].authorized_operations, of_group, "{caller:?}");
    }
}

/// A fetch that begins a session, or goes on with it.
fn in_session(wire: &mut Wire, session: i32, epoch: i32, with_topic: bool) -> FetchResponse {
    let mut request = fetch_request(TOPIC, Uuid::nil(), 0, 0)
        .with_session_id(session)
        .with_session_epoch(epoch);
    if !with_topic {
        request.topics.clear();
    }
    wire.call(ApiKey::Fetch, 12, &request)
}

#[test]
fn a_right_that_is_lost_counts_from_the_next_request_on() {
    let mut node = Node::start();
    node.own("USE NAMESPACE shop DATABASE orders; GRANT read, write ON orders TO revoked");
    let mut wire = node.wire(Revoked);
    assert_eq!(produce(&mut wire, TOPIC), 0);
    let begun = in_session(&mut wire, 0, 0, true);
    let session = begun.session_id;
    assert_ne!(session, 0);
    assert_eq!(begun.responses[0].partitions[0].error_code, 0);

    node.own("USE NAMESPACE shop DATABASE orders; REVOKE write ON orders FROM revoked");
    assert_eq!(produce(&mut wire, TOPIC), 29);
    assert_eq!(fetch(&mut wire, TOPIC), 0);
    node.own("USE NAMESPACE shop DATABASE orders; REVOKE read ON orders FROM revoked");
    // The session still has the topic.
    let refused = in_session(&mut wire, session, 1, false);
    assert_eq!(refused.responses[0].partitions[0].error_code, 29);
    assert!(
        refused.responses[0].partitions[0]
            .records
            .as_ref()
            .is_none_or(Bytes::is_empty)
    );

    node.own("USE NAMESPACE shop DATABASE orders; GRANT read ON orders TO revoked");
    assert_eq!(
        in_session(&mut wire, session, 2, false).responses[0].partitions[0].error_code,
        0
    );
}

#[test]
fn a_fetch_that_waits_ends_with_the_right_to_it() {
    let mut node = Node::start();
    let mut owner = node.wire(Owner);
    node.own("USE NAMESPACE shop DATABASE orders; GRANT read ON orders TO revoked");
    let mut wire = node.wire(Revoked);
    // Far longer than the test may take: only the lost right ends it.
    let waiting = wire.send(ApiKey::Fetch, 12, &fetch_request(TOPIC, Uuid::nil(), 0, 600_000));
    node.own("USE NAMESPACE shop DATABASE orders; REVOKE read ON orders FROM revoked");
    assert_eq!(produce(&mut owner, TOPIC), 0);
    let answer: FetchResponse = wire.receive(ApiKey::Fetch, 12, waiting);
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, 29);
    assert!(partition.records.as_ref().is_none_or(Bytes::is_empty));
}

#[test]
fn dropping_a_user_or_changing_its_password_ends_its_connections() {
    let mut node = Node::start();
    for change in ["DROP USER reader", "ALTER USER editor SET PASSWORD 'another one'"] {
        let caller = if change.contains("reader") { Reader } else { Editor };
        let mut idle = node.wire(caller);
        let mut waiting = node.wire(caller);
        waiting.send(ApiKey::Fetch, 12, &fetch_request(TOPIC, Uuid::nil(), 0, 600_000));
        let mut other = node.wire(Viewer);
        node.own(change);
        assert!(waiting.is_closed(), "{change}");
        assert!(idle.is_closed(), "{change}");
        assert_eq!(list_offsets(&mut other, TOPIC), 0, "{change}: others stay");
        let mut again = Wire::connect(node.process.kafka);
        assert_eq!(again.sign_in(caller.name(), PASSWORD).error_code, 58);
        assert!(again.is_closed());
    }
    let mut editor = Wire::signed_in(node.process.kafka, "editor", "another one");
    assert_eq!(list_offsets(&mut editor, TOPIC), 0);
}

#[test]
fn the_first_user_closes_connections_that_nobody_signed_in_on() {
    let process = Process::with_database();
    process.script("USE NAMESPACE shop DATABASE orders; DEFINE TOPIC orders");
    let mut unsigned = Wire::connect(process.kafka);
    // An open store takes whoever signs in; nobody is who they say.
    let mut signed = Wire::signed_in(process.kafka, "anyone", "anything");
    for wire in [&mut unsigned, &mut signed] {
        assert_eq!(produce(wire, TOPIC), 0);
    }
    process.script(&format!("DEFINE USER owner ROLE owner PASSWORD '{PASSWORD}'"));
    assert_eq!(produce(&mut unsigned, TOPIC), CLOSED);
    assert_eq!(produce(&mut signed, TOPIC), CLOSED);
    let mut owner = Wire::signed_in(process.kafka, "owner", PASSWORD);
    assert_eq!(produce(&mut owner, TOPIC), 0);
}

#[test]
fn a_group_belongs_to_the_namespace_of_its_users() {
    let mut node = Node::start();
    // Two tenants with groups of one name.
    let (mut shop, mut bank) = (node.wire(Viewer), node.wire(Tenant));
    assert_eq!(offset_commit(&mut shop, "billing", TOPIC), 0);
    assert_eq!(offset_commit(&mut bank, "billing", "bank.accounts.accounts"), 0);
    assert_eq!(offset_fetch(&mut shop, "billing", TOPIC), 0);
    assert_eq!(offset_fetch(&mut shop, "billing", "bank.accounts.accounts"), 29);
    // One that has touched no topic yet is not taken over by a tenant who knows its name.
    let mut owner = node.wire(Owner);
    let subscribed_to_nothing = JoinGroupRequest::default()
        .with_group_id(group("early"))
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_protocol_type(text("other"))
        .with_protocols(vec![JoinGroupRequestProtocol::default().with_name(text("p"))]);
    let joined: JoinGroupResponse = owner.call(ApiKey::JoinGroup, 3, &subscribed_to_nothing);
    assert_eq!(joined.error_code, 0);
    assert_eq!(offset_commit(&mut bank, "early", "bank.accounts.accounts"), 0);
    let heartbeat = HeartbeatRequest::default()
        .with_group_id(group("early"))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id);
    let answer: HeartbeatResponse = owner.call(ApiKey::Heartbeat, 3, &heartbeat);
    assert!(matches!(answer.error_code, 0 | 27), "{}", answer.error_code);
    // A database's editor deletes no group that reads elsewhere in the namespace.
    node.own("USE NAMESPACE shop; DEFINE DATABASE other; USE DATABASE other; DEFINE TOPIC t");
    for name in [TOPIC, "shop.other.t"] {
        assert_eq!(offset_commit(&mut owner, "wide", name), 0);
    }
    let mut editor = node.wire(Editor);
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group("wide")]);
    let answer: DeleteGroupsResponse = editor.call(ApiKey::DeleteGroups, 2, &request);
    assert_eq!(answer.results[0].error_code, 30);
    let answer: DeleteGroupsResponse = owner.call(ApiKey::DeleteGroups, 2, &request);
    assert_eq!(answer.results[0].error_code, 0);
}

#[test]
fn members_that_read_elsewhere_are_not_described() {
    let mut node = Node::start();
    node.own("USE NAMESPACE shop; DEFINE DATABASE other; USE DATABASE other; DEFINE TOPIC t");
    let (mut viewer, mut editor) = (node.wire(Viewer), node.wire(Editor));
    assert_eq!(join(&mut viewer, "wide", "shop.other.t"), 0);
    let describe = |wire: &mut Wire| {
        let request = DescribeGroupsRequest::default().with_groups(vec![group("wide")]);
        let answer: DescribeGroupsResponse = wire.call(ApiKey::DescribeGroups, 5, &request);
        (answer.groups[0].error_code, answer.groups[0].members.len())
    };
    assert_eq!(describe(&mut viewer), (0, 1));
    assert_eq!(describe(&mut editor), (30, 0));
}

#[test]
fn grants_and_roles_are_told_as_acls() {
    let mut node = Node::start();
    let mut owner = node.wire(Owner);
    let rules = |answer: &DescribeAclsResponse| -> BTreeSet<(String, i8, String, i8, i8)> {
        let each = answer.resources.iter().flat_map(|r| {
            r.acls.iter().map(|acl| {
                assert_eq!((acl.permission_type, acl.host.as_str()), (3, "*"));
                let (kind, name) = (r.resource_type, r.resource_name.to_string());
                (acl.principal.to_string(), kind, name, r.pattern_type, acl.operation)
            })
        });
        each.collect()
    };
    let all: DescribeAclsResponse = owner.call(ApiKey::DescribeAcls, 3, &describe_acls_request());
    assert_eq!(all.error_code, 0);
    let all = rules(&all);
    let has = |user: &str, kind: i8, name: &str, pattern: i8, operation: i8| {
        all.contains(&(format!("User:{user}"), kind, name.to_owned(), pattern, operation))
    };
    let (literal, prefixed) = (3, 4);
    let (all_of_it, read, write, describe) = (2, 3, 4, 8);
    assert!(has("owner", 2, "*", literal, all_of_it) && has("owner", 4, "kafka-cluster", literal, all_of_it));
    assert!(has("viewer", 2, "shop.", prefixed, read) && !has("viewer", 2, "shop.", prefixed, write));
    assert!(has("editor", 2, "shop.orders.", prefixed, write));
    assert!(has("reader", 2, TOPIC, literal, read) && has("reader", 2, TOPIC, literal, describe));
    assert!(!has("reader", 2, TOPIC, literal, write) && has("writer", 2, TOPIC, literal, write));
    assert!(has("reader", 3, "*", literal, read) && !has("writer", 3, "*", literal, read));
    assert!(
        all.iter()
            .all(|(user, _, name, ..)| user != "User:revoked" || name != TOPIC)
    );

    let of_topic = describe_acls_request()
        .with_resource_type_filter(2)
        .with_pattern_type_filter(2)
        .with_resource_name_filter(Some(text(TOPIC)))
        .with_operation(4);
    let found: DescribeAclsResponse = owner.call(ApiKey::DescribeAcls, 3, &of_topic);
    let users: BTreeSet<String> = rules(&found).into_iter().map(|r| r.0).collect();
    assert_eq!(users, ["User:editor", "User:writer"].map(str::to_owned).into());

    // An owner of a namespace sees the users of that namespace.
    node.own(&format!(
        "DEFINE USER shop_owner ON NAMESPACE shop ROLE owner PASSWORD '{PASSWORD}'"
    ));
    let mut shop_owner = Wire::signed_in(node.process.kafka, "shop_owner", PASSWORD);
    let found: DescribeAclsResponse = shop_owner.call(ApiKey::DescribeAcls, 3, &describe_acls_request());
    assert_eq!(found.error_code, 0);
    let users: BTreeSet<String> = rules(&found).into_iter().map(|r| r.0).collect();
    assert_eq!(
        users,
        ["User:editor", "User:shop_owner", "User:viewer"]
            .map(str::to_owned)
            .into()
    );
}

#[test]
fn a_refusal_leaves_a_line_for_the_audit() {
    let mut node = Node::start();
    let mut tenant = node.wire(Tenant);
    for _ in 0..3 {
        assert_eq!(fetch(&mut tenant, TOPIC), 29);
    }
    let log = node.process.log();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("audit") && line.contains("Fetch") && line.contains("tenant"))
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains(TOPIC), "{}", lines[0]);
}
