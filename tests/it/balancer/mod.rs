//! One balancer as the only address of three members, which are stopped and killed one after the other, while clients of
//! three languages produce and consume.
//!
//! By hand, as it wants a machine to itself: `cargo test --test it -- balancer --ignored --nocapture`, and with
//! `TESSARIDB_BALANCED_SECONDS=300` before it for 5 minutes.
//!
//! * [`haproxy`]: Debian's, with deploy/haproxy/haproxy.cfg;
//! * [`client`]: the clients;
//! * [`history`]: what they said, and whether it can be.

mod client;
pub(crate) mod haproxy;
mod history;

use crate::kafka_wire;
use crate::process::{Certificates, PATIENCE, Process, free_port, http};
use crate::wire::Wire;
use client::{Client, Task, Teller};
use haproxy::{Balancer, Behind};
use history::{History, Log, Said};
use rand::Rng;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tessaridb::record::BatchHeader;

const PARTITIONS: i32 = 6;
const TOPIC: &str = "shop.orders.balanced";
const CLIENTS: [&str; 3] = ["python", "java", "rust"];

/// How long members are stopped and killed.
fn length() -> Duration {
    let seconds = std::env::var("TESSARIDB_BALANCED_SECONDS");
    Duration::from_secs(seconds.ok().and_then(|n| n.parse().ok()).unwrap_or(25))
}

/// Three members of one store, each of which tells clients the balancer's address alone.
struct Members {
    nodes: Vec<Process>,
    _certificates: Certificates,
}

impl Members {
    fn form(advertised: u16) -> Self {
        let certificates = Certificates::make();
        let [credential, key, authority] = ["node.pem", "node.key", "ca.pem"].map(|name| certificates.path(name));
        let peers: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let nodes: Vec<Process> = peers
            .iter()
            .map(|peer| {
                let (address, advertised) = (format!("127.0.0.1:{peer}"), format!("127.0.0.1:{advertised}"));
                Process::start(&[
                    "--kafka-advertise",
                    &advertised,
                    "--cluster-address",
                    &address,
                    "--cluster-credential",
                    &credential,
                    "--cluster-key",
                    &key,
                    "--cluster-authority",
                    &authority,
                ])
            })
            .collect();
        let rows = peers
            .iter()
            .enumerate()
            .map(|(n, peer)| format!("m{n}=127.0.0.1:{peer}"));
        let out = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/form"))
            .arg(format!("127.0.0.1:{}", nodes[0].http))
            .args(rows)
            .env("TESSARIDB", env!("CARGO_BIN_EXE_tessaridb"))
            .output()
            .expect("deploy/form runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Self {
            nodes,
            _certificates: certificates,
        }
    }

    fn behind(&self) -> [Behind; 3] {
        std::array::from_fn(|n| Behind {
            kafka: self.nodes[n].kafka,
            http: self.nodes[n].http,
        })
    }

    fn all_vote(&self) -> bool {
        self.nodes.iter().all(|node| {
            let told = node.ask("INFO FOR NODE");
            told.is_some_and(|(status, text)| status == 200 && text.matches("state: 'voting'").count() == 3)
        })
    }
}

/// What happens, as the clients tell it.
struct Watch {
    history: History,
    said: Receiver<(&'static str, Said)>,
    left: usize,
}

impl Watch {
    /// Hears the clients out until this holds.
    fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            // A while at a time, since conditions are also about members, who say nothing here.
            let end = Instant::now() + Duration::from_millis(100);
            while let Ok((client, said)) = self.said.recv_timeout(end.saturating_duration_since(Instant::now())) {
                assert_eq!(said.failed, None, "{client}");
                self.left += usize::from(said.left);
                self.history.add(client, said);
            }
            let acked = CLIENTS.map(|client| self.history.acked(client));
            assert!(
                start.elapsed() < 5 * PATIENCE,
                "{what}: {acked:?} acknowledged, read up to {:?}",
                self.history.ends()
            );
        }
    }

    /// Waits until each client had something acknowledged since now, and something of each partition was read since.
    fn goes_on(&mut self, what: &str) {
        let acked = CLIENTS.map(|client| self.history.acked(client));
        let ends = self.history.ends().clone();
        self.until(what, |watch| {
            let now = watch.history.ends();
            let read = |partition| now.get(&partition) > ends.get(&partition);
            (0..PARTITIONS).all(read)
                && CLIENTS
                    .iter()
                    .zip(acked)
                    .all(|(client, before)| watch.history.acked(client) > before)
        });
    }
}

