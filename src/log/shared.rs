//! What all partitions of a node share: files, the bound on unwritten bytes, the queues of the background threads.

use super::files::Files;
use super::partition::PartitionLog;
use super::{LogConfig, Offset};
use cluster::ids::PartitionId;
use cluster::threads::Bell;
use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;

/// Unwritten bytes at which the writer thread begins a round, unless many partitions share them.
const ROUND_BYTES: usize = 4 << 20;

/// Unwritten bytes for each partition that has any, at which a round begins: writing 4 KiB at a time costs the system more
/// than twice as much a byte as 64 KiB does.
const PARTITION_BYTES: usize = 64 << 10;

/// How long an append may wait for others before the writer thread begins a round.
const ROUND_WAIT: Duration = Duration::from_millis(250);

/// Pause before a full disk is tried again.
const FULL_WAIT: Duration = Duration::from_millis(200);

/// Whether logs can be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// All is well.
    #[default]
    Good,
    /// The disk is full. What was appended stays in memory (and in the write-ahead log) and is tried again; refuse new
    /// appends until space returns.
    Full,
    /// A write or sync failed; nothing is written any more. Reads go on.
    Failed(String),
}

/// Shared by [`super::Logs`], its partitions and its threads.
pub(super) struct Shared {
    pub config: LogConfig,
    pub files: Files,
    pub health: watch::Sender<Health>,
    /// One sync job at a time.
    pub syncing: Mutex<()>,
    unwritten: AtomicUsize,
    /// Unwritten bytes at which the next round begins.
    round_bytes: AtomicUsize,
    failed: AtomicBool,
    closing: AtomicBool,
    room: Mutex<()>,
    room_made: Bell,
    queue: Mutex<Queue>,
    queue_changed: Bell,
    removals: Mutex<Removals>,
    removals_changed: Bell,
}

#[derive(Default)]
struct Queue {
    /// Partitions with unwritten batches, each once.
    logs: Vec<Arc<PartitionLog>>,
    /// When the first came.
    since: Option<Instant>,
}

/// Segments whose files are to be removed.
pub(super) struct Removal {
    pub log: Arc<PartitionLog>,
    pub segments: Vec<Offset>,
    /// The partition was dropped.
    pub last: bool,
}

#[derive(Default)]
struct Removals {
    queue: VecDeque<Removal>,
    /// Dropped partitions whose files may still be there.
    dropped: HashSet<PartitionId>,
    closed: bool,
}

/// Unwritten bytes worth a round over so many partitions.
fn round_bytes(partitions: usize, config: &LogConfig) -> usize {
    partitions
        .saturating_mul(PARTITION_BYTES)
        .max(ROUND_BYTES)
        .min(config.tail_bytes / 2)
}

impl Shared {
    pub fn new(config: LogConfig, files: Files) -> Self {
        Self {
            round_bytes: AtomicUsize::new(round_bytes(0, &config)),
            config,
            files,
            health: watch::Sender::default(),
            syncing: Mutex::default(),
            unwritten: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            room: Mutex::default(),
            room_made: Bell::default(),
            queue: Mutex::default(),
            queue_changed: Bell::default(),
            removals: Mutex::default(),
            removals_changed: Bell::default(),
        }
    }

    /// Returns once fewer than `tail_bytes` are unwritten, or nothing will be written any more.
    pub fn wait_for_room(&self) {
        let full = || self.unwritten.load(Ordering::Acquire) >= self.config.tail_bytes.max(1);
        if !full() {
            return;
        }
        let wait = || {
            let mut room = self.room.lock();
            while full() && !self.is_over() {
                self.room_made.wait(&mut room);
            }
        };
        match Handle::try_current() {
            Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => tokio::task::block_in_place(wait),
            _ => wait(),
        }
    }

    /// Counts unwritten bytes.
    pub fn took(&self, cost: usize) {
        self.unwritten.fetch_add(cost, Ordering::AcqRel);
    }

    /// Counts bytes as written or dropped.
    pub fn gave(&self, cost: usize) {
        let before = self.unwritten.fetch_sub(cost, Ordering::AcqRel);
        let bound = self.config.tail_bytes.max(1);
        if before >= bound && before - cost < bound {
            let _room = self.room.lock();
            self.room_made.ring();
        }
    }

