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
mod peering;
pub mod ranges;

use crate::auth::{Auth, AuthConfig, Caller, Origin, Surface, Who};
use crate::broker::{Broker, BrokerConfig, BrokerParts, Live, admit, log_checkpoints};
use crate::config::{Config, Validate};
use crate::connections::Budget;
use crate::descriptors;
use crate::groups::{Coordinator, GroupConfig};
use crate::http;
use crate::kafka::{KafkaConfig, KafkaServer};
use crate::log::{LogConfig, Logs};
use crate::ql::exec::{Engine, Settings};
use crate::resp::{CommandLimits, RespConfig, RespServer};
use crate::shell::{Ending, Input, Remote, Shell, Store};
use crate::tls::{Door, Tls};
use anyhow::Context;
use cluster::catalog::{Catalog, CatalogMachine, Command, Reply, Told};
use cluster::forward::{Forward, ForwardParts};
use cluster::fs::{self, Disk, FileSystem};
use cluster::ids::{BrokerId, NodeId, SYSTEM_RANGE};
use cluster::membership::is_occupied;
use cluster::meta::MetaStore;
use cluster::raft::{HostConfig, RangeHost, Start};
use cluster::range::Range;
use cluster::routes::{Followed, Routes};
use peering::{Among, Peering, Port};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Descriptors that a node needs beside its connections'.
const FILES: usize = 512;

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
        runtime()?.block_on(serve(config))
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
        let (wal, settings) = (dir.join("wal"), host_config(config));
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

        let logs = Logs::open(files.clone(), log_config(config, &dir), log_checkpoints(&meta)?)?;
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
        let groups = Coordinator::new(broker.clone(), group_config(config));
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
            Box::new(move |out| broker_metrics(&broker, out)),
            Box::new(move |out| sign_in_metrics(&auth, out)),
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

async fn serve(config: &Config) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    loop {
        match serve_once(config, &mut signals).await? {
            Served::Stopped => return Ok(()),
            Served::Occupied => tracing::warn!("another store wanted this node, which has been declared something"),
            Served::Wanted(store) => {
                tracing::info!(%store, "giving way to another store");
                let Folder {
                    files,
                    dir,
                    lock: _lock,
                } = Folder::claim(config)?;
                adopted::adopt(&*files, &dir, store)?;
            }
        }
    }
}

/// How serving ended.
enum Served {
    Stopped,
    /// Another store wants the node, which has nothing.
    Wanted(Uuid),
    /// Another store wanted it, but it has something now.
    Occupied,
}

