//! Commands of a data range and their answers, as bytes.
//!
//! ```text
//!   command   0 kind u8 | 1 version u8 | fields of the kind
//!   1 Append            append_ms i64 | producer_expiry_ms i64 | count u32 | count x item
//!     item              topic u64 | index u32 | flags u8       takes one part, or two with flag SPLIT: head and rest
//!   2 TrimLogStart      count u32 | count x (topic u64 | index u32 | to i64)
//!   3 ChangePositions   namespace u32 | reader str | count u32 | count x change
//!     change            0 Set: partition | position    1 SetIf: partition | seen i64 (-1: none) | position
//!                       2 Delete: partition            3 DeleteAll
//!     position          offset i64 | leader_epoch i32 | commit_ms i64 | metadata str
//!   4 DropTopic         topic u64
//!
//!   answer    0 kind u8 (of the command, or 255: not understood) | fields
//!   1 Append            count x (code u8 | fields of the code)
//!     0 appended, 1 repeat    base_offset i64 | append_ms i64 | log_start i64
//!     2 out of order          expected i32 | got i32
//!     3 fenced                current i16 | got i16
//!     4 too old, 5 gone, 6 unreadable
//!   2 TrimLogStart      count x log_start i64 (-1: the partition is gone)
//!   3 ChangePositions   0 changed | 1 moved
//!   4 DropTopic         nothing
//! ```
//!
//! All numbers are big-endian; `str` is a u32 length and UTF-8. Record batches are the payload's parts and are never copied;
//! what the machine must know of a batch it reads from the batch's own header.

use super::PositionChange;
use super::encoding::{
    Malformed, PARTITION_LEN, finish, get_count, get_flag, get_namespace, get_optional_offset, get_partition,
    get_position, get_str, put_count, put_optional_offset, put_partition, put_position, put_str,
};
use crate::log::Offset;
use bytes::{Buf, BufMut, Bytes};
use cluster::ids::{NamespaceId, PartitionId, TopicId};

const APPEND: u8 = 1;
const TRIM_LOG_START: u8 = 2;
const CHANGE_POSITIONS: u8 = 3;
const DROP_TOPIC: u8 = 4;
const NOT_UNDERSTOOD: u8 = 255;
/// Version of every kind's fields.
const VERSION: u8 = 1;
/// Item flag: the batch is two parts, its 61-byte header and the rest.
const SPLIT: u8 = 1;
const ITEM_LEN: usize = PARTITION_LEN + 1;

/// One batch of an [`Append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AppendItem {
    pub(super) partition: PartitionId,
    /// The header is a part of its own: it was written anew, and the rest lies where it came in.
    pub(super) split: bool,
}

/// Appends batches; the payload's parts are theirs, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Append {
    /// The leader's clock when it took the batches, milliseconds since the epoch.
    pub(super) append_ms: i64,
    /// A producer that did not write for this long is forgotten. It travels so that replicas agree.
    pub(super) producer_expiry_ms: i64,
    pub(super) items: Vec<AppendItem>,
}

/// A command of a data range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Append(Append),
    /// Moves log starts up.
    TrimLogStart(Vec<(PartitionId, Offset)>),
    /// Changes one reader's positions, all or none.
    ChangePositions {
        namespace: NamespaceId,
        reader: String,
        changes: Vec<PositionChange>,
    },
    /// Drops what the range holds of a topic: partitions and positions, for ever.
    DropTopic(TopicId),
}

/// What became of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Stored, or (a repeat) stored earlier.
    Stored {
        base_offset: Offset,
        append_ms: i64,
        log_start: Offset,
        repeat: bool,
    },
    OutOfOrder {
        expected: i32,
        got: i32,
    },
    Fenced {
        current: i16,
        got: i16,
    },
    /// A repeat whose offset is forgotten.
    TooOld,
    /// The topic was dropped.
    Gone,
    /// The part is no record batch: a bug of the proposer.
    Unreadable,
}

