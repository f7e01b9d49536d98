//! The ranges of a node: opens the log, starts ranges, stops them.

use super::checkpoint::{self, Pace, Progress};
use super::net::{self, Network, Replicas, Service};
use super::{Fold, Raft, store::Store, told};
use crate::fs::FileSystem;
use crate::ids::{NodeId, RangeId};
use crate::machine::{Bulk, Machine};
use crate::peer::{LeadershipFeed, PeerServer, Peers, RangeNews};
use crate::planted::{self, Bug};
use crate::range::{Leadership, Range};
use crate::wal::{self, Group, Wal, WalConfig};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{InitializeError, RaftError};
use openraft::{Config, SnapshotPolicy};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Settings of all ranges of a node.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The write-ahead log's sizes.
    pub wal: WalConfig,
    /// How often a leader tells its followers that it lives. Default 150 ms.
    pub heartbeat: Duration,
    /// A follower that has heard nothing for the longer of these and then for a random time in between stands for election
    /// (so after 1.5 to 2 s by default); a leader that no majority answered for the longer refuses commands. A leader whose
    /// process has ended is not waited for. Long against what a busy machine keeps a process waiting. Default 500 to 1000 ms.
    pub election: (Duration, Duration),
    /// Bytes of commands after which a range takes a checkpoint. Default 64 MiB.
    pub checkpoint_bytes: u64,
    /// Longest time from a change to the checkpoint that covers it. Default 30 s.
    pub checkpoint_interval: Duration,
    /// Bytes the log may span before every range is asked for a checkpoint. Default 512 MiB.
    pub log_span: u64,
    /// Bytes of log that all ranges together keep, though checkpoints cover them, for members that are behind; who is
    /// further behind begins from a snapshot (one that is being sent the log, only once the log spans twice what it should).
    /// Ranges without other members keep nothing, and none does on a full disk. Default 256 MiB.
    pub keep_bytes: u64,
    /// Bytes per second that are fetched at most to catch up from a snapshot, all ranges together, so that those who write and
    /// read now don't suffer. Default 64 MiB.
    pub fetch_rate: u64,
    /// Bytes of commands one range holds that were submitted and not yet answered. Default 64 MiB.
    pub in_flight_bytes: usize,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            wal: WalConfig::default(),
            heartbeat: Duration::from_millis(150),
            election: (Duration::from_millis(500), Duration::from_millis(1000)),
            checkpoint_bytes: 64 << 20,
            checkpoint_interval: Duration::from_secs(30),
            log_span: 512 << 20,
            keep_bytes: 256 << 20,
            fetch_rate: 64 << 20,
            in_flight_bytes: 64 << 20,
        }
    }
}

/// Why the host or a range could not be started.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The log could not be opened.
    #[error(transparent)]
    Log(#[from] wal::OpenError),
    /// A setting makes no sense.
    #[error("raft settings: {0}")]
    Config(String),
    /// The range runs already.
    #[error("range {0} runs already")]
    Running(RangeId),
    /// The log has nothing of the range, and it was not to be made.
    #[error("range {0} does not exist here")]
    Missing(RangeId),
    /// The host is being shut down.
    #[error("range {0} is not started: this node is stopping")]
    Stopping(RangeId),
    /// Raft did not start.
    #[error("range {range}: {why}")]
    Raft {
        /// The range.
        range: RangeId,
        /// What openraft says.
        why: String,
    },
    /// The file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The ranges of one node. Cheap to clone; all clones are the same host.
#[derive(Clone)]
pub struct RangeHost {
    inner: Arc<Inner>,
}

/// How a range is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Made where the log has nothing of it, with this node as its only member.
    Bootstrap,
    /// Made where the log has nothing of it, with these nodes as its voters. Each of them must make it so, with the same
    /// ones; it goes on once a majority has.
    Found(BTreeSet<NodeId>),
    /// Only where the log has something of it.
    Restart,
    /// Where the log has nothing of it, it waits, empty, for a leader to take this node in.
    Join,
}

struct Inner {
    node: NodeId,
    config: HostConfig,
    raft: Arc<Config>,
    network: Network,
    feed: LeadershipFeed,
    fetching: Arc<net::Pace>,
    stop: CancellationToken,
    /// Ranges that are being started: a shutdown waits for them, as none may write once it is over.
    starting: TaskTracker,
    pace: Pace,
    fatal: watch::Sender<Option<Arc<str>>>,
    running: Arc<Mutex<BTreeMap<RangeId, Running>>>,
    watchers: Vec<AbortHandle>,
}

