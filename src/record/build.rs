//! Building batches: what TessariQL appends, and what tests and tools send.

use super::header::{BatchHeader, Compression, HEADER_LEN};
use super::pack::{PackError, SnappyForm, pack};
use super::varint;
use bytes::Bytes;

/// Why no batch was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A batch holds one record at least.
    #[error("a batch without records")]
    Empty,
    /// Lengths and counts are 32 bits wide on the wire.
    #[error("a batch beyond what the protocol can say")]
    TooLarge,
    /// Timestamps of one batch lie too far apart.
    #[error("timestamps that lie more than 64 bits apart")]
    Timestamp,
    /// The codec failed.
    #[error(transparent)]
    Pack(#[from] PackError),
}

/// One record to be put into a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewRecord<'a> {
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// `None`: null.
    pub key: Option<&'a [u8]>,
    /// `None`: null.
    pub value: Option<&'a [u8]>,
    /// Key and value, in order; keys may repeat.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
}

/// Collects records into one batch, with base offset 0 and leader epoch -1 as producers send them.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    records: Vec<u8>,
    count: i32,
    attributes: i16,
    compression: Compression,
    snappy: SnappyForm,
    base_timestamp: i64,
    max_timestamp: i64,
    append_time: Option<i64>,
    producer: (i64, i16, i32),
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self {
            records: Vec::new(),
            count: 0,
            attributes: 0,
            compression: Compression::None,
            snappy: SnappyForm::Raw,
            base_timestamp: 0,
            max_timestamp: i64::MIN,
            append_time: None,
            producer: (-1, -1, -1),
        }
    }
}

impl BatchBuilder {
    /// An uncompressed batch of a producer that is not idempotent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compresses the records.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// How snappy is framed; raw unless said.
    pub fn snappy_form(mut self, form: SnappyForm) -> Self {
        self.snappy = form;
        self
    }

    /// Producer id, epoch and the sequence of the first record.
    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        self.producer = (id, epoch, base_sequence);
        self
    }

    /// Sets further attribute bits, over those of compression and timestamp type.
    pub fn attributes(mut self, bits: i16) -> Self {
        self.attributes |= bits;
        self
    }

    /// LogAppendTime: every record has this time, in ms since the epoch.
    pub fn append_time(mut self, timestamp: i64) -> Self {
        self.append_time = Some(timestamp);
        self
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Beyond 32-bit lengths, or a timestamp that the first record's cannot reach.
    pub fn push(&mut self, record: NewRecord<'_>) -> Result<(), BuildError> {
        let timestamp = self.append_time.unwrap_or(record.timestamp);
        if self.count == 0 {
            self.base_timestamp = timestamp;
        }
        let delta = timestamp
            .checked_sub(self.base_timestamp)
            .ok_or(BuildError::Timestamp)?;
        let sized = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let bulk: usize = sized(record.key)
            + sized(record.value)
            + record
                .headers
                .iter()
                .map(|(key, value)| key.len() + sized(*value) + 10)
                .sum::<usize>();
        if self.records.len() + bulk > i32::MAX as usize - 1024 || self.count == i32::MAX {
            return Err(BuildError::TooLarge);
        }
        // The length comes first and is a varint: fields before the value, measured, then written in place.
        let mut front = Vec::with_capacity(32 + sized(record.key));
        front.push(0);
        varint::put(&mut front, delta);
        varint::put(&mut front, self.count.into());
        put_nullable(&mut front, record.key);
        varint::put(&mut front, record.value.map_or(-1, |value| value.len() as i64));
        let mut back = Vec::new();
        varint::put(&mut back, record.headers.len() as i64);
        for (key, value) in record.headers {
            put_nullable(&mut back, Some(key.as_bytes()));
            put_nullable(&mut back, *value);
        }
        self.records.reserve(bulk + 32);
        varint::put(
            &mut self.records,
            (front.len() + sized(record.value) + back.len()) as i64,
        );
        self.records.extend_from_slice(&front);
        self.records.extend_from_slice(record.value.unwrap_or_default());
        self.records.extend_from_slice(&back);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.count += 1;
        Ok(())
    }

    /// Records so far.
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Bytes the batch would have now, uncompressed.
    pub fn uncompressed_len(&self) -> usize {
        HEADER_LEN + self.records.len()
    }

    /// The batch.
    ///
    /// # Errors
    /// No record was pushed, or the codec failed.
    pub fn build(self) -> Result<Bytes, BuildError> {
        if self.count == 0 {
            return Err(BuildError::Empty);
        }
        let packed = match self.compression {
            Compression::None => None,
            codec => Some(pack(codec, self.snappy, &self.records)?),
        };
        let records = packed.as_deref().unwrap_or(&self.records);
        let codec = match self.compression {
            Compression::None => 0,
            Compression::Gzip => 1,
            Compression::Snappy => 2,
            Compression::Lz4 => 3,
            Compression::Zstd => 4,
        };
        let append_time_bit = if self.append_time.is_some() { 0x08 } else { 0 };
        let length = i32::try_from(HEADER_LEN - 12 + records.len()).map_err(|_| BuildError::TooLarge)?;
        let mut out = Vec::with_capacity(HEADER_LEN + records.len());
        out.extend_from_slice(&0i64.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&(-1i32).to_be_bytes());
        out.push(2);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(self.attributes | codec | append_time_bit).to_be_bytes());
        out.extend_from_slice(&(self.count - 1).to_be_bytes());
        out.extend_from_slice(&self.base_timestamp.to_be_bytes());
        out.extend_from_slice(&self.max_timestamp.to_be_bytes());
        out.extend_from_slice(&self.producer.0.to_be_bytes());
        out.extend_from_slice(&self.producer.1.to_be_bytes());
        out.extend_from_slice(&self.producer.2.to_be_bytes());
        out.extend_from_slice(&self.count.to_be_bytes());
        out.extend_from_slice(records);
        let crc = super::validate::batch_crc(&out);
        out[17..21].copy_from_slice(&crc.to_be_bytes());
        Ok(out.into())
    }
}

/// One batch of TessariQL documents (JSON text, null key), appended at `append_time` (ms since the epoch).
///
/// # Errors
/// No value, or more than one batch can hold.
pub fn build_documents<'a>(values: impl IntoIterator<Item = &'a [u8]>, append_time: i64) -> Result<Bytes, BuildError> {
    let mut builder = BatchBuilder::new()
        .append_time(append_time)
        .attributes(BatchHeader::DOCUMENTS);
    for value in values {
        builder.push(NewRecord {
            value: Some(value),
            ..NewRecord::default()
        })?;
    }
    builder.build()
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    varint::put(out, bytes.map_or(-1, |bytes| bytes.len() as i64));
    out.extend_from_slice(bytes.unwrap_or_default());
}