impl Command {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Append(append) => {
                let mut writer = AppendWriter::new(append.append_ms, append.producer_expiry_ms, append.items.len());
                append.items.iter().for_each(|item| writer.push(*item));
                writer.finish()
            }
            Self::TrimLogStart(trims) => {
                let mut out = head(TRIM_LOG_START, 4 + trims.len() * (PARTITION_LEN + 8));
                put_count(&mut out, trims.len());
                for (partition, to) in trims {
                    put_partition(&mut out, *partition);
                    out.put_i64(*to);
                }
                out
            }
            Self::ChangePositions {
                namespace,
                reader,
                changes,
            } => {
                let mut out = head(CHANGE_POSITIONS, 16 + reader.len() + changes.len() * 48);
                out.put_u32(namespace.0);
                put_str(&mut out, reader);
                put_count(&mut out, changes.len());
                changes.iter().for_each(|change| put_change(&mut out, change));
                out
            }
            Self::DropTopic(topic) => {
                let mut out = head(DROP_TOPIC, 8);
                out.put_u64(topic.0);
                out
            }
        }
    }

    pub(super) fn decode(mut input: &[u8]) -> Result<Self, Malformed> {
        let input = &mut input;
        let kind = input.try_get_u8()?;
        if input.try_get_u8()? != VERSION {
            return Err(Malformed("a version of a newer node"));
        }
        let command = match kind {
            APPEND => {
                let append_ms = input.try_get_i64()?;
                let producer_expiry_ms = input.try_get_i64()?;
                let count = get_count(input, ITEM_LEN)?;
                let mut items = Vec::with_capacity(count);
                for _ in 0..count {
                    items.push(AppendItem {
                        partition: get_partition(input)?,
                        split: get_flag(input)?,
                    });
                }
                Self::Append(Append {
                    append_ms,
                    producer_expiry_ms,
                    items,
                })
            }
            TRIM_LOG_START => {
                let count = get_count(input, PARTITION_LEN + 8)?;
                let mut trims = Vec::with_capacity(count);
                for _ in 0..count {
                    trims.push((get_partition(input)?, input.try_get_i64()?));
                }
                Self::TrimLogStart(trims)
            }
            CHANGE_POSITIONS => {
                let namespace = get_namespace(input)?;
                let reader = get_str(input)?;
                let count = get_count(input, 1)?;
                let changes = (0..count).map(|_| get_change(input)).collect::<Result<_, _>>()?;
                Self::ChangePositions {
                    namespace,
                    reader,
                    changes,
                }
            }
            DROP_TOPIC => Self::DropTopic(TopicId(input.try_get_u64()?)),
            _ => return Err(Malformed("a command of a newer node")),
        };
        finish(input)?;
        Ok(command)
    }
}

/// Writes the head of an append, item by item.
pub(super) struct AppendWriter {
    out: Vec<u8>,
    count: usize,
}

impl AppendWriter {
    const COUNT_AT: usize = 18;

    pub(super) fn new(append_ms: i64, producer_expiry_ms: i64, capacity: usize) -> Self {
        let mut out = head(APPEND, 20 + capacity * ITEM_LEN);
        out.put_i64(append_ms);
        out.put_i64(producer_expiry_ms);
        put_count(&mut out, 0);
        Self { out, count: 0 }
    }

    pub(super) fn push(&mut self, item: AppendItem) {
        put_partition(&mut self.out, item.partition);
        self.out.put_u8(if item.split { SPLIT } else { 0 });
        self.count += 1;
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.out[Self::COUNT_AT..Self::COUNT_AT + 4].copy_from_slice(&(self.count as u32).to_be_bytes());
        self.out
    }
}

fn head(kind: u8, capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + capacity);
    out.put_u8(kind);
    out.put_u8(VERSION);
    out
}

fn put_change(out: &mut Vec<u8>, change: &PositionChange) {
    match change {
        PositionChange::Set(partition, position) => {
            out.put_u8(0);
            put_partition(out, *partition);
            put_position(out, position);
        }
        PositionChange::SetIf(partition, seen, position) => {
            out.put_u8(1);
            put_partition(out, *partition);
            put_optional_offset(out, *seen);
            put_position(out, position);
        }
        PositionChange::Delete(partition) => {
            out.put_u8(2);
            put_partition(out, *partition);
        }
        PositionChange::DeleteAll => out.put_u8(3),
    }
}

fn get_change(input: &mut &[u8]) -> Result<PositionChange, Malformed> {
    Ok(match input.try_get_u8()? {
        0 => PositionChange::Set(get_partition(input)?, get_position(input)?),
        1 => PositionChange::SetIf(get_partition(input)?, get_optional_offset(input)?, get_position(input)?),
        2 => PositionChange::Delete(get_partition(input)?),
        3 => PositionChange::DeleteAll,
        _ => return Err(Malformed("a position change of a newer node")),
    })
}

/// The answer to a command this node cannot read.
pub(super) fn not_understood() -> Bytes {
    Bytes::from_static(&[NOT_UNDERSTOOD])
}