pub(super) struct Running {
    pub range: Range,
    pub raft: Raft,
    pub group: Group,
    bulk: Option<Arc<dyn Bulk>>,
    stop: CancellationToken,
    tasks: [AbortHandle; 2],
}

impl Drop for Running {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.watchers.iter().for_each(AbortHandle::abort);
    }
}

impl Replicas for Mutex<BTreeMap<RangeId, Running>> {
    fn replica(&self, range: RangeId) -> Option<Raft> {
        self.lock().get(&range).map(|running| running.raft.clone())
    }

    fn bulk(&self, range: RangeId) -> Option<Arc<dyn Bulk>> {
        self.lock().get(&range).and_then(|running| running.bulk.clone())
    }
}

impl RangeHost {
    /// Opens the write-ahead log in `dir` and recovers what it has of all ranges. The node reaches no other.
    pub async fn open(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        node: NodeId,
        config: HostConfig,
    ) -> Result<Self, HostError> {
        Self::open_among(files, dir, node, config, None).await
    }

    /// The same, for a node that reaches others.
    pub async fn open_among(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        node: NodeId,
        config: HostConfig,
        peers: Option<Peers>,
    ) -> Result<Self, HostError> {
        let raft = raft_config(&config)?;
        let (dir, sizes) = (dir.to_path_buf(), config.wal.clone());
        let wal = crate::threads::blocking(move || Wal::open(files, &dir, sizes))
            .await
            .map_err(io::Error::other)??;
        let fatal = watch::Sender::new(None);
        let watcher = {
            let mut failed = wal.fatal();
            let fatal = fatal.clone();
            tokio::spawn(async move {
                if let Ok(error) = failed.wait_for(Option::is_some).await
                    && let Some(error) = &*error
                {
                    checkpoint::fail(&fatal, &error.to_string());
                }
            })
        };
        let running = Arc::<Mutex<BTreeMap<RangeId, Running>>>::default();
        let mut watchers = vec![watcher.abort_handle()];
        if let Some(peers) = &peers {
            let greet = greet_returned(peers.returned(), running.clone());
            watchers.push(tokio::spawn(greet).abort_handle());
        }
        Ok(Self {
            inner: Arc::new(Inner {
                node,
                raft: Arc::new(raft),
                network: Network::new(peers),
                feed: LeadershipFeed::default(),
                fetching: Arc::new(net::Pace::new(config.fetch_rate)),
                stop: CancellationToken::new(),
                starting: TaskTracker::new(),
                pace: Pace {
                    interval: config.checkpoint_interval,
                    span: config.log_span + config.keep_bytes,
                    pressure: Arc::new(Notify::new()),
                    wal: Arc::new(wal),
                    keep: config.keep_bytes,
                    ranges: Arc::new(AtomicUsize::new(0)),
                },
                config,
                fatal,
                running,
                watchers,
            }),
        })
    }

    /// Lets peers reach this node's ranges.
    pub fn serve(&self, server: PeerServer) -> PeerServer {
        server.with(Service::server(self.inner.running.clone()))
    }

    /// Who leads this node's ranges, for peers to watch.
    pub fn feed(&self) -> LeadershipFeed {
        self.inner.feed.clone()
    }

    /// Ranges the log has something of.
    pub fn known(&self) -> Vec<RangeId> {
        self.inner.pace.wal.groups()
    }

    /// A range that runs.
    pub fn range(&self, id: RangeId) -> Option<Range> {
        self.inner.running.lock().get(&id).map(|running| running.range.clone())
    }

    pub(super) fn with_running<T>(&self, id: RangeId, look: impl FnOnce(&Running) -> T) -> Option<T> {
        self.inner.running.lock().get(&id).map(look)
    }

    /// The ranges that run.
    pub(super) fn all_running(&self) -> Vec<(RangeId, Raft)> {
        let running = self.inner.running.lock();
        running
            .iter()
            .map(|(id, running)| (*id, running.raft.clone()))
            .collect()
    }

    pub(super) fn node(&self) -> NodeId {
        self.inner.node
    }

    pub(super) fn config(&self) -> &HostConfig {
        &self.inner.config
    }

