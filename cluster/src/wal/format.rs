//! Bytes of the write-ahead log. All numbers are little-endian; a record begins at a multiple of 8.
//!
//! ```text
//! segment   page 0: header | pages 1..: batches, each begins at a page | old bytes of an earlier use
//!
//! header    0 magic "TSDB-WAL" | 8 version u32 | 12 crc u32 (over 0..12 and 16..32) | 16 seq u64 | 24 chain u32 | 28 zero u32
//!
//! record    0 magic u32 | 4 crc u32 (over 8..40) | 8 body crc u32 | 12 body length u32 | 16 seq u64 | 24 chain u32
//!           28 synced u32 | 32 group u32 | 36 kind u8 | 37 zero | 40 body
//!
//! entry     0 index u64 | 8 term u64 | 16 body kind u8 | 17 zero | 20 parts u32 | 24 head length u32 | 28 part lengths u32..
//!           then the head, then the parts
//! state     0 present bits u8 | 1 zero | 8 vote: term u64, node u128, committed u8, zero | 40 purged: index u64, term u64
//!           56 committed: index, term | 72 last: index, term | 88 first u64
//! cut       0 keep u64: the first index that is dropped
//! ```
//!
//! `seq` numbers segments in the order of their use, so that bytes left of an earlier use are never taken for records.
//! `chain` is the `crc` of the record before: what a torn write left behind is never taken for a later batch. `synced`
//! is where in this segment the log was known durable when the record was written: a bad record below it is damage, one
//! at or after it is the torn end of a write nobody was told of.

use super::{Body, Entry, LogId, Vote};
use crate::ids::NodeId;
use crate::machine::Payload;
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use std::sync::Arc;

/// Batches begin at multiples of this, so that no batch shares a block with an earlier one: a torn write can't harm what
/// is durable, and overwriting needs no read.
pub(super) const PAGE: u64 = 4096;
pub(super) const VERSION: u32 = 1;
const SEGMENT_MAGIC: &[u8; 8] = b"TSDB-WAL";
const RECORD_MAGIC: u32 = 0x5EED_0A17;
pub(super) const HEAD: usize = 40;
const ENTRY_FIXED: usize = 28;
const STATE_LEN: usize = 96;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// An entry at the end of its group's log; what is at its index or behind it is dropped.
    Entry = 1,
    /// An entry copied forward; drops nothing.
    Moved = 2,
    /// The group's small state.
    State = 3,
    /// Entries are dropped from an index on.
    Cut = 4,
    /// The group is no more.
    Gone = 5,
}

/// A group's small state, written whole whenever a part of it changes and at the start of each segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub vote: Option<Vote>,
    pub purged: Option<LogId>,
    pub committed: Option<LogId>,
    /// The end of the group's log when this was written.
    pub last: Option<LogId>,
    /// Index the group's log began with; 0 but for a log that was begun elsewhere.
    pub first: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub seq: u64,
    pub chain: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub crc: u32,
    pub body_crc: u32,
    pub len: u32,
    pub seq: u64,
    pub chain: u32,
    pub synced: u32,
    pub group: u32,
    pub kind: Kind,
}

pub(super) fn crc(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    digest.finalize() as u32
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"))
}

/// Where the record after one that ends at `end` begins.
pub(super) fn align(end: u64) -> u64 {
    end.next_multiple_of(8)
}

pub(super) fn segment_header(header: SegmentHeader) -> [u8; PAGE as usize] {
    let mut page = [0; PAGE as usize];
    page[..8].copy_from_slice(SEGMENT_MAGIC);
    page[8..12].copy_from_slice(&VERSION.to_le_bytes());
    page[16..24].copy_from_slice(&header.seq.to_le_bytes());
    page[24..28].copy_from_slice(&header.chain.to_le_bytes());
    let sum = crc(&[&page[..12], &page[16..32]]);
    page[12..16].copy_from_slice(&sum.to_le_bytes());
    page
}

/// `Ok(None)`: not in use (never, or being taken into use when the power went). `Err`: another version's file.
pub(super) fn read_segment_header(page: &[u8]) -> Result<Option<SegmentHeader>, u32> {
    if page.len() < 32 || &page[..8] != SEGMENT_MAGIC || u32_at(page, 12) != crc(&[&page[..12], &page[16..32]]) {
        return Ok(None);
    }
    match u32_at(page, 8) {
        VERSION => Ok(Some(SegmentHeader {
            seq: u64_at(page, 16),
            chain: u32_at(page, 24),
        })),
        other => Err(other),
    }
}

impl Head {
    pub fn encode(&mut self) -> [u8; HEAD] {
        let mut b = [0; HEAD];
        b[..4].copy_from_slice(&RECORD_MAGIC.to_le_bytes());
        b[8..12].copy_from_slice(&self.body_crc.to_le_bytes());
        b[12..16].copy_from_slice(&self.len.to_le_bytes());
        b[16..24].copy_from_slice(&self.seq.to_le_bytes());
        b[24..28].copy_from_slice(&self.chain.to_le_bytes());
        b[28..32].copy_from_slice(&self.synced.to_le_bytes());
        b[32..36].copy_from_slice(&self.group.to_le_bytes());
        b[36] = self.kind as u8;
        self.crc = crc(&[&b[8..]]);
        b[4..8].copy_from_slice(&self.crc.to_le_bytes());
        b
    }

