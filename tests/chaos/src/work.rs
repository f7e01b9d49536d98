//! What clients do meanwhile: idempotent producers, a group that comes and goes, and askers of each member.

use crate::history::{Event, Recorder};
use crate::wire::Wire;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Message, Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The topic, in the database `shop.orders`.
pub const TOPIC: &str = "shop.orders.work";
/// The group.
pub const GROUP: &str = "billing";
/// Between two records of a partition.
const PACE: Duration = Duration::from_millis(20);
/// Bytes of a record.
const SIZE: usize = 300;
/// A producer may take so long for a record, whatever is done to the members.
const DELIVERY: Duration = Duration::from_secs(300);
/// An asked member that says nothing for so long is asked anew.
const ASKED: Duration = Duration::from_secs(2);

/// What all clients share.
#[derive(Clone)]
pub struct Scene {
    /// Where what they see goes.
    pub recorder: Arc<Recorder>,
    /// The members' Kafka ports.
    pub members: Vec<SocketAddr>,
    /// Partitions of the topic.
    pub partitions: i32,
}

impl Scene {
    fn bootstrap(&self) -> String {
        let all: Vec<String> = self.members.iter().map(SocketAddr::to_string).collect();
        all.join(",")
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.bootstrap())
            .set("socket.timeout.ms", "10000")
            .set("socket.connection.setup.timeout.ms", "2000")
            .set("reconnect.backoff.ms", "20")
            .set("reconnect.backoff.max.ms", "500")
            .set("retry.backoff.ms", "50")
            .set("retry.backoff.max.ms", "500");
        config
    }
}

/// Threads that work until they are told to stop.
pub struct Crew {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    fn new() -> Self {
        Self {
            stop: Arc::default(),
            threads: Vec::new(),
        }
    }

    fn add(&mut self, work: impl FnOnce(&AtomicBool) + Send + 'static) {
        let stop = self.stop.clone();
        self.threads.push(std::thread::spawn(move || work(&stop)));
    }

    /// Stops them and waits for their ends.
    ///
    /// # Errors
    /// One panicked.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in std::mem::take(&mut self.threads) {
            thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))?;
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A record's value: the partition it was meant for and its number, so that one in the wrong place is known.
fn value(partition: i32, number: u64) -> Vec<u8> {
    let mut value = vec![b'.'; SIZE];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value[8..12].copy_from_slice(&partition.to_le_bytes());
    value
}

/// The number in a value; a number that nobody sends where the value is not one of this partition.
fn number(partition: i32, value: &[u8]) -> u64 {
    let whole = value.len() == SIZE && value[8..12] == partition.to_le_bytes();
    match value.first_chunk::<8>() {
        Some(number) if whole => u64::from_le_bytes(*number),
        _ => u64::MAX,
    }
}

struct Told(Scene);

impl ClientContext for Told {
    /// What a producer makes of its sequences, for when a record is found twice.
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        eprintln!("{:>9} ms  {facility}: {message}", self.0.recorder.now());
    }
}

impl ProducerContext for Told {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let recorder = &self.0.recorder;
        let at = recorder.now();
        let numbered = |message: &rdkafka::message::BorrowedMessage<'_>| {
            number(message.partition(), message.payload().unwrap_or_default())
        };
        match result {
            Ok(message) => recorder.add(&Event::Acknowledged {
                at,
                partition: message.partition(),
                number: numbered(message),
                offset: message.offset(),
            }),
            Err((error, message)) => recorder.add(&Event::GaveUp {
                at,
                partition: message.partition(),
                number: numbered(message),
                why: error.to_string(),
            }),
        }
    }
}

