//! Consumer groups under librdkafka: members come and go, each record is read once between commits.

use crate::process::{PATIENCE, Process};
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the members of one group went through together.
#[derive(Default)]
struct Ledger {
    /// Partition to the member that may read it now.
    owners: Mutex<HashMap<i32, usize>>,
    /// How often each record was read.
    read: Mutex<HashMap<(i32, i64), usize>>,
    /// Records whose commit was refused since the member had been put out: another may read them again.
    refused: Mutex<HashSet<(i32, i64)>>,
    /// The node restarts: a member may hear late that it was put out, after its partitions went to another.
    restarts: AtomicBool,
    /// What went wrong.
    wrong: Mutex<Vec<String>>,
}

impl Ledger {
    fn count(&self) -> usize {
        self.read.lock().unwrap().len()
    }

    fn partitions_of(&self, member: usize) -> usize {
        self.owners.lock().unwrap().values().filter(|m| **m == member).count()
    }

    /// Nothing was read twice, and no partition ever had two owners.
    fn check(&self) {
        assert_eq!(*self.wrong.lock().unwrap(), Vec::<String>::new());
        let refused = self.refused.lock().unwrap();
        let read = self.read.lock().unwrap();
        let twice = read.iter().filter(|(r, n)| **n > 1 && !refused.contains(*r));
        let twice: Vec<_> = twice.collect();
        assert!(twice.is_empty(), "read twice: {twice:?}");
    }
}

struct Events {
    member: usize,
    ledger: Arc<Ledger>,
    rebalances: Arc<AtomicUsize>,
}

impl ClientContext for Events {}

impl ConsumerContext for Events {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        self.rebalances.fetch_add(1, SeqCst);
        if let Rebalance::Revoke(partitions) = rebalance {
            let mut owners = self.ledger.owners.lock().unwrap();
            for partition in partitions.elements() {
                if owners.get(&partition.partition()) == Some(&self.member) {
                    owners.remove(&partition.partition());
                }
            }
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(partitions) = rebalance {
            let mut owners = self.ledger.owners.lock().unwrap();
            for partition in partitions.elements() {
                let had = owners.insert(partition.partition(), self.member);
                let other = had.filter(|other| *other != self.member);
                if let Some(other) = other.filter(|_| !self.ledger.restarts.load(SeqCst)) {
                    let both = format!(
                        "partition {} has members {other} and {}",
                        partition.partition(),
                        self.member
                    );
                    self.ledger.wrong.lock().unwrap().push(both);
                }
            }
        }
    }
}

/// A consumer on a thread of its own, which commits every record it reads.
struct Member {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    rebalances: Arc<AtomicUsize>,
}

