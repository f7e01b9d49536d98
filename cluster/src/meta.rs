//! The node's metadata store: small tables of bytes to bytes, each batch durable as a whole.
//!
//! ```text
//!   write(changes) -> Ok   ==>   all of them are on disk;   Err or a crash   ==>   all or none
//! ```
//!
//! What is kept in it is durable at checkpoints only; the write-ahead log covers the rest.

use crate::fs::{self, File, FileSystem};
use crate::threads;
use parking_lot::Mutex;
use redb::{Database, ReadableDatabase, StorageBackend, TableDefinition, TableError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause before a full disk is tried again.
const FULL_WAIT: Duration = Duration::from_millis(500);

/// Pages kept in memory, in bytes. Reads happen at start; what is written stays in the owners' memory anyway.
const CACHE: usize = 4 << 20;

/// The store cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// The file system or the store failed; `StorageFull` where the disk is.
    #[error("metadata store: {0}")]
    Io(#[from] io::Error),
    /// What was read makes no sense.
    #[error("metadata store: corrupt: {0}")]
    Corrupt(String),
}

impl MetaError {
    /// A value that could not be decoded.
    pub fn corrupt(e: impl std::fmt::Display) -> Self {
        Self::Corrupt(e.to_string())
    }
}

/// One change of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Table name.
    pub table: &'static str,
    /// Key.
    pub key: Vec<u8>,
    /// New value; `None` deletes.
    pub value: Option<Vec<u8>>,
}

impl Change {
    /// Sets `key` to `value`.
    pub fn put(table: &'static str, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self {
            table,
            key: key.into(),
            value: Some(value.into()),
        }
    }

    /// Deletes `key`.
    pub fn delete(table: &'static str, key: impl Into<Vec<u8>>) -> Self {
        Self {
            table,
            key: key.into(),
            value: None,
        }
    }
}

impl From<redb::Error> for MetaError {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(e) if e.kind() == io::ErrorKind::InvalidData => Self::Corrupt(e.to_string()),
            redb::Error::Io(e) => Self::Io(e),
            redb::Error::Corrupted(what) => Self::Corrupt(what),
            other => Self::Io(io::Error::other(other)),
        }
    }
}

impl From<MetaError> for io::Error {
    fn from(error: MetaError) -> Self {
        match error {
            MetaError::Io(inner) => inner,
            corrupt => io::Error::new(io::ErrorKind::InvalidData, corrupt),
        }
    }
}

macro_rules! from_redb {
    ($($error:ty),*) => {
        $(impl From<$error> for MetaError {
            fn from(error: $error) -> Self {
                redb::Error::from(error).into()
            }
        })*
    };
}

from_redb!(
    redb::DatabaseError,
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError
);

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The store. Cheap to clone; all clones are the same store.
#[derive(Clone)]
pub struct MetaStore {
    inner: Arc<Inner>,
}

struct Inner {
    files: Arc<dyn FileSystem>,
    path: PathBuf,
    /// `None` after a commit found the disk full: the database refuses to go on then and is opened anew.
    db: Mutex<Option<Arc<Database>>>,
}

impl std::fmt::Debug for MetaStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MetaStore({})", self.inner.path.display())
    }
}

impl MetaStore {
    /// Opens the store in `path`, making it where there is none. Blocks on files.
    pub fn open(files: Arc<dyn FileSystem>, path: &Path) -> Result<Self, MetaError> {
        let db = open(&*files, path)?;
        Ok(Self {
            inner: Arc::new(Inner {
                files,
                path: path.to_path_buf(),
                db: Mutex::new(Some(Arc::new(db))),
            }),
        })
    }

    fn db(&self) -> Result<Arc<Database>, MetaError> {
        let mut db = self.inner.db.lock();
        match &*db {
            Some(db) => Ok(db.clone()),
            None => Ok(db.insert(Arc::new(open(&*self.inner.files, &self.inner.path)?)).clone()),
        }
    }

    /// The value of `key`.
    pub fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, MetaError> {
        let db = self.db()?;
        let read = db.begin_read()?;
        let table = match read.open_table(definition(table)) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            table => table?,
        };
        Ok(table.get(key)?.map(|value| value.value().to_vec()))
    }

    /// Every pair whose key starts with `prefix`, in key order, as of one moment.
    pub fn scan(&self, table: &'static str, prefix: &[u8]) -> Result<Vec<Pair>, MetaError> {
        let db = self.db()?;
        let read = db.begin_read()?;
        let table = match read.open_table(definition(table)) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            table => table?,
        };
        let mut pairs = Vec::new();
        for row in table.range(prefix..)? {
            let (key, value) = row?;
            if !key.value().starts_with(prefix) {
                break;
            }
            pairs.push((key.value().to_vec(), value.value().to_vec()));
        }
        Ok(pairs)
    }

    /// [`MetaStore::write`], waiting while the disk is full, until `stop`: a checkpoint is not worth the node's life.
    /// `what` is named in the log.
    pub fn write_when_room(
        &self,
        changes: Vec<Change>,
        stop: &CancellationToken,
        what: &dyn std::fmt::Display,
    ) -> io::Result<()> {
        loop {
            match self.write(changes.clone()).map_err(io::Error::from) {
                Err(e) if fs::is_full(&e) && !stop.is_cancelled() => {
                    tracing::warn!("the disk is full: a checkpoint of {what} waits for space");
                    threads::sleep(FULL_WAIT);
                }
                done => return done,
            }
        }
    }

    /// Applies all changes, in order, or none; durable when it returns. Blocks for syncs. An error is fatal for the
    /// node's writes, but for `StorageFull`: then nothing was applied, and a later write may go through.
    pub fn write(&self, changes: Vec<Change>) -> Result<(), MetaError> {
        let db = self.db()?;
        let done = apply(&db, changes);
        if matches!(&done, Err(MetaError::Io(e)) if fs::is_full(e)) {
            *self.inner.db.lock() = None;
        }
        done
    }
}

