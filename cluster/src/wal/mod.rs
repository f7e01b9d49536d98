//! The node's write-ahead log: one log for all Raft groups, one fdatasync for all that wait.
//!
//! ```text
//!   Group::append / save_vote / purge ...        (any thread; fixes the order, returns at once)
//!        |  index + cache in memory                         ^ read: cache, else disk
//!        v                                                  |
//!   queue ---> writer thread: one write, one fdatasync, then `done(Ok)` of every waiter
//!                    |
//!                    v
//!   segments: preallocated files, overwritten in turn (`format` draws them)
//!
//!   purged <= first held - 1;   synced <= written <= appended
//! ```
//!
//! Knows nothing of Raft but votes, entries and their ids. Payload bytes are copied once, to where the disk takes them from,
//! and read back as slices of one buffer.
//!
//! * Whom a write by the thread would cost two wake-ups more than the write itself may make it: [`Group::append_here`].
//! * A full disk: [`Wal::admits`] says no while there is still [`WalConfig::headroom`] for what was admitted before; an
//!   append that meets a full disk all the same waits for space.
//! * An error of a sync (or of a write, other than a full disk) is final: every waiter and every later call gets it.

mod format;
mod group;
mod recover;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub use group::Group;

use crate::fs::FileSystem;
use crate::ids::{NodeId, RangeId};
use crate::machine::Payload;
use crate::threads::{self, Bell, Thread};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use segment::Segments;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;
use writer::{Job, What, Writer};

/// The longest entry, in bytes.
pub const MAX_RECORD: u64 = 1 << 30;

/// A place in a group's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogId {
    /// Term of the leader that made the entry.
    pub term: u64,
    /// Number of the entry.
    pub index: u64,
}

/// Whom the node gave its vote in a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The term.
    pub term: u64,
    /// The candidate.
    pub node: NodeId,
    /// Whether a quorum voted alike.
    pub committed: bool,
}

/// What an entry carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    Blank,
    /// A command.
    Normal(Payload),
    /// A configuration of the group, in the encoding of who wrote it.
    Membership(Bytes),
}

impl Body {
    fn size(&self) -> usize {
        match self {
            Body::Blank => 0,
            Body::Normal(payload) => payload.size(),
            Body::Membership(bytes) => bytes.len(),
        }
    }
}

/// One entry of a group's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place.
    pub id: LogId,
    /// What it carries.
    pub body: Body,
}

/// What the log has of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupState {
    /// The last vote.
    pub vote: Option<Vote>,
    /// The last entry that was dropped from the front.
    pub purged: Option<LogId>,
    /// The last entry, or `purged` where there is none.
    pub last: Option<LogId>,
    /// What was told to be committed; after a restart possibly an earlier value.
    pub committed: Option<LogId>,
}

/// Sizes, in bytes.
#[derive(Clone, Debug)]
pub struct WalConfig {
    /// Length of a segment. Default 16 MiB. At least 64 KiB, below 2 GiB.
    pub segment_bytes: u64,
    /// Segments kept for reuse at least (as many as were in use together are kept anyway); 0: none is made ahead of its
    /// use either. Default 4.
    pub spare_segments: usize,
    /// Segments in use beyond which the entries of groups that rest are copied forward, so that they hold no old
    /// segment. Default 32.
    pub live_segments: usize,
    /// Entries kept in memory per group though they can be read back from disk. Default 16 MiB.
    pub cache_bytes: usize,
    /// Disk space that must be left for new work to be admitted. Default 256 MiB.
    pub headroom: u64,
}

impl Default for WalConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            spare_segments: 4,
            live_segments: 32,
            cache_bytes: 16 << 20,
            headroom: 256 << 20,
        }
    }
}

/// Why the log did not take, or does not have, something.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WalError {
    /// Fatal: the disk failed; the log takes nothing more until the node starts again.
    #[error("the write-ahead log failed: {0}")]
    Failed(Arc<str>),
    /// Fatal: the log was closed.
    #[error("the write-ahead log is closed")]
    Closed,
    /// Invalid: damaged bytes, at a place where they were once durable.
    #[error("the write-ahead log is damaged: {0}")]
    Corrupt(String),
    /// Invalid: the call breaks the order of the log, or the entry is too long.
    #[error("the write-ahead log refuses: {0}")]
    Invalid(&'static str),
}

impl From<WalError> for io::Error {
    fn from(error: WalError) -> Self {
        match error {
            WalError::Failed(_) | WalError::Closed => io::Error::other(error),
            WalError::Corrupt(_) => io::Error::new(io::ErrorKind::InvalidData, error),
            WalError::Invalid(_) => io::Error::new(io::ErrorKind::InvalidInput, error),
        }
    }
}

/// Told when a call's effect is durable, or that it never will be. Runs on the thread that writes; must be quick.
pub type Done = Box<dyn FnOnce(Result<(), WalError>) + Send>;

/// The log of one node.
pub struct Wal {
    shared: Arc<Shared>,
    thread: Mutex<Option<Thread>>,
}

