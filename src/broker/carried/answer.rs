//! What another member's broker answers, as bytes.
//!
//! ```text
//!   access    0 ok | 1 not led: term u64, leader 16 bytes (0: not known) | 2 an epoch of the past | 3 an epoch to come
//!             4 out of range: asked i64, log_start i64, log_end i64 | 5 storage: file str, position u64, why str
//!   marks     log_start i64 | high_watermark i64 | log_end i64 | leader_epoch i32 | size u64
//!
//!   Fetch     parts, each beginning with a kind:
//!     1 pass  each partition asked for: access, ok: marks | diverging u8 (0 | 1 epoch i32, end i64) | next i64 | bytes u32
//!             then the bytes of all of them in that order; they may go on in parts without a kind
//!     2 more  bytes u64: what could be read by now, all partitions together
//!   Look      each: access, ok: marks | found u8 (0 | 1 offset i64, timestamp i64, epoch i32)
//!   Run       access, ok: marks | from i64 | count u32 | count x (append_ms i64, bytes u32) | the bytes
//!   others    0 ok | 1 not led | 2 cannot be told now: why str | 3 no such namespace;  ok: count u32 | count x row
//!     Positions    partition | position       Readers  reader str       PositionsIn  reader str | index u32 | position
//! ```

use crate::broker::encoding::{
    Malformed, PARTITION_LEN, get_count, get_flag, get_partition, get_position, get_str, put_count, put_partition,
    put_position, put_str,
};
use crate::broker::fetch::Fetched;
use crate::broker::look::Looked;
use crate::broker::run::Run;
use crate::broker::{AccessError, Marks, Position};
use crate::log::{Piece, ReadError, Slice};
use bytes::{Buf, BufMut, Bytes};
use cluster::ids::{NodeId, PartitionId};

pub(super) const PASS: u8 = 1;
pub(super) const MORE: u8 = 2;

/// Who leads a range as the member that was asked knows it: term and leader.
pub(super) type Hint = (u64, Option<NodeId>);

/// An answer about one partition; where the member does not lead it, with what it knows of who does.
pub(super) type Told<T> = Result<T, (AccessError, Hint)>;

fn put_access(out: &mut Vec<u8>, error: &AccessError, (term, leader): Hint) {
    match error {
        AccessError::NotLeader => {
            out.put_u8(1);
            out.put_u64(term);
            out.put_u128(leader.map_or(0, |node| node.0));
        }
        AccessError::FencedEpoch => out.put_u8(2),
        AccessError::UnknownEpoch => out.put_u8(3),
        AccessError::Read(ReadError::OutOfRange {
            asked,
            log_start,
            log_end,
        }) => {
            out.put_u8(4);
            out.put_i64(*asked);
            out.put_i64(*log_start);
            out.put_i64(*log_end);
        }
        AccessError::Read(ReadError::Storage { file, position, why }) => {
            out.put_u8(5);
            put_str(out, file);
            out.put_u64(*position);
            put_str(out, why);
        }
    }
}

/// `Ok(Ok(()))`: what was asked for follows.
fn get_access(input: &mut &[u8]) -> Result<Told<()>, Malformed> {
    let error = match input.try_get_u8()? {
        0 => return Ok(Ok(())),
        1 => {
            let term = input.try_get_u64()?;
            let leader = input.try_get_u128()?;
            return Ok(Err((
                AccessError::NotLeader,
                (term, (leader != 0).then_some(NodeId(leader))),
            )));
        }
        2 => AccessError::FencedEpoch,
        3 => AccessError::UnknownEpoch,
        4 => AccessError::Read(ReadError::OutOfRange {
            asked: input.try_get_i64()?,
            log_start: input.try_get_i64()?,
            log_end: input.try_get_i64()?,
        }),
        5 => AccessError::Read(ReadError::Storage {
            file: get_str(input)?,
            position: input.try_get_u64()?,
            why: get_str(input)?,
        }),
        _ => return Err(Malformed("an error of an unknown kind")),
    };
    Ok(Err((error, (0, None))))
}

