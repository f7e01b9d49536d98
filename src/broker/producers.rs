//! Which sequences of idempotent producers a partition holds (KIP-98), so that a repeat is answered, not stored again.
//!
//! ```text
//!   window (at most 5 batches, oldest first):  [first..=last] [first..=last] .. [first..=last]   next = last + 1 (mod 2^31)
//!
//!   same epoch   first..=last is in the window -> Repeat      first == next -> Accept     else OutOfOrder (or TooOld)
//!   newer epoch  first == 0                    -> Accept, the window starts anew          else OutOfOrder
//!   older epoch                                -> Fenced
//!   unknown      id above all that expired     -> Accept 0 only      else Accept any (what was known may have expired)
//! ```
//!
//! An unknown producer that never wrote here must begin at 0: while the lead moves, its first batch may be refused and the
//! second, sent before the answer, reach the new leader. Taken, it would shut the first one out for good. Ids are given once
//! and in rising order, so one above every id that was forgotten is of a producer that never wrote. (Kafka takes any.)
//!
//! A pure fold over commands: time is an argument. It is part of a range's applied state, so it survives restarts and
//! changes of leader. It does not depend on what the log still holds: retention forgets records, not producers.

use super::encoding::{Malformed, finish, get_count, get_flag};
use crate::log::Offset;
use bytes::{Buf, BufMut};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Batches remembered per producer: as many as a client may have in flight.
pub(super) const WINDOW: usize = 5;

/// What an idempotent batch claims of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) producer_id: i64,
    pub(super) epoch: i16,
    /// Sequence of the first record.
    pub(super) first: i32,
    /// Sequences after the first: the batch's last offset delta, not negative.
    pub(super) delta: i32,
}

impl Claim {
    /// Sequence of the last record. After `i32::MAX` comes 0.
    pub(super) fn last(&self) -> i32 {
        after(self.first, self.delta)
    }
}

/// A sequence `steps` (not negative) further on.
fn after(sequence: i32, steps: i32) -> i32 {
    sequence.wrapping_add(steps) & i32::MAX
}

