//! Fetching: what a client that follows a partition asks of its leader.

use super::{AccessError, Broker, Marks};
use crate::log::{Offset, ReadError, Slice};
use cluster::catalog::Topic;

/// What is asked of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchFrom {
    /// The first offset wanted.
    pub offset: Offset,
    /// Most bytes of this partition.
    pub max_bytes: usize,
    /// The leader epoch the client knows as current; -1: it does not say (KIP-320).
    pub leader_epoch: i32,
    /// The epoch of the record before `offset`; -1: it does not say (KIP-595).
    pub last_fetched_epoch: i32,
}

/// What a partition's leader answers.
#[derive(Clone)]
pub struct Fetched {
    /// Taken after the read: never below what was read.
    pub marks: Marks,
    /// (epoch, its end) where the client's log went another way; then nothing was read.
    pub diverging: Option<(i32, Offset)>,
    /// Whole stored batches.
    pub slice: Slice,
}

impl Broker {
    /// Judges the client's epochs and reads, in a partition that this node leads. At most `max_bytes` of it and of what
    /// `from` says; with `first_whole` the first batch comes whatever its size.
    pub fn fetch(
        &self,
        topic: &Topic,
        index: u32,
        from: &FetchFrom,
        max_bytes: usize,
        first_whole: bool,
    ) -> Result<Fetched, AccessError> {
        if from.leader_epoch >= 0 {
            self.marks(topic, index)?.check_epoch(from.leader_epoch)?;
        }
        if from.last_fetched_epoch >= 0
            && let Some(diverging) = self.diverging(topic, index, from)?
        {
            return Ok(diverging);
        }
        let (marks, slice) = self.read(topic, index, from.offset, from.max_bytes.min(max_bytes), first_whole)?;
        Ok(Fetched {
            marks,
            diverging: None,
            slice,
        })
    }

    /// KIP-595: a client that says which epoch it read last learns where that epoch ended, if not where it thinks.
    fn diverging(&self, topic: &Topic, index: u32, from: &FetchFrom) -> Result<Option<Fetched>, AccessError> {
        let marks = self.marks(topic, index)?;
        let end = match from.last_fetched_epoch {
            epoch if epoch == marks.leader_epoch => Some((epoch, marks.log_end)),
            epoch => self.epoch_end(topic, index, epoch)?,
        };
        let (epoch, end) = end.ok_or(AccessError::Read(ReadError::OutOfRange {
            asked: from.offset,
            log_start: marks.log_start,
            log_end: marks.log_end,
        }))?;
        if epoch >= from.last_fetched_epoch && end >= from.offset {
            return Ok(None);
        }
        Ok(Some(Fetched {
            marks,
            diverging: Some((epoch, end)),
            slice: Slice::default(),
        }))
    }
}
