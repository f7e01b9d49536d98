//! Reads: bytes of whole batches from files and tail. No lock is held while a file is read.
//!
//! What this process wrote itself is served as it lies in the page cache. What was in a file at open is read once and its
//! checksums verified before it is first served; stretches verified are remembered. Clients check every batch anyway.

use super::format::{Entry, FILE_HEADER, Kind};
use super::hop::{Damage, Found, Hopper, verify};
use super::index::{self, Block, floor_in};
use super::partition::{Cursor, PartitionLog, State};
use super::{Offset, Piece, ReadError, Slice};
use cluster::fs::File;
use std::io;
use std::sync::Arc;

/// A segment as it was at one moment.
pub(super) struct View {
    /// The offset looked for.
    pub at: Offset,
    pub base: Offset,
    /// Where the batch that begins with `at` is, where that is known.
    start: Option<u64>,
    /// Bytes in the file; a batch boundary.
    pub written: u64,
    /// Offset after them.
    pub written_end: Offset,
    /// Entries in the index file, and after them.
    pub indexed: u64,
    pub pending: Vec<Entry>,
    own_from: u64,
    near: Option<Arc<Block>>,
}

impl State {
    /// The segment whose file holds `at`.
    pub(super) fn view(&self, at: Offset) -> Option<View> {
        let number = self.segment_of(at)?;
        let segment = &self.segments[number];
        let start = if at == segment.base {
            Some(FILE_HEADER)
        } else {
            self.cursor(at, segment.base)
        };
        let written_end = if segment.written == segment.len {
            self.segment_end(number)
        } else {
            self.tail.first()?
        };
        Some(View {
            at,
            base: segment.base,
            start,
            written: segment.written,
            written_end,
            indexed: if segment.index_damaged { 0 } else { segment.indexed },
            pending: segment.pending.clone(),
            own_from: segment.own_from,
            near: self.near.clone().filter(|near| near.segment == segment.base),
        })
    }
}

impl PartitionLog {
    /// Whole batches from the one that contains `from`, up to the high watermark, at most `max_bytes`; with
    /// `first_whole` the first batch comes whatever its size. May stop up to an index interval short of `max_bytes`.
    pub fn read(&self, from: Offset, max_bytes: usize, first_whole: bool) -> Result<Slice, ReadError> {
        let mut slice = Slice {
            next: from,
            ..Slice::default()
        };
        loop {
            let view = {
                let state = &mut *self.state.lock();
                if slice.bytes == 0 && !(state.log_start..=state.log_end).contains(&from) {
                    return Err(self.out_of_range(state, from));
                }
                if slice.next >= state.log_end || slice.next < state.log_start {
                    break;
                }
                if state.tail.first().is_some_and(|first| first <= slice.next) {
                    state.near = None;
                    if let Some((segment, position)) = state.tail.read(&mut slice, max_bytes, first_whole) {
                        let offset = slice.next;
                        let end = Cursor {
                            offset,
                            segment,
                            position,
                        };
                        state.set_cursor(from, end);
                    }
                    break;
                }
                match state.view(slice.next) {
                    Some(view) => view,
                    None => break,
                }
            };
            match self.read_file(&view, &mut slice, max_bytes, first_whole) {
                Ok(true) => {}
                Ok(false) => break,
                // What was found before is good; the error comes to who asks from here on.
                Err(_) if slice.bytes > 0 => break,
                Err(e) => {
                    let state = self.state.lock();
                    if from < state.log_start {
                        return Err(self.out_of_range(&state, from));
                    }
                    return Err(e);
                }
            }
        }
        Ok(slice)
    }

    /// Adds a stretch of one file to `slice`; whether there may be more within `max_bytes`.
    fn read_file(
        &self,
        view: &View,
        slice: &mut Slice,
        max_bytes: usize,
        first_whole: bool,
    ) -> Result<bool, ReadError> {
        let first_whole = first_whole && slice.bytes == 0;
        let budget = max_bytes.saturating_sub(slice.bytes) as u64;
        if budget == 0 && !first_whole {
            return Ok(false);
        }
        let file = self.open_segment(view.base)?;
        let (start, first) = match view.start {
            Some(start) => (start, view.at),
            None => {
                let found = self.locate(view, &*file)?;
                (found.position, found.base)
            }
        };
        let target = start.saturating_add(budget);
        let (mut end, mut next) = if target >= view.written {
            (view.written, view.written_end)
        } else {
            match self.floor(view, |entry| entry.position <= target) {
                Some(entry) if entry.position > start => (entry.position, entry.offset),
                _ => self.hop_to(view, &*file, start, first, target, first_whole)?,
            }
        };
        if end == start {
            return Ok(false);
        }
        let more = end == view.written;
        if start < view.own_from {
            let good = self.verify_once(view, &*file, start, end, first)?;
            if let Some((good_end, good_next)) = good {
                (end, next) = (good_end, good_next);
            }
        }
        let len = (end - start) as usize;
        match slice.pieces.last_mut() {
            Some(Piece::File {
                file: before,
                position,
                len: so_far,
            }) if Arc::ptr_eq(before, &file) && *position + *so_far as u64 == start => *so_far += len,
            _ => slice.pieces.push(Piece::File {
                file,
                position: start,
                len,
            }),
        }
        slice.bytes += len;
        slice.next = next;
        let cursor = Cursor {
            offset: next,
            segment: view.base,
            position: end,
        };
        self.state.lock().set_cursor(view.at, cursor);
        Ok(more)
    }

