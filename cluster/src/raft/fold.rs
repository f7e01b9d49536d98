//! A range's machine as openraft's state machine.

use super::checkpoint::Progress;
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

/// A machine, and how far it has folded its range's log.
pub(crate) struct Fold {
    /// Reached by `&mut` alone; the lock is never taken.
    machine: Mutex<Box<dyn Machine>>,
    group: Group,
    applied: Option<LogId>,
    membership: StoredMembership,
    /// The last durable checkpoint.
    checkpoint: Arc<Mutex<Option<SnapshotMeta>>>,
    progress: Arc<Progress>,
    /// A machine that panicked is in no state to go on.
    broken: bool,
}

impl Fold {
    /// The machine is where its last checkpoint left it.
    pub fn new(machine: Box<dyn Machine>, group: Group, progress: Arc<Progress>) -> io::Result<Self> {
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
        Ok(Self {
            machine: Mutex::new(machine),
            group,
            applied: meta.as_ref().and_then(|meta| meta.last_log_id),
            membership: meta
                .as_ref()
                .map(|meta| meta.last_membership.clone())
                .unwrap_or_default(),
            checkpoint: Arc::new(Mutex::new(meta)),
            progress,
            broken: false,
        })
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
                self.membership = StoredMembership::new(Some(entry.log_id), membership);
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
    /// Data travels by its own way; a snapshot is a checkpoint's mark.
    type SnapshotData = ();
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
        let marker = Marker {
            version: MARKER_VERSION,
            applied: self.applied,
            membership: self.membership.clone(),
        };
        let job = serde_json::to_vec(&marker)
            .map_err(io::Error::from)
            .and_then(|marker| self.guarded(|machine| machine.checkpoint(marker)));
        self.progress.begun();
        Checkpointer {
            job: Mutex::new(Some(job)),
            meta: SnapshotMeta {
                last_log_id: self.applied,
                last_membership: self.membership.clone(),
            },
            checkpoint: self.checkpoint.clone(),
            progress: self.progress.clone(),
        }
    }

    async fn install_snapshot(&mut self, _meta: &SnapshotMeta, _snapshot: ()) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a range is not filled from another member's snapshot",
        ))
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<openraft::alias::SnapshotOf<Types, ()>>> {
        Ok(self
            .checkpoint
            .lock()
            .clone()
            .map(|meta| Snapshot { meta, snapshot: () }))
    }
}

/// One checkpoint: a job of the machine, run aside while applies go on.
pub(crate) struct Checkpointer {
    job: Mutex<Option<io::Result<CheckpointJob>>>,
    meta: SnapshotMeta,
    checkpoint: Arc<Mutex<Option<SnapshotMeta>>>,
    progress: Arc<Progress>,
}

impl RaftSnapshotBuilder<Types> for Checkpointer {
    type SnapshotData = ();

    async fn build_snapshot(&mut self) -> io::Result<openraft::alias::SnapshotOf<Types, ()>> {
        let Some(job) = self.job.get_mut().take() else {
            return Err(io::Error::other("a checkpoint is taken once"));
        };
        let done = match job {
            Ok(job) => tokio::task::spawn_blocking(job)
                .await
                .map_err(io::Error::other)
                .flatten(),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::error!(%error, "a checkpoint failed");
            self.progress.broke(&format!("a checkpoint failed: {error}"));
            return Err(error);
        }
        *self.checkpoint.lock() = Some(self.meta.clone());
        self.progress.done();
        Ok(Snapshot {
            meta: self.meta.clone(),
            snapshot: (),
        })
    }
}