impl Member {
    fn start(node: &Process, ledger: &Arc<Ledger>, member: usize, settings: &[(&str, &str)]) -> Self {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", node.bootstrap())
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .set("heartbeat.interval.ms", "200")
            .set("topic.metadata.refresh.interval.ms", "1000");
        for (name, value) in settings {
            config.set(*name, *value);
        }
        let rebalances = Arc::new(AtomicUsize::new(0));
        let events = Events {
            member,
            ledger: ledger.clone(),
            rebalances: rebalances.clone(),
        };
        let consumer: BaseConsumer<Events> = config.create_with_context(events).unwrap();
        consumer.subscribe(&["events"]).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, ledger) = (stop.clone(), ledger.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(SeqCst) {
                let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) else {
                    continue;
                };
                let record = (message.partition(), message.offset());
                *ledger.read.lock().unwrap().entry(record).or_default() += 1;
                commit(&consumer, &message, &ledger);
            }
            leave(consumer, member, &ledger);
        });
        Self {
            stop,
            thread: Some(thread),
            rebalances,
        }
    }

    fn stop(mut self) {
        self.stop.store(true, SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Commits, again while a rebalance is under way or the node is away.
fn commit(consumer: &BaseConsumer<Events>, message: &BorrowedMessage<'_>, ledger: &Ledger) {
    let start = Instant::now();
    while let Err(error) = consumer.commit_message(message, CommitMode::Sync) {
        let record = (message.partition(), message.offset());
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::UnknownMemberId | RDKafkaErrorCode::IllegalGeneration)
                if ledger.restarts.load(SeqCst) =>
            {
                ledger.refused.lock().unwrap().insert(record);
                return;
            }
            _ if start.elapsed() > PATIENCE => {
                let late = format!("{record:?} not committed: {error}");
                ledger.wrong.lock().unwrap().push(late);
                return;
            }
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Gives the partitions back, then closes; a static member keeps its place.
fn leave(consumer: BaseConsumer<Events>, member: usize, ledger: &Ledger) {
    let is_static = consumer.context().member >= STATIC;
    if !is_static {
        consumer.unsubscribe();
        let start = Instant::now();
        while ledger.partitions_of(member) > 0 && start.elapsed() < PATIENCE {
            let _ = consumer.poll(Duration::from_millis(5));
        }
    }
    drop(consumer);
}

/// Members numbered from here on have an instance id.
const STATIC: usize = 100;

fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn produce(node: &Process, partitions: i32, each: usize) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", node.bootstrap())
        .create()
        .unwrap();
    for n in 0..each {
        for partition in 0..partitions {
            let payload = format!("{partition}-{n}");
            let record = BaseRecord::<(), _>::to("events").partition(partition).payload(&payload);
            producer.send(record).map_err(|(e, _)| e).unwrap();
        }
        producer.poll(Duration::ZERO);
    }
    producer.flush(PATIENCE).unwrap();
}

fn node(partitions: i32) -> Process {
    let node = Process::with_database();
    node.script(&format!(
        "USE NAMESPACE shop DATABASE orders; DEFINE TOPIC events PARTITIONS {partitions} BY k;"
    ));
    node
}

fn scale(strategy: &str) {
    const PARTITIONS: i32 = 8;
    const EACH: usize = 40;
    let node = node(PARTITIONS);
    let ledger = Arc::new(Ledger::default());
    let settings = [("group.id", "billing"), ("partition.assignment.strategy", strategy)];
    let mut members = Vec::new();
    let mut expected = 0;
    let mut rise_and_fall: Vec<usize> = vec![1, 2, 3, 4, 2, 1];
    let mut numbers = 0..;
    for size in rise_and_fall.drain(..) {
        while members.len() > size {
            let (_, member): (usize, Member) = members.remove(0);
            member.stop();
        }
        while members.len() < size {
            let number = numbers.next().unwrap();
            members.push((number, Member::start(&node, &ledger, number, &settings)));
        }
        // Some while the group is in motion, the rest when every member has its share.
        produce(&node, PARTITIONS, EACH / 2);
        until("every member has its share", || {
            let owned: Vec<_> = members.iter().map(|(n, _)| ledger.partitions_of(*n)).collect();
            owned.iter().sum::<usize>() == PARTITIONS as usize && owned.iter().all(|n| *n > 0)
        });
        produce(&node, PARTITIONS, EACH / 2);
        expected += PARTITIONS as usize * EACH;
        until("every record is read", || ledger.count() == expected);
    }
    members.into_iter().for_each(|(_, m)| m.stop());
    ledger.check();
}

#[test]
fn cooperative_members_rise_to_four_and_fall_to_one() {
    scale("cooperative-sticky");
}

#[test]
fn eager_members_rise_to_four_and_fall_to_one() {
    scale("range");
}

#[test]
fn a_static_member_restarts_and_nobody_notices() {
    const PARTITIONS: i32 = 4;
    let node = node(PARTITIONS);
    let ledger = Arc::new(Ledger::default());
    let start = |instance: &str, number: usize| {
        let settings = [
            ("group.id", "billing"),
            ("group.instance.id", instance),
            ("session.timeout.ms", "60000"),
        ];
        Member::start(&node, &ledger, number, &settings)
    };
    let a = start("a", STATIC);
    let b = start("b", STATIC + 1);
    until("both have their share", || {
        ledger.partitions_of(STATIC) == 2 && ledger.partitions_of(STATIC + 1) == 2
    });
    produce(&node, PARTITIONS, 10);
    until("all is read", || ledger.count() == 40);
    let before = b.rebalances.load(SeqCst);
    a.stop();
    ledger.owners.lock().unwrap().retain(|_, m| *m != STATIC);
    let a = start("a", STATIC);
    until("a has its share again", || ledger.partitions_of(STATIC) == 2);
    produce(&node, PARTITIONS, 10);
    until("all is read", || ledger.count() == 80);
    assert_eq!(b.rebalances.load(SeqCst), before, "b was not disturbed");
    a.stop();
    b.stop();
    ledger.check();
}

#[test]
fn members_go_on_where_they_were_when_the_node_restarts() {
    const PARTITIONS: i32 = 4;
    let mut node = node(PARTITIONS);
    let ledger = Arc::new(Ledger::default());
    let settings = [
        ("group.id", "billing"),
        ("partition.assignment.strategy", "cooperative-sticky"),
    ];
    let members: Vec<_> = (0..2).map(|n| Member::start(&node, &ledger, n, &settings)).collect();
    produce(&node, PARTITIONS, 25);
    until("all is read", || ledger.count() == 100);
    ledger.restarts.store(true, SeqCst);
    for round in 2..=3 {
        if round == 2 {
            node.kill();
        } else {
            let status = node.terminate();
            assert!(status.success(), "{status:?}");
        }
        node.restart();
        produce(&node, PARTITIONS, 25);
        until("all is read", || ledger.count() == 100 * round);
    }
    members.into_iter().for_each(Member::stop);
    ledger.check();
    let info = node.script("USE NAMESPACE shop DATABASE orders; INFO FOR TOPIC events;");
    assert!(info.contains("'kafka:billing': { lag: 0, position: 75 }"), "{info}");
}

#[test]
fn a_group_and_tessariql_move_the_same_position() {
    let node = node(1);
    produce(&node, 1, 6);
    let read = |from: &str| node.script(&format!("USE NAMESPACE shop DATABASE orders; READ FROM events {from};"));
    read("FOR CONSUMER 'kafka:billing' LIMIT 4");
    let ledger = Arc::new(Ledger::default());
    let member = Member::start(&node, &ledger, 0, &[("group.id", "billing")]);
    until("the group goes on from there", || ledger.count() == 2);
    assert_eq!(ledger.read.lock().unwrap().keys().map(|(_, o)| *o).min(), Some(4));
    member.stop();
    assert!(
        !read("FOR CONSUMER 'kafka:billing'").contains("position:"),
        "all is read"
    );
    produce(&node, 1, 1);
    assert!(read("FOR CONSUMER 'kafka:billing'").contains("position: 7"));
}
