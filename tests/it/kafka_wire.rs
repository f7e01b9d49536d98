//! The Kafka port, byte by byte: what clients of all kinds met in the field, asked on a raw socket.

use crate::process::Process;
use crate::wire::Wire;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use std::time::{Duration, Instant};
use tessaridb::kafka::TABLE;
use tessaridb::record::{BatchBuilder, Compression, NewRecord, batch_crc};
use uuid::Uuid;

const DATABASE: &str = "shop.orders";

fn node() -> (Process, Wire) {
    let node = Process::with_database();
    let wire = Wire::connect(node.kafka);
    (node, wire)
}

fn text(s: &str) -> StrBytes {
    StrBytes::from_string(s.to_owned())
}

fn topic_name(s: &str) -> TopicName {
    TopicName(text(s))
}

/// Declares `shop.orders.<name>` and gives its id.
pub(crate) fn create(wire: &mut Wire, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Uuid {
    let configs = configs.iter().map(|(name, value)| {
        CreatableTopicConfig::default()
            .with_name(text(name))
            .with_value(Some(text(value)))
    });
    let topic = CreatableTopic::default()
        .with_name(topic_name(&format!("{DATABASE}.{name}")))
        .with_num_partitions(partitions)
        .with_replication_factor(-1)
        .with_configs(configs.collect());
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(10_000);
    let response: CreateTopicsResponse = wire.call(ApiKey::CreateTopics, 7, &request);
    assert_eq!(
        response.topics[0].error_code, 0,
        "{:?}",
        response.topics[0].error_message
    );
    response.topics[0].topic_id
}

fn batch_of(timestamps: &[i64], compression: Compression) -> Bytes {
    let mut builder = BatchBuilder::new().compression(compression);
    for timestamp in timestamps {
        builder
            .push(NewRecord {
                timestamp: *timestamp,
                key: Some(b"k"),
                value: Some(b"value"),
                headers: &[],
            })
            .expect("a record");
    }
    builder.build().expect("a batch")
}

/// A batch of so many records with time 1.
pub(crate) fn batch(records: usize) -> Bytes {
    batch_of(&vec![1; records], Compression::None)
}

/// A batch of one record of about so many bytes that do not compress.
pub(crate) fn large(bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new();
    let value: Vec<u8> = (0..bytes).map(|i| ((i * 2_654_435_761) >> 11) as u8).collect();
    builder
        .push(NewRecord {
            timestamp: 1,
            value: Some(&value),
            ..Default::default()
        })
        .expect("a record");
    builder.build().expect("a batch")
}

pub(crate) fn produce_request(acks: i16, topic: &str, batches: &[(i32, Bytes)]) -> ProduceRequest {
    let partitions = batches.iter().map(|(index, bytes)| {
        PartitionProduceData::default()
            .with_index(*index)
            .with_records(Some(bytes.clone()))
    });
    ProduceRequest::default()
        .with_acks(acks)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![
            TopicProduceData::default()
                .with_name(topic_name(topic))
                .with_partition_data(partitions.collect()),
        ])
}

/// Produces with acks=all and gives the partitions' answers.
pub(crate) fn produce(wire: &mut Wire, topic: &str, batches: &[(i32, Bytes)]) -> Vec<PartitionProduceResponse> {
    let mut response: ProduceResponse = wire.call(ApiKey::Produce, 9, &produce_request(-1, topic, batches));
    assert_eq!(response.responses.len(), 1);
    response.responses.remove(0).partition_responses
}

/// Produces one batch and gives (error, base offset).
pub(crate) fn produce_one(wire: &mut Wire, topic: &str, bytes: Bytes) -> (i16, i64) {
    let answer = &produce(wire, topic, &[(0, bytes)])[0];
    (answer.error_code, answer.base_offset)
}

fn fetch_partition(partition: i32, offset: i64, max_bytes: i32) -> FetchPartition {
    FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(max_bytes)
}

fn fetch_topic(topic: &str, partitions: Vec<FetchPartition>) -> FetchTopic {
    FetchTopic::default()
        .with_topic(topic_name(topic))
        .with_partitions(partitions)
}

fn fetch_request(topics: Vec<FetchTopic>) -> FetchRequest {
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(0)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_session_epoch(-1)
        .with_topics(topics)
}

/// Fetches one partition at once.
fn fetch_one(wire: &mut Wire, topic: &str, offset: i64) -> PartitionData {
    let request = fetch_request(vec![fetch_topic(topic, vec![fetch_partition(0, offset, 1 << 20)])]);
    let mut response: FetchResponse = wire.call(ApiKey::Fetch, 11, &request);
    response.responses.remove(0).partitions.remove(0)
}

/// (base offset, last offset) of every batch.
fn batches(mut records: &[u8]) -> Vec<(i64, i64)> {
    let mut out = Vec::new();
    while !records.is_empty() {
        let header = tessaridb::record::BatchHeader::parse(records).expect("a whole header");
        let len = header.batch_len() as usize;
        assert_eq!(batch_crc(&records[..len]), header.crc);
        out.push((
            header.base_offset,
            header.base_offset + i64::from(header.last_offset_delta),
        ));
        records = &records[len..];
    }
    out
}

fn records(partition: &PartitionData) -> &[u8] {
    partition.records.as_deref().expect("records are never null")
}

fn list_offset(wire: &mut Wire, topic: &str, timestamp: i64) -> (i16, i64, i64) {
    let request = ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(vec![
            ListOffsetsTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(vec![ListOffsetsPartition::default().with_timestamp(timestamp)]),
        ]);
    let response: ListOffsetsResponse = wire.call(ApiKey::ListOffsets, 9, &request);
    let partition = &response.topics[0].partitions[0];
    (partition.error_code, partition.offset, partition.timestamp)
}

/// F11: an ApiVersions version from the future is answered in version 0, and the connection goes on.
#[test]
fn api_versions_from_the_future() {
    let (_node, mut wire) = node();
    for version in [99i16, 5, -1] {
        let mut frame = BytesMut::new();
        frame.put_i16(18);
        frame.put_i16(version);
        frame.put_i32(77);
        frame.put_slice(&[0xff; 40]);
        wire.frame(&frame);
        let answer: ApiVersionsResponse = wire.receive(ApiKey::ApiVersions, 0, 77);
        assert_eq!(answer.error_code, 35);
        let only = &answer.api_keys[0];
        assert_eq!((only.api_key, only.min_version, only.max_version), (18, 0, 4));
    }
    let request = ApiVersionsRequest::default()
        .with_client_software_name(text("wire"))
        .with_client_software_version(text("1.0"));
    let answer: ApiVersionsResponse = wire.call(ApiKey::ApiVersions, 3, &request);
    let told: Vec<_> = answer
        .api_keys
        .iter()
        .map(|k| (k.api_key, k.min_version, k.max_version))
        .collect();
    let table: Vec<_> = TABLE.iter().map(|a| (a.key as i16, a.min, a.max)).collect();
    assert_eq!((answer.error_code, told), (0, table));
}

/// F15: what is not in the table closes the connection at once.
#[test]
fn unserved_keys_and_versions_close() {
    let (node, _) = node();
    for (key, version) in [(1i16, 30i16), (1, 18), (0, 2), (24, 0), (999, 0), (-1, 0), (3, -1)] {
        let mut wire = Wire::connect(node.kafka);
        let mut frame = BytesMut::new();
        frame.put_i16(key);
        frame.put_i16(version);
        frame.put_i32(1);
        frame.put_i16(-1);
        wire.frame(&frame);
        assert!(wire.is_closed(), "key {key} version {version}");
    }
}