/// Serves until the node is stopped, or wanted by the store that is answered.
async fn serve_once(config: &Config, signals: &mut Signals) -> anyhow::Result<Served> {
    let first = Config::initial_user()?;
    let tls = open_tls(config)?;
    make_room_for_connections(config);
    // Taken before anything is opened, so that a taken port leaves no trace in the folder.
    let http = bind(config.listen.serve.as_deref()).await?;
    let kafka = bind(config.listen.kafka.as_deref()).await?;
    let resp = bind(config.listen.resp.as_deref()).await?;
    let mut port = Port::bind(&config.cluster).await?;
    if let Some(port) = &mut port {
        port.tell(told(config, http.as_ref(), kafka.as_ref())?);
    }
    let addresses = (shown(http.as_ref())?, shown(kafka.as_ref())?, shown(resp.as_ref())?);
    let node = tokio::select! {
        node = Box::pin(Node::open_among(config, port)) => node?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before it was ready");
            return Ok(Served::Stopped);
        }
    };
    // The first owner is for the one who begins a store, not for those who join it.
    if let Some(first) = first
        && node.broker.catalog().view().members().nth(1).is_none()
    {
        // Before any front door opens: nobody else gets to be the first.
        let declared = node.auth.declare_first(&first.name, first.password.as_bytes()).await;
        declared.context("the first owner was not declared")?;
    }

    let budget = Budget::new(config.limits.max_inflight_bytes as usize);
    let mut collectors = node.collectors();
    let kafka = match kafka {
        Some(listener) => {
            let server = KafkaServer::start(
                listener,
                door(tls.as_ref(), None)?,
                kafka_config(config, &node, budget.clone()),
                node.id,
                node.broker.clone(),
                node.groups.clone(),
                node.auth.clone(),
            )?;
            collectors.push(Box::new(server.collector()));
            Some(server)
        }
        None => None,
    };
    let resp = match resp {
        Some(listener) => {
            let (broker, engine, auth) = (node.broker.clone(), node.engine.clone(), node.auth.clone());
            let door = door(tls.as_ref(), None)?;
            let server = RespServer::start(
                listener,
                door,
                resp_config(config, budget.clone()),
                broker,
                engine,
                auth,
            )?;
            collectors.push(Box::new(server.collector()));
            Some(server)
        }
        None => None,
    };
    let (ready, is_ready) = watch::channel(false);
    let stop = CancellationToken::new();
    let http = match http {
        Some(listener) => {
            let limits = http::Limits {
                connections: config.limits.max_http_connections,
                stall: Duration::from_secs(config.limits.stall_seconds),
                ..http::Limits::default()
            };
            let door = door(tls.as_ref(), Some("http/1.1"))?;
            let server = http::Server::new(node.engine.clone(), node.auth.clone(), is_ready, collectors, limits);
            let server = server.behind(door).within(&budget);
            Some(tokio::spawn(server.serve(listener, stop.clone())))
        }
        None => None,
    };
    tracing::info!(
        node = %node.id,
        broker = %node.broker_id,
        serve = addresses.0,
        kafka = addresses.1,
        resp = addresses.2,
        tls = tls.is_some(),
        version = env!("CARGO_PKG_VERSION"),
        "ready"
    );
    ready.send_replace(true);

    let mut fatal = node.host.fatal();
    let (failure, wanted) = tokio::select! {
        signal = signals.next() => { tracing::info!(signal, "stopping"); (None, None) }
        reason = fatal.wait_for(Option::is_some) => (reason.ok().and_then(|r| r.clone()), None),
        store = node.wanted() => (None, Some(store)),
    };
    ready.send_replace(false);
    if let (None, None, Some(among)) = (&failure, wanted, &node.among) {
        among.hand_over().await;
    }
    stop.cancel();
    if let Some(kafka) = kafka {
        // First, as members that wait for a rebalance would hold up the stop.
        node.groups.close();
        kafka.stop().await;
    }
    if let Some(resp) = resp {
        resp.stop().await;
    }
    if let Some(http) = http {
        http.await.context("the HTTP front door")?;
    }
    let occupied = is_occupied(&node.broker.catalog().view(), node.id);
    node.close().await;
    match (failure, wanted) {
        (Some(why), _) => Err(anyhow::anyhow!("the node no longer writes: {why}")),
        (None, Some(_)) if occupied => Ok(Served::Occupied),
        (None, Some(store)) => Ok(Served::Wanted(store)),
        (None, None) => {
            tracing::info!("stopped");
            Ok(Served::Stopped)
        }
    }
}

/// What the node tells the others of itself: addresses that can be connected to.
fn told(config: &Config, http: Option<&TcpListener>, kafka: Option<&TcpListener>) -> io::Result<Told> {
    let listens = |listener: Option<&TcpListener>| {
        let address = listener.map(TcpListener::local_addr).transpose()?;
        Ok::<_, io::Error>(address.filter(|address| !address.ip().is_unspecified()))
    };
    let kafka = listens(kafka)?.map(|address| (address.ip().to_string(), address.port()));
    Ok(Told {
        kafka: config.kafka.kafka_advertise.clone().or(kafka),
        serve: listens(http)?.map(|address| address.to_string()),
    })
}

/// The folder of a store, claimed for this process.
struct Folder {
    files: Arc<dyn FileSystem>,
    dir: PathBuf,
    lock: fs::Lock,
}

impl Folder {
    fn claim(config: &Config) -> anyhow::Result<Self> {
        let dir = config.path.clone().context("a store needs a folder")?;
        let files: Arc<dyn FileSystem> = Arc::new(Disk);
        files
            .create_dir(&dir)
            .with_context(|| format!("{} cannot be made", dir.display()))?;
        match files.lock(&dir.join("lock")) {
            Ok(lock) => Ok(Self { files, dir, lock }),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                anyhow::bail!("{} is in use by another process", dir.display())
            }
            Err(e) => Err(e).with_context(|| format!("{} cannot be locked", dir.display())),
        }
    }
}

/// The certificate of the client ports, where one is given.
fn open_tls(config: &Config) -> anyhow::Result<Option<Tls>> {
    match (&config.tls.tls_cert, &config.tls.tls_key) {
        (Some(certificate), Some(key)) => Ok(Some(Tls::open(certificate, key)?)),
        _ if config.tls.require_client_tls => {
            anyhow::bail!("--require-client-tls: without --tls-cert and --tls-key the ports would be in the clear")
        }
        _ => Ok(None),
    }
}

fn door(tls: Option<&Tls>, protocol: Option<&str>) -> anyhow::Result<Door> {
    Ok(match tls {
        Some(tls) => tls.door(protocol)?,
        None => Door::plain(),
    })
}

