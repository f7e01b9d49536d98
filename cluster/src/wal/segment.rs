//! The segment files: which are in use, which wait to be used again, and whether there is room for more.

use super::format::PAGE;
use crate::fs::{self, File, FileSystem, Pages};
use crate::threads::{self, Thread};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Names of segment files end so.
const SUFFIX: &str = ".wal";
/// How often the free space is asked for while the disk is full.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Segments kept for later while the disk is full: the next one.
const SPARES_OF_A_FULL_DISK: usize = 1;
/// Zeros are written in steps of this, each handed to the disk before the next.
const FILL_STEP: usize = 1 << 20;

/// A file of the log.
#[derive(Debug)]
pub(super) struct Segment {
    pub file: Arc<dyn File>,
    pub name: String,
}

pub(super) struct Segments {
    files: Arc<dyn FileSystem>,
    dir: PathBuf,
    segment_bytes: u64,
    spares: usize,
    headroom: u64,
    /// In use, by seq.
    live: RwLock<BTreeMap<u64, Arc<Segment>>>,
    /// Not in use: those a reader may still hold wait here too.
    spare: Mutex<Vec<Arc<Segment>>>,
    next_name: AtomicU64,
    preparing: AtomicBool,
    preparer: Mutex<Option<Thread>>,
    full: AtomicBool,
    /// Bytes free when last looked.
    free: AtomicU64,
    looked: Mutex<Option<Instant>>,
    /// Told when the disk has become full.
    pub filled: Notify,
}

impl Segments {
    pub fn new(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        config: &super::WalConfig,
        live: BTreeMap<u64, Arc<Segment>>,
        spare: Vec<Arc<Segment>>,
    ) -> Self {
        let number = |segment: &Arc<Segment>| name_number(&segment.name).unwrap_or(0) + 1;
        let next = live.values().chain(&spare).map(number).max().unwrap_or(0);
        let segments = Self {
            files,
            dir: dir.to_path_buf(),
            segment_bytes: config.segment_bytes,
            spares: config.spare_segments,
            headroom: config.headroom,
            live: RwLock::new(live),
            spare: Mutex::new(spare),
            next_name: AtomicU64::new(next),
            preparing: AtomicBool::new(false),
            preparer: Mutex::new(None),
            full: AtomicBool::new(false),
            free: AtomicU64::new(u64::MAX),
            looked: Mutex::new(None),
            filled: Notify::new(),
        };
        segments.look();
        segments
    }

    pub fn get(&self, seq: u64) -> Option<Arc<Segment>> {
        self.live.read().get(&seq).cloned()
    }

    pub fn live_count(&self) -> usize {
        self.live.read().len()
    }

    pub fn live_bytes(&self) -> u64 {
        self.live.read().len() as u64 * self.segment_bytes
    }

    /// A segment to be used as number `seq`: an old one, or a new one. `StorageFull` where there is no room.
    pub fn take(self: &Arc<Self>, seq: u64) -> io::Result<Arc<Segment>> {
        let reused = {
            let mut spare = self.spare.lock();
            let free = spare.iter().position(|segment| Arc::strong_count(segment) == 1);
            free.map(|at| spare.swap_remove(at))
        };
        self.look();
        let segment = match reused {
            Some(segment) => segment,
            None => self.create(false).inspect_err(|e| self.note(e))?,
        };
        self.live.write().insert(seq, segment.clone());
        Ok(segment)
    }

    /// Gives back every segment before `seq`.
    pub fn release_before(&self, seq: u64) {
        let (released, limit) = {
            let mut live = self.live.write();
            let limit = match self.full.load(Ordering::Acquire) {
                true => SPARES_OF_A_FULL_DISK,
                // As many as were in use together will soon be wanted again: a new file costs more than it holds.
                false => self.spares.max(live.len()),
            };
            let kept = live.split_off(&seq);
            (std::mem::replace(&mut *live, kept), limit)
        };
        if !released.is_empty() {
            self.spare(released.into_values(), limit);
        }
    }