    /// Starts a range over its machine. The log behind the machine's last checkpoint is folded again; where this node is
    /// the only voter it leads, and has folded all of it, when this returns. Elsewhere, what is known to be committed is
    /// folded, and the rest as the leader says.
    pub async fn start(&self, id: RangeId, machine: Box<dyn Machine>, how: Start) -> Result<Range, HostError> {
        let inner = &*self.inner;
        let failed = |why: String| HostError::Raft { range: id, why };
        // Before the look: a shutdown that is not seen here waits for this token.
        let _starting = inner.starting.token();
        if inner.stop.is_cancelled() {
            return Err(HostError::Stopping(id));
        }
        if self.range(id).is_some() {
            return Err(HostError::Running(id));
        }
        let group = inner.pace.wal.group(id);
        let state = group.state();
        let fresh = state.vote.is_none() && state.last.is_none();
        if fresh && how == Start::Restart {
            return Err(HostError::Missing(id));
        }
        let progress = Arc::new(Progress::new(inner.config.checkpoint_bytes, inner.fatal.clone()));
        let bulk = machine.bulk();
        let stop = inner.stop.child_token();
        let fetchers = inner.network.fetchers(id, inner.fetching.clone(), stop.clone());
        let fold = Fold::new(machine, group.clone(), progress.clone(), fetchers)?;
        let started = fold.started();
        let network = inner.network.of(id, progress.floor());
        let store = Store::new(group.clone(), fold.alone());
        let raft = Raft::new(inner.node, inner.raft.clone(), network, store, fold)
            .await
            .map_err(|e| failed(e.to_string()))?;
        started.store(true, Ordering::Release);
        let founders = match how {
            Start::Bootstrap => Some(BTreeSet::from([inner.node])),
            Start::Found(nodes) => Some(nodes),
            Start::Restart | Start::Join => None,
        };
        if let Some(founders) = founders
            && !raft.is_initialized().await.map_err(|e| failed(e.to_string()))?
        {
            match raft.initialize(founders).await {
                // Another founder was faster: this node has its entry, or its vote, already.
                Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        let node = inner.node;
        let alone = raft
            .with_raft_state(move |state| state.membership_state.effective().voter_ids().eq([node]))
            .await
            .map_err(|e| failed(e.to_string()))?;
        if alone {
            raft.trigger().elect(false).await.map_err(|e| failed(e.to_string()))?;
        }
        let leadership = watch::Sender::new(Leadership::default());
        let follow = Follow {
            range: id,
            raft: raft.clone(),
            node: inner.node,
            applied: progress.term(),
            leadership: leadership.clone(),
            feed: inner.feed.clone(),
            fatal: inner.fatal.clone(),
        };
        let follow = follow.run();
        let checkpoints = checkpoint::run(raft.clone(), group.clone(), progress, inner.pace.clone());
        let tasks = [
            tokio::spawn(follow).abort_handle(),
            tokio::spawn(checkpoints).abort_handle(),
        ];
        let mut here = leadership.subscribe();
        let range = Range::new(
            id,
            inner.node,
            raft.clone(),
            inner.pace.wal.clone(),
            leadership,
            inner.fatal.subscribe(),
            inner.config.in_flight_bytes,
        );
        let running = Running {
            range: range.clone(),
            raft,
            group,
            bulk,
            stop,
            tasks,
        };
        if let Some(twin) = inner.running.lock().insert(id, running) {
            drop(twin);
            return Err(HostError::Running(id));
        }
        inner.pace.ranges.fetch_add(1, Ordering::Relaxed);
        if alone {
            let mut fatal = inner.fatal.subscribe();
            tokio::select! {
                led = here.wait_for(|leadership| leadership.here) => {
                    led.map_err(|_| failed("stopped while it started".into()))?;
                }
                () = inner.stop.cancelled() => return Err(HostError::Stopping(id)),
                why = fatal.wait_for(Option::is_some) => {
                    let why = why.ok().and_then(|why| why.clone());
                    return Err(failed(why.as_deref().unwrap_or("stopped").into()));
                }
            }
        }
        Ok(range)
    }

    /// Stops a range and forgets its log and votes: for a replica that its range's members gave up, and for a range of a
    /// store this node leaves. What the range's machine holds is left to its owner. Durable when this returns.
    pub async fn forget(&self, id: RangeId) -> Result<(), HostError> {
        let running = self.inner.running.lock().remove(&id);
        if let Some(running) = running {
            self.inner.pace.ranges.fetch_sub(1, Ordering::Relaxed);
            running.tasks.iter().for_each(AbortHandle::abort);
            running.range.stop();
            running.stop.cancel();
            if let Err(error) = running.raft.shutdown().await {
                tracing::warn!(range = %id, %error, "a range did not stop cleanly");
            }
        }
        self.inner.feed.forget(id);
        let (done, gone) = oneshot::channel();
        self.inner.pace.wal.group(id).remove(Box::new(move |result| {
            let _ = done.send(result);
        }));
        let gone = gone.await.unwrap_or(Err(wal::WalError::Closed));
        gone.map_err(|error| HostError::Io(error.into()))
    }

    /// The reason this node no longer writes, when there is one: a sync failed, a machine panicked.
    pub fn fatal(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.inner.fatal.subscribe()
    }

    /// Stops all ranges, then the log. What was acknowledged is durable already.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        self.inner.starting.close();
        self.inner.starting.wait().await;
        let running = std::mem::take(&mut *self.inner.running.lock());
        for running in running.values() {
            running.tasks.iter().for_each(AbortHandle::abort);
            running.range.stop();
        }
        let stops = running.values().map(|running| running.raft.shutdown());
        for stopped in futures::future::join_all(stops).await {
            if let Err(error) = stopped {
                tracing::warn!(%error, "a range did not stop cleanly");
            }
        }
        drop(running);
        let wal = self.inner.pace.wal.clone();
        if let Err(error) = crate::threads::blocking(move || wal.close()).await {
            tracing::warn!(%error, "the write-ahead log did not close cleanly");
        }
    }
}

fn raft_config(config: &HostConfig) -> Result<Config, HostError> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let election_timeout_max = millis(config.election.1);
    let raft = Config {
        cluster_name: "tessaridb".into(),
        heartbeat_interval: millis(config.heartbeat),
        election_timeout_min: millis(config.election.0),
        election_timeout_max,
        install_snapshot_timeout: 10_000,
        snapshot_policy: SnapshotPolicy::Never,
        // What is purged, and when, `checkpoint` says.
        max_in_snapshot_log_to_keep: u64::MAX,
        // The store bounds them by bytes.
        max_payload_entries: 1024,
        api_channel_size: Some(4096),
        notification_channel_size: Some(4096),
        enable_pre_vote: Some(true),
        // A restarted leader leads in a new term or not at all: then its first entry tells what is committed.
        enable_leader_restore: Some(false),
        allow_log_reversion: Some(false),
        quorum_loss_probe_interval: Some(election_timeout_max.saturating_mul(3)),
        ..Config::default()
    };
    raft.validate().map_err(|e| HostError::Config(e.to_string()))
}

