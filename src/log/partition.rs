//! One partition's log: what is changed by appends, trims and rolls, and what is known without reading files.

use super::epochs::Epochs;
use super::format::Kind;
use super::index::Block;
use super::segment::{Segment, Times};
use super::shared::{Removal, Shared};
use super::tail::{Tail, TailBatch};
use super::{LogCheckpoint, Offset, StampedBatch};
use cluster::ids::PartitionId;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Read ends remembered, so that as many sequential consumers never search.
const CURSORS: usize = 8;

/// One partition's log.
pub struct PartitionLog {
    pub(super) id: PartitionId,
    pub(super) shared: Arc<Shared>,
    pub(super) me: Weak<PartitionLog>,
    /// Held for moments only, never while files are touched.
    pub(super) state: Mutex<State>,
    /// Held by who writes the partition's files.
    pub(super) io: Mutex<()>,
}

/// All that is known of the log.
#[derive(Default)]
pub(super) struct State {
    pub log_start: Offset,
    pub log_end: Offset,
    pub epochs: Epochs,
    /// Without gaps; all but the last are closed.
    pub segments: VecDeque<Segment>,
    /// Bytes of batches in all segments.
    pub size: u64,
    pub tail: Tail,
    pub cursors: Vec<Cursor>,
    /// Where a reader that lags behind was last in an index.
    pub near: Option<Arc<Block>>,
    /// Is in the writer's queue.
    pub queued: bool,
    /// The partition was dropped; nothing is kept any more.
    pub dropped: bool,
}

/// Where a read ended: the batch with this first offset begins there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    pub offset: Offset,
    pub segment: Offset,
    pub position: u64,
}

impl State {
    /// Number of the segment that contains `offset` or would.
    pub fn segment_of(&self, offset: Offset) -> Option<usize> {
        self.segments.partition_point(|s| s.base <= offset).checked_sub(1)
    }

    /// The segment that begins with `base`.
    pub fn segment(&mut self, base: Offset) -> Option<&mut Segment> {
        let at = self.segments.binary_search_by_key(&base, |s| s.base).ok()?;
        Some(&mut self.segments[at])
    }

    /// Offset after the last record of segment number `at`.
    pub fn segment_end(&self, at: usize) -> Offset {
        self.segments.get(at + 1).map_or(self.log_end, |next| next.base)
    }

    /// Where the batch that begins with `offset` was seen.
    pub fn cursor(&self, offset: Offset, segment: Offset) -> Option<u64> {
        self.cursors
            .iter()
            .find(|c| c.offset == offset && c.segment == segment)
            .map(|c| c.position)
    }

    /// Remembers a read end in place of the one the read began at, or of the oldest.
    pub fn set_cursor(&mut self, began: Offset, cursor: Cursor) {
        if let Some(at) = self.cursors.iter().position(|c| c.offset == began) {
            self.cursors.remove(at);
        } else if self.cursors.len() == CURSORS {
            self.cursors.remove(0);
        }
        self.cursors.push(cursor);
    }
}