    /// Keeps so many segments for later, of these and those it has, and removes the others.
    fn spare(&self, more: impl IntoIterator<Item = Arc<Segment>>, limit: usize) {
        let mut spare = self.spare.lock();
        spare.extend(more);
        // One that grew for a record longer than a segment does not wait to be used again.
        let usual = |segment: &Arc<Segment>| segment.file.len().is_ok_and(|len| len <= self.segment_bytes);
        let (mut kept, mut extra): (Vec<_>, Vec<_>) = std::mem::take(&mut *spare).into_iter().partition(usual);
        extra.extend(kept.drain(limit.min(kept.len())..));
        *spare = kept;
        for extra in extra {
            if let Err(error) = self.files.remove(&self.dir.join(&extra.name)) {
                tracing::warn!(segment = extra.name, %error, "cannot remove a log segment");
            }
        }
    }

    /// Whether the disk has room for new work: for bulk, or for the small commands that make room (drops, trims,
    /// positions, declarations), which may use most of the headroom.
    pub fn admits(&self, bulk: bool) -> bool {
        if !self.full.load(Ordering::Acquire) {
            return true;
        }
        let stale = |looked: Option<Instant>| looked.is_none_or(|at| at.elapsed() >= LOOK_AGAIN);
        if self.looked.try_lock().is_some_and(|looked| stale(*looked)) {
            self.look();
        }
        !self.full.load(Ordering::Acquire) || (!bulk && self.free.load(Ordering::Acquire) >= self.headroom / 4)
    }

    fn look(&self) {
        *self.looked.lock() = Some(Instant::now());
        match self.files.free_space(&self.dir) {
            Ok(free) => {
                let full = free < self.headroom;
                self.free.store(free, Ordering::Release);
                if self.turns(full) {
                    tracing::warn!(free, headroom = self.headroom, full, "disk space for the log changed");
                }
            }
            Err(error) => tracing::warn!(%error, "cannot ask for free disk space"),
        }
    }

    fn note(&self, error: &io::Error) {
        if fs::is_full(error) {
            self.turns(true);
        }
    }

    /// Whether that is news. What a disk that has just become full can get back, it gets.
    fn turns(&self, full: bool) -> bool {
        let news = self.full.swap(full, Ordering::AcqRel) != full;
        if news && full {
            self.spare([], SPARES_OF_A_FULL_DISK);
            self.filled.notify_waiters();
        }
        news
    }

    /// Makes a segment ahead of its use when none is left, on a thread of its own: with its blocks written once, so that
    /// the log's syncs need not wait for the file system's journal.
    pub fn prepare(self: &Arc<Self>) {
        if self.spares == 0 || !self.spare.lock().is_empty() || self.preparing.swap(true, Ordering::AcqRel) {
            return;
        }
        let segments = self.clone();
        let made = threads::spawn("wal-prepare", move || {
            match segments.create(true) {
                Ok(segment) => segments.spare.lock().push(segment),
                Err(error) => {
                    segments.note(&error);
                    tracing::warn!(%error, "cannot prepare a log segment");
                }
            }
            segments.preparing.store(false, Ordering::Release);
        });
        match made {
            Ok(thread) => *self.preparer.lock() = Some(thread),
            Err(_) => self.preparing.store(false, Ordering::Release),
        }
    }

    /// Waits for what is being made: nothing here touches a file afterwards.
    pub fn close(&self) {
        if let Some(thread) = self.preparer.lock().take() {
            let _ = thread.join();
        }
    }

    fn create(&self, fill: bool) -> io::Result<Arc<Segment>> {
        let name = format!("{:08}{SUFFIX}", self.next_name.fetch_add(1, Ordering::Relaxed));
        let path = self.dir.join(&name);
        let file = self.files.create(&path)?;
        let made = file.preallocate(0, self.segment_bytes).and_then(|()| {
            if fill {
                let whole = self.segment_bytes.next_multiple_of(PAGE);
                let zeros = Pages::zeros(FILL_STEP.min(whole as usize))?;
                let mut at = 0;
                while at < whole {
                    file.write_pages_at(&zeros, at)?;
                    file.sync_data()?;
                    at += zeros.len() as u64;
                }
                if file.len()? > self.segment_bytes {
                    file.set_len(self.segment_bytes)?;
                }
            } else {
                // An old file's header must not be found here after a crash.
                file.write_all_at(&[0; PAGE as usize], 0)?;
            }
            file.sync_data()?;
            self.files.sync_dir(&self.dir)
        });
        match made {
            Ok(()) => Ok(Arc::new(Segment { file, name })),
            Err(error) => {
                let _ = self.files.remove(&path);
                Err(error)
            }
        }
    }
}

/// The number in a segment's name.
pub(super) fn name_number(name: &str) -> Option<u64> {
    name.strip_suffix(SUFFIX)?.parse().ok()
}