fn put_marks(out: &mut Vec<u8>, marks: &Marks) {
    out.put_i64(marks.log_start);
    out.put_i64(marks.high_watermark);
    out.put_i64(marks.log_end);
    out.put_i32(marks.leader_epoch);
    out.put_u64(marks.size);
}

fn get_marks(input: &mut &[u8]) -> Result<Marks, Malformed> {
    Ok(Marks {
        log_start: input.try_get_i64()?,
        high_watermark: input.try_get_i64()?,
        log_end: input.try_get_i64()?,
        leader_epoch: input.try_get_i32()?,
        size: input.try_get_u64()?,
    })
}

/// The head of a pass: all of it but the stored bytes.
pub(super) fn encode_pass(pass: &[Told<Fetched>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + pass.len() * 64);
    out.put_u8(PASS);
    for told in pass {
        match told {
            Ok(fetched) => {
                out.put_u8(0);
                put_marks(&mut out, &fetched.marks);
                out.put_u8(fetched.diverging.is_some().into());
                if let Some((epoch, end)) = fetched.diverging {
                    out.put_i32(epoch);
                    out.put_i64(end);
                }
                out.put_i64(fetched.slice.next);
                out.put_u32(fetched.slice.bytes as u32);
            }
            Err((error, hint)) => put_access(&mut out, error, *hint),
        }
    }
    out
}

/// Reads the head of a pass over `count` partitions, behind its kind. The slices have their lengths and no bytes yet.
pub(super) fn decode_pass(input: &mut &[u8], count: usize) -> Result<Vec<Told<Fetched>>, Malformed> {
    // Each takes a byte at least.
    let mut pass = Vec::with_capacity(count.min(input.len()));
    for _ in 0..count {
        let told = match get_access(input)? {
            Ok(()) => Ok(Fetched {
                marks: get_marks(input)?,
                diverging: match get_flag(input)? {
                    true => Some((input.try_get_i32()?, input.try_get_i64()?)),
                    false => None,
                },
                slice: Slice {
                    next: input.try_get_i64()?,
                    bytes: input.try_get_u32()? as usize,
                    pieces: Vec::new(),
                },
            }),
            Err(error) => Err(error),
        };
        pass.push(told);
    }
    Ok(pass)
}

pub(super) fn encode_more(bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(9);
    out.put_u8(MORE);
    out.put_u64(bytes as u64);
    out
}

pub(super) fn encode_looks(looks: &[Told<Looked>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(looks.len() * 64);
    for told in looks {
        match told {
            Ok(looked) => {
                out.put_u8(0);
                put_marks(&mut out, &looked.marks);
                out.put_u8(looked.found.is_some().into());
                if let Some((offset, timestamp, epoch)) = looked.found {
                    out.put_i64(offset);
                    out.put_i64(timestamp);
                    out.put_i32(epoch);
                }
            }
            Err((error, hint)) => put_access(&mut out, error, *hint),
        }
    }
    out
}

pub(super) fn decode_looks(mut input: &[u8], count: usize) -> Result<Vec<Told<Looked>>, Malformed> {
    let input = &mut input;
    let mut looks = Vec::with_capacity(count.min(input.len()));
    for _ in 0..count {
        looks.push(match get_access(input)? {
            Ok(()) => Ok(Looked {
                marks: get_marks(input)?,
                found: match get_flag(input)? {
                    true => Some((input.try_get_i64()?, input.try_get_i64()?, input.try_get_i32()?)),
                    false => None,
                },
            }),
            Err(error) => Err(error),
        });
    }
    Ok(looks)
}

/// The head of a run, and then its batches.
pub(super) fn encode_run(told: &Told<Run>) -> Vec<Piece> {
    let mut out = Vec::with_capacity(64);
    let run = match told {
        Ok(run) => run,
        Err((error, hint)) => {
            put_access(&mut out, error, *hint);
            return vec![Piece::Memory(out.into())];
        }
    };
    out.put_u8(0);
    put_marks(&mut out, &run.marks);
    out.put_i64(run.from);
    put_count(&mut out, run.batches.len());
    for (append_ms, batch) in &run.batches {
        out.put_i64(*append_ms);
        out.put_u32(batch.len() as u32);
    }
    let batches = run.batches.iter().map(|(_, batch)| Piece::Memory(batch.clone()));
    std::iter::once(Piece::Memory(out.into())).chain(batches).collect()
}

pub(super) fn decode_run(answer: &Bytes) -> Result<Told<Run>, Malformed> {
    let mut input: &[u8] = answer;
    let input = &mut input;
    if let Err(error) = get_access(input)? {
        return Ok(Err(error));
    }
    let marks = get_marks(input)?;
    let from = input.try_get_i64()?;
    let count = get_count(input, 12)?;
    let heads: Vec<(i64, usize)> = (0..count)
        .map(|_| Ok((input.try_get_i64()?, input.try_get_u32()? as usize)))
        .collect::<Result<_, Malformed>>()?;
    let mut rest = answer.slice(answer.len() - input.len()..);
    let batches = heads.into_iter().map(|(append_ms, len)| match len <= rest.len() {
        true => Ok((append_ms, rest.split_to(len))),
        false => Err(Malformed("a batch cut short")),
    });
    Ok(Ok(Run {
        batches: batches.collect::<Result<_, _>>()?,
        marks,
        from,
    }))
}

/// Why rows can't be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoRows {
    NotLeader,
    Unavailable(String),
    NoNamespace,
}

