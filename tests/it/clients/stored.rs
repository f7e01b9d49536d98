//! The batches of a partition, as they are stored: fetched with a request of our own.

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{ApiKey, BrokerId, FetchRequest, FetchResponse, RequestHeader, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use std::io::{Read, Write};
use std::net::TcpStream;
use tessaridb::record::BatchHeader;

const VERSION: i16 = 11;

/// Headers of every batch in a partition, from offset 0.
pub fn batches(bootstrap: &str, topic: &str, partition: i32) -> Vec<BatchHeader> {
    let mut stream = TcpStream::connect(bootstrap).expect("a connection");
    let mut headers: Vec<BatchHeader> = Vec::new();
    loop {
        let next = headers.last().map_or(0, |last| last.base_offset + last.offset_count());
        let (records, high_watermark) = fetch(&mut stream, topic, partition, next);
        let mut rest = &records[..];
        while let Ok(header) = BatchHeader::parse(rest) {
            let Some(after) = rest.get(header.batch_len() as usize..) else {
                break;
            };
            headers.push(header);
            rest = after;
        }
        let end = headers.last().map_or(0, |last| last.base_offset + last.offset_count());
        if end >= high_watermark {
            return headers;
        }
        assert!(end > next, "no batch at offset {next} of {high_watermark}");
    }
}

fn fetch(stream: &mut TcpStream, topic: &str, partition: i32, offset: i64) -> (Vec<u8>, i64) {
    let request = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(100)
        .with_min_bytes(1)
        .with_max_bytes(16 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![
            FetchTopic::default()
                .with_topic(TopicName(StrBytes::from_string(topic.to_owned())))
                .with_partitions(vec![
                    FetchPartition::default()
                        .with_partition(partition)
                        .with_fetch_offset(offset)
                        .with_partition_max_bytes(8 << 20),
                ]),
        ]);
    let header = RequestHeader::default()
        .with_request_api_key(ApiKey::Fetch as i16)
        .with_request_api_version(VERSION)
        .with_correlation_id(1);
    let mut body = Vec::new();
    header.encode(&mut body, 1).expect("encodes");
    request.encode(&mut body, VERSION).expect("encodes");
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.append(&mut body);
    stream.write_all(&frame).expect("sent");
    let mut len = [0; 4];
    stream.read_exact(&mut len).expect("an answer");
    let mut answer = vec![0; u32::from_be_bytes(len) as usize];
    stream.read_exact(&mut answer).expect("an answer");
    // Response header v0: the correlation id.
    let response = FetchResponse::decode(&mut &answer[4..], VERSION).expect("a fetch response");
    let data = &response.responses[0].partitions[0];
    assert_eq!((response.error_code, data.error_code), (0, 0), "{topic} {partition}");
    let records = data
        .records
        .as_ref()
        .map(|records| records.to_vec())
        .unwrap_or_default();
    (records, data.high_watermark)
}
