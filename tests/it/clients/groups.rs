//! Groups of one to four members, growing and shrinking under load: no record lost, none repeated between commits.

use super::install;
use super::stock::Client;
use crate::process::{PATIENCE, Process};
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

const PARTITIONS: i32 = 6;
/// How many members there are, one phase after another.
const SIZES: [usize; 7] = [1, 2, 3, 4, 3, 2, 1];
const PER_PHASE: i64 = 300;
/// Lines of a member's log that are kept.
const LOGGED: usize = 200;

/// What a member says of itself: tests/clients/member.py.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    assigned: Vec<i32>,
    revoked: Vec<i32>,
    committed: Vec<(i32, i64, String)>,
    left: bool,
}

struct Member {
    name: String,
    child: Child,
    /// Closing it asks the member to leave.
    stdin: Option<ChildStdin>,
    /// The last of what its client logs.
    log: Arc<Mutex<VecDeque<String>>>,
    owns: BTreeSet<i32>,
    left: bool,
}

struct Group {
    bootstrap: String,
    topic: String,
    assignor: &'static str,
    members: Vec<Member>,
    said: Receiver<(usize, Said)>,
    tell: Sender<(usize, Said)>,
    /// Values by partition and offset, whose commit was accepted.
    committed: BTreeMap<(i32, i64), String>,
}

impl Group {
    fn join(&mut self, client: Client) {
        let index = self.members.len();
        let mut child = Command::new(install::python())
            .arg(install::program("member.py"))
            .args([client.name(), &self.bootstrap, &self.topic, "billing", self.assignor])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a member");
        let log = Arc::<Mutex<VecDeque<String>>>::default();
        let mut told = BufReader::new(child.stderr.take().expect("piped")).lines();
        std::thread::spawn({
            let log = log.clone();
            move || {
                while let Some(Ok(line)) = told.next() {
                    let mut log = log.lock().expect("no panic");
                    log.push_back(line);
                    if log.len() > LOGGED {
                        log.pop_front();
                    }
                }
            }
        });
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let said = self.tell.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let what = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
                if said.send((index, what)).is_err() {
                    break;
                }
            }
        });
        self.members.push(Member {
            name: format!("{} {index}", client.name()),
            stdin: child.stdin.take(),
            child,
            log,
            owns: BTreeSet::new(),
            left: false,
        });
    }

    fn present(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.stdin.is_some())
    }

    /// Asks the member that has been here longest to leave.
    fn leave(&mut self) {
        let index = self
            .members
            .iter()
            .position(|member| member.stdin.is_some())
            .expect("a member");
        self.members[index].stdin = None;
        self.until("a member to leave", |group| group.members[index].left);
        let status = self.members[index].child.wait().expect("its end");
        assert!(status.success(), "{} ended with {status}", self.members[index].name);
    }

    /// Every partition with one member, no member without.
    fn settled(&self) -> bool {
        let owned: Vec<i32> = self.present().flat_map(|member| member.owns.iter().copied()).collect();
        let distinct: BTreeSet<i32> = owned.iter().copied().collect();
        distinct.len() == PARTITIONS as usize
            && owned.len() == distinct.len()
            && self.present().all(|member| !member.owns.is_empty())
    }

    /// Hears the members out until this holds.
    fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let Ok((index, said)) = self.said.recv_timeout(left) else {
                for member in &self.members {
                    println!("{} owns {:?}, left {}:", member.name, member.owns, member.left);
                    member
                        .log
                        .lock()
                        .expect("no panic")
                        .iter()
                        .for_each(|line| println!("  {line}"));
                }
                panic!("waited for {what}: {} committed", self.committed.len());
            };
            let member = &mut self.members[index];
            member.left |= said.left;
            member.owns.retain(|partition| !said.revoked.contains(partition));
            member.owns.extend(said.assigned);
            for (partition, offset, value) in said.committed {
                let before = self.committed.insert((partition, offset), value);
                assert!(
                    before.is_none(),
                    "{} repeats partition {partition} offset {offset}",
                    member.name
                );
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

fn churn(clients: [Client; 4], assignor: &'static str) {
    let node = Process::with_database();
    node.script(&format!(
        "USE NAMESPACE shop DATABASE orders; DEFINE TOPIC work PARTITIONS {PARTITIONS} BY key;"
    ));
    churn_at(&node.bootstrap(), "shop.orders.work", clients, assignor);
}

fn churn_at(bootstrap: &str, topic: &str, clients: [Client; 4], assignor: &'static str) {
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .create()
        .expect("a producer");
    let (tell, said) = channel();
    let mut group = Group {
        bootstrap: bootstrap.to_owned(),
        topic: topic.to_owned(),
        assignor,
        members: Vec::new(),
        said,
        tell,
        committed: BTreeMap::new(),
    };
    let mut sent = 0i64;
    let mut produce = |count: i64| {
        for n in sent..sent + count {
            let value = n.to_string();
            let record = BaseRecord::<(), str>::to(topic)
                .partition((n % i64::from(PARTITIONS)) as i32)
                .payload(&value);
            producer
                .send(record)
                .map_err(|(error, _)| error)
                .expect("room in the queue");
        }
        producer.flush(PATIENCE).expect("acknowledgements");
        sent += count;
        sent
    };
    let mut joined = 0;
    for size in SIZES {
        // Records wait while the group changes, and come while it works.
        produce(PER_PHASE);
        while group.present().count() < size {
            group.join(clients[joined % clients.len()]);
            joined += 1;
        }
        while group.present().count() > size {
            group.leave();
        }
        group.until(&format!("{size} members to share the partitions"), Group::settled);
        let sent = produce(PER_PHASE) as usize;
        group.until("all records to be committed", |group| group.committed.len() >= sent);
    }
    group.leave();
    let sent = produce(0);
    let each = sent / i64::from(PARTITIONS);
    let expected: BTreeMap<(i32, i64), String> = (0..PARTITIONS)
        .flat_map(|partition| (0..each).map(move |offset| (partition, offset)))
        .map(|(partition, offset)| {
            (
                (partition, offset),
                (offset * i64::from(PARTITIONS) + i64::from(partition)).to_string(),
            )
        })
        .collect();
    assert_eq!(group.committed, expected);
}

#[test]
fn confluent_members_come_and_go() {
    churn([Client::Confluent; 4], "range");
}

#[test]
fn cooperative_members_come_and_go() {
    churn([Client::Confluent; 4], "cooperative-sticky");
}

#[test]
fn kafka_python_members_come_and_go() {
    churn([Client::KafkaPython; 4], "roundrobin");
}

#[test]
fn aiokafka_members_come_and_go() {
    churn([Client::Aiokafka; 4], "roundrobin");
}

#[test]
fn members_of_three_clients_in_one_group() {
    churn(
        [
            Client::Confluent,
            Client::KafkaPython,
            Client::Aiokafka,
            Client::Confluent,
        ],
        "range",
    );
}
