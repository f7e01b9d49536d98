//! Members of one store: real processes, formed by TessariQL alone.

use crate::kafka_wire::{batch, create, produce};
use crate::process::{PATIENCE, Process, free_port};
use crate::wire::Wire;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{ApiKey, MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;

/// Certificates for processes on this machine.
struct Authority {
    dir: TempDir,
}

impl Authority {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).expect("an authority").pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).expect("parameters");
        let node = params.signed_by(&key, &issuer).expect("a certificate").pem();
        for (name, text) in [
            ("authority.pem", authority),
            ("node.pem", node),
            ("node.key", key.serialize_pem()),
        ] {
            std::fs::write(dir.path().join(name), text).expect("a file");
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> String {
        let path: &Path = self.dir.path();
        path.join(name).display().to_string()
    }
}

/// Nodes that can become members, the first of which declares them.
pub struct Cluster {
    /// The members, in the order of their rows.
    pub nodes: Vec<Process>,
    peers: Vec<u16>,
    _authority: Authority,
}

/// The node id of a member.
pub fn node_id(number: usize) -> String {
    format!("{:032x}", 0xc0ffee + number)
}

impl Cluster {
    /// Starts `count` nodes that know nothing of each other.
    fn start(count: usize) -> Self {
        let authority = Authority::new();
        let peers: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let node = |(number, peer): (usize, &u16)| {
            let (id, address) = (node_id(number), format!("127.0.0.1:{peer}"));
            let paths = ["node.pem", "node.key", "authority.pem"].map(|name| authority.path(name));
            Process::start(&[
                "--node-id",
                &id,
                "--cluster-address",
                &address,
                "--cluster-credential",
                &paths[0],
                "--cluster-key",
                &paths[1],
                "--cluster-authority",
                &paths[2],
            ])
        };
        Self {
            nodes: peers.iter().enumerate().map(node).collect(),
            peers,
            _authority: authority,
        }
    }

    /// Starts `count` nodes and makes them members of the first one's store.
    pub fn form(count: usize) -> Self {
        let cluster = Self::start(count);
        for number in 0..count {
            cluster.nodes[0].script(&cluster.row(number));
        }
        let all: Vec<usize> = (0..count).collect();
        cluster.wait("all vote", &all, |told| {
            told.matches("state: 'voting'").count() == count
        });
        cluster
    }

    fn row(&self, number: usize) -> String {
        let (peer, id) = (self.peers[number], node_id(number));
        format!("DEFINE REPLICA m{number} AT '127.0.0.1:{peer}' NODE '{id}'")
    }

    /// Waits until `INFO FOR NODE` of each of `nodes` is as it should be.
    pub fn wait(&self, what: &str, nodes: &[usize], as_it_should: impl Fn(&str) -> bool) {
        self.wait_for(what, nodes, "INFO FOR NODE", as_it_should);
    }