    /// The end of the last batch at or before `target`, by headers; of the first batch with `first_whole`.
    fn hop_to(
        &self,
        view: &View,
        file: &dyn File,
        start: u64,
        first: Offset,
        target: u64,
        first_whole: bool,
    ) -> Result<(u64, Offset), ReadError> {
        let mut hopper = Hopper::new(file, start, first, view.written);
        let mut at = (start, first);
        while let Some(found) = self.named(view.base, hopper.next())? {
            let end = found.position + found.len;
            if end > target && !(first_whole && found.position == start) {
                break;
            }
            at = (end, found.last + 1);
            if end > target {
                break;
            }
        }
        Ok(at)
    }

    /// Verifies checksums of `start..end` before `own_from`, unless that was done. Where the good bytes end if not all are
    /// good; an error if none is.
    fn verify_once(
        &self,
        view: &View,
        file: &dyn File,
        start: u64,
        end: u64,
        first: Offset,
    ) -> Result<Option<(u64, Offset)>, ReadError> {
        let to = end.min(view.own_from);
        match self.state.lock().segment(view.base) {
            Some(segment) if segment.verified.gap(start, to).is_none() => return Ok(None),
            _ => {}
        }
        let (good, next, damage) = verify(file, start, to, first);
        if good > start
            && let Some(segment) = self.state.lock().segment(view.base)
        {
            segment.verified.add(start, good);
        }
        match damage {
            None => Ok(None),
            Some(damage) => {
                let error = self.storage(view.base, damage);
                tracing::error!(partition = %self.id, %error, "damaged batch");
                if good > start {
                    Ok(Some((good, next)))
                } else {
                    Err(error)
                }
            }
        }
    }

    /// The batch that contains `view.at`.
    pub(super) fn locate(&self, view: &View, file: &dyn File) -> Result<Found, ReadError> {
        let (position, offset) = match self.floor(view, |entry| entry.offset <= view.at) {
            Some(entry) => (entry.position, entry.offset),
            None => (FILE_HEADER, view.base),
        };
        let mut hopper = Hopper::new(file, position, offset, view.written);
        while let Some(found) = self.named(view.base, hopper.next())? {
            if found.last >= view.at {
                return Ok(found);
            }
        }
        let why = format!("the file ends before offset {}", view.at);
        let position = view.written;
        Err(self.storage(view.base, Damage { position, why }))
    }

    /// The last index entry for which `before` holds. An index that can't be read costs time, not data.
    pub(super) fn floor(&self, view: &View, before: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let id = self.file(view.base, Kind::Index);
        if let Some(entry) = floor_in(&view.pending, &before) {
            return Some(entry);
        }
        match index::floor(&self.shared.files, id, view.indexed, view.near.as_deref(), before) {
            Ok((entry, block)) => {
                if let Some(block) = block {
                    self.state.lock().near = Some(Arc::new(block));
                }
                entry
            }
            Err(e) => {
                if let Some(segment) = self.state.lock().segment(view.base)
                    && !std::mem::replace(&mut segment.index_damaged, true)
                {
                    tracing::warn!(file = id.name(), error = %e, "index can't be read, scanning instead");
                }
                None
            }
        }
    }

    pub(super) fn open_segment(&self, base: Offset) -> Result<Arc<dyn File>, ReadError> {
        let id = self.file(base, Kind::Segment);
        self.shared
            .files
            .open(id)
            .map_err(|e| self.storage(base, Damage::from_io(0, &e)))
    }

    pub(super) fn named<T>(&self, base: Offset, result: Result<T, Damage>) -> Result<T, ReadError> {
        result.map_err(|damage| self.storage(base, damage))
    }

    fn storage(&self, base: Offset, damage: Damage) -> ReadError {
        ReadError::Storage {
            file: self.file(base, Kind::Segment).name(),
            position: damage.position,
            why: damage.why,
        }
    }

    pub(super) fn index_error(&self, base: Offset, error: &io::Error) -> ReadError {
        ReadError::Storage {
            file: self.file(base, Kind::Index).name(),
            position: 0,
            why: error.to_string(),
        }
    }

    fn out_of_range(&self, state: &State, asked: Offset) -> ReadError {
        ReadError::OutOfRange {
            asked,
            log_start: state.log_start,
            log_end: state.log_end,
        }
    }
}
