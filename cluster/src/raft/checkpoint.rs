//! When a range's machine takes a checkpoint: after so many bytes, or so long after the first change.

use super::Raft;
use crate::wal::{self, Wal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    done: watch::Sender<u64>,
    /// Term of the last applied entry.
    term: watch::Sender<Option<u64>>,
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
            done: watch::Sender::new(0),
            term: watch::Sender::new(None),
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

    pub fn done(&self) {
        self.done.send_modify(|count| *count += 1);
    }

    pub fn broke(&self, why: &str) {
        fail(&self.fatal, why);
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
}

/// Takes a range's checkpoints, until dropped or the range stops. Nothing runs while the range is unchanged.
pub(super) async fn run(raft: Raft, progress: Arc<Progress>, pace: Pace) {
    loop {
        progress.on_dirty.notified().await;
        tokio::select! {
            () = tokio::time::sleep(pace.interval) => {}
            () = progress.on_full.notified() => {}
            () = pace.pressure.notified() => {}
        }
        if take(&raft, &progress).await.is_none() {
            return;
        }
        if pace.wal.span() > pace.span {
            pace.pressure.notify_waiters();
        }
    }
}

/// Takes one checkpoint and waits until it is durable; `None` when the range has stopped.
pub(super) async fn take(raft: &Raft, progress: &Progress) -> Option<()> {
    let mut done = progress.done.subscribe();
    let mut fatal = progress.fatal.subscribe();
    raft.trigger().snapshot().await.ok()?;
    tokio::select! {
        changed = done.changed() => changed.ok(),
        _ = fatal.wait_for(Option::is_some) => None,
    }
}