/// F16: every listed key at every version answers a minimal body.
#[test]
fn every_key_at_every_version_answers() {
    let (node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    for api in TABLE {
        for version in api.decoded_from..=api.max {
            // Refused, since it names no mechanism, and closed.
            let mut own = (api.key == ApiKey::SaslHandshake).then(|| Wire::connect(node.kafka));
            let wire = own.as_mut().unwrap_or(&mut wire);
            let request = minimal(api.key, version);
            let mut frame = BytesMut::new();
            frame.put_i16(api.key as i16);
            frame.put_i16(version);
            frame.put_i32(5);
            frame.put_i16(-1);
            if api.request_header(version) == 2 {
                frame.put_u8(0);
            }
            request.encode(&mut frame, version).expect("a request");
            wire.frame(&frame);
            let mut answer = wire.next().unwrap_or_else(|| panic!("{:?} v{version} closed", api.key));
            let header = api.response_header(version);
            let header: ResponseHeader =
                kafka_protocol::protocol::Decodable::decode(&mut answer, header).expect("a header");
            assert_eq!(header.correlation_id, 5);
            ResponseKind::decode(api.key, &mut answer, version)
                .unwrap_or_else(|e| panic!("{:?} v{version}: {e}", api.key));
            assert!(answer.is_empty(), "{:?} v{version}", api.key);
        }
    }
}

/// A request that asks for nothing.
fn minimal(key: ApiKey, version: i16) -> RequestKind {
    let group = GroupId(text("g"));
    match key {
        ApiKey::Produce => RequestKind::Produce(ProduceRequest::default().with_acks(-1)),
        ApiKey::Fetch => RequestKind::Fetch(fetch_request(vec![])),
        ApiKey::ApiVersions => RequestKind::ApiVersions(
            ApiVersionsRequest::default()
                .with_client_software_name(text(if version >= 3 { "wire" } else { "" }))
                .with_client_software_version(text(if version >= 3 { "1" } else { "" })),
        ),
        ApiKey::SaslHandshake => RequestKind::SaslHandshake(SaslHandshakeRequest::default()),
        ApiKey::SaslAuthenticate => RequestKind::SaslAuthenticate(SaslAuthenticateRequest::default()),
        ApiKey::InitProducerId => {
            RequestKind::InitProducerId(InitProducerIdRequest::default().with_transactional_id(None))
        }
        ApiKey::Heartbeat => RequestKind::Heartbeat(HeartbeatRequest::default().with_group_id(group)),
        ApiKey::Metadata => RequestKind::Metadata(MetadataRequest::default().with_topics(Some(vec![]))),
        ApiKey::ListOffsets => RequestKind::ListOffsets(ListOffsetsRequest::default()),
        ApiKey::OffsetCommit => RequestKind::OffsetCommit(OffsetCommitRequest::default()),
        ApiKey::OffsetFetch => RequestKind::OffsetFetch(OffsetFetchRequest::default()),
        ApiKey::FindCoordinator => RequestKind::FindCoordinator(FindCoordinatorRequest::default()),
        ApiKey::JoinGroup => RequestKind::JoinGroup(JoinGroupRequest::default()),
        ApiKey::LeaveGroup => RequestKind::LeaveGroup(LeaveGroupRequest::default()),
        ApiKey::SyncGroup => RequestKind::SyncGroup(SyncGroupRequest::default()),
        ApiKey::DescribeGroups => RequestKind::DescribeGroups(DescribeGroupsRequest::default()),
        ApiKey::ListGroups => RequestKind::ListGroups(ListGroupsRequest::default()),
        ApiKey::CreateTopics => RequestKind::CreateTopics(CreateTopicsRequest::default()),
        ApiKey::DeleteTopics => RequestKind::DeleteTopics(DeleteTopicsRequest::default()),
        ApiKey::DeleteRecords => RequestKind::DeleteRecords(DeleteRecordsRequest::default()),
        ApiKey::OffsetForLeaderEpoch => RequestKind::OffsetForLeaderEpoch(OffsetForLeaderEpochRequest::default()),
        ApiKey::DescribeAcls => RequestKind::DescribeAcls(DescribeAclsRequest::default()),
        ApiKey::DescribeConfigs => RequestKind::DescribeConfigs(DescribeConfigsRequest::default()),
        ApiKey::AlterConfigs => RequestKind::AlterConfigs(AlterConfigsRequest::default()),
        ApiKey::DescribeLogDirs => RequestKind::DescribeLogDirs(DescribeLogDirsRequest::default()),
        ApiKey::CreatePartitions => RequestKind::CreatePartitions(CreatePartitionsRequest::default()),
        ApiKey::DeleteGroups => RequestKind::DeleteGroups(DeleteGroupsRequest::default()),
        ApiKey::IncrementalAlterConfigs => {
            RequestKind::IncrementalAlterConfigs(IncrementalAlterConfigsRequest::default())
        }
        ApiKey::ListPartitionReassignments => {
            RequestKind::ListPartitionReassignments(ListPartitionReassignmentsRequest::default())
        }
        ApiKey::OffsetDelete => RequestKind::OffsetDelete(OffsetDeleteRequest::default()),
        ApiKey::DescribeCluster => RequestKind::DescribeCluster(DescribeClusterRequest::default()),
        other => panic!("no minimal request of {other:?}"),
    }
}

/// F18: answers come in request order, however long the first takes.
#[test]
fn answers_come_in_request_order() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let empty = fetch_request(vec![fetch_topic("t", vec![fetch_partition(0, 0, 1000)])]).with_max_wait_ms(300);
    let fetch = wire.send(ApiKey::Fetch, 11, &empty);
    let metadata = wire.send(ApiKey::Metadata, 9, &MetadataRequest::default().with_topics(None));
    let produce = wire.send(ApiKey::Produce, 9, &produce_request(-1, "t", &[(0, batch(1))]));
    let again = wire.send(ApiKey::Produce, 9, &produce_request(1, "t", &[(0, batch(1))]));
    let fetched: FetchResponse = wire.receive(ApiKey::Fetch, 11, fetch);
    assert!(
        records(&fetched.responses[0].partitions[0]).is_empty(),
        "the produce comes after the fetch"
    );
    let _: MetadataResponse = wire.receive(ApiKey::Metadata, 9, metadata);
    for (correlation, offset) in [(produce, 0), (again, 1)] {
        let response: ProduceResponse = wire.receive(ApiKey::Produce, 9, correlation);
        let partition = &response.responses[0].partition_responses[0];
        assert_eq!((partition.error_code, partition.base_offset), (0, offset));
    }
}

/// Produces that are not waited for keep their order, and a request behind them sees them all.
#[test]
fn pipelined_produces_keep_their_order() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let sent: Vec<i32> = (0..200)
        .map(|_| wire.send(ApiKey::Produce, 9, &produce_request(-1, "t", &[(0, batch(3))])))
        .collect();
    let list = wire.send(
        ApiKey::ListOffsets,
        1,
        &ListOffsetsRequest::default().with_topics(vec![
            ListOffsetsTopic::default()
                .with_name(topic_name("t"))
                .with_partitions(vec![ListOffsetsPartition::default().with_timestamp(-1)]),
        ]),
    );
    for (correlation, n) in sent.into_iter().zip(0..) {
        let response: ProduceResponse = wire.receive(ApiKey::Produce, 9, correlation);
        assert_eq!(response.responses[0].partition_responses[0].base_offset, n * 3);
    }
    let response: ListOffsetsResponse = wire.receive(ApiKey::ListOffsets, 1, list);
    assert_eq!(response.topics[0].partitions[0].offset, 600);
}