impl PartitionLog {
    pub(super) fn new(id: PartitionId, shared: Arc<Shared>, state: State) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            id,
            shared,
            me: me.clone(),
            state: Mutex::new(state),
            io: Mutex::new(()),
        })
    }

    /// Appends a batch at the log end. Only the range's machine calls this. Waits while too much is unwritten (a worker
    /// of a multi-thread runtime hands its other tasks on meanwhile).
    ///
    /// # Panics
    ///
    /// If the batch does not begin at the log end: the caller gave out offsets that are not the log's.
    pub fn append(&self, batch: StampedBatch) {
        self.shared.wait_for_room();
        let len = (batch.head.len() + batch.rest.len()) as u64;
        let config = &self.shared.config;
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.dropped {
            return;
        }
        assert!(
            batch.base_offset == state.log_end && batch.last_offset >= batch.base_offset,
            "batch {}..={} does not follow log end {} of partition {}",
            batch.base_offset,
            batch.last_offset,
            state.log_end,
            self.id,
        );
        state.epochs.note(batch.leader_epoch, batch.base_offset);
        let room = state
            .segments
            .back()
            .is_some_and(|s| !s.closed && (s.is_empty() || s.len.saturating_add(len) <= config.segment_bytes));
        if !room {
            if let Some(last) = state.segments.back_mut() {
                last.close(batch.base_offset);
            }
            state.segments.push_back(Segment::new(batch.base_offset));
        }
        let Some(segment) = state.segments.back_mut() else {
            unreachable!("pushed above")
        };
        let position = segment.push(&batch, len, config.index_interval);
        let batch = TailBatch::new(batch, segment.base, position);
        let cost = batch.cost();
        state.size += len;
        state.log_end = batch.last + 1;
        state.tail.push(batch);
        let queue = !std::mem::replace(&mut state.queued, true);
        // Counted before the writer can see it, so that the count never falls below zero.
        self.shared.took(cost);
        drop(guard);
        self.shared.appended(if queue { self.me.upgrade() } else { None });
    }

    /// First offset held.
    pub fn log_start(&self) -> Offset {
        self.state.lock().log_start
    }

    /// First offset not yet committed. Only committed entries are appended, so it is the log end.
    pub fn high_watermark(&self) -> Offset {
        self.log_end()
    }

    /// Next offset to be given.
    pub fn log_end(&self) -> Offset {
        self.state.lock().log_end
    }

    /// Log start and log end, of one moment.
    pub fn bounds(&self) -> (Offset, Offset) {
        let state = self.state.lock();
        (state.log_start, state.log_end)
    }

    /// Bytes of batches held in files and memory.
    pub fn size(&self) -> u64 {
        self.state.lock().size
    }

    /// Moves the log start up to `to` (never back, never beyond the log end) and deletes segments that fall below (in
    /// the background; readers holding pieces are not disturbed). The segment being written goes too if all of it falls
    /// below.
    pub fn trim(&self, to: Offset) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let to = to.min(state.log_end);
        if to <= state.log_start {
            return;
        }
        state.log_start = to;
        state.epochs.trim(to);
        let mut gone = Vec::new();
        while !state.segments.is_empty() && state.segment_end(0) <= to {
            if let Some(segment) = state.segments.pop_front() {
                state.size -= segment.data_len();
                gone.push(segment.base);
            }
        }
        if gone.is_empty() {
            return;
        }
        let first = state.segments.front().map_or(Offset::MAX, |s| s.base);
        let cost = state.tail.drop_while(|batch| batch.segment < first);
        drop(guard);
        self.shared.gave(cost);
        if let Some(log) = self.me.upgrade() {
            self.shared.remove(Removal {
                log,
                segments: gone,
                last: false,
            });
        }
    }

    /// Forgets everything; the files are to be removed by the caller's [`Removal`].
    pub(super) fn drop_all(&self) -> Vec<Offset> {
        let mut guard = self.state.lock();
        let state = std::mem::take(&mut *guard);
        guard.log_start = state.log_start;
        guard.log_end = state.log_end;
        guard.dropped = true;
        guard.queued = state.queued;
        drop(guard);
        let mut tail = state.tail;
        self.shared.gave(tail.drop_while(|_| true));
        state.segments.iter().map(|s| s.base).collect()
    }

    /// Closes the segment being written if its oldest batch was taken more than `max_age_ms` before `now_ms` or it holds
    /// `max_bytes` or more, so that retention can drop it one day though the partition is quiet. The next append begins
    /// another.
    pub fn roll_if(&self, now_ms: i64, max_age_ms: Option<u64>, max_bytes: Option<u64>) {
        let state = &mut *self.state.lock();
        let log_end = state.log_end;
        let Some(last) = state.segments.back_mut() else { return };
        let old = max_age_ms.is_some_and(|age| last.first_append_ms.is_some_and(|first| is_older(first, now_ms, age)));
        let large = max_bytes.is_some_and(|bytes| last.data_len() >= bytes);
        if !last.is_empty() && (old || large) {
            last.close(log_end);
        }
    }

    /// The offset that retention by time (of append) and by bytes would trim to at `now_ms`: whole segments. By time the
    /// segment being written counts too once its newest batch is old enough; by bytes it stays.
    pub fn retention_point(&self, now_ms: i64, retain_ms: Option<u64>, retain_bytes: Option<u64>) -> Offset {
        let (mut point, segments, mut size) = {
            let state = self.state.lock();
            let segments: Vec<(Offset, Offset, u64)> = (0..state.segments.len())
                .map(|at| {
                    (
                        state.segments[at].base,
                        state.segment_end(at),
                        state.segments[at].data_len(),
                    )
                })
                .collect();
            (state.log_start, segments, state.size)
        };
        let count = segments.len();
        for (n, (base, end, len)) in segments.into_iter().enumerate() {
            let large = n + 1 < count && retain_bytes.is_some_and(|bytes| size - len >= bytes);
            let old = || {
                let age = retain_ms?;
                let newest = match self.times(base) {
                    Ok(times) => times?.last_append_ms,
                    Err(e) => {
                        tracing::warn!(partition = %self.id, segment = base, error = %e, "retention can't tell its age");
                        return None;
                    }
                };
                Some(is_older(newest, now_ms, age))
            };
            if !large && old() != Some(true) {
                break;
            }
            size -= len;
            point = point.max(end);
        }
        point
    }

    /// KIP-101: the largest epoch not above `epoch` and the first offset after it; `None` for a future or unknown one.
    pub fn epoch_end(&self, epoch: i32) -> Option<(i32, Offset)> {
        let state = self.state.lock();
        state.epochs.end(epoch, state.log_end)
    }

    /// Epoch of the newest batch.
    pub fn latest_epoch(&self) -> Option<i32> {
        self.state.lock().epochs.latest()
    }

    /// Where the log stands now; to be made durable after [`Logs::sync_job`](super::Logs::sync_job).
    pub fn checkpoint(&self) -> LogCheckpoint {
        let state = self.state.lock();
        let last = state.segments.back();
        LogCheckpoint {
            log_start: state.log_start,
            log_end: state.log_end,
            segment: last.map(|s| s.base),
            segment_len: last.map_or(0, |s| s.len),
            epochs: state.epochs.to_vec(),
        }
    }

    /// Remembers what reading a closed segment's index brought.
    pub(super) fn learn(&self, base: Offset, times: Times) {
        if let Some(segment) = self.state.lock().segment(base) {
            segment.times.get_or_insert(times);
        }
    }

    pub(super) fn file(&self, base: Offset, kind: Kind) -> super::format::FileId {
        super::format::FileId {
            partition: self.id,
            base,
            kind,
        }
    }
}

fn is_older(then_ms: i64, now_ms: i64, age_ms: u64) -> bool {
    i64::try_from(age_ms).is_ok_and(|age| now_ms.saturating_sub(age) > then_ms)
}