/// Descriptors for every connection the limits allow, or a word about it.
fn make_room_for_connections(config: &Config) {
    let limits = &config.limits;
    let resp = config.listen.resp.as_ref().map_or(0, |_| limits.max_resp_connections);
    let wanted = limits.max_connections + limits.max_http_connections + resp;
    match descriptors::raise() {
        Ok(most) if (most as usize) < wanted + FILES => tracing::warn!(
            most,
            wanted,
            "this process may not open as many files as its limits allow connections; raise LimitNOFILE or ulimit -n"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the limit of open files stays as it is"),
    }
}

fn shown(listener: Option<&TcpListener>) -> io::Result<String> {
    listener.map_or_else(|| Ok("none".to_owned()), |l| l.local_addr().map(|a| a.to_string()))
}

/// Runs TessariQL on the node at `--at`, or on the store at PATH; answers the exit status.
pub fn shell(config: &Config) -> anyhow::Result<Ending> {
    let input = match (&config.script.execute, &config.script.file) {
        (Some(script), _) => Input::Script(script.clone()),
        (None, Some(path)) => Input::File(path.clone()),
        (None, None) => Input::Standard,
    };
    let parameters = config.script.parameters.clone();
    let user = config.credentials()?;
    if let Some(at) = &config.script.at {
        let mut remote = Remote::new(at);
        if let Some(authority) = &config.script.tls_authority {
            remote = remote.trusting(authority)?;
        }
        if let Some(user) = &user {
            remote = remote.signed_in_as(&user.name, &user.password);
        }
        return Ok(Shell::new(Store::Remote(remote), parameters).run(input));
    }
    let runtime = runtime()?;
    let node = runtime.block_on(Node::open(config))?;
    let origin = Origin {
        surface: Surface::Shell,
        remote: None,
    };
    // Whoever can open the folder can read and write everything in it: no password stands before that. A user that is
    // named is taken at its word all the same, so that its rights can be tried.
    let who = match &user {
        None => Who::Folder,
        Some(user) => {
            let signing_in = node.auth.sign_in(&user.name, user.password.as_bytes(), &origin);
            match runtime.block_on(signing_in) {
                Ok(principal) => Who::User(principal),
                Err(refused) => {
                    runtime.block_on(node.close());
                    anyhow::bail!("{}: {refused}", user.name);
                }
            }
        }
    };
    let store = Store::Local {
        scripts: node.engine.clone(),
        caller: Caller { who, origin },
        runtime: runtime.handle().clone(),
    };
    let ending = Shell::new(store, parameters).run(input);
    runtime.block_on(node.close());
    Ok(ending)
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

async fn bind(address: Option<&str>) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await;
    listener
        .map(Some)
        .with_context(|| format!("cannot listen on {address}"))
}

/// The node's identity is one line of text: magic, version, id, and the CRC-32C of what stands before it.
const NODE_MAGIC: &str = "tessaridb-node 1";

fn node_line(id: NodeId) -> String {
    let text = format!("{NODE_MAGIC} {id}");
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, text.as_bytes());
    format!("{text} {crc:08x}\n")
}