    /// The head at the start of `b`, if there is one with the right sum.
    pub fn decode(b: &[u8]) -> Option<Self> {
        if b.len() < HEAD || u32_at(b, 0) != RECORD_MAGIC || u32_at(b, 4) != crc(&[&b[8..HEAD]]) {
            return None;
        }
        let kind = match b[36] {
            1 => Kind::Entry,
            2 => Kind::Moved,
            3 => Kind::State,
            4 => Kind::Cut,
            5 => Kind::Gone,
            _ => return None,
        };
        Some(Self {
            crc: u32_at(b, 4),
            body_crc: u32_at(b, 8),
            len: u32_at(b, 12),
            seq: u64_at(b, 16),
            chain: u32_at(b, 24),
            synced: u32_at(b, 28),
            group: u32_at(b, 32),
            kind,
        })
    }
}

/// An entry ready to be written: its fixed part encoded, its payload by reference.
#[derive(Debug)]
pub(super) struct Encoded {
    pub id: LogId,
    pub meta: Vec<u8>,
    pub body: Body,
    pub len: u32,
    pub crc: u32,
}

/// `None`: longer than a record may be.
pub(super) fn encode_entry(entry: &Entry) -> Option<Encoded> {
    let none: &[Bytes] = &[];
    let (kind, head, parts) = match &entry.body {
        Body::Blank => (0, &Bytes::new(), none),
        Body::Normal(payload) => (1, &payload.head, &*payload.parts),
        Body::Membership(bytes) => (2, bytes, none),
    };
    let fixed = ENTRY_FIXED + 4 * parts.len();
    let size = fixed as u64 + head.len() as u64 + parts.iter().map(|p| p.len() as u64).sum::<u64>();
    if size > super::MAX_RECORD {
        return None;
    }
    let mut meta = Vec::with_capacity(fixed);
    meta.extend(entry.id.index.to_le_bytes());
    meta.extend(entry.id.term.to_le_bytes());
    meta.extend([kind, 0, 0, 0]);
    meta.extend((parts.len() as u32).to_le_bytes());
    meta.extend((head.len() as u32).to_le_bytes());
    for part in parts {
        meta.extend((part.len() as u32).to_le_bytes());
    }
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&meta);
    digest.update(head);
    for part in parts {
        digest.update(part);
    }
    Some(Encoded {
        id: entry.id,
        meta,
        body: entry.body.clone(),
        len: size as u32,
        crc: digest.finalize() as u32,
    })
}

/// The log id of an entry's body whose sum was found right.
pub(super) fn entry_id(body: &[u8]) -> Option<LogId> {
    (body.len() >= ENTRY_FIXED).then(|| LogId {
        index: u64_at(body, 0),
        term: u64_at(body, 8),
    })
}

/// An entry from its body; payload bytes are slices of it. `None`: it makes no sense.
pub(super) fn decode_entry(body: &Bytes) -> Option<Entry> {
    let id = entry_id(body)?;
    let parts = u32_at(body, 20) as usize;
    let head_len = u32_at(body, 24) as usize;
    let mut at = ENTRY_FIXED.checked_add(parts.checked_mul(4)?)?;
    if at > body.len() {
        return None;
    }
    let mut take = |len: usize| {
        let end = at.checked_add(len).filter(|end| *end <= body.len())?;
        let slice = body.slice(at..end);
        at = end;
        Some(slice)
    };
    let head = take(head_len)?;
    let parts: Option<Arc<[Bytes]>> = (0..parts)
        .map(|n| take(u32_at(body, ENTRY_FIXED + 4 * n) as usize))
        .collect();
    let parts = parts?;
    if at != body.len() {
        return None;
    }
    let body = match body[16] {
        0 if head.is_empty() && parts.is_empty() => Body::Blank,
        1 => Body::Normal(Payload { head, parts }),
        2 if parts.is_empty() => Body::Membership(head),
        _ => return None,
    };
    Some(Entry { id, body })
}

impl State {
    pub fn encode(&self) -> [u8; STATE_LEN] {
        let mut b = [0; STATE_LEN];
        if let Some(vote) = self.vote {
            b[0] |= 1;
            b[8..16].copy_from_slice(&vote.term.to_le_bytes());
            b[16..32].copy_from_slice(&vote.node.0.to_le_bytes());
            b[32] = vote.committed.into();
        }
        for (n, id) in [self.purged, self.committed, self.last].into_iter().enumerate() {
            if let Some(id) = id {
                b[0] |= 2 << n;
                let at = 40 + 16 * n;
                b[at..at + 8].copy_from_slice(&id.index.to_le_bytes());
                b[at + 8..at + 16].copy_from_slice(&id.term.to_le_bytes());
            }
        }
        b[88..96].copy_from_slice(&self.first.to_le_bytes());
        b
    }

    /// Index of the first entry that is held, or will be.
    pub fn begin(&self) -> u64 {
        self.purged.map_or(self.first, |purged| purged.index + 1)
    }

    /// Notes an entry at the end of the log.
    pub fn put(&mut self, id: LogId) {
        if self.last.is_none() {
            self.first = id.index;
        }
        self.last = Some(id);
    }

    pub fn decode(b: &[u8]) -> Option<Self> {
        if b.len() != STATE_LEN {
            return None;
        }
        let id = |n: usize| {
            (b[0] & (2 << n) != 0).then(|| LogId {
                index: u64_at(b, 40 + 16 * n),
                term: u64_at(b, 48 + 16 * n),
            })
        };
        Some(Self {
            vote: (b[0] & 1 != 0).then(|| Vote {
                term: u64_at(b, 8),
                node: NodeId(u128::from_le_bytes(b[16..32].try_into().expect("sixteen bytes"))),
                committed: b[32] != 0,
            }),
            purged: id(0),
            committed: id(1),
            last: id(2),
            first: u64_at(b, 88),
        })
    }
}

pub(super) fn decode_cut(b: &[u8]) -> Option<u64> {
    (b.len() == 8).then(|| u64_at(b, 0))
}
