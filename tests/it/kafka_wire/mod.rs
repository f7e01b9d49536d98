//! The Kafka port, byte by byte: what clients of all kinds met in the field, asked on a raw socket.

mod connections;
mod fetch;
mod frames;
mod produce;
mod topics;

use crate::process::{PATIENCE, Process};
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
    until_led(wire, &format!("{DATABASE}.{name}"));
    response.topics[0].topic_id
}

/// Waits until each partition of a topic has a leader, as clients do before they ask for more: on a busy machine the ranges of
/// a node that has just begun may still be voting.
fn until_led(wire: &mut Wire, name: &str) {
    let topic = metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    let request = MetadataRequest::default().with_topics(Some(vec![topic]));
    let start = Instant::now();
    loop {
        let response: MetadataResponse = wire.call(ApiKey::Metadata, 9, &request);
        let topic = &response.topics[0];
        if topic.error_code == 0 && topic.partitions.iter().all(|partition| partition.error_code == 0) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{name} is never led: {topic:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
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

/// Fetches the first partition at once.
fn fetch_one(wire: &mut Wire, topic: &str, offset: i64) -> PartitionData {
    fetch_from(wire, topic, 0, offset)
}

/// Fetches a partition at once.
pub(crate) fn fetch_from(wire: &mut Wire, topic: &str, partition: i32, offset: i64) -> PartitionData {
    let request = fetch_request(vec![fetch_topic(
        topic,
        vec![fetch_partition(partition, offset, 1 << 20)],
    )]);
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

fn topic_id(wire: &mut Wire, name: &str) -> Uuid {
    let asked = metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    let request = MetadataRequest::default().with_topics(Some(vec![asked]));
    let response: MetadataResponse = wire.call(ApiKey::Metadata, 12, &request);
    response.topics[0].topic_id
}
