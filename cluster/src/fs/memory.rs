//! A file system in memory that can fail and crash, for tests.

use super::{DirEntry, File, FileSystem, Lock, Volume};
use crate::threads;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The unit a crash keeps or loses.
const SECTOR: usize = 512;

/// Files in memory. Clones share the same files, so that a test holds one and the store another.
///
/// A crash is [`MemoryFs::crash`]: every handle of before fails from then on, unsynced bytes and names are lost in part.
#[derive(Clone)]
pub struct MemoryFs {
    state: Arc<Mutex<State>>,
}

struct State {
    /// Handles and locks of an earlier life are dead.
    life: u64,
    names: BTreeMap<PathBuf, Node>,
    /// Names as a crash leaves them, before `unsynced` ones.
    durable_names: BTreeMap<PathBuf, Node>,
    unsynced: Vec<NameChange>,
    locks: BTreeSet<PathBuf>,
    capacity: u64,
    faults: Faults,
    syncs: u64,
    /// Syncs of files in this folder take up to so long.
    slow: Option<(PathBuf, Duration)>,
    random: StdRng,
}

#[derive(Clone)]
enum Node {
    Dir,
    File(Arc<Mutex<Content>>),
}

#[derive(Clone)]
struct NameChange {
    dirs: Vec<PathBuf>,
    put: Option<(PathBuf, Node)>,
    removed: Option<PathBuf>,
}

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

#[derive(Default)]
struct Faults {
    /// The sync (counted from now, 0 is the next) at which the power goes.
    power_off: Option<u64>,
    /// The sync (counted from now) that answers EIO.
    sync_error: Option<u64>,
    /// The write (counted from now) that answers EIO.
    write_error: Option<u64>,
    /// Whether writes may take only a first part.
    short_writes: bool,
    off: bool,
}

#[derive(Debug)]
struct MemoryFile {
    fs: MemoryFs,
    content: Arc<Mutex<Content>>,
    life: u64,
    /// Longest time of a sync.
    slow: Option<Duration>,
}

impl fmt::Debug for MemoryFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryFs")
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

impl MemoryFs {
    /// An empty file system. The seed decides what a crash keeps and where writes fall short.
    pub fn new(seed: u64) -> Self {
        let root = BTreeMap::from([(PathBuf::from("/"), Node::Dir)]);
        Self {
            state: Arc::new(Mutex::new(State {
                life: 0,
                names: root.clone(),
                durable_names: root,
                unsynced: Vec::new(),
                locks: BTreeSet::new(),
                capacity: u64::MAX,
                faults: Faults::default(),
                syncs: 0,
                slow: None,
                random: StdRng::seed_from_u64(seed),
            })),
        }
    }

    /// Syncs of files that are opened in `dir` from now on take up to `most` each, on threads of [`threads`].
    pub fn slow_syncs(&self, dir: &Path, most: Duration) {
        self.state.lock().slow = Some((dir.to_path_buf(), most));
    }

    /// Cuts the power at the `n`th sync from now (0 is the next): it and everything after it fails until
    /// [`crash`](Self::crash).
    pub fn power_off_at_sync(&self, n: u64) {
        self.state.lock().faults.power_off = Some(n);
    }

    /// Whether the power has gone.
    pub fn is_off(&self) -> bool {
        self.state.lock().faults.off
    }

    /// Makes the `n`th sync from now (0 is the next) answer EIO, once. What it should have made durable is then
    /// reported as synced by later syncs though it is not, as Linux does.
    pub fn fail_sync(&self, n: u64) {
        self.state.lock().faults.sync_error = Some(n);
    }

    /// Makes the `n`th write from now (0 is the next) answer EIO, once.
    pub fn fail_write(&self, n: u64) {
        self.state.lock().faults.write_error = Some(n);
    }

    /// Lets writes take only a first part of what they are given.
    pub fn short_writes(&self, on: bool) {
        self.state.lock().faults.short_writes = on;
    }

