//! One life of a node: the rooms of a store, as the composition root builds them, over simulated files and peers. Without
//! front doors.

use crate::net::{Line, Net, address};
use anyhow::Context;
use cluster::catalog::{Catalog, CatalogMachine, Command, Reply, Told};
use cluster::forward::{Forward, ForwardParts};
use cluster::fs::{FileSystem, MemoryFs};
use cluster::ids::{NodeId, SYSTEM_RANGE};
use cluster::membership::{Identity, Membership, MembershipParts, Running, Store};
use cluster::meta::MetaStore;
use cluster::peer::{PeerServer, Peers, Transport};
use cluster::raft::{HostConfig, RangeHost, Start};
use cluster::range::Range;
use cluster::routes::{Followed, Routes};
use cluster::wal::WalConfig;
use plan::Plan;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tessaridb::broker::{Broker, BrokerConfig, BrokerParts, admit, log_checkpoints};
use tessaridb::log::{LogConfig, Logs};
use tessaridb::node::ranges;
use tokio::runtime::Handle;
use uuid::Uuid;

/// The store all nodes are of.
pub const STORE: Uuid = Uuid::from_u128(0x51b);

/// Folder of the write-ahead log.
const WAL: &str = "/data/wal";

/// A node that is open.
pub struct Node {
    pub id: NodeId,
    pub broker: Arc<Broker>,
    pub host: RangeHost,
    pub logs: Arc<Logs>,
    _membership: Running,
    _system_route: Followed,
}

/// How a life of a node begins.
pub struct Beginning {
    pub net: Net,
    pub line: Line,
    pub files: MemoryFs,
    pub plan: Arc<Plan>,
    /// It begins the store; true of the first life of the first node.
    pub first: bool,
}

impl Beginning {
    /// Opens the node, within its runtime. Waits until it is a member of the store.
    pub async fn open(self) -> anyhow::Result<Node> {
        let id = self.line.node;
        let files: Arc<dyn FileSystem> = Arc::new(self.files.clone());
        files.create_dir(Path::new("/data"))?;
        self.files
            .slow_syncs(Path::new(WAL), Duration::from_millis(self.plan.slow_sync));
        let _lock = files.lock(Path::new("/data/lock"))?;
        let identity = Identity::new(id, (!self.first).then_some(STORE));
        let transport = Transport::Carried(Arc::new(self.line.clone()));
        let peers = Peers::new(id, transport, identity.standing(), identity.addresses());
        let membership = Membership::new(MembershipParts {
            node: id,
            told: Told::default(),
            identity: identity.clone(),
        });
        let meta = Arc::new(MetaStore::open(files.clone(), Path::new("/data/meta.redb"))?);
        let config = host_config(&self.plan);
        let host = RangeHost::open_among(files.clone(), Path::new(WAL), id, config, Some(peers.clone())).await?;
        let machine = CatalogMachine::open(meta.clone())?;
        let source = machine.source();
        let how = if self.first { Start::Bootstrap } else { Start::Join };
        let system = host.start(SYSTEM_RANGE, Box::new(machine), how).await?;
        let catalog = Catalog::new(source, system.clone());
        let logs = Logs::open(files, log_config(), log_checkpoints(&meta)?)?;
        let routes = Routes::new(id, catalog.clone());
        let system_route = routes.follow(&system);
        let forward = Forward::new(ForwardParts {
            node: id,
            host: host.clone(),
            leaders: Arc::new(routes.clone()),
            peers: Some(peers.clone()),
            admit: admit(&logs),
        });
        catalog.reach_by(&forward);
        let declares = membership.clone();
        let broker = Broker::start(BrokerParts {
            node: id,
            live: Arc::new(move || declares.live()),
            catalog: catalog.clone(),
            routes: routes.clone(),
            forward: forward.clone(),
            logs: logs.clone(),
            meta,
            config: BrokerConfig {
                retention_interval: Duration::from_secs(10),
                ..BrokerConfig::default()
            },
        });
        let server = PeerServer::new(id, identity.standing(), host.feed());
        let server = forward.serve(membership.serve(host.serve(server)));
        self.net.open(&self.line, Handle::current(), server.carried());
        tokio::spawn(identity.follow(catalog.clone()));
        join(&catalog, &system, id, self.first).await?;
        ranges::start_all(&host, &broker, id).await?;
        tokio::spawn(ranges::follow_catalog(host.clone(), broker.clone(), id));
        let running = membership.start(Store {
            catalog,
            host: host.clone(),
            peers,
            routes,
        });
        Ok(Node {
            id,
            broker,
            host,
            logs,
            _membership: running,
            _system_route: system_route,
        })
    }
}

/// Waits until the node is a member; the first one makes the store, with the names that all of them have.
async fn join(catalog: &Catalog, system: &Range, id: NodeId, first: bool) -> anyhow::Result<()> {
    let mut changed = catalog.changed();
    let mut leadership = system.leadership();
    loop {
        let view = catalog.view();
        if view.store().is_some() && view.member(id).is_some() {
            return Ok(());
        }
        if first && leadership.borrow_and_update().here {
            catalog.propose(Command::Found { store: STORE }).await?;
            match catalog.propose(Command::JoinNode { node: id }).await? {
                Reply::Broker(_) => return Ok(()),
                other => anyhow::bail!("the catalog answered {other:?} to a join"),
            }
        }
        tokio::select! {
            changed = changed.changed() => changed.context("the catalog ended")?,
            changed = leadership.changed() => changed.context("the catalog's range ended")?,
        }
    }
}

/// Small, so that all that happens once a log is long happens soon; and of half the haste, as much of what a simulation
/// costs is heartbeats.
fn host_config(plan: &Plan) -> HostConfig {
    HostConfig {
        wal: WalConfig {
            segment_bytes: 64 << 10,
            spare_segments: 0,
            live_segments: 3,
            cache_bytes: 4 << 10,
            headroom: 0,
        },
        heartbeat: Duration::from_millis(300),
        election: (Duration::from_millis(600), Duration::from_millis(1200)),
        checkpoint_bytes: plan.checkpoint_bytes,
        checkpoint_interval: Duration::from_millis(plan.checkpoint),
        log_span: 256 << 10,
        keep_bytes: plan.keep_bytes,
        ..HostConfig::default()
    }
}

fn log_config() -> LogConfig {
    LogConfig {
        dir: "/data/topics".into(),
        segment_bytes: 4_000,
        index_interval: 300,
        tail_bytes: 64 << 20,
    }
}

/// Where the members of a store are.
pub fn address_of(node: usize) -> String {
    address(id_of(node))
}

/// The id of a node, numbered from 0.
pub fn id_of(node: usize) -> NodeId {
    NodeId(node as u128 + 1)
}