/// F19: lengths that are none close at once; what was claimed is not allocated.
#[test]
fn senseless_frames_close() {
    let (node, _) = node();
    let frames: [&[u8]; 9] = [
        &[0x16, 0x03, 0x01, 0x00, 0xa5],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 4],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0, 0, 0, 0],
        // Frames too short for a header, and a client id that reaches beyond.
        &[0, 0, 0, 1, 0],
        &[0, 0, 0, 4, 0, 3, 0, 1],
        &[0, 0, 0, 10, 0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff],
        // Metadata with 2^31 - 1 topics.
        &[0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff],
    ];
    for frame in frames {
        let mut wire = Wire::connect(node.kafka);
        wire.raw(frame);
        assert!(wire.is_closed(), "{frame:x?}");
    }
    let before = memory_kib(&node);
    // Each claims 100 MiB and sends next to nothing.
    let open: Vec<Wire> = (0..50)
        .map(|_| {
            let mut wire = Wire::connect(node.kafka);
            wire.raw(&(100i32 << 20).to_be_bytes());
            wire.raw(&[0; 100]);
            wire
        })
        .collect();
    let mut good = Wire::connect(node.kafka);
    create(&mut good, "t", 1, &[]);
    assert_eq!(produce_one(&mut good, "t", batch(1)), (0, 0));
    let grown = memory_kib(&node).saturating_sub(before);
    assert!(grown < 50 << 10, "{grown} KiB for 50 half frames");
    drop(open);
}

pub(crate) fn memory_kib(node: &Process) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).expect("status");
    let line = status
        .lines()
        .find(|l| l.starts_with("VmRSS:"))
        .expect("a resident size");
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number")
}

/// Bytes behind a body, a client id that is no text, one of length -2: passed over, as in Kafka.
#[test]
fn odd_but_harmless_frames_are_answered() {
    let (_node, mut wire) = node();
    let frames: [&[u8]; 3] = [
        &[0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0, 9],
        &[0, 3, 0, 1, 0, 0, 0, 7, 0, 2, 0xe9, 0xff, 0, 0, 0, 0],
        &[0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xfe, 0, 0, 0, 0],
    ];
    for frame in frames {
        wire.frame(frame);
        let response: MetadataResponse = wire.receive(ApiKey::Metadata, 1, 7);
        assert_eq!(response.brokers.len(), 1);
    }
}

/// F21: a small batch of gigabytes is refused quickly and harms nobody.
#[test]
fn a_bomb_is_refused() {
    let (node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let before = memory_kib(&node);
    // One record whose value is 256 MiB of zeros: what a consumer would have to inflate.
    let value = vec![0u8; 256 << 20];
    let mut builder = BatchBuilder::new().compression(Compression::Zstd);
    builder
        .push(NewRecord {
            timestamp: 1,
            value: Some(&value),
            ..Default::default()
        })
        .expect("a record");
    let bomb = builder.build().expect("a batch");
    assert!(bomb.len() < 64 << 10, "{} bytes", bomb.len());
    assert_eq!(produce_one(&mut wire, "t", bomb), (87, -1));
    assert_eq!(produce_one(&mut wire, "t", batch(1)), (0, 0));
    let grown = memory_kib(&node).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB for a bomb");
}

/// F22: acks=0 is never answered; a failure closes the connection.
#[test]
fn acks_0_is_silent_and_closes_on_error() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    wire.send(ApiKey::Produce, 9, &produce_request(0, "t", &[(0, batch(2))]));
    let metadata = wire.send(ApiKey::Metadata, 9, &MetadataRequest::default().with_topics(None));
    let _: MetadataResponse = wire.receive(ApiKey::Metadata, 9, metadata);
    assert_eq!(list_offset(&mut wire, "t", -1), (0, 2, -1));
    wire.send(ApiKey::Produce, 9, &produce_request(0, "missing", &[(0, batch(2))]));
    assert!(wire.is_closed());
}

#[test]
fn acks_that_are_none_are_refused() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let response: ProduceResponse = wire.call(ApiKey::Produce, 9, &produce_request(2, "t", &[(0, batch(1))]));
    assert_eq!(response.responses[0].partition_responses[0].error_code, 21);
    assert_eq!(list_offset(&mut wire, "t", -1).1, 0);
}

/// F25: a batch too large concerns its own partition.
#[test]
fn a_large_batch_is_refused_alone() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 2, &[("max.message.bytes", "51200")]);
    let answers = produce(&mut wire, "t", &[(0, large(10 << 20)), (1, batch(1))]);
    let codes: Vec<_> = answers.iter().map(|a| (a.error_code, a.base_offset)).collect();
    assert_eq!(codes, [(10, -1), (0, 0)]);
    assert_eq!(produce_one(&mut wire, "t", batch(1)), (0, 0));
}

/// F26: header and content that disagree.
#[test]
fn lying_batches_are_refused() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    // What is changed, and whether the CRC is made right again.
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, i16, bool, Change); 12] = [
        ("base offset", 87, false, |b| b[7] = 1),
        ("length beyond", 87, false, |b| b[11] += 1),
        ("length cut", 2, false, |b| b[11] -= 1),
        ("magic 0", 87, false, |b| b[16] = 0),
        ("magic 1", 87, false, |b| b[16] = 1),
        ("magic 3", 2, false, |b| b[16] = 3),
        ("crc", 2, false, |b| b[17] ^= 1),
        ("a record's byte", 2, false, |b| *b.last_mut().expect("bytes") ^= 1),
        ("control", 87, true, |b| b[22] |= 0x20),
        ("delta", 87, true, |b| b[26] += 1),
        ("count", 87, true, |b| b[60] += 1),
        ("codec 5", 87, true, |b| b[22] |= 5),
    ];
    for (what, code, seal, change) in cases {
        let mut bytes = batch(3).to_vec();
        change(&mut bytes);
        if seal {
            let crc = batch_crc(&bytes);
            bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        }
        assert_eq!(produce_one(&mut wire, "t", bytes.into()), (code, -1), "{what}");
    }
    let two = [batch(1), batch(1)].concat();
    for (what, bytes) in [
        ("nothing", Bytes::new()),
        ("two batches", two.into()),
        ("half", batch(1).slice(..50)),
    ] {
        assert_eq!(produce_one(&mut wire, "t", bytes), (87, -1), "{what}");
    }
    assert_eq!(list_offset(&mut wire, "t", -1), (0, 0, -1));
    // What is a batch, though a bad one, is answered with the log start; what is none, without.
    let mut control = batch(1).to_vec();
    control[22] |= 0x20;
    let crc = batch_crc(&control);
    control[17..21].copy_from_slice(&crc.to_be_bytes());
    for (bytes, start) in [(control.into(), 0), (batch(1).slice(..50), -1)] {
        let told = &produce(&mut wire, "t", &[(0, bytes)])[0];
        assert_eq!((told.error_code, told.log_start_offset), (87, start));
    }
    // Transactions are refused, by id and by attribute.
    let mut bytes = batch(1).to_vec();
    bytes[22] |= 0x10;
    let crc = batch_crc(&bytes);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(produce_one(&mut wire, "t", bytes.into()).0, 53);
    let request = produce_request(-1, "t", &[(0, batch(1))]).with_transactional_id(Some(TransactionalId(text("mine"))));
    let response: ProduceResponse = wire.call(ApiKey::Produce, 9, &request);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 53);
}

