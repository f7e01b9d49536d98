//! The ranges of a node: opens the log, starts ranges, stops them.

use super::checkpoint::{self, Pace, Progress};
use super::network::NoPeers;
use super::{Fold, Raft, store::Store};
use crate::fs::FileSystem;
use crate::ids::{NodeId, RangeId};
use crate::machine::Machine;
use crate::range::{Leadership, Range};
use crate::wal::{self, Wal, WalConfig};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{Config, SnapshotPolicy};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

/// Settings of all ranges of a node.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The write-ahead log's sizes.
    pub wal: WalConfig,
    /// How often a leader tells its followers that it lives. Default 150 ms.
    pub heartbeat: Duration,
    /// A follower that hears nothing for a random time in here stands for election. Default 500 to 1000 ms.
    pub election: (Duration, Duration),
    /// Bytes of commands after which a range takes a checkpoint. Default 64 MiB.
    pub checkpoint_bytes: u64,
    /// Longest time from a change to the checkpoint that covers it. Default 30 s.
    pub checkpoint_interval: Duration,
    /// Bytes the log may span before every range is asked for a checkpoint. Default 512 MiB.
    pub log_span: u64,
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

struct Inner {
    node: NodeId,
    config: HostConfig,
    raft: Arc<Config>,
    pace: Pace,
    fatal: watch::Sender<Option<Arc<str>>>,
    running: Mutex<BTreeMap<RangeId, Running>>,
    watcher: AbortHandle,
}

struct Running {
    range: Range,
    raft: Raft,
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
        self.watcher.abort();
    }
}

impl RangeHost {
    /// Opens the write-ahead log in `dir` and recovers what it has of all ranges.
    pub async fn open(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        node: NodeId,
        config: HostConfig,
    ) -> Result<Self, HostError> {
        let raft = raft_config(&config)?;
        let (dir, sizes) = (dir.to_path_buf(), config.wal.clone());
        let wal = tokio::task::spawn_blocking(move || Wal::open(files, &dir, sizes))
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
        Ok(Self {
            inner: Arc::new(Inner {
                node,
                raft: Arc::new(raft),
                pace: Pace {
                    interval: config.checkpoint_interval,
                    span: config.log_span,
                    pressure: Arc::new(Notify::new()),
                    wal: Arc::new(wal),
                },
                config,
                fatal,
                running: Mutex::default(),
                watcher: watcher.abort_handle(),
            }),
        })
    }

    /// Ranges the log has something of.
    pub fn known(&self) -> Vec<RangeId> {
        self.inner.pace.wal.groups()
    }

    /// A range that runs.
    pub fn range(&self, id: RangeId) -> Option<Range> {
        self.inner.running.lock().get(&id).map(|running| running.range.clone())
    }

    /// Starts a range over its machine. With `bootstrap`, a range the log has nothing of is made, with this node as its
    /// only voter. The log behind the machine's last checkpoint is folded again; where this node is the only voter it
    /// leads, and has folded all of it, when this returns.
    pub async fn start(&self, id: RangeId, machine: Box<dyn Machine>, bootstrap: bool) -> Result<Range, HostError> {
        let inner = &*self.inner;
        let failed = |why: String| HostError::Raft { range: id, why };
        if self.range(id).is_some() {
            return Err(HostError::Running(id));
        }
        let group = inner.pace.wal.group(id);
        let state = group.state();
        let fresh = state.vote.is_none() && state.last.is_none();
        if fresh && !bootstrap {
            return Err(HostError::Missing(id));
        }
        let progress = Arc::new(Progress::new(inner.config.checkpoint_bytes, inner.fatal.clone()));
        let fold = Fold::new(machine, group.clone(), progress.clone())?;
        let raft = Raft::new(inner.node, inner.raft.clone(), NoPeers, Store::new(group), fold)
            .await
            .map_err(|e| failed(e.to_string()))?;
        if !raft.is_initialized().await.map_err(|e| failed(e.to_string()))? {
            raft.initialize(std::collections::BTreeSet::from([inner.node]))
                .await
                .map_err(|e| failed(e.to_string()))?;
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
        let follow = follow(
            raft.clone(),
            inner.node,
            progress.term(),
            leadership.clone(),
            inner.fatal.clone(),
        );
        let checkpoints = checkpoint::run(raft.clone(), progress, inner.pace.clone());
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
            tasks,
        };
        if let Some(twin) = inner.running.lock().insert(id, running) {
            drop(twin);
            return Err(HostError::Running(id));
        }
        if alone {
            let mut fatal = inner.fatal.subscribe();
            tokio::select! {
                led = here.wait_for(|leadership| leadership.here) => {
                    led.map_err(|_| failed("stopped while it started".into()))?;
                }
                why = fatal.wait_for(Option::is_some) => {
                    let why = why.ok().and_then(|why| why.clone());
                    return Err(failed(why.as_deref().unwrap_or("stopped").into()));
                }
            }
        }
        Ok(range)
    }

    /// The reason this node no longer writes, when there is one: a sync failed, a machine panicked.
    pub fn fatal(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.inner.fatal.subscribe()
    }

    /// Stops all ranges, then the log. What was acknowledged is durable already.
    pub async fn shutdown(&self) {
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
        if let Err(error) = tokio::task::spawn_blocking(move || wal.close()).await {
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
        max_in_snapshot_log_to_keep: 0,
        max_payload_entries: 64,
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

/// Keeps `leadership` true. A leader is `here` once an entry of its own term is folded: then all before it is.
async fn follow(
    raft: Raft,
    node: NodeId,
    mut applied: watch::Receiver<Option<u64>>,
    leadership: watch::Sender<Leadership>,
    fatal: watch::Sender<Option<Arc<str>>>,
) {
    let mut metrics = raft.server_metrics();
    loop {
        let (leader, term, alone) = {
            let metrics = metrics.borrow_and_update();
            let alone = metrics.membership_config.voter_ids().eq([node]);
            (metrics.current_leader, metrics.vote.leader_id.term, alone)
        };
        let folded = *applied.borrow_and_update();
        let now = Leadership {
            leader,
            term,
            here: leader == Some(node) && folded == Some(term),
        };
        leadership.send_if_modified(|was| std::mem::replace(was, now) != now);
        // Who has nobody to hear from or to tell anything needs no clock.
        raft.runtime_config().tick(!(alone && now.here));
        tokio::select! {
            changed = metrics.changed() => if changed.is_err() { break },
            changed = applied.changed() => if changed.is_err() { break },
        }
    }
    leadership.send_replace(Leadership::default());
    checkpoint::fail(&fatal, "a range stopped by itself");
}
