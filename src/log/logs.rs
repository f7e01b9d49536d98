//! All partition logs of a node.

use super::files::{Files, open_limit};
use super::partition::{PartitionLog, State};
use super::recovery::Listing;
use super::shared::{Health, Removal, Shared};
use super::writer::{flush, remove_files, write_rounds};
use super::{LogCheckpoint, LogConfig};
use cluster::fs::FileSystem;
use cluster::ids::PartitionId;
use cluster::threads::{self, Thread};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tokio::sync::watch;

/// Files to sync from which the whole volume is synced instead, if it can be: with 2,000 files it takes half the time and
/// next to no CPU (ext4).
const VOLUME_SYNC: usize = 32;

/// Syncs at a time: the file system commits for several at once.
const SYNC_THREADS: usize = 8;

/// All partition logs of a node.
pub struct Logs {
    shared: Arc<Shared>,
    partitions: RwLock<HashMap<PartitionId, Arc<PartitionLog>>>,
    threads: Mutex<Option<Threads>>,
}

struct Threads {
    writer: Thread,
    remover: Thread,
}

impl Logs {
    /// Opens the folder, cuts every log back to its checkpoint and removes files that no checkpoint names.
    /// Takes time in the number of partitions with files, not in bytes held.
    ///
    /// # Errors
    ///
    /// `InvalidData` where files hold less than a checkpoint says: bytes that were durable are gone.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        config: LogConfig,
        checkpoints: impl IntoIterator<Item = (PartitionId, LogCheckpoint)>,
    ) -> io::Result<Arc<Self>> {
        let files = Files::new(fs, config.dir.clone(), open_limit())?;
        let mut listing = Listing::read(&files)?;
        let shared = Arc::new(Shared::new(config, files));
        let mut partitions = HashMap::new();
        for (id, checkpoint) in checkpoints {
            let state = listing.open(&shared.files, id, checkpoint, shared.config.index_interval)?;
            partitions.insert(id, PartitionLog::new(id, shared.clone(), state));
        }
        listing.remove_rest(&shared.files)?;
        let threads = Threads {
            writer: spawn("log-writer", &shared, write_rounds)?,
            remover: spawn("log-remover", &shared, remove_files)?,
        };
        Ok(Arc::new(Self {
            shared,
            partitions: RwLock::new(partitions),
            threads: Mutex::new(Some(threads)),
        }))
    }

    /// The log of a partition, made (in memory only) at first call.
    pub fn partition(&self, id: PartitionId) -> Arc<PartitionLog> {
        if let Some(log) = self.get(id) {
            return log;
        }
        self.partitions
            .write()
            .entry(id)
            .or_insert_with(|| PartitionLog::new(id, self.shared.clone(), State::default()))
            .clone()
    }

    /// The log of a partition, if it has one.
    pub fn get(&self, id: PartitionId) -> Option<Arc<PartitionLog>> {
        self.partitions.read().get(&id).cloned()
    }

    /// Forgets a partition and deletes its files (in the background; readers holding pieces are not disturbed). The same
    /// id may hold records again only after a checkpoint without it is durable.
    pub fn drop_partition(&self, id: PartitionId) {
        // Under the lock: a new log of the same partition must find the old one's files announced for removal.
        let mut partitions = self.partitions.write();
        if let Some(log) = partitions.remove(&id) {
            let segments = log.drop_all();
            self.shared.remove(Removal {
                log,
                segments,
                last: true,
            });
        }
    }

    /// Whether logs can be written, as it changes. While [`Health::Full`] the broker refuses appends with "no space".
    pub fn health(&self) -> watch::Receiver<Health> {
        self.shared.health.subscribe()
    }

    /// A job that makes durable all that was appended to `partitions` before this call: writes what is unwritten, then
    /// syncs files and folder. Call between applies; run on a blocking thread. Waits while the disk is full.
    ///
    /// # Errors
    ///
    /// Of the job: a write or sync failed, now or earlier; nothing is written any more.
    pub fn sync_job(&self, partitions: Vec<PartitionId>) -> Box<dyn FnOnce() -> io::Result<()> + Send> {
        let shared = self.shared.clone();
        let logs: Vec<Arc<PartitionLog>> = {
            let known = self.partitions.read();
            partitions.iter().filter_map(|id| known.get(id).cloned()).collect()
        };
        Box::new(move || {
            let _one = shared.syncing.lock();
            shared.check()?;
            for log in &logs {
                flush(log, true)?;
            }
            let done = sync(&shared, &logs);
            if let Err(e) = &done {
                shared.fail(e);
            }
            done
        })
    }

    /// Stops the writer thread once all that was appended is written (unless the disk is full or failed).
    pub fn close(&self) {
        let Some(threads) = self.threads.lock().take() else {
            return;
        };
        self.shared.close_writer();
        join(threads.writer);
        self.shared.close_remover();
        join(threads.remover);
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.close();
    }
}

/// Makes what is in files durable. Where files are synced one by one, first the system is asked to begin with all of them, so that the syncs find little left
/// to do and the file system's journal commits for many at once.
fn sync(shared: &Shared, logs: &[Arc<PartitionLog>]) -> io::Result<()> {
    let work: Vec<_> = logs
        .iter()
        .flat_map(|log| log.take_dirty().into_iter().map(move |id| (log, id)))
        .collect();
    if work.len() >= VOLUME_SYNC && shared.files.sync_volume()? {
        return Ok(());
    }
    for (log, id) in &work {
        log.begin_sync(*id);
    }
    let next = AtomicUsize::new(0);
    let sync_some = || {
        while let Some((log, id)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            log.sync(*id)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads::at_once(SYNC_THREADS).min(work.len()))
            .map(|_| scope.spawn(sync_some))
            .collect();
        let mut done: io::Result<()> = sync_some();
        for other in others {
            let end = other
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a sync thread died")));
            done = done.and(end);
        }
        done
    })?;
    shared.files.sync_names()
}

fn spawn(name: &str, shared: &Arc<Shared>, run: fn(&Shared)) -> io::Result<Thread> {
    let shared = shared.clone();
    threads::spawn(name, move || run(&shared))
}

fn join(thread: Thread) {
    if !thread.join() {
        tracing::error!("a background thread of the partition logs panicked");
    }
}