/// F29, F33: five batches are remembered, gaps are refused, a producer begins at 0.
#[test]
fn an_idempotent_producer_writes_once() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let init = InitProducerIdRequest::default().with_transactional_id(None);
    let told: InitProducerIdResponse = wire.call(ApiKey::InitProducerId, 4, &init);
    assert_eq!((told.error_code, told.producer_epoch), (0, 0));
    let other: InitProducerIdResponse = wire.call(ApiKey::InitProducerId, 4, &init);
    assert_ne!(told.producer_id, other.producer_id);
    let sequenced = |sequence: i32| {
        let mut builder = BatchBuilder::new().producer(told.producer_id.0, 0, sequence);
        builder
            .push(NewRecord {
                timestamp: 1,
                value: Some(b"v"),
                ..Default::default()
            })
            .expect("a record");
        builder.build().expect("a batch")
    };
    assert_eq!(
        produce_one(&mut wire, "t", sequenced(5)).0,
        45,
        "a new partition begins at 0"
    );
    for sequence in 0..5 {
        assert_eq!(
            produce_one(&mut wire, "t", sequenced(sequence)),
            (0, i64::from(sequence))
        );
    }
    for sequence in 0..5 {
        assert_eq!(
            produce_one(&mut wire, "t", sequenced(sequence)),
            (0, i64::from(sequence)),
            "a repeat"
        );
    }
    assert_eq!(produce_one(&mut wire, "t", sequenced(6)).0, 45, "a gap");
    assert_eq!(list_offset(&mut wire, "t", -1).1, 5);
    let transactional = init.clone().with_transactional_id(Some(TransactionalId(text("mine"))));
    let refused: InitProducerIdResponse = wire.call(ApiKey::InitProducerId, 4, &transactional);
    assert_eq!((refused.error_code, refused.producer_id.0), (53, -1));
}

/// F45: zstd is refused below version 7, and taken from there on.
#[test]
fn zstd_needs_version_7() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let zstd = batch_of(&[1, 2], Compression::Zstd);
    for (version, code) in [(6, 76), (7, 0)] {
        let response: ProduceResponse = wire.call(
            ApiKey::Produce,
            version,
            &produce_request(-1, "t", &[(0, zstd.clone())]),
        );
        assert_eq!(response.responses[0].partition_responses[0].error_code, code);
    }
}

/// Names: three identifiers, or one in the node's database; anything else is 17, what is not there 3.
#[test]
fn names_are_read_as_the_node_says() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    assert_eq!(produce_one(&mut wire, "shop.orders.t", batch(1)), (0, 0));
    assert_eq!(produce_one(&mut wire, "t", batch(1)), (0, 1));
    for (name, code) in [
        ("a b", 17),
        ("shop.orders", 17),
        ("a.b.c.d", 17),
        ("", 17),
        ("missing", 3),
        ("shop.orders.missing", 3),
        ("no.such.topic", 3),
    ] {
        assert_eq!(produce_one(&mut wire, name, batch(1)).0, code, "{name}");
        assert_eq!(fetch_one(&mut wire, name, 0).error_code, code, "{name}");
        assert_eq!(list_offset(&mut wire, name, -1).0, code, "{name}");
        let asked = metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name(name)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![asked]))
            .with_allow_auto_topic_creation(true);
        let response: MetadataResponse = wire.call(ApiKey::Metadata, 9, &request);
        assert_eq!(response.topics[0].error_code, code, "{name}");
        assert_eq!(response.topics[0].name, Some(topic_name(name)));
    }
    let all: MetadataResponse = wire.call(ApiKey::Metadata, 9, &MetadataRequest::default().with_topics(None));
    assert_eq!(all.topics.len(), 1, "nothing was created by asking");
}

/// F1: the address told is the one the client reached, and the leader is the broker told.
#[test]
fn metadata_tells_where_the_client_is() {
    let (node, mut wire) = node();
    let id = create(&mut wire, "t", 3, &[]);
    for version in 0..=13 {
        let topics = if version == 0 { Some(vec![]) } else { None };
        let request = MetadataRequest::default().with_topics(topics);
        let response: MetadataResponse = wire.call(ApiKey::Metadata, version, &request);
        let broker = &response.brokers[0];
        assert_eq!((&*broker.host, broker.port), ("127.0.0.1", i32::from(node.kafka)));
        let topic = &response.topics[0];
        assert_eq!(topic.name, Some(topic_name("shop.orders.t")));
        assert_eq!(topic.topic_id, if version >= 10 { id } else { Uuid::nil() });
        assert_eq!(topic.partitions.len(), 3);
        for partition in &topic.partitions {
            assert_eq!((partition.error_code, partition.leader_id), (0, broker.node_id));
            assert_eq!(partition.isr_nodes, [broker.node_id]);
            assert!(version < 7 || partition.leader_epoch >= 0);
        }
    }
    let by_id = metadata_request::MetadataRequestTopic::default()
        .with_name(None)
        .with_topic_id(id);
    let unknown = by_id.clone().with_topic_id(Uuid::from_u128(7));
    let request = MetadataRequest::default().with_topics(Some(vec![by_id, unknown]));
    let response: MetadataResponse = wire.call(ApiKey::Metadata, 12, &request);
    let told: Vec<_> = response.topics.iter().map(|t| (t.error_code, t.name.clone())).collect();
    assert_eq!(told, [(0, Some(topic_name("shop.orders.t"))), (100, None)]);
}

/// F48: an offset within a batch brings that batch.
#[test]
fn an_offset_within_a_batch_brings_the_batch() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    assert_eq!(produce_one(&mut wire, "t", batch(10)), (0, 0));
    assert_eq!(produce_one(&mut wire, "t", batch(10)), (0, 10));
    for offset in 0..20 {
        let partition = fetch_one(&mut wire, "t", offset);
        let expected: &[_] = if offset < 10 { &[(0, 9), (10, 19)] } else { &[(10, 19)] };
        assert_eq!(batches(records(&partition)), expected, "from {offset}");
        assert_eq!((partition.high_watermark, partition.last_stable_offset), (20, 20));
        assert_eq!(partition.log_start_offset, 0);
    }
    let end = fetch_one(&mut wire, "t", 20);
    assert_eq!((end.error_code, records(&end).len()), (0, 0));
    for beyond in [21, -1] {
        assert_eq!(fetch_one(&mut wire, "t", beyond).error_code, 1, "at {beyond}");
    }
}

/// F50: an answer holds what the client can take.
#[test]
fn an_answer_stays_within_its_bounds() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 100, &[("max.message.bytes", "2000000")]);
    let one = large(1 << 20);
    for partition in 0..100 {
        let answer = &produce(&mut wire, "t", &[(partition, one.clone())])[0];
        assert_eq!(answer.error_code, 0);
    }
    let all = |max: i32| (0..100).map(move |p| fetch_partition(p, 0, max)).collect::<Vec<_>>();
    let ask = |wire: &mut Wire, max_bytes: i32, partition_max: i32| -> Vec<usize> {
        let request = fetch_request(vec![fetch_topic("t", all(partition_max))]).with_max_bytes(max_bytes);
        let response: FetchResponse = wire.call(ApiKey::Fetch, 11, &request);
        let partitions = &response.responses[0].partitions;
        assert_eq!(partitions.len(), 100);
        partitions.iter().map(|p| records(p).len()).collect()
    };
    let sizes = ask(&mut wire, 4 << 20, 2 << 20);
    let total: usize = sizes.iter().sum();
    assert!(total <= (4 << 20) + one.len(), "{total} bytes");
    assert!(total >= 3 << 20, "{total} bytes");
    // The first batch comes whatever its size, and then nothing more.
    let sizes = ask(&mut wire, 1, 1);
    assert_eq!(sizes.iter().sum::<usize>(), one.len());
}

