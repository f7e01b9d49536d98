//! kill -9 at random moments under an idempotent load: what was acknowledged is read, once, in order.

use crate::acknowledged::Acknowledged;
use crate::process::{PATIENCE, Process};
use rand::Rng;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PARTITIONS: i32 = 3;
const TOPIC: &str = "shop.orders.killed";

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
    let producer = acknowledged.producer(&node.bootstrap());
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
        let before = acknowledged.count();
        std::thread::sleep(Duration::from_millis(random.random_range(1..400)));
        // Every life of the node acknowledges something, or the load would prove nothing.
        let start = Instant::now();
        while acknowledged.count() == before {
            assert!(!load.is_finished(), "the producer ended early");
            assert!(start.elapsed() < PATIENCE, "nothing is acknowledged: {}", node.log());
            std::thread::sleep(Duration::from_millis(1));
        }
        node.kill();
        node.restart();
    }
    stop.store(true, Ordering::Relaxed);
    let sent = load.join().expect("the load");
    assert_eq!(acknowledged.count(), sent, "all was acknowledged in the end");
    node.kill();
    node.restart();
    acknowledged.check(&node.bootstrap(), TOPIC, PARTITIONS);
}
