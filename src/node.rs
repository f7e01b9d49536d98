//! The composition root: builds every room, in order, and takes them down in the opposite order.
//!
//! ```text
//!   folder, lock, node id -> metadata store -> write-ahead log -> system range -> catalog
//!     -> partition logs -> broker -> peers -> place in the store -> sign-in -> data ranges -> groups -> TessariQL
//!     -> front doors -> ready
//! ```
//!
//! A node that has declared nothing gives way when another store wants it: all is taken down, the folder is emptied, and
//! it begins again, waiting for that store's catalog.
//!
//! A stop goes the other way: what is led is handed over, not ready, no new connections, requests in flight answered, ranges, files.

mod adopted;
mod folder;
mod metrics;
mod peering;
pub mod ranges;
mod script;
mod serve;
mod settings;

pub use script::shell;

use crate::auth::{Auth, AuthConfig};
use crate::broker::{Broker, BrokerConfig, BrokerParts, Live, admit, log_checkpoints};
use crate::config::Config;
use crate::groups::Coordinator;
use crate::http;
use crate::log::Logs;
use crate::ql::exec::{Engine, Settings};
use anyhow::Context;
use cluster::catalog::{Catalog, CatalogMachine, Command, Reply};
use cluster::forward::{Forward, ForwardParts};
use cluster::fs;
use cluster::ids::{BrokerId, NodeId, SYSTEM_RANGE};
use cluster::meta::MetaStore;
use cluster::raft::{RangeHost, Start};
use cluster::range::Range;
use cluster::routes::{Followed, Routes};
use folder::{Folder, node_id};
use peering::{Among, Peering, Port};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// A running store: everything but the front doors.
pub struct Node {
    /// This node.
    pub id: NodeId,
    /// Its number on the Kafka wire.
    pub broker_id: BrokerId,
    auth: Arc<Auth>,
    broker: Arc<Broker>,
    engine: Arc<Engine>,
    groups: Arc<Coordinator>,
    host: RangeHost,
    logs: Arc<Logs>,
    ranges: JoinHandle<()>,
    _system_route: Followed,
    among: Option<Among>,
    /// Until this node, which began its store, has others.
    noting: Option<JoinHandle<()>>,
    _lock: fs::Lock,
}

impl Node {
    /// Runs a node until SIGTERM, SIGINT, or an error that ends its writes.
    pub fn run(config: &Config) -> anyhow::Result<()> {
        runtime()?.block_on(serve::serve(config))
    }

    /// Opens the store at `config.path`, without listening anywhere.
    pub async fn open(config: &Config) -> anyhow::Result<Self> {
        Self::open_among(config, None).await
    }

