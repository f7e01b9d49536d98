//! Reading the records of a stored batch, one at a time, each borrowed from the batch or from one decompressed record's worth of
//! memory. For TessariQL reads and time lookups; fetches hand out batches unread.

use super::fault::RecordFault;
use super::header::{BatchHeader, Compression, HEADER_LEN, HeaderError, TimestampType};
use super::unpack::Unpacker;
use super::varint;

/// Why a stored batch could not be read. Class `Fatal` for what was walked before it was stored: the bytes have changed since.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No batch.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A record, or the payload, is not readable.
    #[error("record at offset {offset}: {fault}")]
    Record {
        /// The record's offset.
        offset: i64,
        /// What is wrong.
        fault: RecordFault,
    },
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// Kafka's number of it in its partition.
    pub offset: i64,
    /// Milliseconds since the epoch, by the clock its batch names.
    pub timestamp: i64,
    /// `None`: null.
    pub key: Option<&'a [u8]>,
    /// `None`: null.
    pub value: Option<&'a [u8]>,
    /// In the order sent; keys may repeat.
    pub headers: Headers<'a>,
}

/// The headers of one record: an iterator over key and value, which have been checked already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    rest: &'a [u8],
    left: usize,
}

/// One header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderView<'a> {
    /// UTF-8 by the protocol; not checked under `--kafka-validate header`.
    pub key: &'a [u8],
    /// `None`: null.
    pub value: Option<&'a [u8]>,
}

impl<'a> Iterator for Headers<'a> {
    type Item = HeaderView<'a>;

    fn next(&mut self) -> Option<HeaderView<'a>> {
        self.left = self.left.checked_sub(1)?;
        let mut body = Body { rest: self.rest };
        // Checked when the record was read, so neither fails.
        let header = body.header().ok()?;
        self.rest = body.rest;
        Some(header)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// Reads a batch from its first record to its last.
pub struct RecordReader<'a> {
    header: BatchHeader,
    source: Source<'a>,
    read: i32,
}

enum Source<'a> {
    Plain(&'a [u8]),
    Packed { unpacker: Unpacker<'a>, record: Vec<u8> },
}

impl<'a> RecordReader<'a> {
    /// A reader of `batch`: one whole batch, of which at most `max_decompressed` bytes are decompressed.
    ///
    /// # Errors
    /// No header, an unknown codec, a payload that is not its codec's.
    pub fn new(batch: &'a [u8], max_decompressed: u64) -> Result<Self, DecodeError> {
        let header = BatchHeader::parse(batch)?;
        let bytes = &batch[HEADER_LEN..];
        let source = match header.compression() {
            Some(Compression::None) => Ok(Source::Plain(bytes)),
            Some(codec) => Unpacker::new(codec, bytes, max_decompressed).map(|unpacker| Source::Packed {
                unpacker,
                record: Vec::new(),
            }),
            None => Err(RecordFault::payload("no such codec")),
        };
        Ok(Self {
            header,
            source: source.map_err(|fault| DecodeError::Record {
                offset: header.base_offset,
                fault,
            })?,
            read: 0,
        })
    }

    /// The batch's header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The next record, `None` after the last. After an error every call gives an error or `None`.
    #[allow(clippy::should_implement_trait)] // the record borrows from the reader
    pub fn next(&mut self) -> Result<Option<RecordView<'_>>, DecodeError> {
        if self.read >= self.header.record_count {
            return Ok(None);
        }
        let place = self.read;
        self.read += 1;
        let (header, offset) = (self.header, self.header.base_offset.saturating_add(place.into()));
        let fault = |fault| DecodeError::Record { offset, fault };
        let body = match &mut self.source {
            Source::Plain(rest) => plain_record(rest),
            Source::Packed { unpacker, record } => packed_record(unpacker, record),
        };
        body.and_then(|body| Body { rest: body }.record(&header))
            .map(Some)
            .map_err(fault)
    }
}

