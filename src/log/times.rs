//! Look-ups by time: which batch has a timestamp, when a batch was taken.

use super::format::{Entry, FILE_HEADER, Kind};
use super::hop::Hopper;
use super::index;
use super::partition::PartitionLog;
use super::segment::Times;
use super::{BatchAt, Offset, ReadError};

/// A batch met on a walk.
struct Seen {
    base: Offset,
    max_timestamp: i64,
}

impl PartitionLog {
    /// The first batch whose max timestamp is at least `timestamp`; the record within it is the caller's to find.
    pub fn batch_by_timestamp(&self, timestamp: i64) -> Result<Option<BatchAt>, ReadError> {
        for (base, _) in self.segment_bounds() {
            match self.unless_gone(base, self.times(base))? {
                Some(times) if times.max_timestamp >= timestamp => {}
                _ => continue,
            }
            if let Some(found) = self.unless_gone(base, self.first_at_least(base, timestamp))? {
                return self.batch_at(found);
            }
        }
        Ok(None)
    }

    /// The first batch with the largest timestamp (ListOffsets -3, KIP-734).
    pub fn batch_with_max_timestamp(&self) -> Result<Option<BatchAt>, ReadError> {
        let log_start = self.log_start();
        let mut max = None;
        for (base, end) in self.segment_bounds() {
            let Some(times) = self.unless_gone(base, self.times(base))? else {
                continue;
            };
            if max.is_some_and(|max| times.max_timestamp <= max) {
                continue;
            }
            if base >= log_start {
                max = Some(times.max_timestamp);
                continue;
            }
            // Part of the segment is below the log start, maybe the part with its largest timestamp.
            let walked = self.walk(log_start, &mut |seen| {
                if seen.base < end {
                    max = max.max(Some(seen.max_timestamp));
                }
                seen.base >= end
            });
            self.unless_gone(base, walked.map(Some))?;
        }
        match max {
            Some(max) => self.batch_by_timestamp(max),
            None => Ok(None),
        }
    }

    /// When the leader took the batch that contains `offset`; `None` outside of the log.
    pub fn append_ms(&self, offset: Offset) -> Result<Option<i64>, ReadError> {
        let (base, indexed, pending) = {
            let state = self.state.lock();
            if !(state.log_start..state.log_end).contains(&offset) {
                return Ok(None);
            }
            let Some(number) = state.segment_of(offset) else {
                return Ok(None);
            };
            let segment = &state.segments[number];
            (segment.base, segment.indexed, segment.pending.clone())
        };
        let id = self.file(base, Kind::Index);
        let before = |entry: &Entry| entry.offset <= offset;
        if let Some(entry) = index::floor_in(&pending, before) {
            return Ok(Some(entry.append_ms));
        }
        match index::floor(&self.shared.files, id, indexed, None, before) {
            Ok((entry, _)) => Ok(entry.map(|entry| entry.append_ms)),
            Err(_) if offset < self.log_start() => Ok(None),
            Err(e) => Err(self.index_error(base, &e)),
        }
    }

    /// An error about a segment that a trim took meanwhile is none.
    fn unless_gone<T>(&self, base: Offset, found: Result<Option<T>, ReadError>) -> Result<Option<T>, ReadError> {
        match found {
            Err(_) if self.state.lock().segment(base).is_none() => Ok(None),
            found => found,
        }
    }

    fn batch_at(&self, base_offset: Offset) -> Result<Option<BatchAt>, ReadError> {
        // A batch whose first records are below the log start is found by one of those that are not.
        let offset = base_offset.max(self.log_start());
        let append_ms = match self.append_ms(offset) {
            Ok(Some(append_ms)) => append_ms,
            // A trim took it.
            Ok(None) => return Ok(None),
            Err(_) => -1,
        };
        Ok(Some(BatchAt { base_offset, append_ms }))
    }

