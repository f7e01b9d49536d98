//! The two snappy forms on the wire: one raw block (librdkafka, most others) and xerial's framing (Java, kafka-python).
//!
//! ```text
//!   xerial: 82 "SNAPPY" 00 | version u32 BE = 1 | least compatible version u32 BE = 1 | chunks..
//!   chunk:  length u32 BE | raw block
//! ```
//!
//! A raw block begins with the length it claims to have. No block grows by more than [`MAX_RATIO`], so a claim beyond that is a
//! lie, told before any memory is taken for it.

use super::fault::RecordFault;
use super::lz4::room;

const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
const XERIAL_HEADER: &[u8] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
/// A copy element takes 3 bytes and gives at most 64.
const MAX_RATIO: u64 = 22;

pub(super) struct Snappy<'a> {
    rest: &'a [u8],
    chunked: bool,
    decoder: snap::raw::Decoder,
}

impl<'a> Snappy<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, RecordFault> {
        let chunked = bytes.starts_with(XERIAL_MAGIC);
        let rest = match bytes.strip_prefix(XERIAL_HEADER) {
            Some(rest) => rest,
            None if chunked => return Err(RecordFault::payload("an unknown xerial snappy version")),
            None => bytes,
        };
        Ok(Self {
            rest,
            chunked,
            decoder: snap::raw::Decoder::new(),
        })
    }

    /// Decompresses the next block to the front of `out`, if it claims no more than `budget` bytes; 0 at the end.
    pub(super) fn next_block(&mut self, out: &mut Vec<u8>, budget: u64, cap: u64) -> Result<usize, RecordFault> {
        if self.rest.is_empty() {
            return Ok(0);
        }
        let block = if self.chunked {
            let short = || RecordFault::payload("a xerial snappy chunk cut short");
            let (head, rest) = self.rest.split_first_chunk::<4>().ok_or_else(short)?;
            let (block, rest) = rest
                .split_at_checked(u32::from_be_bytes(*head) as usize)
                .ok_or_else(short)?;
            self.rest = rest;
            block
        } else {
            std::mem::take(&mut self.rest)
        };
        if block.is_empty() {
            return Err(RecordFault::payload("an empty snappy block"));
        }
        let claimed = snap::raw::decompress_len(block).map_err(RecordFault::payload)?;
        if claimed as u64 > budget {
            return Err(RecordFault::Expansion(cap));
        }
        if claimed as u64 > block.len() as u64 * MAX_RATIO {
            return Err(RecordFault::payload("snappy claims a length it cannot have"));
        }
        room(out, claimed);
        let produced = self
            .decoder
            .decompress(block, &mut out[..claimed])
            .map_err(RecordFault::payload)?;
        if produced == 0 {
            return Err(RecordFault::payload("an empty snappy block"));
        }
        Ok(produced)
    }
}
