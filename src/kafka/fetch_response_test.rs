use super::*;
use crate::kafka::table::Api;
use bytes::{Buf, Bytes};
use kafka_protocol::messages::{ApiKey, FetchResponse, ResponseHeader};
use kafka_protocol::protocol::{Decodable, StrBytes};
use uuid::Uuid;

fn partition(topic: usize, partition: i32, records: &[&'static [u8]]) -> PartitionAnswer {
    PartitionAnswer {
        topic,
        partition,
        high_watermark: 90,
        last_stable_offset: 90,
        log_start: 3,
        pieces: records.iter().map(|r| Piece::Memory(Bytes::from_static(r))).collect(),
        bytes: records.iter().map(|r| r.len()).sum(),
        ..Default::default()
    }
}

fn written(version: i16, committed: bool) -> (FetchResponse, Bytes) {
    let api = Api::of(ApiKey::Fetch as i16).unwrap();
    let topics: Vec<_> = [("a.b.c", 1), ("x", 2)]
        .map(|(name, id)| TopicKey {
            name: StrBytes::from_static_str(name),
            id: Uuid::from_u128(id),
        })
        .into();
    let mut moved = partition(1, 2, &[]);
    moved.error = Some(ResponseError::NotLeaderOrFollower);
    moved.leader = Some((4, 17));
    moved.diverging = Some((5, 77));
    let partitions = vec![
        partition(0, 0, &[b"hello", b" world"]),
        partition(0, 1, &[]),
        moved,
        partition(0, 9, &[b"!"]),
    ];
    let endpoints = [Endpoint {
        broker: 4,
        host: "h".repeat(200),
        port: 9092,
    }];
    let head = FetchHead {
        api,
        version,
        correlation: 99,
        committed,
        error: None,
        session: if version >= 7 { 1234 } else { 0 },
        endpoints: &endpoints,
    };
    let pieces = write(&head, &topics, partitions).unwrap();
    let mut whole = BytesMut::new();
    for piece in pieces {
        match piece {
            Piece::Memory(bytes) => whole.extend_from_slice(&bytes),
            Piece::File { .. } => panic!("no file was given"),
        }
    }
    let mut bytes = whole.freeze();
    assert_eq!(bytes.get_i32() as usize, bytes.len());
    let header = ResponseHeader::decode(&mut bytes, ApiKey::Fetch.response_header_version(version)).unwrap();
    assert_eq!(header.correlation_id, 99);
    let response = FetchResponse::decode(&mut bytes, version).unwrap();
    (response, bytes)
}

#[test]
fn the_codec_reads_every_version() {
    let api = Api::of(ApiKey::Fetch as i16).unwrap();
    for version in api.min..=api.max {
        for committed in [false, true] {
            let (response, rest) = written(version, committed);
            assert!(rest.is_empty(), "v{version}");
            assert_eq!(response.session_id, if version >= 7 { 1234 } else { 0 });
            let topics: Vec<_> = response.responses.iter().map(|t| t.partitions.len()).collect();
            assert_eq!(topics, [2, 1, 1]);
            let name = &response.responses[1];
            match version >= 13 {
                true => assert_eq!(name.topic_id, Uuid::from_u128(2)),
                false => assert_eq!(&*name.topic.0, "x"),
            }
            let first = &response.responses[0].partitions[0];
            assert_eq!(first.records.as_deref(), Some(&b"hello world"[..]));
            assert_eq!((first.high_watermark, first.last_stable_offset), (90, 90));
            assert_eq!(first.log_start_offset, if version >= 5 { 3 } else { -1 });
            assert_eq!(first.aborted_transactions, committed.then(Vec::new));
            assert_eq!(first.preferred_read_replica.0, -1);
            let empty = &response.responses[0].partitions[1];
            assert_eq!(empty.records.as_deref(), Some(&b""[..]));
            let moved = &response.responses[1].partitions[0];
            assert_eq!(moved.error_code, 6);
            assert_eq!(moved.aborted_transactions, committed.then(Vec::new));
            if version >= 12 {
                assert_eq!(
                    (moved.current_leader.leader_id.0, moved.current_leader.leader_epoch),
                    (4, 17)
                );
                assert_eq!((moved.diverging_epoch.epoch, moved.diverging_epoch.end_offset), (5, 77));
            }
            assert_eq!(response.node_endpoints.len(), usize::from(version >= 16));
        }
    }
}
