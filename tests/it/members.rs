//! Any member answers: three members, each of them in turn the only one that a client knows.

use crate::clients::install;
use crate::clients::stock::piped;
use crate::cluster::{Cluster, node_id};
use crate::kafka_wire::produce_request;
use crate::process::PATIENCE;
use crate::wire::Wire;
use bytes::Bytes;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Message, Offset, TopicPartitionList};
use serde::Deserialize;
use std::process::Command;
use std::time::{Duration, Instant};
use tessaridb::record::{BatchBuilder, NewRecord};

const MEMBERS: usize = 3;
const PARTITIONS: usize = 6;
const RECORDS: i64 = 300;

/// What a client saw of a topic: [partition, offset, number].
#[derive(Debug, Deserialize)]
struct Seen {
    produced: Vec<(i32, i64, i64)>,
    read: Vec<(i32, i64, i64)>,
    committed: Vec<(i32, i64, i64)>,
}

/// A client that produces, consumes and works as a group: tests/clients/through.py and its Java twin.
fn through(client: &str) -> Command {
    match client {
        "java" => {
            let mut command = Command::new("java");
            command
                .args(["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
                .arg(install::java_clients())
                .arg(install::program("java/Through.java"));
            command
        }
        _ => {
            let mut command = Command::new(install::python());
            command.arg(install::program("through.py")).arg(client);
            command
        }
    }
}

/// Has a client do all it does over a topic of its own.
fn all_of_it(cluster: &Cluster, client: &str, bootstrap: usize, topic: &str) {
    cluster.define_topic(topic, PARTITIONS);
    let mut command = through(client);
    command
        .arg(cluster.nodes[bootstrap].bootstrap())
        .args([&format!("shop.orders.{topic}"), topic])
        .args([PARTITIONS.to_string(), RECORDS.to_string()]);
    let seen: Seen = serde_json::from_slice(&piped(&mut command, b"")).expect("what it saw");
    let each = PARTITIONS as i64;
    let expected: Vec<Vec<(i32, i64, i64)>> = (0..each)
        .map(|partition| {
            (0..RECORDS / each)
                .map(|offset| (partition as i32, offset, offset * each + partition))
                .collect()
        })
        .collect();
    let by_partition = |records: &[(i32, i64, i64)]| -> Vec<Vec<(i32, i64, i64)>> {
        let of = |partition: i32| records.iter().filter(|(p, ..)| *p == partition).copied().collect();
        (0..PARTITIONS as i32).map(of).collect()
    };
    for (what, records) in [
        ("produced", &seen.produced),
        ("read", &seen.read),
        ("committed", &seen.committed),
    ] {
        assert_eq!(by_partition(records), expected, "{client} at {bootstrap}: {what}");
    }
    // Whatever member is asked knows where the group is.
    let all: Vec<usize> = (0..MEMBERS).collect();
    let position = format!("'kafka:{topic}': {{ lag: 0, position: {} }}", RECORDS / each);
    cluster.wait_for("the group is at the end", &all, &cluster.topic(topic), |told| {
        told.matches(&position).count() == PARTITIONS
    });
}

#[test]
fn stock_clients_do_all_they_do_through_any_one_member() {
    let cluster = Cluster::form(MEMBERS);
    for bootstrap in 0..MEMBERS {
        for (number, client) in ["confluent-kafka", "aiokafka", "java"].iter().enumerate() {
            all_of_it(&cluster, client, bootstrap, &format!("by_{number}_at_{bootstrap}"));
        }
    }
    // The others are not shown any more: all that clients can reach is one member.
    for hidden in 1..MEMBERS {
        cluster.anywhere(&[0], &format!("ALTER REPLICA m{hidden} KAFKA NONE"));
    }
    for (number, client) in ["confluent-kafka", "aiokafka", "java"].iter().enumerate() {
        all_of_it(&cluster, client, 0, &format!("by_{number}_through_one"));
    }
}

fn name(topic: &str) -> String {
    format!("shop.orders.{topic}")
}

fn numbered(producer: i64, sequence: i32) -> Bytes {
    let mut builder = BatchBuilder::new().producer(producer, 0, sequence);
    builder
        .push(NewRecord {
            timestamp: 1,
            value: Some(&sequence.to_le_bytes()),
            ..Default::default()
        })
        .expect("a record");
    builder.build().expect("a batch")
}

/// First refusal: member, partition, sequence, error.
type Refused = (usize, usize, i32, i16);

const ONE_BY_ONE: i32 = 20;
const PIPELINED: i32 = 80;
const UNANSWERED: i32 = 50;

/// Produces to every partition at the members that don't lead it.
fn produce_elsewhere(cluster: &Cluster, topic: &str, leaders: &[usize]) -> Result<(), Refused> {
    let mut wires: Vec<Wire> = cluster.nodes.iter().map(|node| Wire::connect(node.kafka)).collect();
    let init = InitProducerIdRequest::default().with_transactional_id(None);
    let told: InitProducerIdResponse = wires[0].call(ApiKey::InitProducerId, 4, &init);
    assert_eq!(told.error_code, 0);
    let producer = told.producer_id.0;
    let request = |acks, partition: usize, sequence| {
        produce_request(acks, &name(topic), &[(partition as i32, numbered(producer, sequence))])
    };
    let judge = |answer: ProduceResponse, at: usize, partition: usize, sequence: i32| {
        let answer = &answer.responses[0].partition_responses[0];
        match answer.error_code {
            0 => {
                assert_eq!(
                    answer.base_offset,
                    i64::from(sequence),
                    "order of partition {partition}"
                );
                Ok(())
            }
            error => Err((at, partition, sequence, error)),
        }
    };
    for (partition, leader) in leaders.iter().enumerate() {
        let wrong: Vec<usize> = (0..MEMBERS).filter(|member| member != leader).collect();
        let mut sequences = 0..;
        // One after the other, now here, now there.
        for (sequence, at) in sequences.by_ref().zip(wrong.iter().cycle()).take(ONE_BY_ONE as usize) {
            let answer = wires[*at].call(ApiKey::Produce, 9, &request(-1, partition, sequence));
            judge(answer, *at, partition, sequence)?;
        }
        let at = wrong[partition % wrong.len()];
        let first = ONE_BY_ONE;
        // Many at once.
        let sent: Vec<(i32, i32)> = (first..first + PIPELINED)
            .map(|sequence| {
                let request = request(-1, partition, sequence);
                (sequence, wires[at].send(ApiKey::Produce, 9, &request))
            })
            .collect();
        let mut outcome = Ok(());
        for (sequence, correlation) in sent {
            let answer = wires[at].receive(ApiKey::Produce, 9, correlation);
            outcome = outcome.and_then(|()| judge(answer, at, partition, sequence));
        }
        outcome?;
        // Many that nobody waits for; the connection is closed where one is refused.
        let first = first + PIPELINED;
        for sequence in first..first + UNANSWERED {
            wires[at].send(ApiKey::Produce, 9, &request(0, partition, sequence));
        }
        let end: Option<MetadataResponse> =
            wires[at].ask(ApiKey::Metadata, 9, &MetadataRequest::default().with_topics(None));
        if end.is_none() {
            return Err((at, partition, first, -1));
        }
        let end = i64::from(first + UNANSWERED);
        assert_eq!(
            log_end(&mut wires[at], topic, partition),
            (0, end),
            "acks=0 at member {at}"
        );
    }
    Ok(())
}

fn log_end(wire: &mut Wire, topic: &str, partition: usize) -> (i16, i64) {
    let partition = ListOffsetsPartition::default()
        .with_partition_index(partition as i32)
        .with_timestamp(-1);
    let topic = ListOffsetsTopic::default()
        .with_name(TopicName(StrBytes::from_string(name(topic))))
        .with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(vec![topic]);
    let answer: ListOffsetsResponse = wire.call(ApiKey::ListOffsets, 6, &request);
    let answer = &answer.topics[0].partitions[0];
    (answer.error_code, answer.offset)
}

/// Who leads each partition, and in which epoch, as each member tells its clients.
fn leaders(cluster: &Cluster, topic: &str) -> Vec<Vec<(i32, i32)>> {
    cluster
        .nodes
        .iter()
        .map(|node| leaders_told(node.kafka, topic))
        .collect()
}

/// What all members tell alike, once they do.
fn agreed(cluster: &Cluster, topic: &str) -> Vec<(i32, i32)> {
    let start = Instant::now();
    loop {
        let told = leaders(cluster, topic);
        if told
            .iter()
            .all(|one| *one == told[0] && one.iter().all(|(leader, _)| *leader >= 0))
        {
            return told[0].clone();
        }
        assert!(start.elapsed() < PATIENCE, "members never agree: {told:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn leaders_told(port: u16, topic: &str) -> Vec<(i32, i32)> {
    let mut wire = Wire::connect(port);
    let asked = metadata_request::MetadataRequestTopic::default()
        .with_name(Some(TopicName(StrBytes::from_string(name(topic)))));
    let request = MetadataRequest::default().with_topics(Some(vec![asked]));
    let answer: MetadataResponse = wire.call(ApiKey::Metadata, 9, &request);
    let mut partitions = answer.topics[0].partitions.clone();
    partitions.sort_by_key(|partition| partition.partition_index);
    partitions.iter().map(|p| (p.leader_id.0, p.leader_epoch)).collect()
}

#[test]
fn produce_requests_at_wrong_members_are_all_taken_and_keep_their_order() {
    let cluster = Cluster::form(MEMBERS);
    let all: Vec<usize> = (0..MEMBERS).collect();
    let start = Instant::now();
    for attempt in 0.. {
        let topic = format!("elsewhere{attempt}");
        cluster.define_topic(&topic, PARTITIONS);
        let before = agreed(&cluster, &topic);
        let told = Cluster::leaders(&cluster.anywhere(&[0], &cluster.topic(&topic)));
        let member = |id: &String| all.iter().copied().find(|n| node_id(*n) == *id).expect("a member");
        let led: Vec<usize> = told.iter().map(member).collect();
        match produce_elsewhere(&cluster, &topic, &led) {
            Ok(()) => {
                for member in &cluster.nodes {
                    read_back(&member.bootstrap(), &name(&topic));
                }
                return;
            }
            // A leader may be handing over, or be voted out on a busy machine: then a refusal is right, and every member soon
            // tells of another leader or epoch. Where none does, there was no reason.
            Err(refused) => {
                while leaders(&cluster, &topic).contains(&before) {
                    assert!(
                        start.elapsed() < 2 * PATIENCE,
                        "refused: {refused:?}, {before:?}\n{}",
                        cluster.logs()
                    );
                    std::thread::sleep(Duration::from_millis(20));
                }
                assert!(start.elapsed() < 2 * PATIENCE, "leaders never stay: {refused:?}");
            }
        }
    }
}

fn read_back(bootstrap: &str, topic: &str) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "unused")
        .set("enable.auto.commit", "false")
        .set("check.crcs", "true")
        .create()
        .expect("a consumer");
    for partition in 0..PARTITIONS as i32 {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .expect("an offset");
        consumer.assign(&list).expect("assigned");
        let start = Instant::now();
        let mut sequence = 0i32;
        while sequence < ONE_BY_ONE + PIPELINED + UNANSWERED {
            assert!(start.elapsed() < PATIENCE, "{topic}/{partition} ends at {sequence}");
            let Some(message) = consumer.poll(Duration::from_secs(1)) else {
                continue;
            };
            let message = message.expect("no error");
            assert_eq!(message.payload(), Some(&sequence.to_le_bytes()[..]));
            assert_eq!(message.offset(), i64::from(sequence));
            sequence += 1;
        }
    }
}
