//! Writing the broker's fields into a batch without touching the buffer it shares with its frame or the log.

use super::header::{BatchHeader, HEADER_LEN, HeaderError, TimestampType};
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};

/// Bytes of a batch's head that carry the broker's numbers; the CRC covers none of them.
pub const STAMP_LEN: usize = 16;

/// A batch in two parts to be written one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// Base offset, length, leader epoch.
    pub head: [u8; STAMP_LEN],
    /// All that follows, as it was.
    pub rest: Bytes,
}

/// Gives a batch its offset and the epoch of the leader it was written under. Needs no new CRC.
///
/// # Errors
/// Fewer bytes than a header, or a magic that is not 2.
pub fn stamp(batch: &Bytes, base_offset: i64, leader_epoch: i32) -> Result<Stamped, HeaderError> {
    BatchHeader::parse(batch)?;
    let mut head = [0; STAMP_LEN];
    head[..8].copy_from_slice(&base_offset.to_be_bytes());
    head[8..12].copy_from_slice(&batch[8..12]);
    head[12..].copy_from_slice(&leader_epoch.to_be_bytes());
    Ok(Stamped {
        head,
        rest: batch.slice(STAMP_LEN..),
    })
}

/// A batch in two parts, its whole header new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restamped {
    /// The header.
    pub head: [u8; HEADER_LEN],
    /// The records, as they were.
    pub rest: Bytes,
}

impl Restamped {
    /// Both parts in one buffer; copies the records.
    pub fn to_bytes(&self) -> Bytes {
        [&self.head[..], &self.rest].concat().into()
    }
}

/// Gives a batch another timestamp type and largest timestamp (ms since the epoch), and the CRC that goes with them.
///
/// With `LogAppendTime` every record has `max_timestamp` for its time, whatever its delta says.
///
/// # Errors
/// Fewer bytes than a header, or a magic that is not 2.
pub fn restamp_time(batch: &Bytes, kind: TimestampType, max_timestamp: i64) -> Result<Restamped, HeaderError> {
    let header = BatchHeader::parse(batch)?;
    let attributes = match kind {
        TimestampType::CreateTime => header.attributes & !0x08,
        TimestampType::LogAppendTime => header.attributes | 0x08,
    };
    let mut head = [0; HEADER_LEN];
    head.copy_from_slice(&batch[..HEADER_LEN]);
    head[21..23].copy_from_slice(&attributes.to_be_bytes());
    head[35..43].copy_from_slice(&max_timestamp.to_be_bytes());
    let rest = batch.slice(HEADER_LEN..);
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&head[21..]);
    digest.update(&rest);
    head[17..21].copy_from_slice(&(digest.finalize() as u32).to_be_bytes());
    Ok(Restamped { head, rest })
}
