//! Three members of one store in one process: brokers over real ranges and real sockets, their files in memory.
//!
//! Each range of partitions has one member, chosen by its number, so that it is known who leads what and who holds nothing
//! of it.

use super::store::{batch_at, to};
use crate::broker::{Broker, BrokerParts, admit, log_checkpoints};
use crate::log::{LogConfig, Logs};
use cluster::catalog::{
    Acknowledge, Catalog, CatalogMachine, Command, MemberCommand, ReplicaSpec, Reply, Topic, TopicSpec,
};
use cluster::forward::{Forward, ForwardParts};
use cluster::fs::{FileSystem, MemoryFs};
use cluster::ids::{NodeId, RangeId, SYSTEM_RANGE};
use cluster::meta::MetaStore;
use cluster::peer::{PeerServer, Peers, Serving, Standing, Transport};
use cluster::raft::{HostConfig, RangeHost, Start};
use cluster::routes::{Followed, Routes};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use uuid::Uuid;

const MEMBERS: u128 = 3;

pub(crate) struct Member {
    pub(crate) id: NodeId,
    pub(crate) broker: Arc<Broker>,
    host: RangeHost,
    _serving: Serving,
    _system_route: Followed,
    _standing: watch::Sender<Standing>,
}

/// Members 1, 2 and 3.
pub(crate) struct Trio {
    members: BTreeMap<u128, Member>,
}

/// Waits for what must come; a test that hangs ends here.
pub(crate) async fn until(what: &str, mut check: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(90), async {
        while !check() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "waited in vain until {what}");
}

/// Who leads a range.
fn leads(range: RangeId) -> u128 {
    u128::from(range.0) % MEMBERS + 1
}

impl Trio {
    pub(crate) async fn new() -> Self {
        let mut listeners = Vec::new();
        let mut addresses = BTreeMap::new();
        for id in 1..=MEMBERS {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.insert(NodeId(id), listener.local_addr().unwrap().to_string());
            listeners.push((id, listener));
        }
        let (store, addresses) = (Uuid::new_v4(), Arc::new(addresses));
        let mut trio = Self {
            members: BTreeMap::new(),
        };
        for (id, listener) in listeners {
            let member = Member::start(NodeId(id), store, addresses.clone(), listener).await;
            if id > 1 {
                trio.get(1).host.add_learner(SYSTEM_RANGE, NodeId(id)).await.unwrap();
            }
            trio.members.insert(id, member);
        }
        let catalog = trio.get(1).broker.catalog();
        catalog.propose(Command::JoinNode { node: NodeId(1) }).await.unwrap();
        for (id, name) in (1..).zip(["one", "two", "three"]) {
            let spec = ReplicaSpec {
                name: name.into(),
                at: addresses[&NodeId(id)].clone(),
                clients_at: None,
                http_at: None,
                kafka_at: Some(format!("{name}.example:9092")),
                node: Some(NodeId(id)),
                roles: None,
            };
            let if_not_exists = false;
            let define = MemberCommand::Define { spec, if_not_exists };
            catalog.propose(Command::Member(define)).await.unwrap();
            if id > 1 {
                let joined = MemberCommand::Joined { node: NodeId(id) };
                catalog.propose(Command::Member(joined)).await.unwrap();
            }
        }
        trio
    }

    pub(crate) fn get(&self, id: u128) -> &Member {
        &self.members[&id]
    }

    /// The member that leads a partition.
    pub(crate) fn leader(&self, topic: &Topic, index: u32) -> &Member {
        self.get(leads(topic.partitions[index as usize]))
    }

    /// The first partition that a member leads.
    pub(crate) fn partition_of(&self, topic: &Topic, id: u128) -> u32 {
        let led = topic.partitions.iter().position(|range| leads(*range) == id);
        led.expect("every member leads a partition") as u32
    }

