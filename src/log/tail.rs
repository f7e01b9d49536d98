//! The newest batches of a partition: appended, not yet in a file.

use super::{Offset, Piece, Slice, StampedBatch};
use bytes::Bytes;
use std::collections::VecDeque;

/// What a batch in the tail costs beyond its bytes.
const OVERHEAD: usize = 128;

/// Pieces of one read, so that the log's lock is held for moments only.
const MAX_PIECES: usize = 2048;

/// Slots kept for reuse once the tail is empty.
const KEEP: usize = 16;

/// A batch, by reference.
pub(super) struct TailBatch {
    pub base: Offset,
    pub last: Offset,
    pub max_timestamp: i64,
    /// Offset that its segment begins with.
    pub segment: Offset,
    /// Where it goes in the segment.
    pub position: u64,
    pub head: Bytes,
    pub rest: Bytes,
}

impl TailBatch {
    pub fn new(batch: StampedBatch, segment: Offset, position: u64) -> Self {
        Self {
            base: batch.base_offset,
            last: batch.last_offset,
            max_timestamp: batch.max_timestamp,
            segment,
            position,
            head: batch.head,
            rest: batch.rest,
        }
    }

    pub fn len(&self) -> usize {
        self.head.len() + self.rest.len()
    }

    /// What it counts against the bound on unwritten bytes.
    pub fn cost(&self) -> usize {
        self.len() + OVERHEAD
    }
}

/// Batches in order of offset, without gaps, up to the log end.
#[derive(Default)]
pub(super) struct Tail {
    batches: VecDeque<TailBatch>,
}

impl Tail {
    pub fn push(&mut self, batch: TailBatch) {
        self.batches.push_back(batch);
    }

    /// Offset of the first record held.
    pub fn first(&self) -> Option<Offset> {
        self.batches.front().map(|batch| batch.base)
    }

    /// The batches from the one that contains `offset`; none if that is already in a file.
    pub fn from(&self, offset: Offset) -> impl Iterator<Item = &TailBatch> {
        let at = match self.first() {
            Some(first) if first <= offset => self.batches.partition_point(|batch| batch.last < offset),
            _ => self.batches.len(),
        };
        self.batches.range(at..)
    }

    /// All batches.
    pub fn iter(&self) -> impl Iterator<Item = &TailBatch> {
        self.batches.iter()
    }

    /// Adds batches from `slice.next` on while they fit into `max_bytes`; the first in any case with `first_whole`.
    /// Segment and position after the last added, if any was.
    pub fn read(&self, slice: &mut Slice, max_bytes: usize, first_whole: bool) -> Option<(Offset, u64)> {
        let mut end = None;
        for batch in self.from(slice.next) {
            let len = batch.len();
            let fits = slice.bytes.saturating_add(len) <= max_bytes;
            let whole = first_whole && slice.bytes == 0;
            if !(fits || whole) || slice.pieces.len() >= MAX_PIECES {
                break;
            }
            for part in [&batch.head, &batch.rest] {
                if !part.is_empty() {
                    slice.pieces.push(Piece::Memory(part.clone()));
                }
            }
            slice.bytes += len;
            slice.next = batch.last + 1;
            end = Some((batch.segment, batch.position + len as u64));
        }
        end
    }

    /// Drops the first batches for which `gone` holds; what they cost.
    pub fn drop_while(&mut self, gone: impl Fn(&TailBatch) -> bool) -> usize {
        let mut cost = 0;
        while let Some(batch) = self.batches.front()
            && gone(batch)
        {
            cost += batch.cost();
            self.batches.pop_front();
        }
        if self.batches.is_empty() && self.batches.capacity() > KEEP {
            self.batches = VecDeque::new();
        }
        cost
    }
}
