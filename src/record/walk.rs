//! The walk over a batch's records: every length, number and count is checked, keys and values are skipped, nothing is kept.
//!
//! ```text
//!   record: length varint | attributes i8 | timestamp delta varlong | offset delta varint | key length varint, key
//!           | value length varint, value | header count varint | headers: key length varint, key, value length varint, value
//! ```

use super::fault::RecordFault;
use super::header::{BatchHeader, Compression, HEADER_LEN, TimestampType};
use super::unpack::Unpacker;
use super::varint;

/// Walks the records of `batch`, whose header has been read and says how many there are and how they are compressed.
/// Gives the largest timestamp of a record. An error comes with the place of the record it was found in.
pub(super) fn walk(batch: &[u8], header: &BatchHeader, cap: u64) -> Result<i64, (i32, RecordFault)> {
    let records = batch.get(HEADER_LEN..).unwrap_or_default();
    match header.compression() {
        Some(Compression::None) => walk_input(Plain::new(records), header),
        Some(codec) => walk_input(Unpacker::new(codec, records, cap).map_err(|fault| (0, fault))?, header),
        None => Err((0, RecordFault::payload("no such codec"))),
    }
}

fn walk_input(mut input: impl Input, header: &BatchHeader) -> Result<i64, (i32, RecordFault)> {
    let mut max_timestamp = i64::MIN;
    for expected in 0..header.record_count {
        let timestamp = walk_record(&mut input, header, expected).map_err(|fault| (expected, fault))?;
        max_timestamp = max_timestamp.max(timestamp);
    }
    let last = header.record_count - 1;
    if !input.at_end().map_err(|fault| (last, fault))? {
        return Err((last, RecordFault::LeftOver));
    }
    if header.timestamp_type() == TimestampType::LogAppendTime {
        max_timestamp = header.max_timestamp;
    }
    Ok(max_timestamp)
}

#[inline]
fn walk_record(input: &mut impl Input, header: &BatchHeader, expected: i32) -> Result<i64, RecordFault> {
    let len = varint::read_i32(|| input.byte())?;
    let end = input.position() + u64::try_from(len).map_err(|_| RecordFault::Length(len.into()))?;
    input.byte()?; // attributes: no bit has a meaning
    let timestamp_delta = varint::read_i64(|| input.byte())?;
    let timestamp = header
        .base_timestamp
        .checked_add(timestamp_delta)
        .ok_or(RecordFault::Timestamp)?;
    let found = varint::read_i32(|| input.byte())?;
    if found != expected {
        return Err(RecordFault::OffsetDelta { expected, found });
    }
    skip_nullable(input, end)?; // key
    skip_nullable(input, end)?; // value
    let headers = varint::read_i32(|| input.byte())?;
    // A header takes two bytes at least.
    if headers < 0 || input.position() + u64::from(headers as u32) * 2 > end {
        return Err(RecordFault::Length(headers.into()));
    }
    for _ in 0..headers {
        let len = varint::read_i32(|| input.byte())?;
        let len = within(len, input.position(), end)?;
        input.utf8(len)?;
        skip_nullable(input, end)?;
    }
    if input.position() != end {
        return Err(RecordFault::Unfilled);
    }
    Ok(timestamp)
}

#[inline]
fn skip_nullable(input: &mut impl Input, end: u64) -> Result<(), RecordFault> {
    let len = varint::read_i32(|| input.byte())?;
    if len == -1 {
        return Ok(());
    }
    let len = within(len, input.position(), end)?;
    input.skip(len)
}

#[inline]
fn within(len: i32, position: u64, end: u64) -> Result<usize, RecordFault> {
    if len < 0 || position + u64::from(len as u32) > end {
        return Err(RecordFault::Length(len.into()));
    }
    Ok(len as usize)
}

/// Record bytes, read once from front to back.
trait Input {
    fn byte(&mut self) -> Result<u8, RecordFault>;
    fn skip(&mut self, n: usize) -> Result<(), RecordFault>;
    /// Skips `n` bytes that must be UTF-8.
    fn utf8(&mut self, n: usize) -> Result<(), RecordFault>;
    fn position(&self) -> u64;
    fn at_end(&mut self) -> Result<bool, RecordFault>;
}

/// Uncompressed records, where they lie.
struct Plain<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Plain<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }
}

impl Input for Plain<'_> {
    #[inline]
    fn byte(&mut self) -> Result<u8, RecordFault> {
        let byte = *self.bytes.get(self.at).ok_or(RecordFault::End)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn skip(&mut self, n: usize) -> Result<(), RecordFault> {
        if n > self.bytes.len() - self.at {
            return Err(RecordFault::End);
        }
        self.at += n;
        Ok(())
    }

    fn utf8(&mut self, n: usize) -> Result<(), RecordFault> {
        let from = self.at;
        self.skip(n)?;
        match std::str::from_utf8(&self.bytes[from..self.at]) {
            Ok(_) => Ok(()),
            Err(_) => Err(RecordFault::HeaderKey),
        }
    }

    #[inline]
    fn position(&self) -> u64 {
        self.at as u64
    }

    fn at_end(&mut self) -> Result<bool, RecordFault> {
        Ok(self.at == self.bytes.len())
    }
}

impl Input for Unpacker<'_> {
    #[inline]
    fn byte(&mut self) -> Result<u8, RecordFault> {
        let byte = *self.chunk()?.first().ok_or(RecordFault::End)?;
        self.take(1);
        Ok(byte)
    }

    fn skip(&mut self, mut n: usize) -> Result<(), RecordFault> {
        while n > 0 {
            let here = self.chunk()?.len().min(n);
            if here == 0 {
                return Err(RecordFault::End);
            }
            self.take(here);
            n -= here;
        }
        Ok(())
    }

    fn utf8(&mut self, mut n: usize) -> Result<(), RecordFault> {
        // A character may lie across two chunks: up to 3 bytes of it wait here for the rest.
        let mut split = [0u8; 4];
        let mut waiting = 0;
        while n > 0 {
            let chunk = self.chunk()?;
            if chunk.is_empty() {
                return Err(RecordFault::End);
            }
            let taken = if waiting > 0 {
                split[waiting] = chunk[0];
                waiting += 1;
                match std::str::from_utf8(&split[..waiting]) {
                    Ok(_) => waiting = 0,
                    Err(error) if error.error_len().is_none() => {}
                    Err(_) => return Err(RecordFault::HeaderKey),
                }
                1
            } else {
                let here = &chunk[..chunk.len().min(n)];
                if let Err(error) = std::str::from_utf8(here) {
                    if error.error_len().is_some() {
                        return Err(RecordFault::HeaderKey);
                    }
                    let tail = &here[error.valid_up_to()..];
                    split[..tail.len()].copy_from_slice(tail);
                    waiting = tail.len();
                }
                here.len()
            };
            self.take(taken);
            n -= taken;
        }
        if waiting > 0 {
            return Err(RecordFault::HeaderKey);
        }
        Ok(())
    }

    #[inline]
    fn position(&self) -> u64 {
        Unpacker::position(self)
    }

    fn at_end(&mut self) -> Result<bool, RecordFault> {
        Ok(self.chunk()?.is_empty())
    }
}
