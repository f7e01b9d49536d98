//! A range's machine as openraft's state machine.

use super::checkpoint::Progress;
use super::net::Fetchers;
use super::{Entry, LogId, SnapshotMeta, StoredMembership, Types, from_raft};
use crate::machine::{At, CheckpointJob, Machine};
use crate::wal::Group;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use openraft::storage::{ApplyResponder, EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// `Machine::applied` is called after this many commands at the latest while a long run is applied.
const RUN: usize = 1024;

/// What a checkpoint covers. Kept by the machine, as JSON.
#[derive(Serialize, Deserialize)]
struct Marker {
    version: u32,
    applied: Option<LogId>,
    membership: StoredMembership,
}

const MARKER_VERSION: u32 = 1;

fn marker(meta: &SnapshotMeta) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(&Marker {
        version: MARKER_VERSION,
        applied: meta.last_log_id,
        membership: meta.last_membership.clone(),
    })?)
}

fn is_alone(membership: &StoredMembership) -> bool {
    membership.voter_ids().count() == 1
}

/// A machine, and how far it has folded its range's log.
pub(crate) struct Fold {
    /// Reached by `&mut` alone; the lock is never taken.
    machine: Mutex<Box<dyn Machine>>,
    group: Group,
    applied: Option<LogId>,
    membership: StoredMembership,
    /// Whether that has one voter only.
    alone: Arc<AtomicBool>,
    /// The last durable checkpoint.
    checkpoint: Arc<Mutex<Option<SnapshotMeta>>>,
    progress: Arc<Progress>,
    fetchers: Fetchers,
    /// How many snapshots were installed. Who writes a checkpoint holds it, so that none of before an installation is
    /// written after it.
    installed: Arc<tokio::sync::Mutex<u64>>,
    /// Set once Raft has started. Before, it asks for the snapshot's place only.
    started: Arc<AtomicBool>,
    /// A machine that panicked is in no state to go on.
    broken: bool,
}

impl Fold {
    /// The machine is where its last checkpoint left it.
    pub fn new(
        machine: Box<dyn Machine>,
        group: Group,
        progress: Arc<Progress>,
        fetchers: Fetchers,
    ) -> io::Result<Self> {
        let marker = match machine.recovered() {
            Some(bytes) => {
                let marker: Marker = serde_json::from_slice(&bytes)?;
                if marker.version != MARKER_VERSION {
                    let what = format!("a checkpoint marker of version {}", marker.version);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
                Some(marker)
            }
            None => None,
        };
        let meta = marker.map(|marker| SnapshotMeta {
            last_log_id: marker.applied,
            last_membership: marker.membership,
        });
        if let Some(applied) = meta.as_ref().and_then(|meta| meta.last_log_id) {
            group.applied(applied.index + 1);
        }
        let membership = meta.as_ref().map(|meta| meta.last_membership.clone());
        let membership = membership.unwrap_or_default();
        Ok(Self {
            machine: Mutex::new(machine),
            group,
            applied: meta.as_ref().and_then(|meta| meta.last_log_id),
            alone: Arc::new(AtomicBool::new(is_alone(&membership))),
            membership,
            checkpoint: Arc::new(Mutex::new(meta)),
            progress,
            fetchers,
            installed: Arc::default(),
            started: Arc::default(),
            broken: false,
        })
    }

    /// Whether the range has one voter only, as far as is folded.
    pub fn alone(&self) -> Arc<AtomicBool> {
        self.alone.clone()
    }

    fn set_membership(&mut self, membership: StoredMembership) {
        self.alone.store(is_alone(&membership), Ordering::Relaxed);
        self.membership = membership;
    }

    /// To be set once Raft has started.
    pub fn started(&self) -> Arc<AtomicBool> {
        self.started.clone()
    }

    /// What is folded, and the marker that says so.
    fn mark(&self) -> io::Result<(SnapshotMeta, Vec<u8>)> {
        let meta = SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
        };
        let marker = marker(&meta)?;
        Ok((meta, marker))
    }

    fn fold(&mut self, entry: Entry) -> io::Result<Bytes> {
        let at = At {
            index: entry.log_id.index,
            term: entry.log_id.leader_id.term,
        };
        let answer = match entry.payload {
            EntryPayload::Blank => Bytes::new(),
            EntryPayload::Normal(command) => {
                self.progress.folded(command.size() as u64);
                self.guarded(|machine| machine.apply(at, command))?
            }
            EntryPayload::Membership(membership) => {
                self.set_membership(StoredMembership::new(Some(entry.log_id), membership));
                Bytes::new()
            }
        };
        self.applied = Some(entry.log_id);
        Ok(answer)
    }

    fn finish(&mut self, answers: &mut Vec<(ApplyResponder<Types>, Bytes)>) -> io::Result<()> {
        self.guarded(|machine| machine.applied())?;
        if let Some(applied) = self.applied {
            self.group.applied(applied.index + 1);
            self.progress
                .applied(from_raft(applied), self.machine.get_mut().dirty_bytes());
        }
        // Who is answered finds what it was told when it reads.
        for (responder, answer) in answers.drain(..) {
            responder.send(answer);
        }
        Ok(())
    }
}