/// How a batch stands to what is known of its producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Accept,
    /// Stored already.
    Repeat {
        base_offset: Offset,
        append_ms: i64,
    },
    /// Surely stored already, but too long ago to know where.
    TooOld,
    OutOfOrder {
        expected: i32,
    },
    Fenced {
        current: i16,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batch {
    first: i32,
    last: i32,
    base_offset: Offset,
    append_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Producer {
    epoch: i16,
    /// All sequences from 0 up to the window were stored under this epoch: what is below the window is a repeat.
    from_zero: bool,
    /// When it last wrote.
    last_ms: i64,
    window: SmallVec<[Batch; WINDOW]>,
}

/// The producers of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProducerTable {
    producers: HashMap<i64, Producer>,
    /// No producer wrote last before this; lets expiry pass over a table in which nothing can have expired.
    oldest_ms: i64,
    /// The largest id that expired and was taken out, and one more; 0: none was.
    forgotten: i64,
}

impl ProducerTable {
    /// Judges a batch taken at `now_ms`.
    pub(super) fn judge(&self, claim: Claim, now_ms: i64, expiry_ms: i64) -> Judgement {
        let held = self.producers.get(&claim.producer_id);
        let Some(producer) = held.filter(|p| !expired(p.last_ms, now_ms, expiry_ms)) else {
            let may_have_written = held.is_some() || claim.producer_id < self.forgotten;
            return match claim.first == 0 || claim.first > 0 && may_have_written {
                true => Judgement::Accept,
                false => Judgement::OutOfOrder { expected: 0 },
            };
        };
        if claim.epoch < producer.epoch {
            return Judgement::Fenced {
                current: producer.epoch,
            };
        }
        if claim.epoch > producer.epoch {
            return match claim.first {
                0 => Judgement::Accept,
                _ => Judgement::OutOfOrder { expected: 0 },
            };
        }
        let (Some(oldest), Some(newest)) = (producer.window.first(), producer.window.last()) else {
            return Judgement::Accept;
        };
        let last = claim.last();
        if let Some(batch) = producer
            .window
            .iter()
            .rev()
            .find(|b| b.first == claim.first && b.last == last)
        {
            return Judgement::Repeat {
                base_offset: batch.base_offset,
                append_ms: batch.append_ms,
            };
        }
        let expected = after(newest.last, 1);
        if claim.first == expected {
            Judgement::Accept
        } else if producer.from_zero && oldest.first <= newest.last && is_behind(claim, oldest.first, expected) {
            Judgement::TooOld
        } else {
            Judgement::OutOfOrder { expected }
        }
    }

    /// Remembers a batch that was judged [`Judgement::Accept`] with the same arguments, and forgets who expired.
    pub(super) fn record(&mut self, claim: Claim, base_offset: Offset, now_ms: i64, expiry_ms: i64) {
        self.expire(now_ms, expiry_ms);
        let batch = Batch {
            first: claim.first,
            last: claim.last(),
            base_offset,
            append_ms: now_ms,
        };
        self.oldest_ms = match self.producers.is_empty() {
            true => now_ms,
            false => self.oldest_ms.min(now_ms),
        };
        let producer = self.producers.entry(claim.producer_id).or_insert_with(|| Producer {
            epoch: claim.epoch,
            from_zero: claim.first == 0,
            last_ms: now_ms,
            window: SmallVec::new(),
        });
        if producer.epoch != claim.epoch {
            producer.epoch = claim.epoch;
            producer.from_zero = true;
            producer.window.clear();
        } else if producer.window.len() == WINDOW {
            producer.window.remove(0);
        }
        producer.last_ms = now_ms;
        producer.window.push(batch);
    }

    /// Forgets producers that did not write for `expiry_ms`. [`Self::judge`] takes them for unknown already.
    fn expire(&mut self, now_ms: i64, expiry_ms: i64) {
        if self.producers.is_empty() || !expired(self.oldest_ms, now_ms, expiry_ms) {
            return;
        }
        let forgotten = &mut self.forgotten;
        self.producers.retain(|id, p| {
            let gone = expired(p.last_ms, now_ms, expiry_ms);
            if gone {
                *forgotten = id.saturating_add(1).max(*forgotten);
            }
            !gone
        });
        self.oldest_ms = self.oldest();
    }

    fn oldest(&self) -> i64 {
        self.producers.values().map(|p| p.last_ms).min().unwrap_or(0)
    }

    /// ```text
    ///   count u32 | count x (id i64 | epoch i16 | from_zero u8 | last_ms i64 | batches u32
    ///                        | batches x (first i32 | last i32 | base_offset i64 | append_ms i64))
    ///             | forgotten i64 (may be missing: whoever wrote it did not know, so any id may be forgotten)
    /// ```
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.producers.len() as u32);
        for (id, producer) in &self.producers {
            out.put_i64(*id);
            out.put_i16(producer.epoch);
            out.put_u8(u8::from(producer.from_zero));
            out.put_i64(producer.last_ms);
            out.put_u32(producer.window.len() as u32);
            for batch in &producer.window {
                out.put_i32(batch.first);
                out.put_i32(batch.last);
                out.put_i64(batch.base_offset);
                out.put_i64(batch.append_ms);
            }
        }
        out.put_i64(self.forgotten);
    }

    pub(super) fn decode(mut input: &[u8]) -> Result<Self, Malformed> {
        let input = &mut input;
        let count = get_count(input, 23)?;
        let mut producers = HashMap::with_capacity(count);
        for _ in 0..count {
            let id = input.try_get_i64()?;
            let epoch = input.try_get_i16()?;
            let from_zero = get_flag(input)?;
            let last_ms = input.try_get_i64()?;
            let batches = get_count(input, 24)?;
            if batches > WINDOW {
                return Err(Malformed("a producer with more than five batches"));
            }
            let mut window = SmallVec::new();
            for _ in 0..batches {
                window.push(Batch {
                    first: input.try_get_i32()?,
                    last: input.try_get_i32()?,
                    base_offset: input.try_get_i64()?,
                    append_ms: input.try_get_i64()?,
                });
            }
            producers.insert(
                id,
                Producer {
                    epoch,
                    from_zero,
                    last_ms,
                    window,
                },
            );
        }
        let forgotten = match input.is_empty() {
            true => i64::MAX,
            false => input.try_get_i64()?,
        };
        finish(input)?;
        let mut table = Self {
            producers,
            oldest_ms: 0,
            forgotten,
        };
        table.oldest_ms = table.oldest();
        Ok(table)
    }
}

/// Whether all of the batch lies below `oldest` and can't be a gap ahead of `expected`, sequences being a circle. To call a
/// batch old that was never stored would lose it, so this says no where there is doubt.
fn is_behind(claim: Claim, oldest: i32, expected: i32) -> bool {
    let ahead = claim.first.wrapping_sub(expected) & i32::MAX;
    claim.first >= 0 && claim.first <= claim.last() && claim.last() < oldest && ahead > i32::MAX / 2
}

fn expired(last_ms: i64, now_ms: i64, expiry_ms: i64) -> bool {
    now_ms.saturating_sub(last_ms) > expiry_ms
}