    /// Tells the writer thread of an append; `log` if the partition is not in its queue yet.
    pub fn appended(&self, log: Option<Arc<PartitionLog>>) {
        let much = self.is_much();
        match log {
            Some(log) => {
                let mut queue = self.queue.lock();
                queue.logs.push(log);
                let round_bytes = round_bytes(queue.logs.len(), &self.config);
                self.round_bytes.store(round_bytes, Ordering::Release);
                let first = queue.since.is_none();
                queue.since.get_or_insert_with(Instant::now);
                drop(queue);
                if first || much {
                    self.queue_changed.ring_one();
                }
            }
            None if much => {
                self.queue_changed.ring_one();
            }
            None => {}
        }
    }

    fn is_much(&self) -> bool {
        self.unwritten.load(Ordering::Acquire) >= self.round_bytes.load(Ordering::Acquire)
    }

    /// The next round's partitions; `None` when closing and nothing is left.
    pub fn next_round(&self) -> Option<Vec<Arc<PartitionLog>>> {
        let mut queue = self.queue.lock();
        loop {
            let closing = self.closing.load(Ordering::Acquire);
            match queue.since {
                None if closing => return None,
                None => self.queue_changed.wait(&mut queue),
                Some(since) => {
                    let until = since + ROUND_WAIT;
                    if closing || self.is_much() || self.queue_changed.wait_until(&mut queue, until) {
                        queue.since = None;
                        self.round_bytes.store(round_bytes(0, &self.config), Ordering::Release);
                        return Some(std::mem::take(&mut queue.logs));
                    }
                }
            }
        }
    }

    /// Waits before a full disk is tried again; `false` when closing.
    pub fn wait_for_space(&self) -> bool {
        if !self.closing.load(Ordering::Acquire) {
            let mut room = self.room.lock();
            self.room_made.wait_for(&mut room, FULL_WAIT);
        }
        !self.closing.load(Ordering::Acquire)
    }

    /// Nothing is written from now on.
    pub fn fail(&self, error: &io::Error) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            tracing::error!(%error, "partition logs can't be written any more");
            self.health.send_replace(Health::Failed(error.to_string()));
        }
        let _room = self.room.lock();
        self.room_made.ring();
    }

    /// Says whether the disk is full; a failure stays.
    pub fn set_full(&self, full: bool) {
        self.health.send_if_modified(|health| {
            let now = if full { Health::Full } else { Health::Good };
            if matches!(health, Health::Failed(_)) || *health == now {
                return false;
            }
            match full {
                true => tracing::warn!("the disk is full: partition logs wait for space"),
                false => tracing::info!("partition logs are written again"),
            }
            *health = now;
            true
        });
    }

    /// The error of an earlier failure.
    pub fn check(&self) -> io::Result<()> {
        match &*self.health.borrow() {
            Health::Failed(why) => Err(io::Error::other(why.clone())),
            _ => Ok(()),
        }
    }

    /// Whether unwritten bytes will never be written.
    fn is_over(&self) -> bool {
        self.failed.load(Ordering::Acquire) || self.closing.load(Ordering::Acquire)
    }

    /// Hands files to the remover thread.
    pub fn remove(&self, removal: Removal) {
        let mut removals = self.removals.lock();
        if removal.last {
            removals.dropped.insert(removal.log.id);
        }
        removals.queue.push_back(removal);
        drop(removals);
        self.removals_changed.ring();
    }

    /// Waits until no file of an earlier life of the partition is in the way.
    pub fn wait_for_removal(&self, id: PartitionId) {
        let mut removals = self.removals.lock();
        while removals.dropped.contains(&id) && !removals.closed {
            self.removals_changed.wait(&mut removals);
        }
    }

    /// The next removal; `None` once closed and none is left.
    pub fn next_removal(&self) -> Option<Removal> {
        let mut removals = self.removals.lock();
        loop {
            if let Some(removal) = removals.queue.pop_front() {
                return Some(removal);
            }
            if removals.closed {
                return None;
            }
            self.removals_changed.wait(&mut removals);
        }
    }

    /// A dropped partition's files are gone.
    pub fn removed(&self, id: PartitionId) {
        let mut removals = self.removals.lock();
        // It may have been dropped again meanwhile.
        if !removals.queue.iter().any(|r| r.last && r.log.id == id) {
            removals.dropped.remove(&id);
        }
        drop(removals);
        self.removals_changed.ring();
    }

    /// Lets the writer thread end.
    pub fn close_writer(&self) {
        {
            let _queue = self.queue.lock();
            self.closing.store(true, Ordering::Release);
        }
        self.queue_changed.ring();
        let _room = self.room.lock();
        self.room_made.ring();
    }

    /// Lets the remover thread end.
    pub fn close_remover(&self) {
        self.removals.lock().closed = true;
        self.removals_changed.ring();
    }
}
