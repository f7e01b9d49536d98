//! From tails to files: the writer thread, and what it shares with sync jobs.

use super::Offset;
use super::format::{ENTRY_LEN, Entry, FILE_HEADER, FileId, Kind};
use super::partition::{PartitionLog, State};
use super::shared::{Removal, Shared};
use bytes::Bytes;
use cluster::fs::{File, is_full};
use std::io::{self, IoSlice};
use std::sync::Arc;

/// Buffers per write: what one system call takes.
const RUN_SLICES: usize = 1024;

/// Bytes per write, so that readers and trims see progress. Linux takes page cache memory in pieces as large as the write, up to
/// 2 MiB; such pieces are what a virtual machine hands back to its host while they are free, and touching them again cost
/// more than twice what all the rest of a produce did. Smaller ones it keeps. Fewer, larger writes save nothing from here on.
const RUN_BYTES: usize = 256 << 10;

/// Index entries worth a write of their own.
const INDEX_RUN: usize = 100;

/// Bytes after which the system is asked to begin writing back, so that a checkpoint finds little to do.
const WRITE_BACK: u64 = 4 << 20;

/// One write.
enum Job {
    Batches {
        segment: Offset,
        position: u64,
        parts: Vec<Bytes>,
        bytes: u64,
        /// The offset after the last.
        next: Offset,
    },
    Entries {
        segment: Offset,
        first: u64,
        entries: Vec<Entry>,
    },
}

impl PartitionLog {
    /// Writes what was appended before the call; with `index` all index entries too, else only when there are many.
    /// After an error everything not written is still in memory, and the call can be made again.
    pub(super) fn flush(&self, index: bool) -> io::Result<()> {
        let _io = self.io.lock();
        let end = {
            let mut state = self.state.lock();
            state.queued = false;
            state.log_end
        };
        loop {
            let job = self.state.lock().next_job(index, end);
            match job {
                None => return Ok(()),
                Some(Job::Batches {
                    segment,
                    position,
                    parts,
                    bytes,
                    next,
                }) => self.write_batches(segment, position, &parts, bytes, next)?,
                Some(Job::Entries {
                    segment,
                    first,
                    entries,
                }) => self.write_entries(segment, first, &entries)?,
            }
        }
    }

    fn write_batches(&self, base: Offset, position: u64, parts: &[Bytes], bytes: u64, next: Offset) -> io::Result<()> {
        let id = self.file(base, Kind::Segment);
        let file = if position == FILE_HEADER {
            self.create(id)?
        } else {
            self.shared.files.open(id)?
        };
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        file.write_all_vectored_at(&mut slices, position)?;
        let mut hint = None;
        let cost = {
            let state = &mut *self.state.lock();
            if let Some(segment) = state.segment(base) {
                segment.written = position + bytes;
                segment.dirty = true;
                if segment.written - segment.hinted >= WRITE_BACK {
                    hint = Some(segment.hinted);
                    segment.hinted = segment.written;
                }
            }
            state.tail.drop_while(|batch| batch.base < next)
        };
        self.shared.gave(cost);
        if let Some(from) = hint {
            file.write_back(from, position + bytes - from);
        }
        Ok(())
    }

    fn write_entries(&self, base: Offset, first: u64, entries: &[Entry]) -> io::Result<()> {
        let id = self.file(base, Kind::Index);
        let file = if first == 0 {
            self.create(id)?
        } else {
            self.shared.files.open(id)?
        };
        let bytes: Vec<u8> = entries.iter().flat_map(Entry::encode).collect();
        file.write_all_at(&bytes, FILE_HEADER + first * ENTRY_LEN as u64)?;
        if let Some(segment) = self.state.lock().segment(base) {
            segment.indexed = first + entries.len() as u64;
            segment.index_dirty = true;
            segment.pending.drain(..entries.len());
            segment.pending.shrink_to(INDEX_RUN);
        }
        Ok(())
    }

    fn create(&self, id: FileId) -> io::Result<Arc<dyn File>> {
        self.shared.wait_for_removal(self.id);
        self.shared.files.create(id)
    }

    /// Asks the system to begin writing what a [`sync`](Self::sync) of this file will wait for.
    pub(super) fn begin_sync(&self, id: FileId) {
        let (from, len) = match (id.kind, self.state.lock().segment(id.base)) {
            (Kind::Segment, Some(segment)) => {
                let from = std::mem::replace(&mut segment.hinted, segment.written);
                (from, segment.written - from)
            }
            // To the end.
            (Kind::Index, Some(_)) => (0, 0),
            (_, None) => return,
        };
        if let Ok(file) = self.shared.files.open(id) {
            file.write_back(from, len);
        }
    }

