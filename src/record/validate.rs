//! Whether a produced batch may be stored.
//!
//! ```text
//!   frame's bytes -> one batch? -> header and CRC -> records walked -> stored as sent
//! ```
//!
//! A batch that some consumer cannot read stops every consumer of its partition for good, so it is refused here.

use super::fault::RecordFault;
use super::header::{BatchHeader, Compression, HEADER_LEN, HeaderError};
use super::walk::walk;

/// Bytes before and with the length field.
const LENGTH_END: usize = 12;
/// Bytes up to and with the magic: fewer cannot be told from padding.
const MAGIC_END: usize = 17;
/// What the length field of the smallest batch any version had would say.
const LEAST_LENGTH: i32 = 14;

/// What a topic and the node allow.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest batch in bytes as sent, compressed, header included: the topic's `max.message.bytes`.
    pub max_batch_bytes: usize,
    /// Most bytes the records of one batch may decompress to.
    pub max_decompressed_bytes: u64,
    /// Whether records are walked, or the header alone is checked (`--kafka-validate header`).
    pub walk: bool,
}

impl Limits {
    /// Kafka's own default of `max.message.bytes`: 1 MiB of records and the log overhead.
    pub const DEFAULT_MAX_BATCH_BYTES: usize = (1 << 20) + LENGTH_END;
    /// 128 MiB.
    pub const DEFAULT_MAX_DECOMPRESSED_BYTES: u64 = 128 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_batch_bytes: Self::DEFAULT_MAX_BATCH_BYTES,
            max_decompressed_bytes: Self::DEFAULT_MAX_DECOMPRESSED_BYTES,
            walk: true,
        }
    }
}

/// A batch that may be stored. The caller still decides on what depends on the request or the topic: transactional batches
/// ([`BatchHeader::is_transactional`]), zstd in old request versions, timestamp type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validated {
    /// The header as sent.
    pub header: BatchHeader,
    /// The batch's codec.
    pub compression: Compression,
    /// Length of the batch in bytes: a few bytes (under 17) may follow it in what was sent, as in Kafka, and are not stored.
    pub len: usize,
    /// Largest timestamp of a record (LogAppendTime: the header's), in ms since the epoch. Where it differs from the header's,
    /// which time lookups trust, the batch must be re-stamped before it is stored ([`super::restamp_time`]), as Kafka does.
    /// Without the walk: the header's.
    pub max_timestamp: i64,
}

/// Why a produced batch is not stored. Class `Invalid`: nothing was applied, sending it again will not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No bytes, or fewer than the batch says it has.
    #[error("{sent} bytes hold no whole record batch")]
    NoBatch {
        /// Bytes sent.
        sent: usize,
    },
    /// A length no batch can have.
    #[error("a record batch of length {0}")]
    Length(i32),
    /// Message sets v0 and v1 (0, 1), or garbage.
    #[error("magic {0} is not 2")]
    Magic(i8),
    /// More follows the first batch.
    #[error("more than one record batch for a partition")]
    SeveralBatches,
    /// Larger than the topic allows.
    #[error("a record batch of {bytes} bytes, {limit} at most")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Changed on its way.
    #[error("CRC-32C is {computed:#010x}, the header says {stored:#010x}")]
    Crc {
        /// The header's.
        stored: u32,
        /// Over what came.
        computed: u32,
    },
    /// Producers number records from 0.
    #[error("base offset {0} is not 0")]
    BaseOffset(i64),
    /// No records, or another number than the offsets taken.
    #[error("{count} records with last offset delta {last_offset_delta}")]
    Count {
        /// `record_count`.
        count: i32,
        /// `last_offset_delta`.
        last_offset_delta: i32,
    },
    /// Only brokers write control batches.
    #[error("a control batch from a client")]
    Control,
    /// Attribute bit 14 is ours.
    #[error("attribute bit 14 is reserved")]
    Documents,
    /// Codec bits 5 to 7.
    #[error("compression {0} is unknown")]
    Codec(i16),
    /// A producer id without a sequence.
    #[error("sequence {0} with a producer id")]
    Sequence(i32),
    /// A record, or the compressed payload, that some consumer could not read.
    #[error("record {index}: {fault}")]
    Record {
        /// The record's place in the batch.
        index: i32,
        /// What is wrong.
        fault: RecordFault,
    },
}

/// How a refusal is told to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// CORRUPT_MESSAGE (2).
    Corrupt,
    /// MESSAGE_TOO_LARGE (10).
    TooLarge,
    /// INVALID_RECORD (87).
    Invalid,
}