/// The answer to [`Command::DropTopic`].
pub(super) fn dropped() -> Bytes {
    Bytes::from_static(&[DROP_TOPIC])
}

/// The answer to [`Command::ChangePositions`].
pub(super) fn positions_changed(changed: bool) -> Bytes {
    if changed {
        Bytes::from_static(&[CHANGE_POSITIONS, 0])
    } else {
        Bytes::from_static(&[CHANGE_POSITIONS, 1])
    }
}

/// Whether the positions were changed.
pub(super) fn read_positions_changed(answer: &[u8]) -> Result<bool, Malformed> {
    match answer {
        [CHANGE_POSITIONS, 0] => Ok(true),
        [CHANGE_POSITIONS, 1] => Ok(false),
        _ => Err(Malformed("not an answer to a change of positions")),
    }
}

/// Whether the topic was dropped.
pub(super) fn read_dropped(answer: &[u8]) -> Result<(), Malformed> {
    match answer {
        [DROP_TOPIC] => Ok(()),
        _ => Err(Malformed("not an answer to a drop")),
    }
}

/// Writes the answer to [`Command::TrimLogStart`]: the log start of each, `None` for a partition that is gone.
pub(super) fn trimmed(log_starts: &[Option<Offset>]) -> Bytes {
    let mut out = Vec::with_capacity(1 + 8 * log_starts.len());
    out.put_u8(TRIM_LOG_START);
    log_starts
        .iter()
        .for_each(|start| put_optional_offset(&mut out, *start));
    out.into()
}

pub(super) fn read_trimmed(mut answer: &[u8], count: usize) -> Result<Vec<Option<Offset>>, Malformed> {
    let input = &mut answer;
    if input.try_get_u8()? != TRIM_LOG_START || input.len() / 8 != count {
        return Err(Malformed("not an answer to a trim"));
    }
    let log_starts = (0..count)
        .map(|_| get_optional_offset(input))
        .collect::<Result<_, _>>()?;
    finish(input)?;
    Ok(log_starts)
}

/// Writes the answer to an append, verdict by verdict.
pub(super) struct VerdictWriter(Vec<u8>);

impl VerdictWriter {
    pub(super) fn new(capacity: usize) -> Self {
        let mut out = Vec::with_capacity(1 + capacity * 25);
        out.put_u8(APPEND);
        Self(out)
    }

    pub(super) fn push(&mut self, verdict: Verdict) {
        let out = &mut self.0;
        match verdict {
            Verdict::Stored {
                base_offset,
                append_ms,
                log_start,
                repeat,
            } => {
                out.put_u8(u8::from(repeat));
                out.put_i64(base_offset);
                out.put_i64(append_ms);
                out.put_i64(log_start);
            }
            Verdict::OutOfOrder { expected, got } => {
                out.put_u8(2);
                out.put_i32(expected);
                out.put_i32(got);
            }
            Verdict::Fenced { current, got } => {
                out.put_u8(3);
                out.put_i16(current);
                out.put_i16(got);
            }
            Verdict::TooOld => out.put_u8(4),
            Verdict::Gone => out.put_u8(5),
            Verdict::Unreadable => out.put_u8(6),
        }
    }

    pub(super) fn finish(self) -> Bytes {
        self.0.into()
    }
}

/// Reads the answer to an append: verdicts until the end.
pub(super) struct VerdictReader<'a>(&'a [u8]);

impl<'a> VerdictReader<'a> {
    pub(super) fn new(mut answer: &'a [u8]) -> Result<Self, Malformed> {
        if answer.try_get_u8()? != APPEND {
            return Err(Malformed("not an answer to an append"));
        }
        Ok(Self(answer))
    }

    pub(super) fn next(&mut self) -> Result<Verdict, Malformed> {
        let input = &mut self.0;
        Ok(match input.try_get_u8()? {
            repeat @ (0 | 1) => Verdict::Stored {
                base_offset: input.try_get_i64()?,
                append_ms: input.try_get_i64()?,
                log_start: input.try_get_i64()?,
                repeat: repeat == 1,
            },
            2 => Verdict::OutOfOrder {
                expected: input.try_get_i32()?,
                got: input.try_get_i32()?,
            },
            3 => Verdict::Fenced {
                current: input.try_get_i16()?,
                got: input.try_get_i16()?,
            },
            4 => Verdict::TooOld,
            5 => Verdict::Gone,
            6 => Verdict::Unreadable,
            _ => return Err(Malformed("a verdict of a newer node")),
        })
    }

    pub(super) fn finish(self) -> Result<(), Malformed> {
        finish(self.0)
    }
}
