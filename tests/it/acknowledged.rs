//! What idempotent producers were told, and whether it is what can be read: everything, once, in order.

use crate::process::PATIENCE;
use rdkafka::Message;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, DeliveryResult};
use rdkafka::producer::{BaseProducer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// A producer's context that keeps what it is told. Values begin with a number, little endian, that grows within a partition.
#[derive(Clone, Default)]
pub struct Acknowledged(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    /// Where each number is.
    places: HashMap<u64, (i32, i64)>,
    /// By partition: the numbers, and when they were acknowledged.
    times: HashMap<i32, Vec<(u64, Instant)>>,
}

impl ClientContext for Acknowledged {}

impl ProducerContext for Acknowledged {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let message = result
            .as_ref()
            .unwrap_or_else(|(e, _)| panic!("an idempotent producer gave up: {e}"));
        let number = number(message.payload().expect("a value"));
        let mut told = self.lock();
        let before = told.places.insert(number, (message.partition(), message.offset()));
        assert!(before.is_none(), "{number} was acknowledged twice");
        let times = told.times.entry(message.partition()).or_default();
        times.push((number, Instant::now()));
    }
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(*value.first_chunk::<8>().expect("eight bytes"))
}

impl Acknowledged {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().expect("nobody panicked")
    }

    /// How many records were acknowledged.
    pub fn count(&self) -> u64 {
        self.lock().places.len() as u64
    }

    /// When the first record of a partition that has this number, or a later one, was acknowledged.
    pub fn first_from(&self, partition: i32, number: u64) -> Option<Instant> {
        let told = self.lock();
        let times = told.times.get(&partition)?;
        // The youngest are asked for: they are at the end.
        let from = times.iter().rev().take_while(|(told, _)| *told >= number);
        from.last().map(|(_, at)| *at)
    }

    /// An idempotent producer that gives up on nothing for five minutes, and tries again soon.
    pub fn producer(&self, bootstrap: &str) -> BaseProducer<Self> {
        ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("enable.idempotence", "true")
            .set("linger.ms", "2")
            .set("message.timeout.ms", "300000")
            .set("reconnect.backoff.ms", "10")
            .set("reconnect.backoff.max.ms", "100")
            .set("retry.backoff.ms", "20")
            .set("retry.backoff.max.ms", "100")
            .set("queue.buffering.max.messages", "20000")
            .create_with_context(self.clone())
            .expect("a producer")
    }

    /// Reads all of a topic at `bootstrap`: every acknowledged record must be there, where the producer was told, once, in
    /// order, and no other.
    pub fn check(&self, bootstrap: &str, topic: &str, partitions: i32) {
        let acknowledged = &self.lock().places;
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("group.id", "check")
            .set("check.crcs", "true")
            .create()
            .expect("a consumer");
        for partition in 0..partitions {
            let (low, high) = consumer
                .fetch_watermarks(topic, partition, PATIENCE)
                .expect("watermarks");
            assert_eq!(low, 0);
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(topic, partition, Offset::Offset(0))
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
