//! What can be wrong with the records of a batch.

use super::varint::Wide;

/// Why the records of a batch cannot be read by every consumer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// The bytes end inside a record.
    #[error("the bytes end inside a record")]
    End,
    /// A number with more bits than its field has.
    #[error("a number is wider than its field")]
    WideNumber,
    /// A length below zero (below -1 where -1 means null), or beyond its record.
    #[error("a length of {0} does not fit its record")]
    Length(i64),
    /// The fields of a record end before, or go beyond, the record's length.
    #[error("a record's fields do not fill its length")]
    Unfilled,
    /// Offset deltas count up from 0.
    #[error("offset delta {found} where {expected} is due")]
    OffsetDelta {
        /// The record's place in the batch.
        expected: i32,
        /// What it says.
        found: i32,
    },
    /// Base timestamp plus delta does not fit 64 bits.
    #[error("a timestamp beyond 64 bits")]
    Timestamp,
    /// Header keys are UTF-8 strings and never null.
    #[error("a header key that is not UTF-8")]
    HeaderKey,
    /// Bytes behind the last record, or behind its codec's stream.
    #[error("bytes left over behind the last record")]
    LeftOver,
    /// What the codec could not read.
    #[error("the codec cannot read its payload: {0}")]
    Payload(String),
    /// The records take more than this many bytes when decompressed.
    #[error("more than {0} bytes when decompressed")]
    Expansion(u64),
}

impl From<Wide> for RecordFault {
    fn from(_: Wide) -> Self {
        Self::WideNumber
    }
}

impl RecordFault {
    pub(super) fn payload(error: impl std::fmt::Display) -> Self {
        Self::Payload(error.to_string())
    }
}