    /// Bytes all files together may have; a write beyond is `StorageFull`.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }

    /// Bytes all files together have.
    pub fn used(&self) -> u64 {
        self.state.lock().used()
    }

    /// Syncs done so far.
    pub fn syncs(&self) -> u64 {
        self.state.lock().syncs
    }

    /// The process that has the files open is killed: its handles are dead and its locks free, nothing is lost.
    pub fn kill(&self) {
        let state = &mut *self.state.lock();
        state.life += 1;
        state.locks.clear();
    }

    /// The power goes and comes back. Faults are cleared, locks are free, old handles are dead.
    pub fn crash(&self) {
        let state = &mut *self.state.lock();
        state.life += 1;
        state.faults = Faults::default();
        state.locks.clear();
        // Metadata is journalled: of the unsynced changes of names some first ones are kept.
        let kept = state.random.random_range(0..=state.unsynced.len());
        let unsynced = std::mem::take(&mut state.unsynced);
        for change in unsynced.into_iter().take(kept) {
            change.apply(&mut state.durable_names);
        }
        state.names = state.durable_names.clone();
        for node in state.names.values() {
            if let Node::File(content) = node {
                content.lock().crash(&mut state.random);
            }
        }
    }

    fn sync_all(&self) -> io::Result<()> {
        let state = &mut *self.state.lock();
        let synced = state.sync();
        if synced.is_err() && state.faults.off {
            return synced;
        }
        for node in state.names.values() {
            match (node, &synced) {
                (Node::File(content), Ok(())) => content.lock().sync(),
                (Node::File(content), Err(_)) => content.lock().unsynced.clear(),
                (Node::Dir, _) => {}
            }
        }
        for change in std::mem::take(&mut state.unsynced) {
            change.apply(&mut state.durable_names);
        }
        synced
    }

    /// Flips one bit of a file, on disk and in memory.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> io::Result<()> {
        let content = self.state.lock().file(path)?;
        let content = &mut *content.lock();
        let (at, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        for bytes in [&mut content.bytes, &mut content.durable] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= mask;
            }
        }
        Ok(())
    }
}

impl State {
    fn alive(&self) -> io::Result<()> {
        if self.faults.off {
            return Err(io::Error::other("the power is off"));
        }
        Ok(())
    }

    fn slow(&self, path: &Path) -> Option<Duration> {
        let (dir, most) = self.slow.as_ref()?;
        (path.parent() == Some(dir)).then_some(*most)
    }

    fn used(&self) -> u64 {
        self.names
            .values()
            .map(|node| match node {
                Node::Dir => 0,
                Node::File(content) => content.lock().bytes.len() as u64,
            })
            .sum()
    }