/// Keeps `leadership` true.
struct Follow {
    range: RangeId,
    raft: Raft,
    node: NodeId,
    applied: watch::Receiver<Option<u64>>,
    leadership: watch::Sender<Leadership>,
    feed: LeadershipFeed,
    fatal: watch::Sender<Option<Arc<str>>>,
}

impl Follow {
    /// A leader is `here` once an entry of its own term is folded: then all before it is.
    async fn run(mut self) {
        let mut metrics = self.raft.server_metrics();
        loop {
            let (leader, term, alone) = {
                let metrics = metrics.borrow_and_update();
                let mut members = metrics.membership_config.nodes().map(|(node, _)| *node);
                let alone = members.next() == Some(self.node) && members.next().is_none();
                let (leader, term) = told::leader(&metrics);
                (leader, term, alone)
            };
            let folded = *self.applied.borrow_and_update();
            let now = Leadership {
                leader,
                term,
                here: leader == Some(self.node) && folded == Some(term) && !(term > 3 && planted::has(Bug::NeverReady)),
            };
            self.leadership
                .send_if_modified(|was| std::mem::replace(was, now) != now);
            // Others are sent here once there is an answer to be had.
            let ready = leader.filter(|leader| *leader != self.node || now.here);
            self.feed.tell(RangeNews {
                range: self.range,
                term,
                leader: ready,
            });
            // Who has nobody to hear from or to tell anything needs no clock.
            self.raft.runtime_config().tick(!(alone && now.here));
            tokio::select! {
                changed = metrics.changed() => if changed.is_err() { break },
                changed = self.applied.changed() => if changed.is_err() { break },
            }
        }
        self.leadership.send_replace(Leadership::default());
        checkpoint::fail(&self.fatal, "a range stopped by itself");
    }
}

/// Ranges need not wait any longer for a peer that answers again.
async fn greet_returned(
    mut returned: tokio::sync::broadcast::Receiver<NodeId>,
    running: Arc<Mutex<BTreeMap<RangeId, Running>>>,
) {
    loop {
        let node = match returned.recv().await {
            Ok(node) => Some(node),
            Err(RecvError::Lagged(_)) => None,
            Err(RecvError::Closed) => return,
        };
        let rafts: Vec<Raft> = running.lock().values().map(|running| running.raft.clone()).collect();
        for raft in rafts {
            // No node: all of them. An error says that the range is stopping.
            let _ = raft.trigger().reset_backoff(node).await;
        }
    }
}
