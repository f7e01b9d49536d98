//! Clients of three languages, which produce and consume at once and say what comes of it.

use super::history::Said;
use crate::clients::install;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const BURST: u64 = 12;
const PAUSE: Duration = Duration::from_millis(100);
const COMMIT_EVERY: Duration = Duration::from_millis(300);
/// Where a group's coordinator changes, and where the one connection there was has ended.
const TOLD: [RDKafkaErrorCode; 4] = [
    RDKafkaErrorCode::AllBrokersDown,
    RDKafkaErrorCode::NotCoordinator,
    RDKafkaErrorCode::CoordinatorLoadInProgress,
    RDKafkaErrorCode::CoordinatorNotAvailable,
];

/// Where clients connect, and what they do there.
#[derive(Clone)]
pub struct Task {
    pub bootstrap: String,
    pub topic: String,
    pub group: String,
    pub partitions: i32,
}

/// Sends what one client says, along with its name.
#[derive(Clone)]
pub struct Teller {
    pub name: &'static str,
    pub to: Sender<(&'static str, Said)>,
}

impl Teller {
    fn tell(&self, said: Said) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = since.as_micros() as u64;
        // Whoever listened may be gone, when the test has failed.
        let _ = self.to.send((self.name, Said { at, ..said }));
    }

    fn failed(&self, why: String) {
        self.tell(Said {
            failed: Some(why),
            ..Said::default()
        });
    }
}

/// A client at work.
pub enum Client {
    Program(Program),
    Within(Within),
}

impl Client {
    /// confluent-kafka.
    pub fn python(teller: Teller, task: &Task) -> Self {
        let mut command = Command::new(install::python());
        command.arg(install::program("balanced.py"));
        Self::Program(Program::start(command, teller, task))
    }

