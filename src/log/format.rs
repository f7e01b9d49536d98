//! Names and bytes of segment and index files (docs/formats.md has the drawings).

use super::Offset;
use cluster::ids::{PartitionId, TopicId};
use crc_fast::{CrcAlgorithm, checksum};

/// Bytes at the front of both kinds of file; batches and index entries follow.
pub(super) const FILE_HEADER: u64 = 64;

/// Bytes of an index entry.
pub(super) const ENTRY_LEN: usize = 40;

/// The format written, and the only one read.
const VERSION: u32 = 1;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Record batches.
    Segment,
    /// Where batches lie, when they came.
    Index,
}

impl Kind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Segment => b"TESSSEGM",
            Self::Index => b"TESSINDX",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Segment => "log",
            Self::Index => "index",
        }
    }
}

/// A file of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    pub partition: PartitionId,
    /// Offset of the segment's first record.
    pub base: Offset,
    pub kind: Kind,
}

impl FileId {
    /// `<topic>-<partition>-<base offset>.<kind>`.
    pub fn name(&self) -> String {
        format!("{}-{:020}.{}", self.partition, self.base, self.kind.extension())
    }

    /// The file a name stands for; `None` for a name that is not ours.
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, extension) = name.split_once('.')?;
        let kind = [Kind::Segment, Kind::Index]
            .into_iter()
            .find(|kind| kind.extension() == extension)?;
        let mut parts = stem.split('-');
        let id = Self {
            partition: PartitionId {
                topic: TopicId(parts.next()?.parse().ok()?),
                index: parts.next()?.parse().ok()?,
            },
            base: parts.next()?.parse().ok()?,
            kind,
        };
        (parts.next().is_none() && id.name() == name).then_some(id)
    }

    /// The file's first bytes.
    pub fn header(&self) -> [u8; FILE_HEADER as usize] {
        let mut head = [0; FILE_HEADER as usize];
        head[..8].copy_from_slice(self.kind.magic());
        head[8..12].copy_from_slice(&VERSION.to_be_bytes());
        head[12..16].copy_from_slice(&self.partition.index.to_be_bytes());
        head[16..24].copy_from_slice(&self.partition.topic.0.to_be_bytes());
        head[24..32].copy_from_slice(&self.base.to_be_bytes());
        let crc = crc32c(&head[..60]);
        head[60..].copy_from_slice(&crc.to_be_bytes());
        head
    }

    /// Whether `head` is this file's; what is wrong with it otherwise.
    pub fn check_header(&self, head: &[u8; FILE_HEADER as usize]) -> Result<(), String> {
        if head == &self.header() {
            return Ok(());
        }
        if &head[..8] != self.kind.magic() {
            return Err("not a file of this kind (magic)".to_owned());
        }
        if crc32c(&head[..60]).to_be_bytes() != head[60..] {
            return Err("the file header fails its checksum".to_owned());
        }
        if head[8..12] != VERSION.to_be_bytes() {
            let version = u32::from_be_bytes(take(head, 8));
            return Err(format!("format version {version} is not {VERSION}"));
        }
        Err("the file header names another partition or offset".to_owned())
    }
}

/// A batch boundary of a segment. All batches from here to the next entry came in the same millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Offset of the batch's first record; of the next segment's in the last entry of a closed segment.
    pub offset: Offset,
    /// Where the batch begins in the segment file; the file's length in the last entry of a closed segment.
    pub position: u64,
    /// When the leader took it; of the last batch in the last entry of a closed segment.
    pub append_ms: i64,
    /// Largest timestamp of the segment's batches before this one; `i64::MIN` for the first.
    pub max_before: i64,
}

impl Entry {
    pub fn encode(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        bytes[..8].copy_from_slice(&self.offset.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.position.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.append_ms.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.max_before.to_be_bytes());
        let crc = crc32c(&bytes[..36]);
        bytes[36..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// `None` where the checksum does not fit.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ENTRY_LEN] = bytes.first_chunk()?;
        if crc32c(&bytes[..36]).to_be_bytes() != bytes[36..] {
            return None;
        }
        Some(Self {
            offset: i64::from_be_bytes(take(bytes, 0)),
            position: u64::from_be_bytes(take(bytes, 8)),
            append_ms: i64::from_be_bytes(take(bytes, 16)),
            max_before: i64::from_be_bytes(take(bytes, 24)),
        })
    }
}

/// CRC-32C (Castagnoli).
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        let id = FileId {
            partition: PartitionId {
                topic: TopicId(7),
                index: 3,
            },
            base: 42,
            kind: Kind::Segment,
        };
        assert_eq!(id.name(), "7-3-00000000000000000042.log");
        assert_eq!(FileId::parse(&id.name()), Some(id));
        for other in ["7-3-42.log", "7-3-00000000000000000042.txt", "lock", "7-3.log", ".log"] {
            assert_eq!(FileId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let entry = Entry {
            offset: 1,
            position: 2,
            append_ms: 3,
            max_before: -4,
        };
        let bytes = entry.encode();
        assert_eq!(Entry::decode(&bytes), Some(entry));
        for bit in 0..ENTRY_LEN * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Entry::decode(&bytes), None);
        }
        let id = FileId::parse("7-3-00000000000000000042.index").unwrap();
        assert_eq!(id.check_header(&id.header()), Ok(()));
        for bit in 0..FILE_HEADER as usize * 8 {
            let mut head = id.header();
            head[bit / 8] ^= 1 << (bit % 8);
            assert!(id.check_header(&head).is_err());
        }
    }
}