    /// Files written since they were last synced.
    pub(super) fn take_dirty(&self) -> Vec<FileId> {
        let mut ids = Vec::new();
        for segment in &mut self.state.lock().segments {
            if std::mem::take(&mut segment.dirty) {
                ids.push(self.file(segment.base, Kind::Segment));
            }
            if std::mem::take(&mut segment.index_dirty) {
                ids.push(self.file(segment.base, Kind::Index));
            }
        }
        ids
    }

    /// Makes one file durable. It may have been closed and opened again since it was written: Linux tells a write-back
    /// error to the first sync after it whoever opened the file (4.17 and later). A file that a trim took meanwhile needs
    /// no sync.
    pub(super) fn sync(&self, id: FileId) -> io::Result<()> {
        let done = self.shared.files.open(id).and_then(|file| file.sync_data());
        match done {
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.state.lock().segment(id.base).is_none() => Ok(()),
            done => done,
        }
    }
}

impl State {
    /// What to write next so that everything before `end` is in files.
    fn next_job(&self, index: bool, end: Offset) -> Option<Job> {
        let settled = self.segments.iter().rev().take_while(|s| !s.is_settled()).count();
        for segment in self.segments.range(self.segments.len() - settled..) {
            if segment.written < segment.len && self.tail.first().is_some_and(|first| first < end) {
                return self.next_run(segment.base, segment.written.max(FILE_HEADER));
            }
            let due = index || segment.closed || segment.pending.len() >= INDEX_RUN;
            if due && !segment.pending.is_empty() {
                return Some(Job::Entries {
                    segment: segment.base,
                    first: segment.indexed,
                    entries: segment.pending.clone(),
                });
            }
        }
        None
    }

    /// The first batches of the tail, as many as one write takes.
    fn next_run(&self, segment: Offset, position: u64) -> Option<Job> {
        let (mut parts, mut bytes, mut next) = (Vec::new(), 0, segment);
        for batch in self.tail.iter().take_while(|batch| batch.segment == segment) {
            if !parts.is_empty() && (parts.len() + 2 > RUN_SLICES || bytes + batch.len() > RUN_BYTES) {
                break;
            }
            debug_assert_eq!(batch.position, position + bytes as u64);
            parts.extend([batch.head.clone(), batch.rest.clone()]);
            bytes += batch.len();
            next = batch.last + 1;
        }
        (bytes > 0).then_some(Job::Batches {
            segment,
            position,
            parts,
            bytes: bytes as u64,
            next,
        })
    }
}

/// [`PartitionLog::flush`], waiting while the disk is full. Any other error ends all writing.
pub(super) fn flush(log: &PartitionLog, index: bool) -> io::Result<()> {
    let shared = &log.shared;
    loop {
        shared.check()?;
        match log.flush(index) {
            Ok(()) => {
                shared.set_full(false);
                return Ok(());
            }
            Err(e) if is_full(&e) => {
                shared.set_full(true);
                if !shared.wait_for_space() {
                    return Err(e);
                }
            }
            Err(e) => {
                shared.fail(&e);
                return Err(e);
            }
        }
    }
}

/// The writer thread: rounds over the partitions that have unwritten batches, so that each gets few large writes.
pub(super) fn write_rounds(shared: &Shared) {
    while let Some(logs) = shared.next_round() {
        for log in logs {
            if flush(&log, false).is_err() {
                // Failed for good, or closing with a full disk: the write-ahead log has the rest.
                return;
            }
        }
    }
}

/// The remover thread: files of trimmed segments and dropped partitions, oldest first.
pub(super) fn remove_files(shared: &Shared) {
    while let Some(Removal { log, segments, last }) = shared.next_removal() {
        // Whoever was writing to them is done after this; nobody begins to.
        drop(log.io.lock());
        for base in segments {
            for kind in [Kind::Segment, Kind::Index] {
                let id = log.file(base, kind);
                if let Err(error) = shared.files.remove(id) {
                    tracing::warn!(file = id.name(), %error, "file can't be removed, will be at the next start");
                }
            }
        }
        if last {
            shared.removed(log.id);
        }
    }
}