    fn file(&self, path: &Path) -> io::Result<Arc<Mutex<Content>>> {
        self.alive()?;
        match self.names.get(path) {
            Some(Node::File(content)) => Ok(content.clone()),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn change(&mut self, put: Option<(PathBuf, Node)>, removed: Option<PathBuf>) {
        let dirs = [put.as_ref().map(|(path, _)| path), removed.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|path| path.parent().map(Path::to_path_buf))
            .collect();
        let change = NameChange { dirs, put, removed };
        change.apply(&mut self.names);
        self.unsynced.push(change);
    }

    /// Counts a sync; the error it must answer, if any. `Ok(false)`: answer `Ok` later, but report an error now.
    fn sync(&mut self) -> io::Result<()> {
        self.alive()?;
        self.syncs += 1;
        if count_down(&mut self.faults.power_off) {
            self.faults.off = true;
            return self.alive();
        }
        if count_down(&mut self.faults.sync_error) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    }
}

fn count_down(fault: &mut Option<u64>) -> bool {
    match fault {
        Some(0) => {
            *fault = None;
            true
        }
        Some(n) => {
            *n -= 1;
            false
        }
        None => false,
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        if let Some(path) = &self.removed {
            names.remove(path);
        }
        if let Some((path, node)) = &self.put {
            names.insert(path.clone(), node.clone());
        }
    }
}

impl Content {
    fn crash(&mut self, random: &mut StdRng) {
        let mut disk = std::mem::take(&mut self.durable);
        for change in self.unsynced.drain(..) {
            match change {
                Change::SetLen(len) => {
                    if random.random() {
                        disk.resize(len, 0);
                    }
                }
                Change::Write { offset, bytes } => {
                    let all: bool = random.random_bool(0.3);
                    let mut at = 0;
                    while at < bytes.len() {
                        let end = ((offset + at) / SECTOR * SECTOR + SECTOR - offset).min(bytes.len());
                        if all || random.random() {
                            let (from, to) = (offset + at, offset + end);
                            if disk.len() < to {
                                disk.resize(to, 0);
                            }
                            disk[from..to].copy_from_slice(&bytes[at..end]);
                        }
                        at = end;
                    }
                }
            }
        }
        self.bytes.clone_from(&disk);
        self.durable = disk;
    }

    fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            match change {
                Change::SetLen(len) => self.durable.resize(len, 0),
                Change::Write { offset, bytes } => {
                    let end = offset + bytes.len();
                    if self.durable.len() < end {
                        self.durable.resize(end, 0);
                    }
                    self.durable[offset..end].copy_from_slice(&bytes);
                }
            }
        }
    }
}