/// F51: a waiting fetch is woken by a produce, and otherwise waits its time.
#[test]
fn a_waiting_fetch_is_woken() {
    let (node, mut wire) = node();
    create(&mut wire, "t", 40, &[]);
    let mut producer = Wire::connect(node.kafka);
    // One partition, and more than fit a list of single waits.
    for (partitions, version) in [(1, 4), (1, 17), (40, 12)] {
        let id = topic_id(&mut wire, "t");
        let wanted = (0..partitions).map(|p| {
            let end = if p == 0 {
                list_offset(&mut producer, "t", -1).1
            } else {
                0
            };
            fetch_partition(p, end, 1 << 20)
        });
        let mut topic = fetch_topic("t", wanted.collect());
        if version >= 13 {
            topic = topic.with_topic_id(id);
        }
        let request = fetch_request(vec![topic]).with_max_wait_ms(60_000);
        let waiting = wire.send(ApiKey::Fetch, version, &request);
        assert_eq!(produce_one(&mut producer, "t", batch(2)).0, 0);
        let start = Instant::now();
        let response: FetchResponse = wire.receive(ApiKey::Fetch, version, waiting);
        assert!(start.elapsed() < Duration::from_secs(30), "woken, not timed out");
        assert_eq!(batches(records(&response.responses[0].partitions[0])).len(), 1);
    }
    let quiet = fetch_request(vec![fetch_topic("t", vec![fetch_partition(5, 0, 1000)])]).with_max_wait_ms(200);
    let start = Instant::now();
    let response: FetchResponse = wire.call(ApiKey::Fetch, 11, &quiet);
    assert!(start.elapsed() >= Duration::from_millis(200), "waits its time");
    assert!(records(&response.responses[0].partitions[0]).is_empty());
}

fn topic_id(wire: &mut Wire, name: &str) -> Uuid {
    let asked = metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    let request = MetadataRequest::default().with_topics(Some(vec![asked]));
    let response: MetadataResponse = wire.call(ApiKey::Metadata, 12, &request);
    response.topics[0].topic_id
}

/// A fetch waits for min_bytes over all its partitions.
#[test]
fn min_bytes_count_over_all_partitions() {
    let (node, mut wire) = node();
    create(&mut wire, "t", 2, &[]);
    let mut producer = Wire::connect(node.kafka);
    let one = batch(1);
    let wanted = vec![fetch_partition(0, 0, 1 << 20), fetch_partition(1, 0, 1 << 20)];
    let request = fetch_request(vec![fetch_topic("t", wanted)])
        .with_max_wait_ms(60_000)
        .with_min_bytes(2 * one.len() as i32);
    let waiting = wire.send(ApiKey::Fetch, 11, &request);
    produce(&mut producer, "t", &[(0, one.clone())]);
    produce(&mut producer, "t", &[(1, one.clone())]);
    let response: FetchResponse = wire.receive(ApiKey::Fetch, 11, waiting);
    let sizes: Vec<_> = response.responses[0]
        .partitions
        .iter()
        .map(|p| records(p).len())
        .collect();
    assert_eq!(sizes, [one.len(), one.len()]);
}

/// F53: an unknown partition is told at once and keeps nothing from the others.
#[test]
fn an_unknown_partition_holds_up_nobody() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    produce_one(&mut wire, "t", batch(1));
    let topics = vec![
        fetch_topic("t", vec![fetch_partition(0, 0, 1000), fetch_partition(9, 0, 1000)]),
        fetch_topic("missing", vec![fetch_partition(0, 0, 1000)]),
    ];
    let request = fetch_request(topics).with_max_wait_ms(60_000).with_min_bytes(1_000_000);
    let start = Instant::now();
    let response: FetchResponse = wire.call(ApiKey::Fetch, 11, &request);
    assert!(start.elapsed() < Duration::from_secs(30));
    let told: Vec<_> = response
        .responses
        .iter()
        .flat_map(|t| &t.partitions)
        .map(|p| (p.error_code, records(p).is_empty(), p.high_watermark))
        .collect();
    assert_eq!(told, [(0, false, 1), (3, true, -1), (3, true, -1)]);
}

/// F55: fetch sessions, step by step.
#[test]
fn fetch_sessions_follow_their_epochs() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 3, &[]);
    let three = (0..3).map(|p| fetch_partition(p, 0, 1000)).collect();
    let full = fetch_request(vec![fetch_topic("t", three)]).with_session_epoch(0);
    let first: FetchResponse = wire.call(ApiKey::Fetch, 11, &full);
    assert_ne!(first.session_id, 0);
    assert_eq!(first.responses[0].partitions.len(), 3);
    let next = |epoch: i32| {
        fetch_request(vec![])
            .with_session_id(first.session_id)
            .with_session_epoch(epoch)
    };
    let told = |response: &FetchResponse| -> Vec<(i32, i16)> {
        let partitions = response.responses.iter().flat_map(|t| &t.partitions);
        partitions.map(|p| (p.partition_index, p.error_code)).collect()
    };
    let quiet: FetchResponse = wire.call(ApiKey::Fetch, 11, &next(1));
    assert_eq!(
        (quiet.error_code, quiet.session_id, told(&quiet)),
        (0, first.session_id, vec![])
    );
    produce(&mut wire, "t", &[(1, batch(1))]);
    let changed: FetchResponse = wire.call(ApiKey::Fetch, 11, &next(2));
    assert_eq!(told(&changed), [(1, 0)]);
    let repeated: FetchResponse = wire.call(ApiKey::Fetch, 11, &next(2));
    assert_eq!(repeated.error_code, 71);
    // Not moved on, so the same records come again; partition 2 is forgotten and 9 is named.
    let forget = ForgottenTopic::default()
        .with_topic(topic_name("t"))
        .with_partitions(vec![2]);
    let mixed = next(3)
        .with_forgotten_topics_data(vec![forget])
        .with_topics(vec![fetch_topic("t", vec![fetch_partition(9, 0, 1000)])]);
    produce(&mut wire, "t", &[(2, batch(1)), (0, batch(1))]);
    let mixed: FetchResponse = wire.call(ApiKey::Fetch, 11, &mixed);
    let mut partitions = told(&mixed);
    partitions.sort_unstable();
    assert_eq!(partitions, [(0, 0), (1, 0), (9, 3)]);
    let unknown: FetchResponse = wire.call(ApiKey::Fetch, 11, &next(1).with_session_id(first.session_id ^ 1));
    assert_eq!((unknown.error_code, unknown.session_id), (70, 0));
    // A full fetch with epoch -1 ends the session it names.
    let last: FetchResponse = wire.call(ApiKey::Fetch, 11, &next(-1));
    assert_eq!((last.error_code, last.session_id), (0, 0));
    let gone: FetchResponse = wire.call(ApiKey::Fetch, 11, &next(5));
    assert_eq!(gone.error_code, 70);
}

/// KIP-320: an old epoch is fenced and a future one unknown, for fetches and offsets alike.
#[test]
fn leader_epochs_are_checked() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let metadata: MetadataResponse = wire.call(ApiKey::Metadata, 9, &MetadataRequest::default().with_topics(None));
    let epoch = metadata.topics[0].partitions[0].leader_epoch;
    for (asked, code) in [
        (epoch, 0),
        (epoch + 1, 75),
        (epoch - 1, if epoch > 0 { 74 } else { 0 }),
        (-1, 0),
    ] {
        let partition = fetch_partition(0, 0, 1000).with_current_leader_epoch(asked);
        let response: FetchResponse = wire.call(
            ApiKey::Fetch,
            11,
            &fetch_request(vec![fetch_topic("t", vec![partition])]),
        );
        assert_eq!(
            response.responses[0].partitions[0].error_code, code,
            "epoch {asked} of {epoch}"
        );
    }
    let end = |wire: &mut Wire, epoch: i32| {
        let partition = offset_for_leader_epoch_request::OffsetForLeaderPartition::default().with_leader_epoch(epoch);
        let topic = offset_for_leader_epoch_request::OffsetForLeaderTopic::default()
            .with_topic(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
        let response: OffsetForLeaderEpochResponse = wire.call(ApiKey::OffsetForLeaderEpoch, 3, &request);
        let partition = &response.topics[0].partitions[0];
        (partition.error_code, partition.leader_epoch, partition.end_offset)
    };
    produce_one(&mut wire, "t", batch(4));
    assert_eq!(end(&mut wire, epoch), (0, epoch, 4));
    assert_eq!(end(&mut wire, epoch + 1), (0, -1, -1));
}