/// An idempotent producer for each partition.
pub fn producers(scene: &Scene) -> anyhow::Result<Crew> {
    let mut crew = Crew::new();
    for partition in 0..scene.partitions {
        let producer: BaseProducer<Told> = scene
            .client()
            .set("enable.idempotence", "true")
            .set("debug", "eos")
            .set("linger.ms", "5")
            .set("message.timeout.ms", DELIVERY.as_millis().to_string())
            .create_with_context(Told(scene.clone()))?;
        let scene = scene.clone();
        crew.add(move |stop| {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                let value = value(partition, count);
                let record = BaseRecord::<(), [u8]>::to(TOPIC).partition(partition).payload(&value);
                match producer.send(record) {
                    Ok(()) => count += 1,
                    Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {}
                    Err((error, _)) => panic!("produce: {error}"),
                }
                producer.poll(PACE);
            }
            // What is not delivered by then gives up, and says so.
            let _ = producer.flush(DELIVERY);
            scene.recorder.add(&Event::Sent { partition, count });
        });
    }
    Ok(crew)
}

/// Members of the group, each of which leaves and comes back again and again.
pub fn group(scene: &Scene, members: u64) -> Crew {
    let mut crew = Crew::new();
    for member in 0..members {
        let scene = scene.clone();
        crew.add(move |stop| {
            let mut stay = Duration::from_secs(7 + 4 * member);
            while !stop.load(Ordering::Relaxed) {
                consume(&scene, stop, stay);
                stay = Duration::from_secs(10 + (stay.as_secs() * 7 + member) % 23);
            }
        });
    }
    crew
}

/// Counts how often a member's partitions were given and taken.
#[derive(Default)]
struct Shared(AtomicUsize);

impl ClientContext for Shared {}