    /// Waits until what a script answers at each of `nodes` is as it should be.
    pub fn wait_for(&self, what: &str, nodes: &[usize], script: &str, as_it_should: impl Fn(&str) -> bool) {
        for number in nodes {
            let start = Instant::now();
            loop {
                // It begins anew when it is taken in.
                let told = self.nodes[*number].ask(script);
                if told
                    .as_ref()
                    .is_some_and(|(status, text)| *status == 200 && as_it_should(text))
                {
                    break;
                }
                assert!(
                    start.elapsed() < PATIENCE,
                    "{what}: node {number} says {told:?}\n{}",
                    self.logs()
                );
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    }

    /// What all of them logged.
    pub fn logs(&self) -> String {
        let logs: Vec<String> = self.nodes.iter().map(Process::log).collect();
        logs.join("\n---\n")
    }

    /// Makes `shop.orders.<name>`, and the database where there is none, and waits until each member knows a leader of each
    /// partition.
    pub fn define_topic(&self, name: &str, partitions: usize) {
        let script = format!(
            "DEFINE NAMESPACE IF NOT EXISTS shop; USE NAMESPACE shop; DEFINE DATABASE IF NOT EXISTS orders; \
             USE DATABASE orders; DEFINE TOPIC IF NOT EXISTS {name} PARTITIONS {partitions} BY id;"
        );
        self.anywhere(&[0], &script);
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        self.wait_for("every partition has a leader", &all, &self.topic(name), |told| {
            Self::leaders(told).len() == partitions
        });
    }

    /// Asks what is known of `shop.orders.<name>`.
    pub fn topic(&self, name: &str) -> String {
        format!("USE NAMESPACE shop DATABASE orders; INFO FOR TOPIC {name}")
    }

    /// The leaders of a topic's partitions, in order, as far as they are known.
    pub fn leaders(told: &str) -> Vec<String> {
        told.match_indices("leader: '")
            .map(|(at, _)| told[at + 9..at + 41].to_owned())
            .collect()
    }

    /// Runs a script on whichever of `nodes` takes it, within our patience, and gives what it answers. A member refuses while
    /// leaders change, which on a busy machine they may at any time.
    pub fn anywhere(&self, nodes: &[usize], script: &str) -> String {
        let start = Instant::now();
        loop {
            let answers: Vec<_> = nodes.iter().map(|n| self.nodes[*n].ask(script)).collect();
            let taken = answers.iter().flatten().find(|(status, _)| *status == 200);
            if let Some((_, answer)) = taken {
                return answer.clone();
            }
            assert!(start.elapsed() < PATIENCE, "{script}: {answers:?}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

#[test]
fn three_nodes_become_one_store_by_rows_alone_and_outlive_one_of_them() {
    let mut cluster = Cluster::form(3);
    cluster.nodes[0].script("DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders;");
    cluster.nodes[0].script("USE NAMESPACE shop DATABASE orders; DEFINE TOPIC t PARTITIONS 6 BY c");
    let store = "INFO FOR STORE";
    cluster.wait_for("the namespace is everywhere", &[0, 1, 2], store, |told| {
        told.contains("'shop'")
    });
    // Every partition has a leader, and all three are told of the same ones.
    let topic = "USE NAMESPACE shop DATABASE orders; INFO FOR TOPIC t";
    cluster.wait_for("every partition has a leader", &[0, 1, 2], topic, |told| {
        told.matches("leader: '").count() == 6
    });
    let start = Instant::now();
    loop {
        let told: Vec<Vec<String>> = (0..3)
            .map(|n| Cluster::leaders(&cluster.nodes[n].script(topic)))
            .collect();
        let mut led: Vec<&String> = told[0].iter().collect();
        led.sort();
        led.dedup();
        if told[0] == told[1] && told[1] == told[2] && led.len() == 3 {
            break;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "leaders differ, or are not spread: {told:?}"
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }

    cluster.nodes[0].kill();
    cluster.anywhere(&[1, 2], "DEFINE NAMESPACE after");
    cluster.wait_for("both go on", &[1, 2], store, |told| told.contains("'after'"));
    cluster.wait("the loss is told", &[1, 2], |told| {
        told.contains("state: 'unreachable'")
    });
    cluster.wait_for("its partitions are led by others", &[1, 2], topic, |told| {
        let led = Cluster::leaders(told);
        led.len() == 6 && !led.contains(&node_id(0))
    });

    cluster.nodes[0].restart();
    cluster.wait_for("it catches up", &[0], store, |told| told.contains("'after'"));
    cluster.wait("it is back", &[0, 1, 2], |told| {
        told.matches("state: 'voting'").count() == 3
    });
    cluster.wait_for("it leads its share again", &[0, 1, 2], topic, |told| {
        Cluster::leaders(told).contains(&node_id(0))
    });
}

/// A client that created a topic at one member found it missing, or without leaders, at the next.
#[test]
fn a_topic_created_at_one_member_takes_records_at_any_other_at_once() {
    let cluster = Cluster::form(3);
    cluster.nodes[0].script(
        "DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders; USE DATABASE orders; DEFINE TOPIC t",
    );
    // The namespace's ranges are there, and each is led where it is to stay.
    let topic = "USE NAMESPACE shop DATABASE orders; INFO FOR TOPIC t";
    cluster.wait_for("the first topic is led", &[0, 1, 2], topic, |told| {
        told.contains("leader: '")
    });
    let mut wires: Vec<Wire> = cluster.nodes.iter().map(|node| Wire::connect(node.kafka)).collect();
    for round in 0..9 {
        let (at, name) = (round % 3, format!("topic_{round}"));
        create(&mut wires[at], &name, 4, &[]);
        let full = format!("shop.orders.{name}");
        for other in [(at + 1) % 3, (at + 2) % 3] {
            let before = led(&mut wires[other], &full);
            let batches: Vec<_> = (0..4).map(|partition| (partition, batch(1))).collect();
            let answers = produce(&mut wires[other], &full, &batches);
            // What a leader that was lost meanwhile refuses is another matter.
            if led(&mut wires[other], &full) == before {
                assert!(before.iter().all(|(leader, _)| *leader > 0), "{before:?}");
                let codes: Vec<i16> = answers.iter().map(|answer| answer.error_code).collect();
                assert_eq!(codes, [0; 4], "created at {at}, produced at {other}");
            }
        }
        let gone = cluster.nodes[at].try_script(&format!("USE NAMESPACE shop DATABASE orders; DROP TOPIC {name}"));
        assert_eq!(gone.0, 200, "{gone:?}");
        for wire in &mut wires {
            assert_eq!(metadata(wire, &full).error_code, 3);
        }
    }
}

fn metadata(wire: &mut Wire, topic: &str) -> MetadataResponseTopic {
    let name = TopicName(StrBytes::from_string(topic.to_owned()));
    let asked = MetadataRequestTopic::default().with_name(Some(name));
    let request = MetadataRequest::default().with_topics(Some(vec![asked]));
    let mut answer: MetadataResponse = wire.call(ApiKey::Metadata, 12, &request);
    answer.topics.remove(0)
}

/// Leader and epoch of each partition.
fn led(wire: &mut Wire, topic: &str) -> Vec<(i32, i32)> {
    let topic = metadata(wire, topic);
    assert_eq!((topic.error_code, topic.partitions.len()), (0, 4));
    let mut led: Vec<_> = topic
        .partitions
        .iter()
        .map(|p| (p.partition_index, p.leader_id.0, p.leader_epoch))
        .collect();
    led.sort_unstable();
    led.into_iter().map(|(_, leader, epoch)| (leader, epoch)).collect()
}

#[test]
fn a_node_with_declarations_of_its_own_is_left_alone() {
    let cluster = Cluster::start(2);
    cluster.nodes[1].script("DEFINE NAMESPACE mine");
    cluster.nodes[0].script(&cluster.row(0));
    cluster.nodes[0].script(&cluster.row(1));
    cluster.wait("it is told why", &[0], |told| {
        told.contains("has declarations of its own")
    });
    assert!(cluster.nodes[1].script("INFO FOR STORE").contains("'mine'"));
}

#[test]
fn a_dropped_member_goes_and_cannot_come_back() {
    let cluster = Cluster::form(3);
    cluster.nodes[0].script("DROP REPLICA m2");
    cluster.wait("its row goes", &[0, 1], |told| !told.contains("'m2'"));
    let (status, why) = cluster.nodes[0].try_script(&cluster.row(2));
    assert_ne!(status, 200);
    assert!(why.contains("was dropped and cannot come back"), "{why}");
    cluster.nodes[0].script("DEFINE NAMESPACE goes_on");
}

#[test]
fn a_stopped_leader_hands_over_first() {
    let mut cluster = Cluster::form(3);
    let status = cluster.nodes[0].terminate();
    assert!(status.success(), "{status:?}: {}", cluster.nodes[0].log());
    assert!(
        cluster.nodes[0].log().contains("handed over"),
        "{}",
        cluster.nodes[0].log()
    );
    cluster.anywhere(&[1, 2], "DEFINE NAMESPACE after");
}

#[test]
fn certificates_come_all_together() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (status, _, error) = crate::process::run(
        &["data", "--serve", "127.0.0.1:0", "--cluster-address", "127.0.0.1:0"],
        folder.path(),
    );
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("--cluster-credential"), "{error}");
}