/// Topic ids: a recreated topic is another one.
#[test]
fn a_recreated_topic_has_another_id() {
    let (_node, mut wire) = node();
    let old = create(&mut wire, "t", 1, &[]);
    produce_one(&mut wire, "t", batch(3));
    let request = DeleteTopicsRequest::default()
        .with_topics(vec![
            delete_topics_request::DeleteTopicState::default()
                .with_topic_id(old)
                .with_name(None),
        ])
        .with_timeout_ms(10_000);
    let deleted: DeleteTopicsResponse = wire.call(ApiKey::DeleteTopics, 6, &request);
    assert_eq!(deleted.responses[0].error_code, 0);
    assert_eq!(deleted.responses[0].name, Some(topic_name("shop.orders.t")));
    assert_eq!(produce_one(&mut wire, "t", batch(1)).0, 3);
    let new = create(&mut wire, "t", 1, &[]);
    assert_ne!(old, new);
    let by_id = |id: Uuid| {
        let topic = FetchTopic::default()
            .with_topic_id(id)
            .with_partitions(vec![fetch_partition(0, 0, 1000)]);
        fetch_request(vec![topic])
    };
    let response: FetchResponse = wire.call(ApiKey::Fetch, 13, &by_id(old));
    assert_eq!(response.responses[0].topic_id, old);
    assert_eq!(response.responses[0].partitions[0].error_code, 100);
    let to = |id: Uuid| {
        let data = TopicProduceData::default()
            .with_topic_id(id)
            .with_partition_data(vec![PartitionProduceData::default().with_records(Some(batch(1)))]);
        ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![data])
    };
    for (id, code, offset) in [(old, 100, -1), (new, 0, 0), (new, 0, 1)] {
        let response: ProduceResponse = wire.call(ApiKey::Produce, 13, &to(id));
        assert_eq!(response.responses[0].topic_id, id);
        let partition = &response.responses[0].partition_responses[0];
        assert_eq!((partition.error_code, partition.base_offset), (code, offset));
    }
    let response: FetchResponse = wire.call(ApiKey::Fetch, 17, &by_id(new));
    assert_eq!(batches(records(&response.responses[0].partitions[0])), [(0, 0), (1, 1)]);
}

/// F62: offsets by time.
#[test]
fn offsets_by_time() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    for empty in [-1, -2] {
        assert_eq!(list_offset(&mut wire, "t", empty), (0, 0, -1));
    }
    assert_eq!(list_offset(&mut wire, "t", 5), (0, -1, -1));
    assert_eq!(list_offset(&mut wire, "t", -3), (0, -1, -1));
    produce_one(&mut wire, "t", batch_of(&[2, 4], Compression::Gzip));
    produce_one(&mut wire, "t", batch_of(&[6, 8], Compression::None));
    for (time, offset, at) in [
        (1, 0, 2),
        (2, 0, 2),
        (3, 1, 4),
        (4, 1, 4),
        (5, 2, 6),
        (6, 2, 6),
        (7, 3, 8),
        (8, 3, 8),
        (9, -1, -1),
    ] {
        assert_eq!(list_offset(&mut wire, "t", time), (0, offset, at), "at {time}");
    }
    assert_eq!(list_offset(&mut wire, "t", -3), (0, 3, 8));
    assert_eq!(list_offset(&mut wire, "t", -4), (0, 0, -1));
    assert_eq!(list_offset(&mut wire, "t", -5), (0, -1, -1));
    assert_eq!(list_offset(&mut wire, "t", -9).0, 35);
}

#[test]
fn deleted_records_are_gone() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    produce_one(&mut wire, "t", batch(5));
    produce_one(&mut wire, "t", batch(5));
    let delete = |wire: &mut Wire, offset: i64| {
        let partition = delete_records_request::DeleteRecordsPartition::default().with_offset(offset);
        let topic = delete_records_request::DeleteRecordsTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = DeleteRecordsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(10_000);
        let response: DeleteRecordsResponse = wire.call(ApiKey::DeleteRecords, 2, &request);
        let partition = &response.topics[0].partitions[0];
        (partition.error_code, partition.low_watermark)
    };
    assert_eq!(delete(&mut wire, 11), (1, -1));
    assert_eq!(delete(&mut wire, 7), (0, 7));
    assert_eq!(delete(&mut wire, 3), (0, 7));
    assert_eq!(list_offset(&mut wire, "t", -2), (0, 7, -1));
    assert_eq!(fetch_one(&mut wire, "t", 6).error_code, 1);
    assert_eq!(batches(records(&fetch_one(&mut wire, "t", 7))), [(5, 9)]);
    assert_eq!(delete(&mut wire, -1), (0, 10));
    assert_eq!(produce_one(&mut wire, "t", batch(1)), (0, 10));
}

/// F83, F85, F90: topics are made and grown with the right codes.
#[test]
fn topics_are_made_and_grown() {
    let (_node, mut wire) = node();
    let ask = |wire: &mut Wire, topic: CreatableTopic, validate_only: bool| {
        let request = CreateTopicsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(10_000)
            .with_validate_only(validate_only);
        let mut response: CreateTopicsResponse = wire.call(ApiKey::CreateTopics, 7, &request);
        response.topics.remove(0)
    };
    let topic = |name: &str, partitions: i32, replicas: i16| {
        CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(replicas)
    };
    for (name, partitions, replicas, code) in [
        ("t", 0, 1, 37),
        ("t", -2, 1, 37),
        ("t", 1_000_000, 1, 37),
        ("t", 1, 0, 38),
        ("t", 1, -2, 38),
        ("t", 1, 2, 38),
        ("a b", 1, 1, 17),
        ("no.such.t", 1, 1, 17),
        ("shop.none.t", 1, 1, 17),
    ] {
        let answer = ask(&mut wire, topic(name, partitions, replicas), false);
        assert_eq!(answer.error_code, code, "{name} {partitions} {replicas}");
        assert!(answer.error_message.is_some_and(|m| !m.is_empty()));
    }
    let config = |name: &str, value: Option<&str>| {
        CreatableTopicConfig::default()
            .with_name(text(name))
            .with_value(value.map(text))
    };
    for (name, value) in [
        ("nope", Some("1")),
        ("retention.ms", Some("-5")),
        ("cleanup.policy", Some("compact")),
    ] {
        let answer = ask(
            &mut wire,
            topic("t", 1, 1).with_configs(vec![config(name, value)]),
            false,
        );
        assert_eq!(answer.error_code, 40, "{name}");
        assert!(answer.error_message.is_some_and(|m| m.contains(name)));
    }
    let assignment = create_topics_request::CreatableReplicaAssignment::default()
        .with_partition_index(0)
        .with_broker_ids(vec![BrokerId(1)]);
    let both = topic("t", 1, 1).with_assignments(vec![assignment.clone()]);
    assert_eq!(ask(&mut wire, both, false).error_code, 42);
    let elsewhere = topic("t", -1, -1).with_assignments(vec![assignment.with_broker_ids(vec![BrokerId(99)])]);
    assert_eq!(ask(&mut wire, elsewhere, false).error_code, 39);
    let only = ask(&mut wire, topic("t", -1, -1), true);
    assert_eq!(
        (only.error_code, only.num_partitions, only.topic_id),
        (0, 1, Uuid::nil())
    );
    let made = ask(
        &mut wire,
        topic("t", -1, -1).with_configs(vec![config("retention.ms", Some("60000"))]),
        false,
    );
    assert_eq!(
        (made.error_code, made.num_partitions, made.replication_factor),
        (0, 1, 1)
    );
    assert!(!made.topic_id.is_nil());
    let configs = made.configs.expect("configs");
    let retention = configs.iter().find(|c| &*c.name == "retention.ms").expect("a key");
    assert_eq!(
        (retention.value.as_deref(), retention.config_source),
        (Some("60000"), 1)
    );
    assert!(
        configs
            .iter()
            .any(|c| &*c.name == "cleanup.policy" && c.value.as_deref() == Some("delete"))
    );
    assert_eq!(ask(&mut wire, topic("t", 1, 1), false).error_code, 36);
    assert_eq!(ask(&mut wire, topic("t", 1, 1), true).error_code, 36);
    let grow = |wire: &mut Wire, name: &str, count: i32| {
        let topic = create_partitions_request::CreatePartitionsTopic::default()
            .with_name(topic_name(name))
            .with_count(count)
            .with_assignments(None);
        let request = CreatePartitionsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(10_000);
        let response: CreatePartitionsResponse = wire.call(ApiKey::CreatePartitions, 3, &request);
        assert_eq!(response.results[0].name, topic_name(name));
        response.results[0].error_code
    };
    assert_eq!(
        [
            grow(&mut wire, "t", 1),
            grow(&mut wire, "t", 0),
            grow(&mut wire, "none", 4)
        ],
        [37, 37, 3]
    );
    assert_eq!(grow(&mut wire, "t", 4), 0);
    assert_eq!(produce(&mut wire, "t", &[(3, batch(1))])[0].error_code, 0);
}

