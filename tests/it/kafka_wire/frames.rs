//! Frames and versions, good and bad, and the order of answers.

use super::*;

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
