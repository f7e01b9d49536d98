//! Producing and consuming with each client.

use super::install;
use super::record::{Consume, Consumed, Produce, Read, Record};
use crate::process::PATIENCE;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};
use serde::Deserialize;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The stock clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Client {
    RdKafka,
    Confluent,
    KafkaPython,
    Aiokafka,
    Kcat,
}

impl Client {
    /// Those that run here; under `CI` all.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::RdKafka, Self::Confluent, Self::KafkaPython, Self::Aiokafka];
        if install::kcat() {
            all.push(Self::Kcat);
        }
        all
    }

    /// As tests/clients calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RdKafka => "rdkafka",
            Self::Confluent => "confluent-kafka",
            Self::KafkaPython => "kafka-python",
            Self::Aiokafka => "aiokafka",
            Self::Kcat => "kcat",
        }
    }

    /// Produces, and waits for every acknowledgement.
    pub fn produce(self, bootstrap: &str, tasks: &[Produce]) {
        match self {
            Self::RdKafka => tasks.iter().for_each(|task| rdkafka_produce(bootstrap, task)),
            Self::Kcat => tasks.iter().for_each(|task| kcat_produce(bootstrap, task)),
            _ => drop(self.exchange("produce", bootstrap, &serde_json::to_vec(tasks).expect("a task"))),
        }
    }

    /// Reads topics from their beginning, without a group.
    pub fn consume(self, bootstrap: &str, tasks: &[Consume]) -> Vec<Consumed> {
        let each = |read: fn(&str, &Consume) -> Vec<Read>| {
            let consumed = |task: &Consume| Consumed {
                topic: task.topic.clone(),
                records: read(bootstrap, task),
            };
            tasks.iter().map(consumed).collect()
        };
        match self {
            Self::RdKafka => each(rdkafka_consume),
            Self::Kcat => each(kcat_consume),
            _ => {
                let answer = self.exchange("consume", bootstrap, &serde_json::to_vec(tasks).expect("a task"));
                serde_json::from_slice(&answer).expect("an answer")
            }
        }
    }

    fn exchange(self, verb: &str, bootstrap: &str, task: &[u8]) -> Vec<u8> {
        let mut command = Command::new(install::python());
        command
            .arg(install::program("exchange.py"))
            .args([self.name(), verb, bootstrap]);
        piped(&mut command, task)
    }
}

fn rdkafka_produce(bootstrap: &str, task: &Produce) {
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("compression.type", task.codec)
        .set("linger.ms", "50")
        .set("message.timeout.ms", PATIENCE.as_millis().to_string())
        .create()
        .expect("a producer");
    for record in &task.records {
        let mut headers = OwnedHeaders::new();
        for (key, value) in &record.headers {
            let value = value.as_deref();
            headers = headers.insert(Header { key, value });
        }
        let mut message = BaseRecord::<str, str>::to(&task.topic)
            .partition(record.partition)
            .headers(headers);
        message.key = record.key.as_deref();
        message.payload = record.value.as_deref();
        message.timestamp = record.timestamp;
        producer
            .send(message)
            .map_err(|(error, _)| error)
            .expect("room in the queue");
    }
    producer.flush(PATIENCE).expect("acknowledgements");
}

fn rdkafka_consume(bootstrap: &str, task: &Consume) -> Vec<Read> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "unused")
        .set("enable.auto.commit", "false")
        .create()
        .expect("a consumer");
    let mut partitions = TopicPartitionList::new();
    for partition in 0..task.counts.len() as i32 {
        partitions
            .add_partition_offset(&task.topic, partition, Offset::Beginning)
            .expect("an offset");
    }
    consumer.assign(&partitions).expect("assigned");
    let mut records = Vec::new();
    let start = Instant::now();
    while (records.len() as i64) < task.counts.iter().sum() && start.elapsed() < PATIENCE {
        if let Some(message) = consumer.poll(PATIENCE) {
            records.push(read(&message.expect("a message")));
        }
    }
    records
}

fn read(message: &BorrowedMessage<'_>) -> Read {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers
            .iter()
            .map(|header| (header.key.to_owned(), header.value.map(text)))
            .collect()
    });
    Read {
        offset: message.offset(),
        record: Record {
            partition: message.partition(),
            key: message.key().map(text),
            value: message.payload().map(text),
            headers,
            timestamp: message.timestamp().to_millis(),
        },
    }
}

/// kcat takes one partition, and the same headers for all records, a run; no times.
fn kcat_produce(bootstrap: &str, task: &Produce) {
    for partition in 0..=task.records.iter().map(|record| record.partition).max().unwrap_or(0) {
        let records: Vec<_> = task
            .records
            .iter()
            .filter(|record| record.partition == partition)
            .collect();
        let Some(first) = records.first() else { continue };
        let mut command = Command::new("kcat");
        command.args([
            "-P",
            "-b",
            bootstrap,
            "-t",
            &task.topic,
            "-z",
            task.codec,
            "-K",
            "\t",
            "-Z",
        ]);
        command.args(["-p", &partition.to_string(), "-X", "linger.ms=50"]);
        for (key, value) in &first.headers {
            let value = value.as_deref().expect("kcat has no null headers");
            command.args(["-H", &format!("{key}={value}")]);
        }
        let mut lines = String::new();
        for record in &records {
            assert_eq!((record.timestamp, &record.headers), (None, &first.headers));
            let (key, value) = (
                record.key.as_deref().unwrap_or(""),
                record.value.as_deref().unwrap_or(""),
            );
            lines += &format!("{key}\t{value}\n");
        }
        piped(&mut command, lines.as_bytes());
    }
}

fn kcat_consume(bootstrap: &str, task: &Consume) -> Vec<Read> {
    #[derive(Deserialize)]
    struct Line {
        partition: i32,
        offset: i64,
        ts: i64,
        key: Option<String>,
        payload: Option<String>,
        #[serde(default)]
        headers: Vec<Option<String>>,
    }
    let mut command = Command::new("kcat");
    command.args([
        "-C",
        "-b",
        bootstrap,
        "-t",
        &task.topic,
        "-o",
        "beginning",
        "-e",
        "-q",
        "-J",
    ]);
    let out = String::from_utf8(piped(&mut command, b"")).expect("UTF-8");
    let read = |line: &str| {
        let line: Line = serde_json::from_str(line).expect("a JSON line");
        let header = |pair: &[Option<String>]| (pair[0].clone().expect("a key"), pair[1].clone());
        Read {
            offset: line.offset,
            record: Record {
                partition: line.partition,
                key: line.key,
                value: line.payload,
                headers: line.headers.chunks(2).map(header).collect(),
                timestamp: Some(line.ts),
            },
        }
    };
    out.lines().map(read).collect()
}

/// Runs a program on this input; gives what it printed. Failing fails the test.
pub fn piped(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("piped");
    let out = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("its end")
    });
    assert!(
        out.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    out.stdout
}