impl Refusal {
    /// Which of Kafka's answers this is.
    pub fn kind(&self) -> RefusalKind {
        match self {
            Self::Length(_) | Self::Crc { .. } => RefusalKind::Corrupt,
            // Old formats are a client's choice, other numbers are damage.
            Self::Magic(0 | 1) => RefusalKind::Invalid,
            Self::Magic(_) => RefusalKind::Corrupt,
            Self::TooLarge { .. } => RefusalKind::TooLarge,
            Self::NoBatch { .. }
            | Self::SeveralBatches
            | Self::BaseOffset(_)
            | Self::Count { .. }
            | Self::Control
            | Self::Documents
            | Self::Codec(_)
            | Self::Sequence(_)
            | Self::Record { .. } => RefusalKind::Invalid,
        }
    }

    /// Kafka's error code for it.
    pub fn error_code(&self) -> i16 {
        match self.kind() {
            RefusalKind::Corrupt => 2,
            RefusalKind::TooLarge => 10,
            RefusalKind::Invalid => 87,
        }
    }
}

/// Decides whether `sent`, the records field of one partition in a produce request, is one batch that every consumer can read.
///
/// Takes time in proportion to the (decompressed) size; callers move large ones off the reactor. Takes memory for one chunk of
/// decompressed records, whatever the batch claims.
pub fn validate(sent: &[u8], limits: &Limits) -> Result<Validated, Refusal> {
    let batch = first_batch(sent)?;
    let header = BatchHeader::parse(batch).map_err(|error| match error {
        HeaderError::Short(len) => Refusal::Length((len - LENGTH_END) as i32),
        HeaderError::Magic(magic) => Refusal::Magic(magic),
    })?;
    if header.base_offset != 0 {
        return Err(Refusal::BaseOffset(header.base_offset));
    }
    if batch.len() > limits.max_batch_bytes {
        return Err(Refusal::TooLarge {
            bytes: batch.len(),
            limit: limits.max_batch_bytes,
        });
    }
    check_crc(batch, &header)?;
    // After the CRC: a length cut short leaves bytes behind too, and is damage.
    if sent.len() - batch.len() >= MAGIC_END {
        return Err(Refusal::SeveralBatches);
    }
    let compression = check_header(&header)?;
    let max_timestamp = if limits.walk {
        walk(batch, &header, limits.max_decompressed_bytes)
            .map_err(|(index, fault)| Refusal::Record { index, fault })?
    } else {
        header.max_timestamp
    };
    Ok(Validated {
        header,
        compression,
        len: batch.len(),
        max_timestamp,
    })
}

/// CRC-32C of a batch, over what its CRC covers. `batch` is at least a header long.
pub fn batch_crc(batch: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(&batch[21..])
}

fn first_batch(sent: &[u8]) -> Result<&[u8], Refusal> {
    let none = Refusal::NoBatch { sent: sent.len() };
    let Some(head) = sent.first_chunk::<LENGTH_END>() else {
        return Err(none);
    };
    let length = i32::from_be_bytes([head[8], head[9], head[10], head[11]]);
    if length < LEAST_LENGTH {
        return Err(Refusal::Length(length));
    }
    let Some(&magic) = sent.get(MAGIC_END - 1) else {
        return Err(none);
    };
    if magic > 2 {
        return Err(Refusal::Magic(magic as i8));
    }
    sent.get(..length as usize + LENGTH_END).ok_or(none)
}

fn check_crc(batch: &[u8], header: &BatchHeader) -> Result<(), Refusal> {
    let computed = batch_crc(batch);
    if computed != header.crc {
        return Err(Refusal::Crc {
            stored: header.crc,
            computed,
        });
    }
    debug_assert!(batch.len() >= HEADER_LEN);
    Ok(())
}

fn check_header(header: &BatchHeader) -> Result<Compression, Refusal> {
    if header.record_count <= 0 || header.offset_count() != i64::from(header.record_count) {
        return Err(Refusal::Count {
            count: header.record_count,
            last_offset_delta: header.last_offset_delta,
        });
    }
    if header.is_control() {
        return Err(Refusal::Control);
    }
    if header.is_documents() {
        return Err(Refusal::Documents);
    }
    if header.producer_id > -1 && header.base_sequence < 0 {
        return Err(Refusal::Sequence(header.base_sequence));
    }
    header.compression().ok_or(Refusal::Codec(header.attributes & 0x07))
}