impl ConsumerContext for Shared {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, _: &Rebalance<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// One stay in the group. Commits what was read, and tells of what was accepted.
fn consume(scene: &Scene, stop: &AtomicBool, stay: Duration) {
    let consumer: BaseConsumer<Shared> = scene
        .client()
        .set("group.id", GROUP)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("session.timeout.ms", "6000")
        .set("heartbeat.interval.ms", "500")
        .create_with_context(Shared::default())
        .expect("a consumer");
    consumer.subscribe(&[TOPIC]).expect("subscribed");
    let until = Instant::now() + stay;
    let mut read: BTreeMap<i32, i64> = BTreeMap::new();
    let mut commit = Instant::now();
    let mut shared = 0;
    while !stop.load(Ordering::Relaxed) && Instant::now() < until {
        // Errors are told here too; the consumer goes on by itself.
        let polled = consumer.poll(Duration::from_millis(100));
        // After a rebalance it reads on from what is committed, also where a partition is its own again: to commit now what
        // it read before would be overtaken by its next commit, and the position would go back by its own doing.
        let now = consumer.context().0.load(Ordering::Relaxed);
        if std::mem::replace(&mut shared, now) != now {
            read.clear();
        }
        if let Some(Ok(message)) = polled {
            let partition = message.partition();
            scene.recorder.add(&Event::Read {
                at: scene.recorder.now(),
                via: None,
                partition,
                first: message.offset(),
                numbers: vec![number(partition, message.payload().unwrap_or_default())],
            });
            read.insert(partition, message.offset() + 1);
        }
        if commit.elapsed() > Duration::from_millis(200) && !read.is_empty() {
            commit = Instant::now();
            commit_read(scene, &consumer, &mut read);
        }
    }
}

fn commit_read(scene: &Scene, consumer: &BaseConsumer<Shared>, read: &mut BTreeMap<i32, i64>) {
    // What was taken away is for others to commit.
    let own = consumer.assignment().unwrap_or_default();
    let mine = |partition: i32| own.find_partition(TOPIC, partition).is_some();
    let mut list = TopicPartitionList::new();
    read.retain(|partition, _| mine(*partition));
    for (partition, offset) in &*read {
        list.add_partition_offset(TOPIC, *partition, Offset::Offset(*offset))
            .expect("an offset");
    }
    if consumer.commit(&list, CommitMode::Sync).is_ok() {
        for (partition, offset) in std::mem::take(read) {
            scene.recorder.add(&Event::Committed {
                at: scene.recorder.now(),
                group: GROUP.into(),
                partition,
                offset,
            });
        }
    }
}

/// Asks each member all the time who leads, where the group is, and for records.
pub fn askers(scene: &Scene) -> Crew {
    let mut crew = Crew::new();
    for via in 0..scene.members.len() {
        let of_leaders = scene.clone();
        crew.add(move |stop| {
            let mut wire = Wire::new(of_leaders.members[via], ASKED);
            while !stop.load(Ordering::Relaxed) {
                for led in wire.leaders(TOPIC).unwrap_or_default() {
                    of_leaders.recorder.add(&Event::Led {
                        at: of_leaders.recorder.now(),
                        via: via as u32,
                        partition: led.partition,
                        epoch: led.epoch,
                        leader: led.leader,
                    });
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let of_positions = scene.clone();
        crew.add(move |stop| {
            let mut wire = Wire::new(of_positions.members[via], ASKED);
            while !stop.load(Ordering::Relaxed) {
                ask_positions(&of_positions, &mut wire, via as u32);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let of_records = scene.clone();
        crew.add(move |stop| {
            let mut wire = Wire::new(of_records.members[via], ASKED);
            let mut next = vec![0; of_records.partitions as usize];
            while !stop.load(Ordering::Relaxed) {
                for partition in 0..of_records.partitions {
                    let from = &mut next[partition as usize];
                    // Refusals and silence are part of it.
                    let _ = read_on(&of_records, &mut wire, via as u32, partition, from);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
    }
    crew
}

fn ask_positions(scene: &Scene, wire: &mut Wire, via: u32) {
    let asked = scene.recorder.now();
    let Ok(positions) = wire.positions(GROUP, TOPIC, scene.partitions) else {
        return;
    };
    let at = scene.recorder.now();
    for (partition, offset) in positions {
        scene.recorder.add(&Event::Position {
            asked,
            at,
            via,
            group: GROUP.into(),
            partition,
            offset,
        });
    }
}

/// Reads what a member has from `next` on, and moves it; how much that was.
fn read_on(scene: &Scene, wire: &mut Wire, via: u32, partition: i32, next: &mut i64) -> anyhow::Result<usize> {
    let records = wire.fetch(TOPIC, partition, *next)?;
    let count = records.len();
    if let (Some((first, _)), Some((last, _))) = (records.first(), records.last()) {
        anyhow::ensure!(last - first == count as i64 - 1, "offsets with holes");
        scene.recorder.add(&Event::Read {
            at: scene.recorder.now(),
            via: Some(via),
            partition,
            first: *first,
            numbers: records.iter().map(|(_, value)| number(partition, value)).collect(),
        });
        *next = last + 1;
    }
    Ok(count)
}

/// Whether the group is at the end of all partitions, as one of the members tells it.
pub fn is_at_end(scene: &Scene, via: usize) -> bool {
    let mut wire = Wire::new(scene.members[via], ASKED);
    let ends: Option<Vec<i64>> = (0..scene.partitions).map(|p| wire.end(TOPIC, p).ok()).collect();
    let positions = wire.positions(GROUP, TOPIC, scene.partitions).unwrap_or_default();
    let at = |partition: i32, end: i64| positions.contains(&(partition, end));
    ends.is_some_and(|ends| (0..).zip(ends).all(|(partition, end)| at(partition, end)))
}

/// Reads everything from every member, now that nothing is written any more. Gives up after a while: then the history lacks it.
pub fn read_all(scene: &Scene, patience: Duration) {
    let until = Instant::now() + patience;
    for via in 0..scene.members.len() {
        let mut wire = Wire::new(scene.members[via], ASKED);
        for partition in 0..scene.partitions {
            let mut next = 0;
            while Instant::now() < until {
                let Ok(end) = wire.end(TOPIC, partition) else {
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                };
                while next < end && read_on(scene, &mut wire, via as u32, partition, &mut next).is_ok() {}
                if next >= end {
                    scene.recorder.add(&Event::End {
                        via: via as u32,
                        partition,
                        offset: end,
                    });
                    break;
                }
            }
        }
        ask_positions(scene, &mut wire, via as u32);
    }
}
