//! A key lands in one partition, whoever places it: the Java client, librdkafka's `murmur2_random`, or BY.

use super::record::Consume;
use super::stock::Client;
use crate::process::{PATIENCE, Process};
use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Written by tests/data/placement/PlaceKeys.java with Apache Kafka's client library.
const JAVA: &str = include_str!("../../data/placement/java.json");
const PARTITIONS: i32 = 7;

#[derive(Deserialize)]
struct Placed {
    key: String,
    partition: i32,
}

#[derive(Clone, Default)]
struct Delivered(Arc<Mutex<BTreeMap<String, i32>>>);

impl ClientContext for Delivered {}

impl ProducerContext for Delivered {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let message = result
            .as_ref()
            .unwrap_or_else(|(error, _)| panic!("not delivered: {error}"));
        let key = String::from_utf8(message.key().expect("a key").to_vec()).expect("UTF-8");
        self.0.lock().expect("lock").insert(key, message.partition());
    }
}

#[test]
fn one_thousand_keys_in_the_same_partition_whoever_places_them() {
    let java: BTreeMap<String, i32> = serde_json::from_str::<Vec<Placed>>(JAVA)
        .expect("Java's placement")
        .into_iter()
        .map(|placed| (placed.key, placed.partition))
        .collect();
    assert_eq!(java.len(), 1000);
    assert!(java.keys().filter(|key| !key.is_ascii()).count() >= 300);

    let node = Process::with_database();
    node.script(&format!(
        "USE NAMESPACE shop DATABASE orders; DEFINE TOPIC by_client PARTITIONS {PARTITIONS} BY key;
         DEFINE TOPIC by_store PARTITIONS {PARTITIONS} BY key;"
    ));

    let delivered = Delivered::default();
    let producer: ThreadedProducer<Delivered> = ClientConfig::new()
        .set("bootstrap.servers", node.bootstrap())
        .set("partitioner", "murmur2_random")
        .create_with_context(delivered.clone())
        .expect("a producer");
    for key in java.keys() {
        let record = BaseRecord::<str, str>::to("shop.orders.by_client").key(key).payload("");
        producer
            .send(record)
            .map_err(|(error, _)| error)
            .expect("room in the queue");
    }
    producer.flush(PATIENCE).expect("acknowledgements");
    assert_eq!(*delivered.0.lock().expect("lock"), java, "librdkafka and Java");

    let rows: Vec<String> = java
        .keys()
        .map(|key| format!("('{}')", key.replace('\\', "\\\\").replace('\'', "\\'")))
        .collect();
    node.script(&format!(
        "USE NAMESPACE shop DATABASE orders; INSERT INTO by_store (key) VALUES {};",
        rows.join(", ")
    ));
    let mut counts = vec![0; PARTITIONS as usize];
    java.values().for_each(|partition| counts[*partition as usize] += 1);
    let task = Consume {
        topic: "shop.orders.by_store".to_owned(),
        counts,
    };
    let consumed = Client::RdKafka.consume(&node.bootstrap(), &[task]);
    let stored: BTreeMap<String, i32> = consumed[0]
        .records
        .iter()
        .map(|read| {
            assert_eq!(read.record.key, None);
            let value: serde_json::Value =
                serde_json::from_str(read.record.value.as_deref().expect("a value")).expect("JSON");
            (
                value["key"].as_str().expect("its key").to_owned(),
                read.record.partition,
            )
        })
        .collect();
    assert_eq!(stored, java, "BY and Java");
}