    /// Apache Kafka's own.
    pub fn java(teller: Teller, task: &Task) -> Self {
        let mut command = Command::new("java");
        command
            .args(["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(install::java_clients())
            .arg(install::program("java/Balanced.java"));
        Self::Program(Program::start(command, teller, task))
    }

    /// librdkafka, from Rust.
    pub fn rust(teller: Teller, task: &Task) -> Self {
        Self::Within(Within::start(teller, task))
    }

    /// Ends producing; consuming goes on.
    pub fn enough(&mut self) {
        match self {
            Self::Program(program) => {
                let stdin = program.stdin.as_mut().expect("not ended");
                stdin.write_all(b"enough\n").expect("it listens");
            }
            Self::Within(within) => within.enough.store(true, Ordering::Relaxed),
        }
    }

    /// Ends it, once it has committed and left its group.
    pub fn end(&mut self) {
        match self {
            Self::Program(program) => program.stdin = None,
            Self::Within(within) => within.end.store(true, Ordering::Relaxed),
        }
    }
}

pub struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Program {
    fn start(mut command: Command, teller: Teller, task: &Task) -> Self {
        let mut child = command
            .args([&task.bootstrap, &task.topic, &task.group, teller.name])
            .arg(task.partitions.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        std::thread::spawn(move || {
            let mut left = false;
            for line in lines.map_while(Result::ok) {
                match serde_json::from_str::<Said>(&line) {
                    Ok(said) => {
                        left |= said.left;
                        drop(teller.to.send((teller.name, said)));
                    }
                    Err(error) => teller.failed(format!("{line}: {error}")),
                }
            }
            if !left {
                teller.failed("it ended early".to_owned());
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client in this process.
pub struct Within {
    enough: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Within {
    fn start(teller: Teller, task: &Task) -> Self {
        let (enough, end) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let producing = {
            let (teller, task, enough) = (teller.clone(), task.clone(), enough.clone());
            std::thread::spawn(move || produce(teller, &task, &enough))
        };
        let consuming = {
            let (task, end) = (task.clone(), end.clone());
            std::thread::spawn(move || consume(teller, &task, &end))
        };
        Self {
            enough,
            end,
            threads: vec![producing, consuming],
        }
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        self.end.store(true, Ordering::Relaxed);
        if !std::thread::panicking() {
            for thread in self.threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}

struct Delivered(Teller);

impl ClientContext for Delivered {}

impl ProducerContext for Delivered {
    type DeliveryOpaque = Box<u64>;

    fn delivery(&self, result: &DeliveryResult<'_>, number: Box<u64>) {
        match result {
            Ok(message) => self.0.tell(Said {
                acked: vec![(message.partition(), message.offset(), *number)],
                ..Said::default()
            }),
            Err((error, _)) => self.0.failed(format!("{number} was not delivered: {error}")),
        }
    }
}

fn settings(task: &Task) -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings
        .set("bootstrap.servers", &task.bootstrap)
        .set("reconnect.backoff.max.ms", "500");
    settings
}

fn produce(teller: Teller, task: &Task, enough: &AtomicBool) {
    let producer: ThreadedProducer<Delivered> = settings(task)
        .set("enable.idempotence", "true")
        .set("debug", "eos")
        .set("acks", "all")
        .set("linger.ms", "5")
        .set("message.timeout.ms", "300000")
        .create_with_context(Delivered(teller.clone()))
        .expect("a producer");
    let mut sent = 0u64;
    while !enough.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            let value = format!("{}-{sent}", teller.name);
            let record = BaseRecord::<(), str, Box<u64>>::with_opaque_to(&task.topic, Box::new(sent))
                .partition((sent % task.partitions as u64) as i32)
                .payload(&value);
            match producer.send(record) {
                Ok(()) => sent += 1,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => break,
                Err((error, _)) => return teller.failed(format!("producing: {error}")),
            }
        }
        std::thread::sleep(PAUSE);
    }
    if let Err(error) = producer.flush(Duration::from_secs(300)) {
        teller.failed(format!("flushing: {error}"));
    }
    teller.tell(Said {
        sent: Some(sent),
        ..Said::default()
    });
}

/// Next offsets of what was read and is not committed yet.
struct Pending {
    teller: Teller,
    topic: String,
    next: Mutex<BTreeMap<i32, i64>>,
}

impl Pending {
    fn commit(&self, consumer: &BaseConsumer<Self>) {
        let pending = std::mem::take(&mut *self.next.lock().expect("lock"));
        if pending.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::new();
        for (partition, next) in &pending {
            list.add_partition_offset(&self.topic, *partition, Offset::Offset(*next))
                .expect("an offset");
        }
        match consumer.commit(&list, CommitMode::Sync) {
            Ok(()) => self.teller.tell(Said {
                committed: pending.into_iter().collect(),
                ..Said::default()
            }),
            Err(error) => {
                eprintln!("not committed: {error}");
                self.next.lock().expect("lock").extend(pending);
            }
        }
    }
}

impl ClientContext for Pending {}

impl ConsumerContext for Pending {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let partitions = |list: &TopicPartitionList| list.elements().iter().map(|one| one.partition()).collect();
        match rebalance {
            Rebalance::Assign(list) => self.teller.tell(Said {
                assigned: partitions(list),
                ..Said::default()
            }),
            Rebalance::Revoke(list) => {
                self.commit(consumer);
                self.next.lock().expect("lock").clear();
                self.teller.tell(Said {
                    revoked: partitions(list),
                    ..Said::default()
                });
            }
            Rebalance::Error(error) => eprintln!("rebalancing: {error}"),
        }
    }
}

fn consume(teller: Teller, task: &Task, end: &AtomicBool) {
    let pending = Pending {
        teller: teller.clone(),
        topic: task.topic.clone(),
        next: Mutex::default(),
    };
    let consumer: BaseConsumer<Pending> = settings(task)
        .set("group.id", &task.group)
        .set("partition.assignment.strategy", "range")
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create_with_context(pending)
        .expect("a consumer");
    consumer.subscribe(&[&task.topic]).expect("a subscription");
    let mut committed_at = Instant::now();
    while !end.load(Ordering::Relaxed) {
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            // Of what it tries again by itself, the client only tells.
            Some(Err(error)) if error.rdkafka_error_code().is_some_and(|code| TOLD.contains(&code)) => {
                eprintln!("consuming: {error}");
            }
            Some(Err(error)) => teller.failed(format!("consuming: {error}")),
            Some(Ok(message)) => {
                let (partition, offset) = (message.partition(), message.offset());
                let value = String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
                let next = &consumer.context().next;
                next.lock().expect("lock").insert(partition, offset + 1);
                teller.tell(Said {
                    read: vec![(partition, offset, value)],
                    ..Said::default()
                });
            }
        }
        if committed_at.elapsed() > COMMIT_EVERY {
            consumer.context().commit(&consumer);
            committed_at = Instant::now();
        }
    }
    consumer.context().commit(&consumer);
    drop(consumer);
    teller.tell(Said {
        left: true,
        ..Said::default()
    });
}