/// F87, F88: configurations as tools expect them, and changes of them.
#[test]
fn configurations_are_told_and_changed() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let describe = |wire: &mut Wire, kind: i8, name: &str, keys: Option<Vec<&str>>| {
        let resource = describe_configs_request::DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(name))
            .with_configuration_keys(keys.map(|k| k.into_iter().map(text).collect()));
        let request = DescribeConfigsRequest::default()
            .with_resources(vec![resource])
            .with_include_synonyms(true);
        let mut response: DescribeConfigsResponse = wire.call(ApiKey::DescribeConfigs, 4, &request);
        response.results.remove(0)
    };
    let all = describe(&mut wire, 2, "t", None);
    assert!(all.error_code == 0 && all.configs.len() > 25);
    assert_eq!(
        describe(&mut wire, 2, "t", Some(vec![])).configs.len(),
        all.configs.len()
    );
    let some = describe(&mut wire, 2, "t", Some(vec!["cleanup.policy", "nope"]));
    assert_eq!(some.configs.len(), 1);
    assert_eq!(some.configs[0].value.as_deref(), Some("delete"));
    assert_eq!((some.configs[0].config_source, some.configs[0].config_type), (5, 7));
    assert_eq!(describe(&mut wire, 2, "missing", None).error_code, 3);
    let metadata: MetadataResponse = wire.call(ApiKey::Metadata, 9, &MetadataRequest::default().with_topics(None));
    let own = metadata.brokers[0].node_id.0;
    let broker = describe(&mut wire, 4, &own.to_string(), None);
    for key in ["num.partitions", "default.replication.factor", "log.retention.ms"] {
        assert!(broker.configs.iter().any(|c| &*c.name == key), "{key}");
    }
    assert_eq!(describe(&mut wire, 4, &(own + 1).to_string(), None).error_code, 42);

    let alter = |wire: &mut Wire, changes: &[(&str, i8, Option<&str>)]| {
        let configs = changes.iter().map(|(name, operation, value)| {
            incremental_alter_configs_request::AlterableConfig::default()
                .with_name(text(name))
                .with_config_operation(*operation)
                .with_value(value.map(text))
        });
        let resource = incremental_alter_configs_request::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_configs(configs.collect());
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let response: IncrementalAlterConfigsResponse = wire.call(ApiKey::IncrementalAlterConfigs, 1, &request);
        response.responses[0].error_code
    };
    let retention = |wire: &mut Wire| {
        let told = describe(wire, 2, "t", Some(vec!["retention.ms"]));
        (
            told.configs[0].value.as_deref().map(str::to_owned),
            told.configs[0].config_source,
        )
    };
    assert_eq!(
        alter(
            &mut wire,
            &[
                ("retention.ms", 0, Some("60000")),
                ("max.message.bytes", 0, Some("100"))
            ]
        ),
        0
    );
    assert_eq!(retention(&mut wire), (Some("60000".into()), 1));
    assert_eq!(produce_one(&mut wire, "t", batch(20)).0, 10);
    assert_eq!(
        alter(&mut wire, &[("max.message.bytes", 1, None), ("nope", 1, None)]),
        0
    );
    assert_eq!(produce_one(&mut wire, "t", batch(20)).0, 0);
    for (changes, code) in [
        (&[("retention.ms", 0, None)][..], 42),
        (&[("retention.ms", 2, Some("1"))], 40),
        (&[("retention.ms", 3, Some("1"))], 40),
        (&[("cleanup.policy", 2, Some("compact"))], 40),
        (&[("cleanup.policy", 2, Some("delete"))], 0),
        (&[("cleanup.policy", 3, Some("compact"))], 0),
        (&[("retention.ms", 0, Some("1")), ("retention.ms", 0, Some("2"))], 42),
        (&[("retention.ms", 0, Some("1")), ("nope", 0, Some("2"))], 40),
    ] {
        assert_eq!(alter(&mut wire, changes), code, "{changes:?}");
    }
    assert_eq!(
        retention(&mut wire),
        (Some("60000".into()), 1),
        "a refused set changes nothing"
    );
    let resource = alter_configs_request::AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"));
    let replace = AlterConfigsRequest::default().with_resources(vec![resource]);
    let response: AlterConfigsResponse = wire.call(ApiKey::AlterConfigs, 2, &replace);
    assert_eq!(response.responses[0].error_code, 0);
    assert_eq!(retention(&mut wire), (Some("-1".into()), 5));
}

/// F92, and what else tools ask at their start.
#[test]
fn tools_find_a_cluster() {
    let (node, mut wire) = node();
    create(&mut wire, "t", 2, &[]);
    produce_one(&mut wire, "t", batch(1));
    let cluster: DescribeClusterResponse = wire.call(
        ApiKey::DescribeCluster,
        1,
        &DescribeClusterRequest::default().with_endpoint_type(1),
    );
    assert_eq!((cluster.error_code, cluster.brokers.len()), (0, 1));
    assert_eq!(cluster.brokers[0].port, i32::from(node.kafka));
    assert_eq!(cluster.controller_id, cluster.brokers[0].broker_id);
    let dirs: DescribeLogDirsResponse = wire.call(
        ApiKey::DescribeLogDirs,
        4,
        &DescribeLogDirsRequest::default().with_topics(None),
    );
    let sizes: Vec<_> = dirs.results[0].topics[0]
        .partitions
        .iter()
        .map(|p| p.partition_size)
        .collect();
    assert!(sizes.len() == 2 && sizes[0] > 0 && sizes[1] == 0, "{sizes:?}");
    let acls: DescribeAclsResponse = wire.call(ApiKey::DescribeAcls, 3, &DescribeAclsRequest::default());
    assert_eq!(acls.error_code, 54);
    let none: ListPartitionReassignmentsResponse = wire.call(
        ApiKey::ListPartitionReassignments,
        0,
        &ListPartitionReassignmentsRequest::default().with_topics(None),
    );
    assert_eq!((none.error_code, none.topics.len()), (0, 0));
}

