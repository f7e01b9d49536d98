//! Three nodes of one store over loopback, their files in memory; every range has a replica on each. Each node has a broker,
//! and none of them is told who leads but by its own replicas.

use crate::broker::{Broker, BrokerParts, admit, log_checkpoints, tests::store};
use crate::log::{LogConfig, Logs};
use cluster::catalog::{Catalog, CatalogMachine, Command, Topic, TopicSpec};
use cluster::forward::{Forward, ForwardParts};
use cluster::fs::{FileSystem, MemoryFs};
use cluster::ids::{NodeId, RangeId, SYSTEM_RANGE};
use cluster::meta::MetaStore;
use cluster::peer::{PeerServer, Peers, Serving, Standing, Transport};
use cluster::raft::{HostConfig, RangeHost, Start};
use cluster::routes::{Followed, Routes};
use cluster::wal::WalConfig;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use uuid::Uuid;

pub(crate) struct Many {
    members: Vec<Member>,
}

pub(crate) struct Member {
    pub(crate) id: NodeId,
    pub(crate) broker: Arc<Broker>,
    host: RangeHost,
    serving: Option<Serving>,
    _addresses: watch::Sender<Arc<BTreeMap<NodeId, String>>>,
    _standing: watch::Sender<Standing>,
    _system_route: Followed,
}

/// Waits for what must come; a test that hangs ends here.
pub(crate) async fn until(what: &str, mut check: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(90), async {
        while !check() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "waited in vain until {what}");
}

impl Member {
    async fn start(id: NodeId, listener: TcpListener, store: Uuid, addresses: Arc<BTreeMap<NodeId, String>>) -> Self {
        let files: Arc<dyn FileSystem> = Arc::new(MemoryFs::new(id.0 as u64));
        files.create_dir(Path::new("/data")).unwrap();
        let meta = Arc::new(MetaStore::open(files.clone(), Path::new("/data/meta")).unwrap());
        let log_config = LogConfig {
            dir: "/data/partitions".into(),
            segment_bytes: 1 << 20,
            index_interval: 4096,
            tail_bytes: 1 << 20,
        };
        let logs = Logs::open(files.clone(), log_config, log_checkpoints(&meta).unwrap()).unwrap();
        let standing = watch::Sender::new(Standing {
            store: Some(store),
            ..Standing::default()
        });
        let addresses = watch::Sender::new(addresses);
        let peers = Peers::new(id, Transport::Plain, standing.subscribe(), addresses.subscribe());
        let config = HostConfig {
            wal: WalConfig {
                segment_bytes: 1 << 20,
                spare_segments: 1,
                ..WalConfig::default()
            },
            // Machines that run tests are busy, and no test here is about elections.
            election: (Duration::from_millis(1500), Duration::from_millis(3000)),
            ..HostConfig::default()
        };
        let host = RangeHost::open_among(files, Path::new("/data/wal"), id, config, Some(peers.clone()))
            .await
            .unwrap();
        let machine = CatalogMachine::open(meta.clone()).unwrap();
        let source = machine.source();
        let how = if id.0 == 1 { Start::Bootstrap } else { Start::Join };
        let system = host.start(SYSTEM_RANGE, Box::new(machine), how).await.unwrap();
        let catalog = Catalog::new(source, system.clone());
        let routes = Routes::new(id, catalog.clone());
        let _system_route = routes.follow(&system);
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
            live: Arc::new(|| [1, 2, 3].map(NodeId).into()),
            config: store::config(),
        });
        Self {
            id,
            broker,
            host,
            serving: Some(serving),
            _addresses: addresses,
            _standing: standing,
            _system_route,
        }
    }

    async fn serve_range(&self, range: RangeId, how: Start) {
        if self.broker.leadership(range).is_none() {
            let machine = self.broker.machine(range).unwrap();
            let range = self.host.start(range, Box::new(machine), how).await.unwrap();
            self.broker.add_range(range.id(), range);
        }
    }

    fn leads(&self, range: RangeId) -> bool {
        self.broker.leadership(range).is_some_and(|l| l.borrow().here)
    }
}

impl Many {
    /// Nodes 1 to 3; node 1 leads what is declared.
    pub(crate) async fn new() -> Self {
        let ids = [1, 2, 3].map(NodeId);
        let mut listeners = Vec::new();
        let mut addresses = BTreeMap::new();
        for id in ids {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.insert(id, listener.local_addr().unwrap().to_string());
            listeners.push(listener);
        }
        let (store, addresses) = (Uuid::new_v4(), Arc::new(addresses));
        let mut members = Vec::new();
        for (id, listener) in ids.into_iter().zip(listeners) {
            members.push(Member::start(id, listener, store, addresses.clone()).await);
        }
        let many = Self { members };
        many.replicate(SYSTEM_RANGE).await;
        let one = many.member(1).broker.catalog();
        one.propose(Command::JoinNode { node: NodeId(1) }).await.unwrap();
        many
    }

    pub(crate) fn member(&self, id: u128) -> &Member {
        &self.members[id as usize - 1]
    }

    /// From node 1 to all.
    async fn replicate(&self, range: RangeId) {
        let host = &self.member(1).host;
        for id in [2, 3] {
            host.add_learner(range, NodeId(id)).await.unwrap();
        }
        let voters: BTreeSet<NodeId> = [1, 2, 3].map(NodeId).into();
        host.change_voters(range, voters).await.unwrap();
    }

    /// A topic of the database shop.orders, declared at a member; its ranges are led by node 1 until they are handed over.
    pub(crate) async fn topic(&self, at: u128, name: &str, spec: TopicSpec) -> Arc<Topic> {
        let topic = store::define(self.member(at).broker.catalog(), name, spec).await;
        let ranges: Vec<RangeId> = {
            let view = self.member(1).broker.catalog().view();
            view.ranges().map(|row| row.id).collect()
        };
        for range in ranges {
            if self.member(1).broker.leadership(range).is_some() {
                continue;
            }
            self.member(1).serve_range(range, Start::Bootstrap).await;
            for id in [2, 3] {
                self.member(id).serve_range(range, Start::Join).await;
            }
            self.replicate(range).await;
        }
        until("every member knows the topic", || {
            let knows = |m: &Member| m.broker.catalog().view().topic_by_id(topic.id).is_some();
            self.members.iter().all(knows)
        })
        .await;
        topic
    }

    /// Hands the lead of a range over; it may be that another comes to lead all the same.
    pub(crate) async fn hand_over(&self, range: RangeId, to: u128) {
        if let Some(leader) = self.leader(range) {
            let _ = self.member(leader).host.transfer_leader(range, NodeId(to)).await;
        }
    }

    /// Hands over until it leads.
    pub(crate) async fn give(&self, range: RangeId, to: u128) {
        let given = tokio::time::timeout(Duration::from_secs(90), async {
            while self.leader(range) != Some(to) {
                self.hand_over(range, to).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        given.await.expect("a member comes to lead");
    }

    /// Who leads a data range and may answer.
    pub(crate) fn leader(&self, range: RangeId) -> Option<u128> {
        let running = self.members.iter().filter(|m| m.serving.is_some());
        let leading = running.filter(|m| m.leads(range)).map(|m| {
            let term = m.broker.leadership(range).map(|l| l.borrow().term);
            (term, m.id.0)
        });
        leading.max().map(|(_, id)| id)
    }

    /// Ends a member: peers reach it no more, its ranges stop.
    pub(crate) async fn stop(&mut self, id: u128) {
        let member = &mut self.members[id as usize - 1];
        drop(member.serving.take());
        member.broker.stop();
        member.host.shutdown().await;
    }
}
