//! kill -9 of leaders in a store of three members, under an idempotent load on all partitions.
//!
//! As part of the tests it kills a few times and judges what was stored. By hand it also measures, with many kills on a
//! machine that has nothing else to do:
//!
//! ```text
//! TESSARIDB_FAILOVERS=50 cargo test --test it -- --nocapture leaders_that_are_killed
//! ```
//!
//! prints how long it took from each kill to the first acknowledgement, on each partition that the killed member led, of a
//! record sent after the kill.

use crate::acknowledged::Acknowledged;
use crate::cluster::{Cluster, node_id};
use crate::process::PATIENCE;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MEMBERS: usize = 3;
const PARTITIONS: usize = 6;
const TOPIC: &str = "shop.orders.led";
/// Between two records of a partition.
const PACE: Duration = Duration::from_millis(20);

fn kills() -> usize {
    std::env::var("TESSARIDB_FAILOVERS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(4)
}

/// A producer a partition, each on a thread.
struct Load {
    stop: Arc<AtomicBool>,
    /// By partition: how many records were sent.
    sent: Vec<Arc<AtomicU64>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(acknowledged: &Acknowledged, bootstrap: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let sent: Vec<Arc<AtomicU64>> = (0..PARTITIONS).map(|_| Arc::default()).collect();
        let threads = (0..PARTITIONS).map(|partition| {
            let (stop, sent) = (stop.clone(), sent[partition].clone());
            let producer = acknowledged.producer(bootstrap);
            std::thread::spawn(move || produce(&producer, partition, &sent, &stop))
        });
        let threads = threads.collect();
        Self { stop, sent, threads }
    }

    /// The number of the next record of a partition, or one before.
    fn next(&self, partition: usize) -> u64 {
        numbered(partition, self.sent[partition].load(Ordering::Acquire))
    }

    /// Stops, and gives the number of records sent.
    fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("a producer");
        }
        self.sent.iter().map(|sent| sent.load(Ordering::Acquire)).sum()
    }
}

fn numbered(partition: usize, count: u64) -> u64 {
    count * PARTITIONS as u64 + partition as u64
}

fn produce(producer: &BaseProducer<Acknowledged>, partition: usize, sent: &AtomicU64, stop: &AtomicBool) {
    let mut value = vec![0u8; 200];
    while !stop.load(Ordering::Relaxed) {
        let number = numbered(partition, sent.load(Ordering::Relaxed));
        value[..8].copy_from_slice(&number.to_le_bytes());
        let record = BaseRecord::<(), [u8]>::to(TOPIC)
            .partition(partition as i32)
            .payload(&value);
        match producer.send(record) {
            Ok(()) => drop(sent.fetch_add(1, Ordering::Release)),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {}
            Err((e, _)) => panic!("produce: {e}"),
        }
        producer.poll(PACE);
    }
    producer
        .flush(Duration::from_secs(120))
        .expect("all is delivered in the end");
}

/// Waits until this holds.
fn until(what: &str, cluster: &Cluster, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}\n{}", cluster.logs());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn leaders_that_are_killed_cost_nothing_that_was_acknowledged() {
    let mut cluster = Cluster::form(MEMBERS);
    cluster.define_topic("led", PARTITIONS);
    let bootstrap: Vec<String> = cluster.nodes.iter().map(|node| node.bootstrap()).collect();
    let acknowledged = Acknowledged::default();
    let load = Load::start(&acknowledged, &bootstrap.join(","));
    let mut gaps = Vec::new();
    let all: Vec<usize> = (0..MEMBERS).collect();
    for kill in 0..kills() {
        // Whoever leads the next partition, whether it has been given back or not.
        let mut leaders = Vec::new();
        until("a partition has no leader", &cluster, || {
            leaders = Cluster::leaders(&cluster.anywhere(&all, &cluster.topic("led")));
            leaders.len() == PARTITIONS
        });
        let leader = &leaders[kill % PARTITIONS];
        let victim = all.iter().copied().find(|member| node_id(*member) == *leader);
        let victim = victim.expect("a member leads");
        let led: Vec<usize> = (0..PARTITIONS).filter(|p| leaders[*p] == *leader).collect();
        // The load goes on everywhere before each kill.
        for partition in 0..PARTITIONS {
            let next = load.next(partition);
            until("a partition stands still", &cluster, || {
                acknowledged.first_from(partition as i32, next).is_some()
            });
        }
        let killed = Instant::now();
        cluster.nodes[victim].kill();
        let next: Vec<u64> = led.iter().map(|partition| load.next(*partition)).collect();
        let mut worst = Duration::ZERO;
        for (partition, next) in led.iter().zip(next) {
            let mut first = None;
            until("nothing is acknowledged", &cluster, || {
                first = acknowledged.first_from(*partition as i32, next);
                first.is_some()
            });
            let gap = first.expect("acknowledged").duration_since(killed);
            worst = worst.max(gap);
            gaps.push(gap);
        }
        eprintln!("kill {kill} of member {victim}, partitions {led:?}: {worst:?}");
        cluster.nodes[victim].restart();
        cluster.wait("it is back", &all, |told| {
            told.matches("state: 'voting'").count() == MEMBERS
        });
    }
    let sent = load.finish();
    assert_eq!(acknowledged.count(), sent, "all was acknowledged in the end");
    gaps.sort();
    let at = |share: usize| gaps[(gaps.len() - 1) * share / 100];
    eprintln!(
        "{} gaps of {} kills: p50 {:?}, p99 {:?}, max {:?}; {sent} records",
        gaps.len(),
        kills(),
        at(50),
        at(99),
        at(100)
    );
    for bootstrap in &bootstrap {
        acknowledged.check(bootstrap, TOPIC, PARTITIONS as i32);
    }
}