    /// The same, reaching the other members of its store where it has a port for them.
    async fn open_among(config: &Config, port: Option<Port>) -> anyhow::Result<Self> {
        let Folder { files, dir, lock } = Folder::claim(config)?;
        let id = node_id(&*files, &dir, config.node_id)?;
        let adopted = adopted::adopted(&*files, &dir)?;
        let peering = port.map(|port| Peering::new(port, id, adopted));
        let meta = Arc::new(MetaStore::open(files.clone(), &dir.join("meta.redb"))?);
        let (wal, settings) = (dir.join("wal"), settings::host(config));
        let peers = peering.as_ref().map(|peering| peering.peers.clone());
        let host = RangeHost::open_among(files.clone(), &wal, id, settings, peers.clone()).await?;

        let machine = CatalogMachine::open(meta.clone())?;
        let source = machine.source();
        let how = match adopted {
            Some(_) => Start::Join,
            None => Start::Bootstrap,
        };
        let system = host.start(SYSTEM_RANGE, Box::new(machine), how).await?;
        let catalog = Catalog::new(source, system.clone());

        let logs = Logs::open(files.clone(), settings::log(config, &dir), log_checkpoints(&meta)?)?;
        let routes = Routes::new(id, catalog.clone());
        let system_route = routes.follow(&system);
        let forward = Forward::new(ForwardParts {
            node: id,
            host: host.clone(),
            leaders: Arc::new(routes.clone()),
            peers,
            admit: admit(&logs),
        });
        catalog.reach_by(&forward);
        let live: Live = match &peering {
            Some(peering) => {
                let membership = peering.membership.clone();
                Arc::new(move || membership.live())
            }
            None => Arc::new(BTreeSet::new),
        };
        let broker = Broker::start(BrokerParts {
            node: id,
            catalog: catalog.clone(),
            routes,
            forward,
            logs: logs.clone(),
            meta,
            live,
            config: BrokerConfig {
                retention_interval: config.storage.retention_check(),
                in_flight_bytes: config.limits.max_inflight_bytes as usize,
                ..BrokerConfig::default()
            },
        });
        let mut among = match peering {
            Some(peering) => Some(peering.serve(id, &host, &catalog, broker.routes(), broker.forward())?),
            None => None,
        };
        let broker_id = join(&catalog, &system, id, adopted.is_some()).await?;
        let auth = Arc::new(Auth::new(catalog.clone(), AuthConfig::default()));
        ranges::start_all(&host, &broker, id).await?;
        let ranges = tokio::spawn(ranges::follow_catalog(host.clone(), broker.clone(), id));
        let mut noting = None;
        if let Some(among) = &mut among {
            among.start();
            if adopted.is_none() {
                noting = Some(tokio::spawn(adopted::note_others(files, dir, catalog.clone(), id)));
            }
        }
        let groups = Coordinator::new(broker.clone(), settings::groups(config));
        let settings = Settings {
            node: id,
            max_message_bytes: config.kafka.max_message_bytes,
        };
        let engine = Engine::new(broker.clone(), auth.clone(), settings);
        let engine = Arc::new(match &among {
            Some(among) => engine.among(among.membership.clone()),
            None => engine,
        });
        Ok(Self {
            id,
            broker_id,
            auth,
            broker,
            engine,
            groups,
            host,
            logs,
            ranges,
            _system_route: system_route,
            among,
            noting,
            _lock: lock,
        })
    }

    /// Signs users in. For the front doors.
    pub fn auth(&self) -> &Arc<Auth> {
        &self.auth
    }

    /// Runs TessariQL on this store.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// What `/metrics` shows of the rooms below the front doors.
    fn collectors(&self) -> Vec<http::Collector> {
        let (broker, auth) = (self.broker.clone(), self.auth.clone());
        vec![
            Box::new(move |out| metrics::broker(&broker, out)),
            Box::new(move |out| metrics::sign_in(&auth, out)),
        ]
    }

    /// Resolves when another store wants this node, which has declared nothing.
    async fn wanted(&self) -> Uuid {
        match &self.among {
            Some(among) => among.wanted().await,
            None => std::future::pending().await,
        }
    }

    /// Stops everything below the front doors. What was acknowledged is durable already.
    pub async fn close(self) {
        self.ranges.abort();
        if let Some(noting) = self.noting {
            noting.abort();
        }
        if let Some(among) = self.among {
            among.stop().await;
        }
        self.groups.close();
        self.broker.stop();
        self.broker.catalog().close();
        self.host.shutdown().await;
        let logs = self.logs.clone();
        if cluster::threads::blocking(move || logs.close()).await.is_err() {
            tracing::error!("the partition logs did not close");
        }
    }
}

/// The runtime of a node: a worker a core.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("tessaridb")
        .build()
}

/// Makes this node known to the catalog; on a new store, gives it its identity. A node that was taken into a store waits
/// until the catalog has come, and one of several for as long as it does not know itself.
async fn join(catalog: &Catalog, system: &Range, id: NodeId, adopted: bool) -> anyhow::Result<BrokerId> {
    let mut changed = catalog.changed();
    let mut leadership = system.leadership();
    loop {
        let view = catalog.view();
        if view.is_banned(id) && view.member(id).is_none() {
            anyhow::bail!("node {id} was dropped from its store; it needs an empty folder and so another id");
        }
        if let (Some(_), Some(member)) = (view.store(), view.member(id)) {
            return Ok(member.broker);
        }
        if !adopted && leadership.borrow_and_update().here {
            catalog.propose(Command::Found { store: Uuid::new_v4() }).await?;
            match catalog.propose(Command::JoinNode { node: id }).await? {
                Reply::Broker(broker) => return Ok(broker),
                other => anyhow::bail!("the catalog answered {other:?} to a join"),
            }
        }
        tokio::select! {
            changed = changed.changed() => changed.context("the catalog ended")?,
            changed = leadership.changed() => changed.context("the catalog's range ended")?,
        }
    }
}