/// The first record at or after `timestamp` (ms since the epoch): its offset and its own timestamp. With the header's
/// `max_timestamp` for `timestamp` this is the first record that has it.
///
/// # Errors
/// As [`RecordReader::new`] and [`RecordReader::next`].
pub fn find_by_timestamp(
    batch: &[u8],
    timestamp: i64,
    max_decompressed: u64,
) -> Result<Option<(i64, i64)>, DecodeError> {
    let header = BatchHeader::parse(batch)?;
    if header.max_timestamp < timestamp {
        return Ok(None);
    }
    if header.timestamp_type() == TimestampType::LogAppendTime {
        return Ok(Some((header.base_offset, header.max_timestamp)));
    }
    let mut reader = RecordReader::new(batch, max_decompressed)?;
    while let Some(record) = reader.next()? {
        if record.timestamp >= timestamp {
            return Ok(Some((record.offset, record.timestamp)));
        }
    }
    Ok(None)
}

fn plain_record<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], RecordFault> {
    let mut body = Body { rest };
    let len = body.i32()?;
    let record = body.bytes(len)?;
    *rest = body.rest;
    Ok(record)
}

fn packed_record<'r>(unpacker: &mut Unpacker<'_>, record: &'r mut Vec<u8>) -> Result<&'r [u8], RecordFault> {
    record.clear();
    let len = varint::read_i32(|| {
        let byte = *unpacker.chunk()?.first().ok_or(RecordFault::End)?;
        unpacker.take(1);
        Ok::<_, RecordFault>(byte)
    })?;
    let mut left = usize::try_from(len).map_err(|_| RecordFault::Length(len.into()))?;
    while left > 0 {
        let chunk = unpacker.chunk()?;
        if chunk.is_empty() {
            return Err(RecordFault::End);
        }
        let here = chunk.len().min(left);
        record.extend_from_slice(&chunk[..here]);
        unpacker.take(here);
        left -= here;
    }
    Ok(record)
}

/// What is left of a record.
struct Body<'a> {
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    fn record(mut self, header: &BatchHeader) -> Result<RecordView<'a>, RecordFault> {
        self.byte()?;
        let timestamp_delta = varint::read_i64(|| self.byte())?;
        let offset_delta = self.i32()?;
        let timestamp = match header.timestamp_type() {
            TimestampType::LogAppendTime => header.max_timestamp,
            TimestampType::CreateTime => header
                .base_timestamp
                .checked_add(timestamp_delta)
                .ok_or(RecordFault::Timestamp)?,
        };
        let offset = header
            .base_offset
            .checked_add(offset_delta.into())
            .filter(|_| (0..=header.last_offset_delta).contains(&offset_delta))
            .ok_or(RecordFault::OffsetDelta {
                expected: header.last_offset_delta,
                found: offset_delta,
            })?;
        let key = self.nullable()?;
        let value = self.nullable()?;
        let count = self.i32()?;
        let left = usize::try_from(count).map_err(|_| RecordFault::Length(count.into()))?;
        let headers = Headers { rest: self.rest, left };
        for _ in 0..left {
            self.header()?;
        }
        if !self.rest.is_empty() {
            return Err(RecordFault::Unfilled);
        }
        Ok(RecordView {
            offset,
            timestamp,
            key,
            value,
            headers,
        })
    }

    fn header(&mut self) -> Result<HeaderView<'a>, RecordFault> {
        let len = self.i32()?;
        let key = self.bytes(len)?;
        let value = self.nullable()?;
        Ok(HeaderView { key, value })
    }

    fn nullable(&mut self) -> Result<Option<&'a [u8]>, RecordFault> {
        match self.i32()? {
            -1 => Ok(None),
            len => self.bytes(len).map(Some),
        }
    }

    fn bytes(&mut self, len: i32) -> Result<&'a [u8], RecordFault> {
        let fault = RecordFault::Length(len.into());
        let len = usize::try_from(len).map_err(|_| fault.clone())?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(fault)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn i32(&mut self) -> Result<i32, RecordFault> {
        varint::read_i32(|| self.byte())
    }

    fn byte(&mut self) -> Result<u8, RecordFault> {
        let (&byte, rest) = self.rest.split_first().ok_or(RecordFault::End)?;
        self.rest = rest;
        Ok(byte)
    }
}
