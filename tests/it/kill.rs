//! kill -9 at random moments under an idempotent load: what was acknowledged is read, once, in order.

use crate::process::{PATIENCE, Process};
use rand::Rng;
use rdkafka::Message;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, DeliveryResult};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PARTITIONS: i32 = 3;
const TOPIC: &str = "shop.orders.killed";

/// What the client was told: sequence number -> (partition, offset).
#[derive(Clone, Default)]
struct Acknowledged(Arc<Mutex<HashMap<u64, (i32, i64)>>>);

impl ClientContext for Acknowledged {}

impl ProducerContext for Acknowledged {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let message = result
            .as_ref()
            .unwrap_or_else(|(e, _)| panic!("an idempotent producer gave up: {e}"));
        let number = number(message.payload().expect("a value"));
        let told = self
            .0
            .lock()
            .expect("lock")
            .insert(number, (message.partition(), message.offset()));
        assert!(told.is_none(), "{number} was acknowledged twice");
    }
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(*value.first_chunk::<8>().expect("eight bytes"))
}

/// Kills per run; the full acceptance run sets TESSARIDB_KILLS=200.
fn kills() -> u32 {
    std::env::var("TESSARIDB_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(12)
}

#[test]
fn nothing_acknowledged_is_lost_doubled_or_reordered_by_kill_9() {
    // Small segments and frequent checkpoints, so that kills fall into rolls and checkpoints too.
    let mut node = Process::start(&["--segment-bytes", "1048576", "--checkpoint-bytes", "2097152"]);
    node.script(&format!(
        "DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders; USE DATABASE orders; \
         DEFINE TOPIC killed PARTITIONS {PARTITIONS} BY id;"
    ));
    let acknowledged = Acknowledged::default();
    let producer: BaseProducer<Acknowledged> = ClientConfig::new()
        .set("bootstrap.servers", node.bootstrap())
        .set("enable.idempotence", "true")
        .set("linger.ms", "2")
        .set("message.timeout.ms", "300000")
        .set("reconnect.backoff.ms", "10")
        .set("reconnect.backoff.max.ms", "100")
        .set("retry.backoff.ms", "20")
        .set("queue.buffering.max.messages", "20000")
        .create_with_context(acknowledged.clone())
        .expect("a producer");
    let stop = Arc::new(AtomicBool::new(false));
    let load = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let mut sent = 0u64;
            let mut value = vec![0u8; 700];
            while !stop.load(Ordering::Relaxed) {
                value[..8].copy_from_slice(&sent.to_le_bytes());
                let partition = (sent % PARTITIONS as u64) as i32;
                let record = BaseRecord::<(), [u8]>::to(TOPIC).partition(partition).payload(&value);
                match producer.send(record) {
                    Ok(()) => sent += 1,
                    Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                        producer.poll(Duration::from_millis(10));
                    }
                    Err((e, _)) => panic!("produce: {e}"),
                }
                if sent.is_multiple_of(64) {
                    producer.poll(Duration::ZERO);
                }
            }
            producer
                .flush(Duration::from_secs(120))
                .expect("all is delivered in the end");
            sent
        }
    });
    let mut random = rand::rng();
    for _ in 0..kills() {
        let before = acknowledged.0.lock().expect("lock").len();
        std::thread::sleep(Duration::from_millis(random.random_range(1..400)));
        // Every life of the node acknowledges something, or the load would prove nothing.
        let start = Instant::now();
        while acknowledged.0.lock().expect("lock").len() == before {
            assert!(!load.is_finished(), "the producer ended early");
            assert!(start.elapsed() < PATIENCE, "nothing is acknowledged: {}", node.log());
            std::thread::sleep(Duration::from_millis(1));
        }
        node.kill();
        node.restart();
    }
    stop.store(true, Ordering::Relaxed);
    let sent = load.join().expect("the load");
    let acknowledged = acknowledged.0.lock().expect("lock").clone();
    assert_eq!(acknowledged.len() as u64, sent, "all was acknowledged in the end");
    node.kill();
    node.restart();
    check(&node, &acknowledged);
}

/// The next record; librdkafka's poll may come back empty-handed before its time is up.
fn next(consumer: &BaseConsumer) -> BorrowedMessage<'_> {
    let start = Instant::now();
    loop {
        if let Some(message) = consumer.poll(PATIENCE) {
            return message.expect("no error");
        }
        assert!(start.elapsed() < PATIENCE, "a record in time");
    }
}

fn check(node: &Process, acknowledged: &HashMap<u64, (i32, i64)>) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", node.bootstrap())
        .set("group.id", "check")
        .set("check.crcs", "true")
        .create()
        .expect("a consumer");
    for partition in 0..PARTITIONS {
        let (low, high) = consumer
            .fetch_watermarks(TOPIC, partition, PATIENCE)
            .expect("watermarks");
        assert_eq!(low, 0);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(TOPIC, partition, Offset::Offset(0))
            .expect("offset");
        consumer.assign(&list).expect("assign");
        let mut previous = None;
        for offset in 0..high {
            let message = next(&consumer);
            assert_eq!(message.offset(), offset, "offsets are dense");
            let number = number(message.payload().expect("a value"));
            assert!(
                previous.is_none_or(|p| p < number),
                "{number} after {previous:?} at {partition}/{offset}"
            );
            assert_eq!(acknowledged.get(&number), Some(&(partition, offset)), "record {number}");
            previous = Some(number);
        }
        let told = acknowledged.values().filter(|(p, _)| *p == partition).count() as i64;
        assert_eq!(
            told, high,
            "partition {partition}: every acknowledged record is there, once"
        );
    }
}
