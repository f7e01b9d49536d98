//! What is known of a segment without reading its file.
//!
//! ```text
//!   FILE_HEADER <= written <= len       bytes written to the file, bytes given a place (the rest is in the tail)
//! ```

use super::format::{Entry, FILE_HEADER};
use super::{Offset, StampedBatch};

/// Verified stretches remembered per segment; with more, the smallest is forgotten and verified anew.
const MAX_RANGES: usize = 32;

/// One file's worth of a partition's log.
pub(super) struct Segment {
    /// Offset of the first record.
    pub base: Offset,
    /// Bytes, with the file header; ahead of the file by what is in the tail.
    pub len: u64,
    /// Bytes in the file; 0 while there is no file.
    pub written: u64,
    /// Index entries in the index file.
    pub indexed: u64,
    /// Index entries not yet there.
    pub pending: Vec<Entry>,
    /// Append times and timestamps; `None` for a closed segment of an earlier life, until asked for.
    pub times: Option<Times>,
    /// When its first batch was taken; `None` as for `times`.
    pub first_append_ms: Option<i64>,
    /// Position of the last index entry.
    pub last_entry: u64,
    /// The index file can't be read; batches are found by their headers.
    pub index_damaged: bool,
    /// No batch joins it any more.
    pub closed: bool,
    /// Bytes were written since the last sync.
    pub dirty: bool,
    /// Index entries were written since the last sync.
    pub index_dirty: bool,
    /// Up to here the system was asked to write back.
    pub hinted: u64,
    /// Bytes from here on were written by this process; what lies before is verified when first read.
    pub own_from: u64,
    /// Stretches before `own_from` that were verified.
    pub verified: Ranges,
}

/// When a segment's batches came and what timestamps they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub last_append_ms: i64,
    pub max_timestamp: i64,
}

impl Segment {
    /// A segment that begins with `batch`, not yet in it.
    pub fn new(base: Offset) -> Self {
        Self {
            base,
            len: FILE_HEADER,
            written: 0,
            indexed: 0,
            pending: Vec::new(),
            times: None,
            first_append_ms: None,
            last_entry: 0,
            index_damaged: false,
            closed: false,
            dirty: false,
            index_dirty: false,
            hinted: FILE_HEADER,
            own_from: FILE_HEADER,
            verified: Ranges::default(),
        }
    }

    /// A segment found at open with a file of `len` bytes and `indexed` index entries.
    pub fn found(base: Offset, len: u64, indexed: u64) -> Self {
        Self {
            len,
            written: len,
            indexed,
            closed: true,
            hinted: len,
            own_from: len,
            ..Self::new(base)
        }
    }

    /// Whether it holds no batch.
    pub fn is_empty(&self) -> bool {
        self.len <= FILE_HEADER
    }

    /// Bytes of batches.
    pub fn data_len(&self) -> u64 {
        self.len - FILE_HEADER
    }

    /// Gives a batch of `len` bytes its place, which is returned.
    pub fn push(&mut self, batch: &StampedBatch, len: u64, index_interval: u32) -> u64 {
        let position = self.len;
        let before = self.times;
        let due = before.is_none_or(|times| {
            times.last_append_ms != batch.append_ms || position - self.last_entry >= u64::from(index_interval)
        });
        if due {
            self.pending.push(Entry {
                offset: batch.base_offset,
                position,
                append_ms: batch.append_ms,
                max_before: before.map_or(i64::MIN, |times| times.max_timestamp),
            });
            self.last_entry = position;
        }
        self.first_append_ms.get_or_insert(batch.append_ms);
        self.times = Some(Times {
            last_append_ms: batch.append_ms,
            max_timestamp: before.map_or(batch.max_timestamp, |times| {
                times.max_timestamp.max(batch.max_timestamp)
            }),
        });
        self.len += len;
        position
    }

    /// Closes it: the next segment begins at `next`.
    pub fn close(&mut self, next: Offset) {
        if let (false, Some(times)) = (self.closed, self.times) {
            self.pending.push(Entry {
                offset: next,
                position: self.len,
                append_ms: times.last_append_ms,
                max_before: times.max_timestamp,
            });
        }
        self.closed = true;
    }

    /// Whether nothing is left to be written of it, ever.
    pub fn is_settled(&self) -> bool {
        self.closed && self.written == self.len && self.pending.is_empty()
    }
}

/// Stretches of bytes, in order, apart from each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    list: Vec<(u64, u64)>,
}

impl Ranges {
    /// The first part of `from..to` that is not covered, if any.
    pub fn gap(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let at = self.list.partition_point(|(_, end)| *end <= from);
        let from = match self.list.get(at) {
            Some((start, end)) if *start <= from => *end,
            _ => from,
        };
        let to = match self.list.iter().find(|(start, _)| *start >= from) {
            Some((start, _)) => to.min(*start),
            None => to,
        };
        (from < to).then_some((from, to))
    }

    /// Adds `from..to`.
    pub fn add(&mut self, mut from: u64, mut to: u64) {
        self.list.retain(|(start, end)| {
            let apart = *end < from || *start > to;
            if !apart {
                from = from.min(*start);
                to = to.max(*end);
            }
            apart
        });
        let at = self.list.partition_point(|(start, _)| *start < from);
        self.list.insert(at, (from, to));
        if self.list.len() > MAX_RANGES
            && let Some(least) = (0..self.list.len()).min_by_key(|n| self.list[*n].1 - self.list[*n].0)
        {
            self.list.remove(least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_and_name_what_is_missing() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.gap(10, 20), Some((10, 20)));
        ranges.add(10, 20);
        ranges.add(30, 40);
        assert_eq!(ranges.list, [(10, 20), (30, 40)]);
        assert_eq!(ranges.gap(10, 20), None);
        assert_eq!(ranges.gap(5, 50), Some((5, 10)));
        assert_eq!(ranges.gap(15, 50), Some((20, 30)));
        assert_eq!(ranges.gap(30, 50), Some((40, 50)));
        ranges.add(20, 30);
        assert_eq!(ranges.list, [(10, 40)]);
        for n in 0..100 {
            ranges.add(100 + n * 10, 105 + n * 10);
        }
        assert_eq!(ranges.list.len(), MAX_RANGES);
        assert!(ranges.list.contains(&(10, 40)));
    }
}