#[test]
#[ignore = "wants a machine to itself: leaders that change all the time are more than clients bear"]
fn clients_of_three_languages_behind_one_address_lose_nothing_while_members_come_and_go() {
    let Some(command) = haproxy::command() else {
        return;
    };
    let address = free_port();
    let mut members = Members::form(address);
    let balancer = Balancer::start(command, members.behind(), address);
    declare(balancer.http);

    let (to, said) = channel();
    let task = Task {
        bootstrap: format!("127.0.0.1:{address}"),
        topic: TOPIC.to_owned(),
        group: "balanced".to_owned(),
        partitions: PARTITIONS,
    };
    let [python, java, rust] = CLIENTS.map(|name| Teller { name, to: to.clone() });
    let mut clients = [
        Client::python(python, &task),
        Client::java(java, &task),
        Client::rust(rust, &task),
    ];
    let mut watch = Watch {
        history: History::default(),
        said,
        left: 0,
    };
    watch.goes_on("the clients begin");

    let mut random = rand::rng();
    let (start, length) = (Instant::now(), length());
    let mut rounds = 0;
    while start.elapsed() < length || rounds < 2 {
        let number = random.random_range(0..members.nodes.len());
        let node = &mut members.nodes[number];
        let how = ["SIGTERM", "kill -9"][rounds % 2];
        match rounds % 2 {
            0 => {
                let status = node.terminate();
                assert!(status.success(), "{status:?}: {}", node.log());
            }
            _ => node.kill(),
        }
        // At times others take over before it is back, at times not.
        std::thread::sleep(Duration::from_millis(random.random_range(0..3000)));
        node.restart();
        let what = format!("round {rounds}, {how} of member {number}");
        watch.until(&format!("{what}: all vote again"), |_| members.all_vote());
        watch.goes_on(&what);
        println!("{what}: all goes on, {} s since the start", start.elapsed().as_secs());
        rounds += 1;
    }

    clients.iter_mut().for_each(Client::enough);
    watch.until("all end producing", |watch| {
        CLIENTS.iter().all(|client| watch.history.sent(client).is_some())
    });
    let log = read_all(&task.bootstrap);
    let ends: Vec<i64> = log.values().map(|values| values.len() as i64).collect();
    watch.until("all is read", |watch| watch.history.ends().values().eq(&ends));
    clients.iter_mut().for_each(Client::end);
    watch.until("all leave", |watch| watch.left >= CLIENTS.len());
    let silences = CLIENTS.map(|client| (client, watch.history.longest_silence(client)));
    println!(
        "{rounds} rounds in {} s; {} records, {} reads; longest time without an acknowledgement (ms): {silences:?}",
        start.elapsed().as_secs(),
        ends.iter().sum::<i64>(),
        watch.history.read()
    );
    let verdict = watch.history.check(&log, PARTITIONS);
    if verdict.is_err() {
        let batches = Path::new(env!("CARGO_TARGET_TMPDIR")).join("balanced-batches.txt");
        std::fs::write(&batches, batches_of(members.nodes[0].kafka)).expect("written");
        println!("all batches are told of in {}", batches.display());
    }
    assert_eq!(verdict, Ok(()));
}

/// Of every batch: its partition, offset and count, and its producer's id, epoch and sequence number.
fn batches_of(port: u16) -> String {
    let mut wire = Wire::connect(port);
    let mut out = String::new();
    for partition in 0..PARTITIONS {
        let mut next = 0;
        loop {
            let answer = kafka_wire::fetch_from(&mut wire, TOPIC, partition, next);
            let mut records = &answer.records.unwrap_or_default()[..];
            if answer.error_code != 0 || records.is_empty() {
                break;
            }
            while let Ok(header) = BatchHeader::parse(records) {
                next = header.base_offset + i64::from(header.last_offset_delta) + 1;
                let _ = writeln!(
                    out,
                    "{partition} {} +{} producer {} epoch {} sequence {}",
                    header.base_offset,
                    header.last_offset_delta + 1,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence
                );
                records = &records[header.batch_len() as usize..];
            }
        }
    }
    out
}

/// Declares the topic, through the balancer, too; where a leader just changes, it is told to come again.
fn declare(port: u16) {
    let script = format!(
        "DEFINE NAMESPACE IF NOT EXISTS shop; USE NAMESPACE shop; DEFINE DATABASE IF NOT EXISTS orders; \
         USE DATABASE orders; DEFINE TOPIC IF NOT EXISTS balanced PARTITIONS {PARTITIONS} BY id;"
    );
    let request = format!(
        "POST /script HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{script}",
        script.len()
    );
    let start = Instant::now();
    loop {
        let (status, answer) = http(port, &request).expect("an answer");
        if status == 200 {
            return;
        }
        assert!(
            answer.contains("\"retry\"") && start.elapsed() < PATIENCE,
            "{status} {answer}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Every partition from its beginning, without a group.
fn read_all(bootstrap: &str) -> Log {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "none")
        .set("check.crcs", "true")
        .create()
        .expect("a consumer");
    let mut log = Log::new();
    for partition in 0..PARTITIONS {
        let (low, high) = consumer
            .fetch_watermarks(TOPIC, partition, PATIENCE)
            .expect("watermarks");
        assert_eq!(low, 0);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(TOPIC, partition, Offset::Offset(0))
            .expect("an offset");
        consumer.assign(&list).expect("an assignment");
        let mut values = Vec::new();
        let start = Instant::now();
        while (values.len() as i64) < high {
            if let Some(message) = consumer.poll(Duration::from_secs(1)) {
                let message = message.expect("a record");
                assert_eq!(message.offset(), values.len() as i64, "offsets are dense");
                values.push(String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned());
            }
            assert!(start.elapsed() < 2 * PATIENCE, "partition {partition} in time");
        }
        log.insert(partition, values);
    }
    log
}
