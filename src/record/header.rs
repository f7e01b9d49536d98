//! The fixed 61-byte head of a batch.
//!
//! ```text
//!   0 base_offset i64 | 8 length i32 | 12 leader_epoch i32 | 16 magic i8 | 17 crc u32 | 21 attributes i16
//!  23 last_offset_delta i32 | 27 base_timestamp i64 | 35 max_timestamp i64 | 43 producer_id i64 | 51 producer_epoch i16
//!  53 base_sequence i32 | 57 record_count i32 | 61 records..
//! ```
//!
//! `crc` is CRC-32C over 21..end, so base offset and leader epoch may be stamped without a new CRC.

/// Bytes before the records.
pub const HEADER_LEN: usize = 61;

/// Attribute bits 0..3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compression {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// Attribute bit 3: whose clock the timestamps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    CreateTime,
    /// The broker's; max_timestamp holds for every record.
    LogAppendTime,
}

/// The header's fields, by value (61 bytes are cheaper to copy than to borrow).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct BatchHeader {
    pub base_offset: i64,
    /// Bytes after the length field; the batch is `length + 12` bytes long.
    pub length: i32,
    pub leader_epoch: i32,
    pub magic: i8,
    pub crc: u32,
    pub attributes: i16,
    pub last_offset_delta: i32,
    /// Milliseconds since the epoch.
    pub base_timestamp: i64,
    /// Milliseconds since the epoch.
    pub max_timestamp: i64,
    /// -1: not idempotent.
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub record_count: i32,
}

/// Fewer than [`HEADER_LEN`] bytes, or a magic that is not 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Not even a header.
    #[error("{0} bytes are no record batch")]
    Short(usize),
    /// Message sets v0 and v1, or garbage.
    #[error("magic {0} is not 2")]
    Magic(i8),
}

impl BatchHeader {
    /// Attribute bit 14: the batch holds TessariQL documents (JSON values). Ours; refused from clients, ignored by them.
    pub const DOCUMENTS: i16 = 0x4000;

    /// Reads the header at the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(HeaderError::Short(bytes.len()));
        };
        let magic = head[16] as i8;
        if magic != 2 {
            return Err(HeaderError::Magic(magic));
        }
        Ok(Self {
            base_offset: i64::from_be_bytes(field(head, 0)),
            length: i32::from_be_bytes(field(head, 8)),
            leader_epoch: i32::from_be_bytes(field(head, 12)),
            magic,
            crc: u32::from_be_bytes(field(head, 17)),
            attributes: i16::from_be_bytes(field(head, 21)),
            last_offset_delta: i32::from_be_bytes(field(head, 23)),
            base_timestamp: i64::from_be_bytes(field(head, 27)),
            max_timestamp: i64::from_be_bytes(field(head, 35)),
            producer_id: i64::from_be_bytes(field(head, 43)),
            producer_epoch: i16::from_be_bytes(field(head, 51)),
            base_sequence: i32::from_be_bytes(field(head, 53)),
            record_count: i32::from_be_bytes(field(head, 57)),
        })
    }

    /// Length of the whole batch in bytes, as the header claims it.
    pub fn batch_len(&self) -> i64 {
        i64::from(self.length) + 12
    }

    /// Codec named by the attributes; `None` for numbers no codec has.
    pub fn compression(&self) -> Option<Compression> {
        Some(match self.attributes & 0x07 {
            0 => Compression::None,
            1 => Compression::Gzip,
            2 => Compression::Snappy,
            3 => Compression::Lz4,
            4 => Compression::Zstd,
            _ => return None,
        })
    }

    /// Whose clock the timestamps are.
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & 0x08 != 0 {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    /// Attribute bit 4.
    pub fn is_transactional(&self) -> bool {
        self.attributes & 0x10 != 0
    }

    /// Attribute bit 5: written by brokers only.
    pub fn is_control(&self) -> bool {
        self.attributes & 0x20 != 0
    }

    /// Whether the batch holds TessariQL documents.
    pub fn is_documents(&self) -> bool {
        self.attributes & Self::DOCUMENTS != 0
    }

    /// Offsets the batch takes.
    pub fn offset_count(&self) -> i64 {
        i64::from(self.last_offset_delta) + 1
    }
}

fn field<const N: usize>(head: &[u8; HEADER_LEN], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&head[at..at + N]);
    out
}