impl FileSystem for MemoryFs {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let state = &mut *self.state.lock();
        state.alive()?;
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        match path.parent().and_then(|dir| state.names.get(dir)) {
            Some(Node::Dir) => {}
            _ => return Err(io::ErrorKind::NotFound.into()),
        }
        let content = Arc::new(Mutex::new(Content::default()));
        state.change(Some((path.to_path_buf(), Node::File(content.clone()))), None);
        Ok(Arc::new(MemoryFile {
            fs: self.clone(),
            content,
            life: state.life,
            slow: state.slow(path),
        }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let state = self.state.lock();
        Ok(Arc::new(MemoryFile {
            fs: self.clone(),
            content: state.file(path)?,
            life: state.life,
            slow: state.slow(path),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let state = &mut *self.state.lock();
        let content = state.file(from)?;
        state.change(Some((to.to_path_buf(), Node::File(content))), Some(from.to_path_buf()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let state = &mut *self.state.lock();
        state.file(path)?;
        state.change(None, Some(path.to_path_buf()));
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let state = &mut *self.state.lock();
        state.alive()?;
        let above: Vec<_> = path.ancestors().map(Path::to_path_buf).collect();
        for dir in above.into_iter().rev().filter(|dir| !dir.as_os_str().is_empty()) {
            match state.names.get(&dir) {
                Some(Node::Dir) => {}
                Some(Node::File(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
                None => {
                    state.names.insert(dir.clone(), Node::Dir);
                    state.durable_names.insert(dir, Node::Dir);
                }
            }
        }
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let state = &mut *self.state.lock();
        state.alive()?;
        let below: Vec<_> = state.names.keys().filter(|p| p.starts_with(path)).cloned().collect();
        for path in below.into_iter().rev() {
            state.change(None, Some(path));
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.state.lock();
        state.alive()?;
        if !matches!(state.names.get(dir), Some(Node::Dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let entries = state.names.iter().filter(|(path, _)| path.parent() == Some(dir));
        Ok(entries
            .filter_map(|(path, node)| {
                Some(DirEntry {
                    name: path.file_name()?.to_str()?.to_owned(),
                    len: match node {
                        Node::Dir => 0,
                        Node::File(content) => content.lock().bytes.len() as u64,
                    },
                    is_dir: matches!(node, Node::Dir),
                })
            })
            .collect())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let state = &mut *self.state.lock();
        state.sync()?;
        // A journal commits in order: what came before the last change here becomes durable with it.
        let Some(last) = state
            .unsynced
            .iter()
            .rposition(|change| change.dirs.iter().any(|d| d == dir))
        else {
            return Ok(());
        };
        let durable: Vec<_> = state.unsynced.drain(..=last).collect();
        for change in durable {
            change.apply(&mut state.durable_names);
        }
        Ok(())
    }

    fn volume(&self, _dir: &Path) -> io::Result<Option<Volume>> {
        let fs = self.clone();
        Ok(Some(Volume::new(move || fs.sync_all())))
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let state = &mut *self.state.lock();
        state.alive()?;
        if !state.locks.insert(path.to_path_buf()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Lock::new(Held {
            fs: self.clone(),
            path: path.to_path_buf(),
            life: state.life,
        }))
    }

    fn free_space(&self, _dir: &Path) -> io::Result<u64> {
        let state = self.state.lock();
        state.alive()?;
        Ok(state.capacity.saturating_sub(state.used()))
    }
}

struct Held {
    fs: MemoryFs,
    path: PathBuf,
    life: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let state = &mut *self.fs.state.lock();
        if state.life == self.life {
            state.locks.remove(&self.path);
        }
    }
}

impl MemoryFile {
    fn alive(&self, state: &State) -> io::Result<()> {
        if state.life != self.life {
            return Err(io::Error::other("a handle from before the crash"));
        }
        state.alive()
    }

    fn grow(&self, state: &State, content: &Content, to: usize) -> io::Result<()> {
        let more = to.saturating_sub(content.bytes.len()) as u64;
        // The caller holds this file's lock, so count the others apart.
        let others: u64 = state
            .names
            .values()
            .map(|node| match node {
                Node::File(other) if !Arc::ptr_eq(other, &self.content) => other.lock().bytes.len() as u64,
                _ => 0,
            })
            .sum();
        if more > 0 && others + content.bytes.len() as u64 + more > state.capacity {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(())
    }
}

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        self.alive(&self.fs.state.lock())?;
        Ok(self.content.lock().bytes.len() as u64)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.alive(&self.fs.state.lock())?;
        let content = self.content.lock();
        let from = (offset as usize).min(content.bytes.len());
        let n = buf.len().min(content.bytes.len() - from);
        buf[..n].copy_from_slice(&content.bytes[from..from + n]);
        Ok(n)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let state = &mut *self.fs.state.lock();
        self.alive(state)?;
        if count_down(&mut state.faults.write_error) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let mut bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        if state.faults.short_writes && bytes.len() > 1 {
            let n = state.random.random_range(1..=bytes.len());
            bytes.truncate(n);
        }
        let content = &mut *self.content.lock();
        let offset = offset as usize;
        let end = offset + bytes.len();
        self.grow(state, content, end)?;
        if content.bytes.len() < end {
            content.bytes.resize(end, 0);
        }
        content.bytes[offset..end].copy_from_slice(&bytes);
        let n = bytes.len();
        content.unsynced.push(Change::Write { offset, bytes });
        Ok(n)
    }

    fn sync_data(&self) -> io::Result<()> {
        if let Some(most) = self.slow {
            let part = self.fs.state.lock().random.random_range(0.0..1.0);
            threads::sleep(most.mul_f64(part));
        }
        let state = &mut *self.fs.state.lock();
        self.alive(state)?;
        let content = &mut *self.content.lock();
        match state.sync() {
            Ok(()) => {
                content.sync();
                Ok(())
            }
            // The pages count as clean from now on although they never reached the disk.
            Err(e) if !state.faults.off => {
                content.unsynced.clear();
                Err(e)
            }
            Err(e) => Err(e),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let state = &mut *self.fs.state.lock();
        self.alive(state)?;
        let content = &mut *self.content.lock();
        self.grow(state, content, len as usize)?;
        content.bytes.resize(len as usize, 0);
        content.unsynced.push(Change::SetLen(len as usize));
        Ok(())
    }

    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset + len;
        if end > self.len()? { self.set_len(end) } else { Ok(()) }
    }
}
