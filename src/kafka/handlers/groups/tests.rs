//! Group requests over a socket, in every version; what they must be answered was seen on Apache Kafka 4.3.1.

mod carried;

use crate::auth::{Auth, AuthConfig};
use crate::broker::tests::store::NODE;
use crate::broker::tests::store::{Store, partitions};
use crate::groups::{Coordinator, GroupConfig};
use crate::kafka::{KafkaConfig, KafkaServer};
use crate::tls::Door;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const TOPIC: &str = "shop.orders.orders";

/// A node's Kafka port over a store in memory.
struct Node {
    _store: Store,
    server: KafkaServer,
    groups: Arc<Coordinator>,
}

impl Node {
    async fn start(database: Option<(&str, &str)>) -> Self {
        let store = Store::new().await;
        store.topic("orders", partitions(3)).await;
        let groups = Coordinator::new(store.broker.clone(), GroupConfig::default());
        let mut config = KafkaConfig::new("store".into());
        config.database = database.map(|(n, d)| (n.to_owned(), d.to_owned()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let broker = store.broker.clone();
        let auth = Arc::new(Auth::new(broker.catalog().clone(), AuthConfig::default()));
        let server = KafkaServer::start(listener, Door::plain(), config, NODE, broker, groups.clone(), auth).unwrap();
        Self {
            _store: store,
            server,
            groups,
        }
    }

    async fn client(&self) -> Client {
        Client(TcpStream::connect(self.server.local_addr()).await.unwrap())
    }

    async fn stop(self) {
        self.groups.close();
        self.server.stop().await;
    }
}

pub(in crate::kafka::handlers) struct Client(pub(in crate::kafka::handlers) TcpStream);

impl Client {
    pub(in crate::kafka::handlers) async fn send<R: Request>(&mut self, version: i16, request: &R) {
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(7)
            .with_client_id(Some("tester".into()));
        header.encode(&mut frame, R::header_version(version)).unwrap();
        request.encode(&mut frame, version).unwrap();
        let len = frame.len() as i32 - 4;
        frame[..4].copy_from_slice(&len.to_be_bytes());
        self.0.write_all(&frame).await.unwrap();
    }

    pub(in crate::kafka::handlers) async fn receive<R: Request>(&mut self, version: i16) -> R::Response {
        let frame = tokio::time::timeout(Duration::from_secs(30), async {
            let len = self.0.read_i32().await?;
            let mut frame = vec![0; len as usize];
            self.0.read_exact(&mut frame).await?;
            std::io::Result::Ok(frame)
        });
        let mut frame = Bytes::from(frame.await.expect("an answer").expect("a connection"));
        let header = ResponseHeader::decode(&mut frame, R::Response::header_version(version)).unwrap();
        assert_eq!(header.correlation_id, 7);
        let response = R::Response::decode(&mut frame, version).unwrap();
        assert!(!frame.has_remaining());
        response
    }

    pub(in crate::kafka::handlers) async fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.send(version, request).await;
        self.receive::<R>(version).await
    }

    /// Joins as a new member; from version 4 on in two steps.
    async fn enter(&mut self, version: i16, group: &str) -> JoinGroupResponse {
        let first = self.call(version, &join(group, "")).await;
        if version < 4 {
            return first;
        }
        assert_eq!(first.error_code, 79);
        assert!(first.member_id.starts_with("tester-"));
        self.call(version, &join(group, &first.member_id)).await
    }
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn group_id(group: &str) -> GroupId {
    GroupId(text(group))
}

fn join(group: &str, member: &str) -> JoinGroupRequest {
    let mut metadata = BytesMut::new();
    metadata.put_i16(1);
    metadata.put_i32(1);
    metadata.put_i16(TOPIC.len() as i16);
    metadata.put_slice(TOPIC.as_bytes());
    let protocol = JoinGroupRequestProtocol::default()
        .with_name("range".into())
        .with_metadata(metadata.freeze());
    JoinGroupRequest::default()
        .with_group_id(group_id(group))
        .with_member_id(text(member))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(60_000)
        .with_protocol_type("consumer".into())
        .with_protocols(vec![protocol])
}

fn sync(version: i16, group: &str, member: &str, generation: i32) -> SyncGroupRequest {
    let assignment = SyncGroupRequestAssignment::default()
        .with_member_id(text(member))
        .with_assignment(Bytes::from_static(b"everything"));
    let request = SyncGroupRequest::default()
        .with_group_id(group_id(group))
        .with_member_id(text(member))
        .with_generation_id(generation)
        .with_assignments(vec![assignment]);
    match version {
        5 => request
            .with_protocol_type(Some("consumer".into()))
            .with_protocol_name(Some("range".into())),
        _ => request,
    }
}

fn heartbeat(group: &str, member: &str, generation: i32) -> HeartbeatRequest {
    HeartbeatRequest::default()
        .with_group_id(group_id(group))
        .with_member_id(text(member))
        .with_generation_id(generation)
}

fn leave(version: i16, group: &str, member: &str) -> LeaveGroupRequest {
    let request = LeaveGroupRequest::default().with_group_id(group_id(group));
    match version {
        3.. => request.with_members(vec![MemberIdentity::default().with_member_id(text(member))]),
        _ => request.with_member_id(text(member)),
    }
}

/// The one error of a LeaveGroup answer.
fn left(answer: LeaveGroupResponse) -> i16 {
    answer.members.first().map_or(answer.error_code, |m| m.error_code)
}

fn commit(group: &str, member: &str, generation: i32, parts: &[(&str, i32, i64)]) -> OffsetCommitRequest {
    let topics = parts.iter().map(|(topic, index, offset)| {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(*index)
            .with_committed_offset(*offset)
            .with_committed_metadata(Some("note".into()));
        OffsetCommitRequestTopic::default()
            .with_name(TopicName(text(topic)))
            .with_partitions(vec![partition])
    });
    OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_member_id(text(member))
        .with_generation_id_or_member_epoch(generation)
        .with_topics(topics.collect())
}

/// The error of each partition.
fn committed(answer: &OffsetCommitResponse) -> Vec<i16> {
    let partitions = answer.topics.iter().flat_map(|t| &t.partitions);
    partitions.map(|p| p.error_code).collect()
}

fn fetch(version: i16, group: &str, topics: Option<&[(&str, i32)]>) -> OffsetFetchRequest {
    if version >= 8 {
        let topics = topics.map(|t| {
            t.iter()
                .map(|(name, index)| {
                    OffsetFetchRequestTopics::default()
                        .with_name(TopicName(text(name)))
                        .with_partition_indexes(vec![*index])
                })
                .collect()
        });
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(group_id(group))
            .with_topics(topics);
        return OffsetFetchRequest::default().with_groups(vec![group]);
    }
    let topics = topics.map(|t| {
        t.iter()
            .map(|(name, index)| {
                OffsetFetchRequestTopic::default()
                    .with_name(TopicName(text(name)))
                    .with_partition_indexes(vec![*index])
            })
            .collect()
    });
    OffsetFetchRequest::default()
        .with_group_id(group_id(group))
        .with_topics(topics)
}

/// (topic, partition, offset, epoch, metadata, error) of each partition.
fn fetched(version: i16, answer: &OffsetFetchResponse) -> Vec<(String, i32, i64, i32, String, i16)> {
    let string = |s: &Option<StrBytes>| s.as_ref().map(|s| s.to_string()).unwrap_or_default();
    if version >= 8 {
        assert_eq!(answer.groups[0].error_code, 0);
        let topics = answer.groups.iter().flat_map(|g| &g.topics);
        return topics
            .flat_map(|t| t.partitions.iter().map(move |p| (t, p)))
            .map(|(t, p)| {
                let epoch = p.committed_leader_epoch;
                let metadata = string(&p.metadata);
                (
                    t.name.to_string(),
                    p.partition_index,
                    p.committed_offset,
                    epoch,
                    metadata,
                    p.error_code,
                )
            })
            .collect();
    }
    assert_eq!(answer.error_code, 0);
    answer
        .topics
        .iter()
        .flat_map(|t| t.partitions.iter().map(move |p| (t, p)))
        .map(|(t, p)| {
            let epoch = p.committed_leader_epoch;
            let metadata = string(&p.metadata);
            (
                t.name.to_string(),
                p.partition_index,
                p.committed_offset,
                epoch,
                metadata,
                p.error_code,
            )
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_members_life_in_every_version() {
    let node = Node::start(None).await;
    let mut client = node.client().await;
    for version in 0..=9 {
        let group = &format!("life-{version}");
        let (beats, syncs, leaves, describes) = (version.min(4), version.min(5), version.min(5), version.min(6));
        let joined = client.enter(version, group).await;
        assert_eq!((joined.error_code, joined.generation_id), (0, 1), "v{version}");
        assert_eq!(joined.leader, joined.member_id);
        assert_eq!(joined.members.len(), 1);
        assert_eq!(joined.protocol_name.as_deref(), Some("range"));
        assert_eq!(joined.protocol_type.is_some(), version >= 7);
        let id = joined.member_id.to_string();
        let synced = client.call(syncs, &sync(syncs, group, &id, 1)).await;
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"everything"[..]));
        assert_eq!(client.call(beats, &heartbeat(group, &id, 1)).await.error_code, 0);
        assert_eq!(client.call(beats, &heartbeat(group, &id, 0)).await.error_code, 22);
        assert_eq!(client.call(beats, &heartbeat(group, "x", 1)).await.error_code, 25);
        let describe = DescribeGroupsRequest::default()
            .with_groups(vec![group_id(group)])
            .with_include_authorized_operations(describes >= 3);
        let described = &client.call(describes, &describe).await.groups[0];
        assert_eq!(&*described.group_state, "Stable");
        assert_eq!(
            (&*described.protocol_type, &*described.protocol_data),
            ("consumer", "range")
        );
        let member = &described.members[0];
        assert_eq!((&*member.client_id, &*member.client_host), ("tester", "/127.0.0.1"));
        assert_eq!(&member.member_assignment[..], b"everything");
        assert!(!member.member_metadata.is_empty());
        assert_eq!(described.authorized_operations == i32::MIN, describes < 3);
        assert_eq!(left(client.call(leaves, &leave(leaves, group, "x")).await), 25);
        assert_eq!(left(client.call(leaves, &leave(leaves, group, &id)).await), 0);
        assert_eq!(left(client.call(leaves, &leave(leaves, group, &id)).await), 25);
        let described = &client.call(describes, &describe).await.groups[0];
        assert_eq!((&*described.group_state, described.error_code), ("Empty", 0));
        let old = client.call(version, &join(group, &id)).await;
        assert_eq!((old.error_code, old.generation_id), (25, -1));
        assert_eq!(old.protocol_name.is_none(), version >= 7);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_of_unknown_groups() {
    let node = Node::start(None).await;
    let mut client = node.client().await;
    for (group, code) in [("nothing", 25), ("", 24)] {
        for version in 0..=9 {
            assert_eq!(client.call(version, &join(group, "m")).await.error_code, code);
        }
        for version in 0..=4 {
            assert_eq!(client.call(version, &heartbeat(group, "m", 1)).await.error_code, code);
        }
        for version in 0..=5 {
            let answer = client.call(version, &sync(version, group, "m", 1)).await;
            assert_eq!(answer.error_code, code);
            let answer = client.call(version, &leave(version, group, "m")).await;
            let top = if code == 25 && version >= 3 { 0 } else { code };
            assert_eq!((answer.error_code, left(answer)), (top, code));
        }
    }
    let without = sync(4, "nothing", "m", 1);
    assert_eq!(client.call(5, &without).await.error_code, 23);
    for version in 0..=6 {
        let describe = DescribeGroupsRequest::default().with_groups(vec![group_id("nothing")]);
        let described = &client.call(version, &describe).await.groups[0];
        assert_eq!(&*described.group_state, "Dead");
        assert_eq!(described.error_code, if version == 6 { 69 } else { 0 });
        assert_eq!(described.error_message.is_some(), version == 6);
    }
    for version in 2..=9 {
        let answer = client.call(version, &commit("nothing", "m", 1, &[(TOPIC, 0, 5)])).await;
        assert_eq!(committed(&answer), [if version >= 9 { 69 } else { 22 }]);
        let answer = client
            .call(version, &commit("nothing", "m", 1, &[("shop.orders.none", 0, 5)]))
            .await;
        assert_eq!(committed(&answer), [3]);
    }
    for version in 0..=2 {
        let delete = DeleteGroupsRequest::default().with_groups_names(vec![group_id("nothing"), group_id("nothing")]);
        let results = client.call(version, &delete).await.results;
        assert_eq!(results.iter().map(|r| r.error_code).collect::<Vec<_>>(), [69]);
    }
    let delete = OffsetDeleteRequest::default().with_group_id(group_id("nothing"));
    assert_eq!(client.call(0, &delete).await.error_code, 69);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_in_every_version() {
    let node = Node::start(None).await;
    let mut client = node.client().await;
    for version in 2..=9 {
        let group = &format!("offsets-{version}");
        let long = "x".repeat(4097);
        let mut request = commit(
            group,
            "",
            -1,
            &[
                (TOPIC, 0, 100),
                (TOPIC, 99, 1),
                ("shop.orders.none", 0, 1),
                ("no name", 0, 1),
                (TOPIC, 1, 7),
                (TOPIC, 2, 9),
            ],
        );
        request.topics[4].partitions[0].committed_metadata = Some(text(&long));
        request.topics[5].partitions[0].committed_metadata = None;
        if version >= 6 {
            request.topics[0].partitions[0].committed_leader_epoch = 4;
        }
        let answer = client.call(version, &request).await;
        assert_eq!(committed(&answer), [0, 3, 3, 3, 12, 0], "v{version}");

        for fetches in 1..=9 {
            let epoch = if version >= 6 && fetches >= 5 { 4 } else { -1 };
            let asked = [(TOPIC, 0), (TOPIC, 1), ("shop.orders.none", 3)];
            let answer = client.call(fetches, &fetch(fetches, group, Some(&asked))).await;
            let row = |topic: &str, index, offset, epoch, note: &str| {
                (topic.to_owned(), index, offset, epoch, note.to_owned(), 0)
            };
            assert_eq!(
                fetched(fetches, &answer),
                [
                    row(TOPIC, 0, 100, epoch, "note"),
                    row(TOPIC, 1, -1, -1, ""),
                    row("shop.orders.none", 3, -1, -1, "")
                ],
                "v{version} read by v{fetches}"
            );
            if fetches >= 2 {
                let answer = client.call(fetches, &fetch(fetches, group, None)).await;
                let all = fetched(fetches, &answer);
                assert_eq!(all, [row(TOPIC, 0, 100, epoch, "note"), row(TOPIC, 2, 9, -1, "")]);
            }
            let answer = client
                .call(fetches, &fetch(fetches, "nobody", Some(&[(TOPIC, 0)])))
                .await;
            assert_eq!(fetched(fetches, &answer), [row(TOPIC, 0, -1, -1, "")]);
        }
    }
    // Many groups at once; an empty group id is one like any other here.
    client.call(8, &commit("", "", -1, &[(TOPIC, 0, 3)])).await;
    let mut many = fetch(8, "", Some(&[(TOPIC, 0)]));
    many.groups.extend(fetch(8, "offsets-9", None).groups);
    let groups = client.call(8, &many).await.groups;
    assert_eq!(groups[0].topics[0].partitions[0].committed_offset, 3);
    assert_eq!(groups[1].topics[0].partitions.len(), 2);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_of_a_live_group() {
    let node = Node::start(None).await;
    let mut client = node.client().await;
    let joined = client.enter(5, "g").await;
    let (id, generation) = (joined.member_id.to_string(), joined.generation_id);
    let mine = |generation| commit("g", &id, generation, &[(TOPIC, 0, 5), ("shop.orders.none", 0, 1)]);
    assert_eq!(committed(&client.call(5, &mine(generation)).await), [27, 3]);
    client.call(5, &sync(5, "g", &id, generation)).await;
    for version in 2..=9 {
        let answer = client.call(version, &mine(generation)).await;
        assert_eq!(committed(&answer), [0, 3]);
        for wrong in [generation - 1, generation + 1, -1] {
            assert_eq!(committed(&client.call(version, &mine(wrong)).await), [22, 3]);
        }
        for (member, generation) in [("", generation), ("", -1), ("x", generation), ("x", -1)] {
            let answer = client
                .call(version, &commit("g", member, generation, &[(TOPIC, 0, 5)]))
                .await;
            assert_eq!(committed(&answer), [25]);
        }
    }
    let offsets = |topics: &[(&str, i32)]| {
        let topics = topics.iter().map(|(topic, index)| {
            OffsetDeleteRequestTopic::default()
                .with_name(TopicName(text(topic)))
                .with_partitions(vec![
                    OffsetDeleteRequestPartition::default().with_partition_index(*index),
                ])
        });
        OffsetDeleteRequest::default()
            .with_group_id(group_id("g"))
            .with_topics(topics.collect())
    };
    let errors = |answer: &OffsetDeleteResponse| -> Vec<i16> {
        let partitions = answer.topics.iter().flat_map(|t| &t.partitions);
        partitions.map(|p| p.error_code).collect()
    };
    let answer = client.call(0, &offsets(&[(TOPIC, 0), ("shop.orders.none", 0)])).await;
    assert_eq!((answer.error_code, errors(&answer)), (0, vec![86, 3]));
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![group_id("g")]);
    assert_eq!(client.call(2, &delete).await.results[0].error_code, 68);
    client.call(3, &leave(3, "g", &id)).await;
    assert_eq!(committed(&client.call(5, &mine(generation)).await), [25, 3]);
    let nobody = commit("g", "", -1, &[(TOPIC, 0, 6)]);
    assert_eq!(committed(&client.call(5, &nobody).await), [0]);
    let answer = client.call(0, &offsets(&[(TOPIC, 0), (TOPIC, 1)])).await;
    assert_eq!((answer.error_code, errors(&answer)), (0, vec![0, 0]));
    let answer = client.call(7, &fetch(7, "g", None)).await;
    assert!(fetched(7, &answer).is_empty());
    assert_eq!(client.call(2, &delete).await.results[0].error_code, 0);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_members_share_a_generation() {
    let node = Node::start(None).await;
    let (mut one, mut two) = (node.client().await, node.client().await);
    for version in 0..=9 {
        let group = &format!("two-{version}");
        let syncs = version.min(5);
        let first = one.enter(version, group).await;
        let a = first.member_id.to_string();
        one.call(syncs, &sync(syncs, group, &a, first.generation_id)).await;
        let known = match version {
            4.. => two.call(version, &join(group, "")).await.member_id.to_string(),
            _ => String::new(),
        };
        two.send(version, &join(group, &known)).await;
        // The first hears of it by its heartbeat.
        let told = tokio::time::timeout(Duration::from_secs(30), async {
            loop {
                let beat = one.call(0, &heartbeat(group, &a, first.generation_id)).await;
                match beat.error_code {
                    0 => tokio::task::yield_now().await,
                    code => return code,
                }
            }
        });
        assert_eq!(told.await.unwrap(), 27);
        let stale = one.call(syncs, &sync(syncs, group, &a, first.generation_id)).await;
        assert_eq!(stale.error_code, 27);
        let first = one.call(version, &join(group, &a)).await;
        let second = two.receive::<JoinGroupRequest>(version).await;
        assert_eq!((first.error_code, second.error_code), (0, 0));
        assert_eq!((first.generation_id, second.generation_id), (2, 2), "v{version}");
        assert_eq!((first.members.len(), second.members.len()), (2, 0));
        assert_eq!(first.leader, second.leader);
        let b = second.member_id.to_string();
        two.send(syncs, &sync(syncs, group, &b, 2)).await;
        one.call(syncs, &sync(syncs, group, &a, 2)).await;
        let synced = two.receive::<SyncGroupRequest>(syncs).await;
        assert_eq!(
            (synced.error_code, synced.assignment.len()),
            (0, 0),
            "the leader forgot the second"
        );
        let list = ListGroupsRequest::default();
        let listed = one.call(version.min(5), &list).await.groups;
        let row = listed.iter().find(|g| *g.group_id.0 == **group).unwrap();
        assert_eq!(&*row.protocol_type, "consumer");
        assert_eq!(&*row.group_state, if version >= 4 { "Stable" } else { "" });
        assert_eq!(&*row.group_type, if version >= 5 { "classic" } else { "" });
        one.call(syncs, &leave(syncs, group, &a)).await;
        one.call(syncs, &leave(syncs, group, &b)).await;
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered() {
    let node = Node::start(None).await;
    let mut client = node.client().await;
    let joined = client.enter(3, "stable").await;
    client.call(3, &sync(3, "stable", &joined.member_id, 1)).await;
    client.call(3, &commit("stored", "", -1, &[(TOPIC, 0, 6)])).await;
    let names =
        |answer: ListGroupsResponse| -> Vec<String> { answer.groups.iter().map(|g| g.group_id.to_string()).collect() };
    let by = |states: &[&str], types: &[&str]| {
        ListGroupsRequest::default()
            .with_states_filter(states.iter().map(|s| text(s)).collect())
            .with_types_filter(types.iter().map(|s| text(s)).collect())
    };
    assert_eq!(names(client.call(5, &by(&[], &[])).await), ["stable", "stored"]);
    assert_eq!(names(client.call(5, &by(&["empty"], &[])).await), ["stored"]);
    assert_eq!(
        names(client.call(5, &by(&["Stable", "Dead"], &["classic"])).await),
        ["stable"]
    );
    assert!(names(client.call(5, &by(&[], &["consumer"])).await).is_empty());
    assert_eq!(names(client.call(4, &by(&["STABLE"], &[])).await), ["stable"]);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn find_coordinator_in_every_version() {
    let node = Node::start(None).await;
    let mut client = node.client().await;
    let port = i32::from(node.server.local_addr().port());
    for version in 0..=3 {
        let ask = |kind| {
            FindCoordinatorRequest::default()
                .with_key("g".into())
                .with_key_type(kind)
        };
        let found = client.call(version, &ask(0)).await;
        assert_eq!((found.error_code, found.port, &*found.host), (0, port, "127.0.0.1"));
        assert!(found.node_id.0 > 0);
        if version >= 1 {
            let refused = client.call(version, &ask(1)).await;
            assert_eq!((refused.error_code, refused.node_id.0, refused.port), (53, -1, -1));
            assert_eq!(client.call(version, &ask(9)).await.error_code, 42);
        }
    }
    for version in 4..=6 {
        let ask = |kind| {
            FindCoordinatorRequest::default()
                .with_key_type(kind)
                .with_coordinator_keys(vec!["a".into(), "".into()])
        };
        let found = client.call(version, &ask(0)).await.coordinators;
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|c| c.error_code == 0 && c.port == port));
        let refused = client.call(version, &ask(1)).await.coordinators;
        assert!(refused.iter().all(|c| c.error_code == 53 && c.node_id.0 == -1));
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bare_names_and_full_names_are_one_position() {
    let node = Node::start(Some(("shop", "orders"))).await;
    let mut client = node.client().await;
    client.call(8, &commit("g", "", -1, &[("orders", 0, 6)])).await;
    let answer = client.call(7, &fetch(7, "g", Some(&[(TOPIC, 0)]))).await;
    assert_eq!(fetched(7, &answer)[0].2, 6);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_members_restart_over_the_wire() {
    let node = Node::start(None).await;
    let mut client = node.client().await;
    for version in 5..=9 {
        let group = &format!("static-{version}");
        let joining = join(group, "").with_group_instance_id(Some("i".into()));
        let first = client.call(version, &joining).await;
        assert_eq!(first.error_code, 0);
        assert!(first.member_id.starts_with("i-"));
        assert_eq!(first.members[0].group_instance_id.as_deref(), Some("i"));
        let syncs = sync(5, group, &first.member_id, 1).with_group_instance_id(Some("i".into()));
        client.call(5, &syncs).await;
        let back = client.call(version, &joining).await;
        assert_eq!((back.error_code, back.generation_id), (0, 1));
        assert_ne!(back.member_id, first.member_id);
        assert_eq!(back.skip_assignment, version >= 9);
        assert_eq!(back.members.len(), usize::from(version >= 9));
        let leader = if version >= 9 {
            &back.member_id
        } else {
            &first.member_id
        };
        assert_eq!(back.leader, *leader);
        let old = heartbeat(group, &first.member_id, 1).with_group_instance_id(Some("i".into()));
        assert_eq!(client.call(4, &old).await.error_code, 82);
        let syncs = sync(5, group, &back.member_id, 1).with_group_instance_id(Some("i".into()));
        assert_eq!(&client.call(5, &syncs).await.assignment[..], b"everything");
    }
    node.stop().await;
}
