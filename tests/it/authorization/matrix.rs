//! Every request kind that is served, asked by everybody.

use super::*;

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