/// The id kept in the folder, or a new one; `wanted` must agree with it.
fn node_id(files: &dyn FileSystem, dir: &Path, wanted: Option<NodeId>) -> anyhow::Result<NodeId> {
    let path = dir.join("node");
    match fs::read(files, &path, 128) {
        Ok(text) => {
            let text = String::from_utf8_lossy(&text);
            let id = text
                .strip_prefix(NODE_MAGIC)
                .and_then(|rest| rest.get(1..33)?.parse().ok());
            match (id.filter(|id| node_line(*id) == text), wanted) {
                (None, _) => anyhow::bail!("{} is damaged, or of another version", path.display()),
                (Some(id), Some(wanted)) if wanted != id => {
                    anyhow::bail!("{} holds node {id}, not {wanted}", dir.display())
                }
                (Some(id), _) => Ok(id),
            }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let id = wanted.unwrap_or_else(NodeId::random);
            fs::replace(files, &path, node_line(id).as_bytes())?;
            Ok(id)
        }
        Err(e) => Err(e).with_context(|| path.display().to_string()),
    }
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

fn host_config(config: &Config) -> HostConfig {
    HostConfig {
        checkpoint_bytes: config.storage.checkpoint_bytes,
        checkpoint_interval: Duration::from_secs(config.storage.checkpoint_seconds),
        log_span: config.storage.checkpoint_bytes.saturating_mul(4),
        ..HostConfig::default()
    }
}

fn log_config(config: &Config, dir: &Path) -> LogConfig {
    LogConfig {
        dir: dir.join("topics"),
        segment_bytes: config.storage.segment_bytes,
        index_interval: 4096,
        tail_bytes: 64 << 20,
    }
}

fn group_config(config: &Config) -> GroupConfig {
    GroupConfig {
        initial_rebalance_delay: Duration::from_millis(u64::from(config.kafka.group_initial_delay_ms)),
        ..GroupConfig::default()
    }
}

fn kafka_config(config: &Config, node: &Node, budget: Budget) -> KafkaConfig {
    let cluster_id = node.broker.catalog().view().store().unwrap_or_default();
    let limits = &config.limits;
    KafkaConfig {
        advertise: config.kafka.kafka_advertise.clone(),
        database: config.kafka.kafka_database.clone(),
        walk_records: config.kafka.kafka_validate == Validate::Records,
        max_message_bytes: config.kafka.max_message_bytes,
        segment_bytes: config.storage.segment_bytes,
        log_dir: config
            .path
            .as_ref()
            .map_or_else(String::new, |path| path.display().to_string()),
        max_frame: limits.max_request_bytes as usize,
        budget,
        pipeline: limits.max_queued_requests,
        pipeline_bytes: limits.max_inflight_bytes_per_connection as usize,
        max_connections: limits.max_connections,
        max_connections_per_address: limits.max_connections_per_address,
        max_unauthenticated: limits.max_unauthenticated,
        sign_in_time: Duration::from_secs(limits.sign_in_seconds),
        max_idle: Duration::from_secs(limits.idle_seconds),
        max_stall: Duration::from_secs(limits.stall_seconds),
        session: match config.kafka.kafka_session_seconds {
            0 => None,
            seconds => Some(Duration::from_secs(u64::from(seconds))),
        },
        ..KafkaConfig::new(cluster_id.simple().to_string())
    }
}

fn resp_config(config: &Config, budget: Budget) -> RespConfig {
    let (limits, defaults) = (&config.limits, RespConfig::default());
    RespConfig {
        database: config.kafka.kafka_database.clone(),
        limits: CommandLimits {
            bytes: limits.max_request_bytes as usize,
            ..defaults.limits
        },
        budget,
        pipeline: limits.max_queued_requests,
        max_connections: limits.max_resp_connections,
        max_unauthenticated: limits.max_unauthenticated,
        sign_in_time: Duration::from_secs(limits.sign_in_seconds),
        max_idle: Duration::from_secs(limits.idle_seconds),
        max_stall: Duration::from_secs(limits.stall_seconds),
        ..defaults
    }
}

/// How sign-ins went, in Prometheus' text form.
fn sign_in_metrics(auth: &Auth, out: &mut String) {
    use std::fmt::Write;
    use std::sync::atomic::Ordering::Relaxed;
    let (name, counts) = ("tessaridb_sign_ins_total", auth.counts());
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "# HELP {name} Sign-ins with a password, by outcome.\n# TYPE {name} counter"
    );
    for (outcome, count) in [
        ("good", &counts.good),
        ("refused", &counts.refused),
        ("throttled", &counts.throttled),
        ("busy", &counts.busy),
    ] {
        let _ = writeln!(out, "{name}{{outcome=\"{outcome}\"}} {}", count.load(Relaxed));
    }
}

/// Counters and gauges of the broker, in Prometheus' text form.
fn broker_metrics(broker: &Broker, out: &mut String) {
    use std::fmt::Write;
    use std::sync::atomic::Ordering::Relaxed;
    let m = broker.metrics();
    let rows = [
        (
            "appended_bytes_total",
            "counter",
            "Bytes of record batches appended.",
            &m.appended_bytes,
        ),
        (
            "appended_records_total",
            "counter",
            "Records appended.",
            &m.appended_records,
        ),
        (
            "appended_batches_total",
            "counter",
            "Batches appended.",
            &m.appended_batches,
        ),
        (
            "repeated_batches_total",
            "counter",
            "Repeats of idempotent producers, answered and not stored.",
            &m.repeated_batches,
        ),
        ("read_bytes_total", "counter", "Bytes handed to readers.", &m.read_bytes),
        (
            "append_in_flight_bytes",
            "gauge",
            "Bytes of appends not yet answered.",
            &m.in_flight_bytes,
        ),
    ];
    for (name, kind, help, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "# HELP tessaridb_{name} {help}\n# TYPE tessaridb_{name} {kind}\ntessaridb_{name} {}",
            value.load(Relaxed)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_id_and_notices_damage() {
        let dir = tempfile::tempdir().unwrap();
        let id = node_id(&Disk, dir.path(), None).unwrap();
        assert_eq!(node_id(&Disk, dir.path(), None).unwrap(), id);
        assert!(
            node_id(&Disk, dir.path(), Some(NodeId(7)))
                .unwrap_err()
                .to_string()
                .contains("holds node")
        );
        let path = dir.path().join("node");
        let line = std::fs::read(&path).unwrap();
        for at in 0..line.len() {
            let mut damaged = line.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert!(node_id(&Disk, dir.path(), None).is_err(), "byte {at}");
        }
    }
}