    /// First offset of each segment, and the offset after its last.
    fn segment_bounds(&self) -> Vec<(Offset, Offset)> {
        let state = self.state.lock();
        (0..state.segments.len())
            .map(|at| (state.segments[at].base, state.segment_end(at)))
            .collect()
    }

    /// The first batch of a segment, not below the log start, with a timestamp of at least `timestamp`.
    fn first_at_least(&self, base: Offset, timestamp: i64) -> Result<Option<Offset>, ReadError> {
        let (view, end, log_start) = {
            let state = self.state.lock();
            let Some(number) = state.segment_of(base).filter(|n| state.segments[*n].base == base) else {
                return Ok(None);
            };
            let Some(view) = state.view(base) else { return Ok(None) };
            (view, state.segment_end(number), state.log_start)
        };
        let from = self
            .floor(&view, |entry| entry.max_before < timestamp)
            .map_or(base, |entry| entry.offset)
            .max(log_start);
        let mut first = None;
        self.walk(from, &mut |seen| {
            if seen.base < end && seen.max_timestamp >= timestamp {
                first = Some(seen.base);
            }
            first.is_some() || seen.base >= end
        })?;
        Ok(first)
    }

    /// Shows batches in order from the one that contains `from` until `enough` says so or the log ends.
    fn walk(&self, from: Offset, enough: &mut dyn FnMut(Seen) -> bool) -> Result<(), ReadError> {
        let mut at = from;
        loop {
            let view = {
                let state = self.state.lock();
                at = at.max(state.log_start);
                if at >= state.log_end {
                    return Ok(());
                }
                if state.tail.first().is_some_and(|first| first <= at) {
                    for batch in state.tail.from(at) {
                        let (base, max_timestamp) = (batch.base, batch.max_timestamp);
                        if enough(Seen { base, max_timestamp }) {
                            break;
                        }
                    }
                    return Ok(());
                }
                match state.view(at) {
                    Some(view) => view,
                    None => return Ok(()),
                }
            };
            let file = self.open_segment(view.base)?;
            let first = self.locate(&view, &*file)?;
            let mut hopper = Hopper::new(&*file, first.position, first.base, view.written);
            while let Some(found) = self.named(view.base, hopper.next())? {
                let (base, max_timestamp) = (found.base, found.max_timestamp);
                if enough(Seen { base, max_timestamp }) {
                    return Ok(());
                }
            }
            at = view.written_end;
        }
    }

    /// Append times and timestamps of a segment; `None` if it is gone. Reads the index of a closed segment once.
    pub(super) fn times(&self, base: Offset) -> Result<Option<Times>, ReadError> {
        let (view, end) = {
            let state = self.state.lock();
            let Some(number) = state.segment_of(base).filter(|n| state.segments[*n].base == base) else {
                return Ok(None);
            };
            if let Some(times) = state.segments[number].times {
                return Ok(Some(times));
            }
            let Some(view) = state.view(base) else { return Ok(None) };
            (view, state.segment_end(number))
        };
        let id = self.file(base, Kind::Index);
        let last = view.indexed.checked_sub(1);
        let last = match last.map(|n| index::entry(&self.shared.files, id, n)) {
            Some(Ok(last)) => last,
            // The batches say all but when they came; not after the next segment's first, at any rate.
            Some(Err(_)) | None => Entry {
                offset: base,
                position: FILE_HEADER,
                append_ms: self.append_ms(end).ok().flatten().unwrap_or(i64::MAX),
                max_before: i64::MIN,
            },
        };
        let mut max_timestamp = last.max_before;
        if last.offset != end || last.position != view.written {
            let file = self.open_segment(base)?;
            let mut hopper = Hopper::new(&*file, last.position, last.offset, view.written);
            while let Some(found) = self.named(base, hopper.next())? {
                max_timestamp = max_timestamp.max(found.max_timestamp);
            }
        }
        let times = Times {
            last_append_ms: last.append_ms,
            max_timestamp,
        };
        self.learn(base, times);
        Ok(Some(times))
    }
}