fn definition(table: &'static str) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(table)
}

fn apply(db: &Database, changes: Vec<Change>) -> Result<(), MetaError> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut write = db.begin_write()?;
    // Keeps the allocator's state with each commit, so that opening after a crash reads no more than the roots.
    write.set_quick_repair(true);
    let mut changes = changes.into_iter().peekable();
    while let Some(name) = changes.peek().map(|change| change.table) {
        let mut table = write.open_table(definition(name))?;
        while let Some(change) = changes.next_if(|change| change.table == name) {
            match change.value {
                Some(value) => drop(table.insert(change.key.as_slice(), value.as_slice())?),
                None => drop(table.remove(change.key.as_slice())?),
            }
        }
    }
    write.commit()?;
    Ok(())
}

fn open(files: &dyn FileSystem, path: &Path) -> Result<Database, MetaError> {
    match files.open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => create(files, path),
        opened => with_file(opened?),
    }
}

/// The name appears only once the file is whole, so that a crash leaves no half-made store.
fn create(files: &dyn FileSystem, path: &Path) -> Result<Database, MetaError> {
    let draft = path.with_extension("draft");
    match files.remove(&draft) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e.into()),
        _ => {}
    }
    let file = files.create(&draft)?;
    drop(with_file(file.clone())?);
    file.sync_data()?;
    files.rename(&draft, path)?;
    files.sync_dir(path.parent().unwrap_or_else(|| Path::new(".")))?;
    with_file(file)
}

fn with_file(file: Arc<dyn File>) -> Result<Database, MetaError> {
    Ok(Database::builder()
        .set_cache_size(CACHE)
        .create_with_backend(Backend(file))?)
}

#[derive(Debug)]
struct Backend(Arc<dyn File>);

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Disk, MemoryFs};

    fn open(files: &MemoryFs) -> Result<MetaStore, MetaError> {
        MetaStore::open(Arc::new(files.clone()), Path::new("/meta"))
    }

    #[test]
    fn keeps_tables_apart_and_finds_prefixes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meta");
        let store = MetaStore::open(Arc::new(Disk), &path).unwrap();
        assert_eq!(store.get("a", b"x").unwrap(), None);
        assert_eq!(store.scan("a", b"x").unwrap(), []);
        store
            .write(vec![
                Change::put("a", [1, 255], *b"one"),
                Change::put("b", [1, 255], *b"other"),
                Change::put("a", [1, 255, 0], *b"two"),
                Change::put("a", [2], *b"three"),
            ])
            .unwrap();
        drop(store);

        let store = MetaStore::open(Arc::new(Disk), &path).unwrap();
        assert_eq!(store.get("b", &[1, 255]).unwrap().unwrap(), b"other");
        assert_eq!(
            store.scan("a", &[1]).unwrap(),
            [(vec![1, 255], b"one".to_vec()), (vec![1, 255, 0], b"two".to_vec())]
        );
        assert_eq!(store.scan("a", &[]).unwrap().len(), 3);
        store
            .write(vec![Change::delete("a", [1, 255]), Change::delete("a", [9])])
            .unwrap();
        assert_eq!(store.scan("a", &[]).unwrap().len(), 2);
        assert_eq!(store.scan("b", &[]).unwrap().len(), 1);
    }

    #[test]
    fn a_crash_leaves_a_write_whole_or_out() {
        for seed in 0..40 {
            let files = MemoryFs::new(seed);
            files.power_off_at_sync(seed % 20);
            let mut stored = 0u8;
            if let Ok(store) = open(&files) {
                for n in 1..100u8 {
                    let changes = vec![Change::put("t", *b"left", [n]), Change::put("u", *b"right", [n])];
                    if store.write(changes).is_err() {
                        break;
                    }
                    stored = n;
                }
            }
            assert!(files.is_off());
            files.crash();
            let store = open(&files).unwrap();
            let left = store.get("t", b"left").unwrap().map_or(0, |v| v[0]);
            let right = store.get("u", b"right").unwrap().map_or(0, |v| v[0]);
            assert_eq!(left, right, "seed {seed}");
            assert!(left == stored || left == stored + 1, "seed {seed}: {left} of {stored}");
        }
    }

    #[test]
    fn a_full_disk_refuses_until_space_returns() {
        let files = MemoryFs::new(1);
        let store = open(&files).unwrap();
        files.set_capacity(files.used());
        let big = vec![Change::put("t", *b"key", vec![0; 8 << 20])];
        assert!(matches!(store.write(big), Err(MetaError::Io(e)) if fs::is_full(&e)));
        files.set_capacity(u64::MAX);
        assert_eq!(store.get("t", b"key").unwrap(), None);
        store.write(vec![Change::put("t", *b"key", *b"value")]).unwrap();
        assert_eq!(store.get("t", b"key").unwrap().unwrap(), b"value");
    }
}