/// Requests of a thousand partitions are answered whole.
#[test]
fn a_thousand_partitions() {
    let (_node, mut wire) = node();
    create(&mut wire, "t", 1000, &[]);
    let all: Vec<_> = (0..1000).map(|p| (p, batch(1))).collect();
    assert!(
        produce(&mut wire, "t", &all)
            .iter()
            .all(|a| (a.error_code, a.base_offset) == (0, 0))
    );
    let wanted = (0..1000).map(|p| fetch_partition(p, 0, 1 << 20)).collect();
    let full = fetch_request(vec![fetch_topic("t", wanted)]).with_session_epoch(0);
    let first: FetchResponse = wire.call(ApiKey::Fetch, 12, &full);
    let partitions = &first.responses[0].partitions;
    assert!(partitions.len() == 1000 && partitions.iter().all(|p| !records(p).is_empty()));
    let moved = (0..1000).map(|p| fetch_partition(p, 1, 1 << 20)).collect();
    let moved = fetch_request(vec![fetch_topic("t", moved)])
        .with_session_id(first.session_id)
        .with_session_epoch(1);
    let quiet: FetchResponse = wire.call(ApiKey::Fetch, 12, &moved);
    assert_eq!(quiet.responses.len(), 0);
    produce(&mut wire, "t", &[(717, batch(1))]);
    let next = fetch_request(vec![])
        .with_session_id(first.session_id)
        .with_session_epoch(2);
    let one: FetchResponse = wire.call(ApiKey::Fetch, 12, &next);
    assert_eq!(one.responses[0].partitions.len(), 1);
    assert_eq!(one.responses[0].partitions[0].partition_index, 717);
}

/// What was stored is served from files as well as from memory, after a restart.
#[test]
fn stored_bytes_come_back_from_files() {
    let mut node = Process::start(&["--kafka-database", "shop.orders", "--segment-bytes", "1048576"]);
    node.script("DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders;");
    let mut wire = Wire::connect(node.kafka);
    create(&mut wire, "t", 1, &[]);
    let sent: Vec<Bytes> = (0..40).map(|n| large(100_000 + n)).collect();
    for (batch, offset) in sent.iter().zip(0..) {
        assert_eq!(produce_one(&mut wire, "t", batch.clone()), (0, offset));
    }
    let read = |wire: &mut Wire| {
        let (mut out, mut offset) = (Vec::new(), 0);
        while offset < 40 {
            let partition = fetch_one(wire, "t", offset);
            assert_eq!(partition.error_code, 0);
            let found = batches(records(&partition));
            offset = found.last().expect("something").1 + 1;
            out.extend_from_slice(records(&partition));
        }
        out
    };
    let before = read(&mut wire);
    node.terminate();
    node.restart();
    let mut wire = Wire::connect(node.kafka);
    assert!(read(&mut wire) == before);
    // The payload is what was sent: only base offset and leader epoch are the store's.
    let mut rest = &before[..];
    for batch in &sent {
        assert!(rest[16..batch.len()] == batch[16..]);
        rest = &rest[batch.len()..];
    }
}

/// A connection that says nothing is closed, one that waits for an answer is not.
#[test]
fn an_idle_connection_is_closed() {
    let node = Process::start(&["--kafka-database", "shop.orders", "--idle-seconds", "1"]);
    node.script("DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders;");
    let mut busy = Wire::connect(node.kafka);
    create(&mut busy, "t", 1, &[]);
    let request = fetch_request(vec![fetch_topic("t", vec![fetch_partition(0, 0, 1000)])]).with_max_wait_ms(3000);
    let waiting = busy.send(ApiKey::Fetch, 11, &request);
    let mut silent = Wire::connect(node.kafka);
    assert!(silent.is_closed());
    let _: FetchResponse = busy.receive(ApiKey::Fetch, 11, waiting);
}

#[test]
fn connections_from_one_address_are_limited() {
    let node = Process::start(&["--max-connections-per-address", "2"]);
    let ask =
        |wire: &mut Wire| -> ApiVersionsResponse { wire.call(ApiKey::ApiVersions, 0, &ApiVersionsRequest::default()) };
    let mut first = Wire::connect(node.kafka);
    let mut second = Wire::connect(node.kafka);
    ask(&mut first);
    ask(&mut second);
    assert!(Wire::connect(node.kafka).is_closed());
    drop(first);
    // The place is free once the node has seen the end.
    let start = Instant::now();
    loop {
        let mut again = Wire::connect(node.kafka);
        let correlation = again.send(ApiKey::ApiVersions, 0, &ApiVersionsRequest::default());
        if let Some(answer) = again.next() {
            assert_eq!(i32::from_be_bytes(*answer.first_chunk().expect("an id")), correlation);
            break;
        }
        assert!(start.elapsed() < crate::process::PATIENCE);
    }
    ask(&mut second);
}

/// A stop answers what waits, and then ends.
#[test]
fn a_stop_answers_what_waits() {
    let (mut node, mut wire) = node();
    create(&mut wire, "t", 1, &[]);
    let request = fetch_request(vec![fetch_topic("t", vec![fetch_partition(0, 0, 1000)])]).with_max_wait_ms(600_000);
    let received = || crate::abuse::metric(&node, "tessaridb_kafka_received_bytes_total");
    let before = received();
    let waiting = wire.send(ApiKey::Fetch, 11, &request);
    // What is not read yet need not be answered.
    let start = Instant::now();
    while received() == before {
        assert!(start.elapsed() < crate::process::PATIENCE, "the node does not read it");
    }
    let status = node.terminate();
    assert!(status.success(), "{status:?}");
    let response: FetchResponse = wire.receive(ApiKey::Fetch, 11, waiting);
    assert!(records(&response.responses[0].partitions[0]).is_empty());
    assert!(wire.is_closed());
}

/// A client that asks for much and reads nothing takes no memory to speak of.
#[test]
fn a_slow_reader_takes_no_memory() {
    let (node, mut wire) = node();
    create(&mut wire, "t", 1, &[("max.message.bytes", "4000000")]);
    for offset in 0..8 {
        assert_eq!(produce_one(&mut wire, "t", large(3 << 20)), (0, offset));
    }
    let before = memory_kib(&node);
    let mut slow = Wire::connect(node.kafka);
    let sent: Vec<i32> = (0..40)
        .map(|_| {
            let request = fetch_request(vec![fetch_topic("t", vec![fetch_partition(0, 0, 20 << 20)])]);
            slow.send(ApiKey::Fetch, 11, &request)
        })
        .collect();
    // Others are served meanwhile.
    assert_eq!(list_offset(&mut wire, "t", -1), (0, 8, -1));
    let grown = memory_kib(&node).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB for 40 answers of 18 MiB");
    for correlation in sent {
        let response: FetchResponse = slow.receive(ApiKey::Fetch, 11, correlation);
        assert_eq!(batches(records(&response.responses[0].partitions[0])).len(), 6);
    }
}

/// A batch marked LogAppendTime: the topic's type counts, and time look-ups find what the records say.
#[test]
fn a_producer_cannot_choose_the_append_time() {
    let (_node, mut wire) = node();
    create(&mut wire, "plain", 1, &[]);
    create(&mut wire, "stamped", 1, &[("message.timestamp.type", "LogAppendTime")]);
    let mut marked = batch_of(&[100, 300, 200], Compression::None).to_vec();
    marked[22] |= 0x08;
    // Its header claims a time that no record has.
    marked[35..43].copy_from_slice(&900i64.to_be_bytes());
    let crc = batch_crc(&marked);
    marked[17..21].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(produce_one(&mut wire, "stamped", marked.clone().into()).0, 32);
    assert_eq!(produce_one(&mut wire, "plain", marked.into()), (0, 0));
    let stored = fetch_one(&mut wire, "plain", 0);
    let header = tessaridb::record::BatchHeader::parse(records(&stored)).expect("a batch");
    assert_eq!((header.attributes, header.max_timestamp), (0, 300));
    assert_eq!(list_offset(&mut wire, "plain", -3), (0, 1, 300));
    assert_eq!(list_offset(&mut wire, "plain", 301), (0, -1, -1));
    assert_eq!(produce_one(&mut wire, "stamped", batch(2)), (0, 0));
    let (code, offset, time) = list_offset(&mut wire, "stamped", 2);
    assert!(
        code == 0 && offset == 0 && time > 1_000_000_000_000,
        "{code} {offset} {time}"
    );
}
