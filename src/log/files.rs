//! Open files, as few as the system allows: opened on demand, the least used closed again.

use super::format::{FILE_HEADER, FileId};
use cluster::fs::{File, FileSystem, Volume};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The folder of all partition logs.
pub(super) struct Files {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    open: Mutex<Open>,
    limit: usize,
    volume: Option<Volume>,
    /// Whether names were made since they were last synced.
    named: AtomicBool,
    naming: Mutex<()>,
}

#[derive(Default)]
struct Open {
    files: HashMap<FileId, (Arc<dyn File>, u64)>,
    clock: u64,
}

impl Files {
    /// Makes the folder if missing. Keeps at most `limit` files open; pieces that readers hold count apart.
    pub fn new(fs: Arc<dyn FileSystem>, dir: PathBuf, limit: usize) -> io::Result<Self> {
        fs.create_dir(&dir)?;
        Ok(Self {
            volume: fs.volume(&dir)?,
            fs,
            dir,
            open: Mutex::default(),
            limit: limit.max(4),
            named: AtomicBool::new(false),
            naming: Mutex::default(),
        })
    }

    pub fn fs(&self) -> &dyn FileSystem {
        &*self.fs
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn path(&self, id: FileId) -> PathBuf {
        self.dir.join(id.name())
    }

    /// An existing file; `InvalidData` where its header is not as it must be.
    pub fn open(&self, id: FileId) -> io::Result<Arc<dyn File>> {
        if let Some(file) = self.open.lock().get(id) {
            return Ok(file);
        }
        let path = self.path(id);
        let file = self.with_room(|| self.fs.open(&path))?;
        let mut head = [0; FILE_HEADER as usize];
        file.read_exact_at(&mut head, 0)?;
        id.check_header(&head)
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display())))?;
        self.keep(id, &file);
        Ok(file)
    }

    /// A new file with its header. What an earlier attempt left is written over.
    pub fn create(&self, id: FileId) -> io::Result<Arc<dyn File>> {
        let path = self.path(id);
        let file = match self.with_room(|| self.fs.create(&path)) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let file = self.with_room(|| self.fs.open(&path))?;
                file.set_len(0)?;
                file
            }
            made => made?,
        };
        self.named.store(true, Ordering::Release);
        file.write_all_at(&id.header(), 0)?;
        self.keep(id, &file);
        Ok(file)
    }

    /// Removes a file; `Ok` where there is none.
    pub fn remove(&self, id: FileId) -> io::Result<()> {
        self.open.lock().files.remove(&id);
        match self.fs.remove(&self.path(id)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Makes the names of created files durable.
    pub fn sync_names(&self) -> io::Result<()> {
        let _one = self.naming.lock();
        if self.named.swap(false, Ordering::AcqRel) {
            self.fs.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// Makes all files and names durable at once, where the system can do that; else `false`.
    pub fn sync_volume(&self) -> io::Result<bool> {
        let Some(volume) = &self.volume else {
            return Ok(false);
        };
        let _one = self.naming.lock();
        self.named.store(false, Ordering::Release);
        volume.sync()?;
        Ok(true)
    }

    /// Tries once more with the cache emptied when the system has no descriptor left.
    fn with_room<T>(&self, call: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match call() {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                self.open.lock().files.clear();
                call()
            }
            done => done,
        }
    }

    fn keep(&self, id: FileId, file: &Arc<dyn File>) {
        let open = &mut *self.open.lock();
        if open.files.len() >= self.limit {
            open.evict(self.limit / 4);
        }
        open.clock += 1;
        open.files.insert(id, (file.clone(), open.clock));
    }
}

impl Open {
    fn get(&mut self, id: FileId) -> Option<Arc<dyn File>> {
        self.clock += 1;
        let (file, used) = self.files.get_mut(&id)?;
        *used = self.clock;
        Some(file.clone())
    }

    /// Closes the `n` files that were not used for longest: many at once, so that one costs little.
    fn evict(&mut self, n: usize) {
        let mut used: Vec<u64> = self.files.values().map(|(_, used)| *used).collect();
        let n = n.clamp(1, used.len());
        let (_, newest, _) = used.select_nth_unstable(n - 1);
        let newest = *newest;
        self.files.retain(|_, (_, used)| *used > newest);
    }
}

/// Files to keep open: a third of what the process may have.
pub(super) fn open_limit() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a plain call that fills the struct it is given.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => (limit.rlim_cur / 3).clamp(64, 16_384) as usize,
        _ => 256,
    }
}