impl Fold {
    /// A machine that panics ends the range: its state is not to be trusted any more.
    fn guarded<T>(&mut self, call: impl FnOnce(&mut dyn Machine) -> T) -> io::Result<T> {
        if self.broken {
            return Err(io::Error::other("the range's machine panicked before"));
        }
        let machine = &mut **self.machine.get_mut();
        catch_unwind(AssertUnwindSafe(|| call(machine))).map_err(|_| {
            self.broken = true;
            self.progress.broke("a machine panicked");
            io::Error::other("the range's machine panicked")
        })
    }
}

impl RaftStateMachine<Types> for Fold {
    /// Positions and folds. Data travels by its own way.
    type SnapshotData = Bytes;
    type SnapshotBuilder = Checkpointer;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        let mut answers = Vec::new();
        let mut run = 0;
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            let answer = self.fold(entry)?;
            answers.extend(responder.map(|responder| (responder, answer)));
            run += 1;
            if run >= RUN {
                self.finish(&mut answers)?;
                run = 0;
            }
        }
        self.finish(&mut answers)
    }

    async fn get_snapshot_builder(&mut self) -> Checkpointer {
        let (meta, job) = match self.mark() {
            Ok((meta, marker)) => (meta, self.guarded(|machine| machine.checkpoint(marker))),
            Err(error) => (SnapshotMeta::default(), Err(error)),
        };
        self.progress.begun();
        let epoch = *self.installed.lock().await;
        Checkpointer {
            job: Mutex::new(Some(job)),
            meta,
            epoch,
            installed: self.installed.clone(),
            checkpoint: self.checkpoint.clone(),
            progress: self.progress.clone(),
        }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Bytes) -> io::Result<()> {
        let marker = marker(meta)?;
        let size = snapshot.len();
        let installed = self.installed.clone();
        let mut installed = installed.lock().await;
        *installed += 1;
        let members = meta.last_membership.nodes().map(|(node, _)| *node).collect();
        let fetch = self.fetchers.of(members);
        let job = self
            .guarded(|machine| machine.install(snapshot, marker, fetch))
            .flatten();
        let done = match job {
            Ok(job) => run(job).await,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            if self.fetchers.stopped() {
                return Err(error);
            }
            tracing::error!(%error, "a snapshot could not be put to use");
            self.progress
                .broke(&format!("a snapshot could not be put to use: {error}"));
            return Err(error);
        }
        self.applied = meta.last_log_id;
        self.set_membership(meta.last_membership.clone());
        *self.checkpoint.lock() = Some(meta.clone());
        tracing::info!(applied = ?self.applied, bytes = size, "a snapshot of another member is in use");
        self.progress.begun();
        self.finish(&mut Vec::new())
    }

    /// The state as it is now, which is never behind what was purged from the log.
    async fn get_current_snapshot(&mut self) -> io::Result<Option<openraft::alias::SnapshotOf<Types, Bytes>>> {
        let Some(meta) = self.checkpoint.lock().clone() else {
            return Ok(None);
        };
        if !self.started.load(Ordering::Acquire) {
            let snapshot = Bytes::new();
            return Ok(Some(Snapshot { meta, snapshot }));
        }
        let snapshot = self.guarded(|machine| machine.snapshot()).flatten()?;
        let (meta, _) = self.mark()?;
        Ok(Some(Snapshot { meta, snapshot }))
    }
}

/// Runs a machine's job on a thread that may block.
async fn run(job: CheckpointJob) -> io::Result<()> {
    crate::threads::blocking(job).await.map_err(io::Error::other).flatten()
}

/// One checkpoint: a job of the machine, run aside while applies go on.
pub(crate) struct Checkpointer {
    job: Mutex<Option<io::Result<CheckpointJob>>>,
    meta: SnapshotMeta,
    /// How many snapshots had been installed when it was taken.
    epoch: u64,
    installed: Arc<tokio::sync::Mutex<u64>>,
    checkpoint: Arc<Mutex<Option<SnapshotMeta>>>,
    progress: Arc<Progress>,
}

impl RaftSnapshotBuilder<Types> for Checkpointer {
    type SnapshotData = Bytes;

    /// The answer carries no bytes: Raft asks for the current snapshot when it needs one.
    async fn build_snapshot(&mut self) -> io::Result<openraft::alias::SnapshotOf<Types, Bytes>> {
        let Some(job) = self.job.get_mut().take() else {
            return Err(io::Error::other("a checkpoint is taken once"));
        };
        let installed = self.installed.lock().await;
        if *installed != self.epoch {
            // What it would say is older than what is on disk since.
            let now = self.checkpoint.lock().clone().unwrap_or_default();
            self.progress.done(now.last_log_id.map(|last| last.index));
            return Ok(Snapshot {
                meta: now,
                snapshot: Bytes::new(),
            });
        }
        let done = match job {
            Ok(job) => run(job).await,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::error!(%error, "a checkpoint failed");
            self.progress.broke(&format!("a checkpoint failed: {error}"));
            return Err(error);
        }
        let index = self.meta.last_log_id.map(|last| last.index);
        *self.checkpoint.lock() = Some(self.meta.clone());
        self.progress.done(index);
        Ok(Snapshot {
            meta: self.meta.clone(),
            snapshot: Bytes::new(),
        })
    }
}