/// A row of what a home range keeps.
pub(super) trait Row: Sized {
    /// Bytes of the shortest.
    const LEAST: usize;
    fn put(&self, out: &mut Vec<u8>);
    fn get(input: &mut &[u8]) -> Result<Self, Malformed>;
}

/// Bytes of a position without metadata.
const POSITION_LEN: usize = 8 + 4 + 8 + 4;

impl Row for (PartitionId, Position) {
    const LEAST: usize = PARTITION_LEN + POSITION_LEN;

    fn put(&self, out: &mut Vec<u8>) {
        put_partition(out, self.0);
        put_position(out, &self.1);
    }

    fn get(input: &mut &[u8]) -> Result<Self, Malformed> {
        Ok((get_partition(input)?, get_position(input)?))
    }
}

impl Row for String {
    const LEAST: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        put_str(out, self);
    }

    fn get(input: &mut &[u8]) -> Result<Self, Malformed> {
        get_str(input)
    }
}

impl Row for (String, u32, Position) {
    const LEAST: usize = 4 + 4 + POSITION_LEN;

    fn put(&self, out: &mut Vec<u8>) {
        put_str(out, &self.0);
        out.put_u32(self.1);
        put_position(out, &self.2);
    }

    fn get(input: &mut &[u8]) -> Result<Self, Malformed> {
        Ok((get_str(input)?, input.try_get_u32()?, get_position(input)?))
    }
}

pub(super) fn encode_rows<R: Row>(rows: &Result<Vec<R>, NoRows>) -> Vec<u8> {
    let mut out = Vec::new();
    match rows {
        Ok(rows) => {
            out.put_u8(0);
            put_count(&mut out, rows.len());
            rows.iter().for_each(|row| row.put(&mut out));
        }
        Err(NoRows::NotLeader) => out.put_u8(1),
        Err(NoRows::Unavailable(why)) => {
            out.put_u8(2);
            put_str(&mut out, why);
        }
        Err(NoRows::NoNamespace) => out.put_u8(3),
    }
    out
}

pub(super) fn decode_rows<R: Row>(mut input: &[u8]) -> Result<Result<Vec<R>, NoRows>, Malformed> {
    let input = &mut input;
    Ok(match input.try_get_u8()? {
        0 => {
            let count = get_count(input, R::LEAST)?;
            Ok((0..count).map(|_| R::get(input)).collect::<Result<_, _>>()?)
        }
        1 => Err(NoRows::NotLeader),
        2 => Err(NoRows::Unavailable(get_str(input)?)),
        3 => Err(NoRows::NoNamespace),
        _ => return Err(Malformed("an answer of an unknown kind")),
    })
}
