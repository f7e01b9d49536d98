//! When a range's machine takes a checkpoint: after so many bytes, or so long after the first change.

use super::Raft;
use crate::wal::{self, Group, Wal};
use openraft::async_runtime::watch::WatchReceiver;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How far a range's machine is. Written by its state-machine task, read by those who pace and watch it.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Bytes of commands after which a checkpoint is due.
    limit: u64,
    bytes: AtomicU64,
    dirty: AtomicBool,
    full: AtomicBool,
    on_dirty: Notify,
    on_full: Notify,
    /// How many checkpoints were done, and the last index the last one covers.
    done: watch::Sender<(u64, Option<u64>)>,
    /// Term of the last applied entry.
    term: watch::Sender<Option<u64>>,
    /// Members that lack an entry up to this index are no longer sent the log.
    floor: watch::Sender<u64>,
    /// Ends the node's writes.
    fatal: watch::Sender<Option<Arc<str>>>,
}

impl Progress {
    pub fn new(limit: u64, fatal: watch::Sender<Option<Arc<str>>>) -> Self {
        Self {
            limit,
            bytes: AtomicU64::new(0),
            dirty: AtomicBool::new(false),
            full: AtomicBool::new(false),
            on_dirty: Notify::new(),
            on_full: Notify::new(),
            done: watch::Sender::new((0, None)),
            term: watch::Sender::new(None),
            floor: watch::Sender::new(0),
            fatal,
        }
    }

    pub fn folded(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn applied(&self, last: wal::LogId, dirty_bytes: u64) {
        self.term
            .send_if_modified(|term| term.replace(last.term) != Some(last.term));
        if !self.dirty.swap(true, Ordering::AcqRel) {
            self.on_dirty.notify_one();
        }
        let due = self.bytes.load(Ordering::Relaxed).max(dirty_bytes) >= self.limit;
        if due && !self.full.swap(true, Ordering::AcqRel) {
            self.on_full.notify_one();
        }
    }

    pub fn begun(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.full.store(false, Ordering::Release);
        self.dirty.store(false, Ordering::Release);
    }

    pub fn done(&self, index: Option<u64>) {
        self.done.send_modify(|done| *done = (done.0 + 1, index));
    }

    pub fn broke(&self, why: &str) {
        fail(&self.fatal, why);
    }

    pub fn floor(&self) -> watch::Receiver<u64> {
        self.floor.subscribe()
    }

    pub fn term(&self) -> watch::Receiver<Option<u64>> {
        self.term.subscribe()
    }
}

/// Says that the node no longer writes; the first reason stays.
pub(super) fn fail(fatal: &watch::Sender<Option<Arc<str>>>, why: &str) {
    fatal.send_if_modified(|reason| {
        let first = reason.is_none();
        reason.get_or_insert_with(|| why.into());
        first
    });
}

/// What all ranges of a node share for pacing.
#[derive(Clone)]
pub(super) struct Pace {
    pub interval: Duration,
    /// The log may span so many bytes before all ranges are asked for a checkpoint.
    pub span: u64,
    pub pressure: Arc<Notify>,
    pub wal: Arc<Wal>,
    /// Bytes of log that all ranges together keep, once a checkpoint covers them, for members that are behind: none while the
    /// disk is full.
    pub keep: u64,
    /// Ranges that run.
    pub ranges: Arc<AtomicUsize>,
}

/// Takes a range's checkpoints, until dropped or the range stops. Nothing runs while the range is unchanged.
pub(super) async fn run(raft: Raft, group: Group, progress: Arc<Progress>, pace: Pace) {
    loop {
        tokio::select! {
            () = progress.on_dirty.notified() => {}
            () = pace.wal.filled() => {
                // Covered long since, and kept for members that may be behind.
                let covered = raft.data_metrics().borrow_watched().snapshot.map(|last| last.index);
                if let Some(covered) = covered
                    && drop_needless(&raft, &group, &progress, &pace, covered).await.is_none()
                {
                    return;
                }
                continue;
            }
        }
        tokio::select! {
            () = pace.wal.filled() => {}
            () = tokio::time::sleep(pace.interval) => {}
            () = progress.on_full.notified() => {}
            () = pace.pressure.notified() => {}
        }
        if checkpoint(&raft, &group, &progress, &pace).await.is_none() {
            return;
        }
        if pace.wal.span() > pace.span {
            pace.pressure.notify_waiters();
        }
    }
}

/// Takes one checkpoint, waits until it is durable and drops the log it makes needless; `None` when the range has stopped.
pub(super) async fn checkpoint(raft: &Raft, group: &Group, progress: &Progress, pace: &Pace) -> Option<()> {
    let mut done = progress.done.subscribe();
    let mut fatal = progress.fatal.subscribe();
    raft.trigger().snapshot().await.ok()?;
    tokio::select! {
        changed = done.changed() => changed.ok()?,
        _ = fatal.wait_for(Option::is_some) => return None,
    }
    let Some(index) = done.borrow_and_update().1 else {
        return Some(());
    };
    // Raft drops only what it knows to be covered, and hears of the checkpoint a little later.
    let mut metrics = raft.data_metrics();
    while metrics.borrow_and_update().snapshot.map(|last| last.index) < Some(index) {
        tokio::select! {
            changed = metrics.changed() => changed.ok()?,
            _ = fatal.wait_for(Option::is_some) => return None,
        }
    }
    drop_needless(raft, group, progress, pace, index).await
}

/// Drops the log up to here but for what others may need; `None` when the range has stopped.
async fn drop_needless(raft: &Raft, group: &Group, progress: &Progress, pace: &Pace, index: u64) -> Option<()> {
    let full = !pace.wal.admits(true);
    let keep = match full {
        true => 0,
        false => pace.keep / pace.ranges.load(Ordering::Relaxed).max(1) as u64,
    };
    let Some(needless) = needless(raft, group, keep) else {
        return Some(());
    };
    let upto = needless.min(index);
    raft.trigger().purge_log(upto).await.ok()?;
    // Raft drops nothing that it is sending. That is right for who is a little behind; who can't keep up must not make the log
    // grow for ever, nor fill the disk.
    if full || pace.wal.span() > 2 * pace.span {
        progress.floor.send_replace(upto);
    }
    Some(())
}

/// The last index nobody needs any more, were it covered by a checkpoint: what all members hold, and what lies more than
/// `keep` bytes back. `None` where there is nothing.
fn needless(raft: &Raft, group: &Group, keep: u64) -> Option<u64> {
    let members = raft.server_metrics().borrow_watched().membership_config.clone();
    let me = *raft.node_id();
    let mut others = members
        .nodes()
        .map(|(node, _)| *node)
        .filter(|node| *node != me)
        .peekable();
    if others.peek().is_none() {
        return Some(u64::MAX);
    }
    let held_by_all = raft
        .data_metrics()
        .borrow_watched()
        .replication
        .as_ref()
        .and_then(|replication| {
            let held = others.map(|node| replication.get(&node).copied().flatten().map(|last| last.index));
            held.min().flatten()
        });
    held_by_all.max(group.first_of_last(keep).checked_sub(1))
}