struct Shared {
    config: WalConfig,
    segments: Arc<Segments>,
    groups: RwLock<BTreeMap<RangeId, Arc<group::Inner>>>,
    queue: Mutex<Queue>,
    wake: Bell,
    /// Whether the queue has something, to be looked at without its lock.
    ready: AtomicBool,
    /// Whoever holds it takes what is queued and writes it. Empty before the start and after the end.
    pen: Mutex<Option<Writer>>,
    /// Whether the last write had one waiter and was short, so that the next may be made by its caller.
    brisk: AtomicBool,
    fatal: watch::Sender<Option<WalError>>,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    closed: bool,
}

impl Wal {
    /// Opens the log in `dir` (made where missing), reading back all groups. Blocks for as long as reading takes.
    pub fn open(files: Arc<dyn FileSystem>, dir: &Path, config: WalConfig) -> Result<Self, OpenError> {
        if !(64 << 10..2 << 30).contains(&config.segment_bytes) {
            return Err(OpenError::Config("a segment has 64 KiB to 2 GiB"));
        }
        files.create_dir(dir)?;
        let (segments, recovered) = recover::recover(files, dir, &config)?;
        let groups = recovered.groups;
        let shared = Arc::new(Shared {
            config,
            segments: Arc::new(segments),
            groups: RwLock::new(groups.iter().map(|(id, (inner, _))| (*id, inner.clone())).collect()),
            queue: Mutex::new(Queue::default()),
            wake: Bell::default(),
            ready: AtomicBool::new(false),
            pen: Mutex::new(None),
            brisk: AtomicBool::new(false),
            fatal: watch::channel(None).0,
        });
        let shadows = groups.into_iter().map(|(id, (_, shadow))| (id, shadow)).collect();
        *shared.pen.lock() = Some(Writer::new(shared.clone(), recovered.tail, shadows)?);
        let writing = shared.clone();
        let thread = threads::spawn("wal", move || writer::run(&writing))?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// A group's part of the log, empty where the log has nothing of it.
    pub fn group(&self, id: RangeId) -> Group {
        let inner = self.shared.groups.write().entry(id).or_default().clone();
        Group::new(id, inner, self.shared.clone())
    }

    /// Groups the log has something of.
    pub fn groups(&self) -> Vec<RangeId> {
        self.shared.groups.read().keys().copied().collect()
    }

    /// Whether new work may be begun: bulk not while the disk is full, small commands (those that make room are) as long
    /// as a quarter of the headroom is left. Cheap.
    pub fn admits(&self, bulk: bool) -> bool {
        self.shared.segments.admits(bulk)
    }

    /// Resolves when the disk becomes full next: what the log holds and nobody needs should go.
    pub async fn filled(&self) {
        self.shared.segments.filled.notified().await;
    }

    /// The error that ended the log, when one did.
    pub fn fatal(&self) -> watch::Receiver<Option<WalError>> {
        self.shared.fatal.subscribe()
    }

    /// Bytes of all segments that hold something still needed.
    pub fn span(&self) -> u64 {
        self.shared.segments.live_bytes()
    }

    /// Writes what is queued and ends the writer. Later calls get [`WalError::Closed`].
    pub fn close(&self) {
        {
            let mut queue = self.shared.queue.lock();
            queue.closed = true;
            self.shared.ready.store(true, Ordering::Release);
            self.shared.wake.ring_one();
        }
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the writer has been reported through `fatal` by its guard.
            let _ = thread.join();
        }
        self.shared.segments.close();
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.close();
    }
}

/// Why the log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file system failed.
    #[error("cannot open the write-ahead log: {0}")]
    Io(#[from] io::Error),
    /// Bytes that were once durable are damaged.
    #[error("the write-ahead log is damaged: {0}")]
    Corrupt(String),
    /// The files are of another version.
    #[error("{file} is of format version {version}, this program reads version {supported}", supported = format::VERSION)]
    Version {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
    },
    /// A setting is out of bounds.
    #[error("{0}")]
    Config(&'static str),
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Io(inner) => inner,
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }
}

impl Shared {
    /// Queues a job and wakes the writer thread.
    fn push(&self, group: RangeId, what: What, done: Option<Done>) {
        self.queue(group, what, done);
        self.wake.ring_one();
    }

    /// Queues a job; whether nothing was queued before. Somebody must see to it that it is written.
    fn queue(&self, group: RangeId, what: What, done: Option<Done>) -> bool {
        let job = Job { group, what, done };
        let refused = {
            let mut queue = self.queue.lock();
            if !queue.closed {
                let first = queue.jobs.is_empty();
                queue.jobs.push(job);
                self.ready.store(true, Ordering::Release);
                return first;
            }
            job
        };
        if let Some(done) = refused.done {
            done(Err(self.error()));
        }
        false
    }

    /// Writes what is queued, about `bytes` of it, on this thread, if that is likely over soon; else has it written.
    fn write_here(&self, bytes: usize) {
        if self.brisk.load(Ordering::Acquire)
            && let Some(mut pen) = self.pen.try_lock()
            && pen.as_ref().is_some_and(|writer| writer.has_room(bytes))
        {
            writer::write_queued(&mut pen);
        } else {
            self.wake.ring_one();
        }
    }

    fn error(&self) -> WalError {
        self.fatal.borrow().clone().unwrap_or(WalError::Closed)
    }
}