    /// A topic over ranges of all members, which all know.
    pub(crate) async fn topic(&self, name: &str) -> Arc<Topic> {
        let catalog = self.get(1).broker.catalog();
        let namespace = Command::DefineNamespace {
            name: "shop".into(),
            if_not_exists: true,
            replication: None,
            acknowledge: Acknowledge::Majority,
        };
        let database = Command::DefineDatabase {
            namespace: "shop".into(),
            name: "orders".into(),
            if_not_exists: true,
        };
        let both = Command::Together(vec![namespace, database]);
        catalog.propose(both).await.unwrap();
        let topic = Command::DefineTopic {
            namespace: "shop".into(),
            database: "orders".into(),
            name: name.into(),
            if_not_exists: false,
            spec: TopicSpec {
                partitions: 6,
                ..TopicSpec::default()
            },
            uuid: Uuid::new_v4(),
            now_ms: 1,
        };
        let Reply::Topic(topic) = catalog.propose(topic).await.unwrap() else {
            panic!("no topic");
        };
        for row in catalog.view().ranges() {
            self.serve(row.id).await;
        }
        for member in self.members.values() {
            let known = || member.broker.catalog().view().topic_by_id(topic.id).is_some();
            until("all know the topic", known).await;
        }
        topic
    }

    /// Starts a range at its member, and tells the others.
    async fn serve(&self, id: RangeId) {
        let leader = self.get(leads(id));
        if leader.broker.leadership(id).is_some() {
            return;
        }
        let machine = leader.broker.machine(id).unwrap();
        let range = leader
            .host
            .start(id, Box::new(machine), Start::Bootstrap)
            .await
            .unwrap();
        leader.broker.add_range(id, range);
        leader.broker.led_here(id).await.unwrap();
        let term = leader.broker.leadership(id).unwrap().borrow().term;
        for member in self.members.values() {
            member.broker.routes().hear(id, term, Some(leader.id));
        }
    }

    /// Appends a batch of records with these timestamps, where it is led.
    pub(crate) async fn append(&self, topic: &Topic, index: u32, timestamps: &[i64]) {
        let batch = to(topic, index, batch_at(timestamps));
        let answers = self.leader(topic, index).broker.append(vec![batch]).await.await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }

    /// A member is gone at once.
    pub(crate) async fn kill(&mut self, id: u128) {
        let member = self.members.remove(&id).unwrap();
        drop(member._serving);
        member.broker.stop();
        member.host.shutdown().await;
    }
}

impl Member {
    async fn start(id: NodeId, store: Uuid, addresses: Arc<BTreeMap<NodeId, String>>, listener: TcpListener) -> Self {
        let files: Arc<dyn FileSystem> = Arc::new(MemoryFs::new(id.0 as u64));
        files.create_dir(Path::new("/data")).unwrap();
        let meta = Arc::new(MetaStore::open(files.clone(), Path::new("/data/meta")).unwrap());
        let log_config = LogConfig {
            dir: "/data/partitions".into(),
            segment_bytes: 4000,
            index_interval: 300,
            tail_bytes: 1 << 20,
        };
        let logs = Logs::open(files.clone(), log_config, log_checkpoints(&meta).unwrap()).unwrap();
        let standing = watch::Sender::new(Standing {
            store: Some(store),
            ..Standing::default()
        });
        let addresses = watch::Sender::new(addresses).subscribe();
        let peers = Peers::new(id, Transport::Plain, standing.subscribe(), addresses);
        let host = RangeHost::open_among(
            files,
            Path::new("/data/wal"),
            id,
            HostConfig::default(),
            Some(peers.clone()),
        )
        .await
        .unwrap();
        let machine = CatalogMachine::open(meta.clone()).unwrap();
        let source = machine.source();
        let how = if id.0 == 1 { Start::Bootstrap } else { Start::Join };
        let system = host.start(SYSTEM_RANGE, Box::new(machine), how).await.unwrap();
        let catalog = Catalog::new(source, system.clone());
        let routes = Routes::new(id, catalog.clone());
        let system_route = routes.follow(&system);
        let forward = Forward::new(ForwardParts {
            node: id,
            host: host.clone(),
            leaders: Arc::new(routes.clone()),
            peers: Some(peers),
            admit: admit(&logs),
        });
        catalog.reach_by(&forward);
        let server = host.serve(PeerServer::new(id, standing.subscribe(), host.feed()));
        let serving = forward.serve(server).serve(listener, &Transport::Plain).unwrap();
        let broker = Broker::start(BrokerParts {
            node: id,
            catalog,
            routes,
            forward,
            logs,
            meta,
            live: Arc::new(|| (1..=MEMBERS).map(NodeId).collect()),
            config: super::store::config(),
        });
        Self {
            id,
            broker,
            host,
            _serving: serving,
            _system_route: system_route,
            _standing: standing,
        }
    }
}
