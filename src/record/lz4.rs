//! The lz4 frame, as every client's reader takes it.
//!
//! ```text
//!   magic u32 LE | FLG | BD | [content size u64 LE] | header checksum | blocks.. | end mark 0u32 | [content checksum u32 LE]
//!   block: size u32 LE (top bit: stored) | bytes | [block checksum u32 LE]
//! ```
//!
//! Stricter than the format: the Java client reads independent blocks only, no dictionary, and one frame. Others check what
//! it skips (content size and checksum), so those must be right.

use super::fault::RecordFault;
use std::hash::Hasher;
use twox_hash::XxHash32;

const MAGIC: u32 = 0x184D_2204;
/// No lz4 block grows by more than this factor.
const MAX_RATIO: usize = 255;

pub(super) struct Lz4Frame<'a> {
    rest: &'a [u8],
    max_block: usize,
    block_checksums: bool,
    content_size: Option<u64>,
    content_checksum: Option<XxHash32>,
    produced: u64,
    ended: bool,
}

impl<'a> Lz4Frame<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, RecordFault> {
        let mut rest = bytes;
        if u32_le(&mut rest)? != MAGIC {
            return Err(fault("no lz4 frame"));
        }
        let descriptor = rest;
        let [flags, block] = take::<2>(&mut rest)?;
        if flags >> 6 != 1 || flags & 0x03 != 0 {
            return Err(fault("an lz4 frame of another version, or with a dictionary"));
        }
        if flags & 0x20 == 0 {
            return Err(fault("lz4 blocks that lean on each other"));
        }
        let max_block = match (block & 0x8f, block >> 4) {
            (0, 4) => 64 << 10,
            (0, 5) => 256 << 10,
            (0, 6) => 1 << 20,
            (0, 7) => 4 << 20,
            _ => return Err(fault("an unknown lz4 block size")),
        };
        let content_size = match flags & 0x08 {
            0 => None,
            _ => Some(u64::from_le_bytes(take(&mut rest)?)),
        };
        let described = &descriptor[..descriptor.len() - rest.len()];
        let [checksum] = take::<1>(&mut rest)?;
        if (XxHash32::oneshot(0, described) >> 8) as u8 != checksum {
            return Err(fault("a wrong lz4 header checksum"));
        }
        Ok(Self {
            rest,
            max_block,
            block_checksums: flags & 0x10 != 0,
            content_size,
            content_checksum: (flags & 0x04 != 0).then(|| XxHash32::with_seed(0)),
            produced: 0,
            ended: false,
        })
    }

    /// Decompresses the next block to the front of `out`; 0 at the end mark, once all that the frame promised has been checked.
    pub(super) fn next_block(&mut self, out: &mut Vec<u8>) -> Result<usize, RecordFault> {
        if self.ended {
            return Ok(0);
        }
        let head = u32_le(&mut self.rest)?;
        if head == 0 {
            self.end()?;
            return Ok(0);
        }
        let (stored, len) = (head >> 31 == 1, (head & 0x7fff_ffff) as usize);
        if len == 0 || len > self.max_block || len > self.rest.len() {
            return Err(fault("an lz4 block of a wrong size"));
        }
        let (block, rest) = self.rest.split_at(len);
        self.rest = rest;
        if self.block_checksums && XxHash32::oneshot(0, block) != u32_le(&mut self.rest)? {
            return Err(fault("a wrong lz4 block checksum"));
        }
        let produced = if stored {
            room(out, len);
            out[..len].copy_from_slice(block);
            len
        } else {
            room(out, self.max_block.min(len * MAX_RATIO));
            lz4_flex::block::decompress_into(block, &mut out[..self.max_block.min(len * MAX_RATIO)])
                .map_err(RecordFault::payload)?
        };
        if produced == 0 {
            return Err(fault("an empty lz4 block"));
        }
        self.produced += produced as u64;
        if let Some(hash) = &mut self.content_checksum {
            hash.write(&out[..produced]);
        }
        Ok(produced)
    }

    fn end(&mut self) -> Result<(), RecordFault> {
        self.ended = true;
        if self.content_size.is_some_and(|size| size != self.produced) {
            return Err(fault("a wrong lz4 content size"));
        }
        if let Some(hash) = self.content_checksum.take()
            && hash.finish_32() != u32_le(&mut self.rest)?
        {
            return Err(fault("a wrong lz4 content checksum"));
        }
        Ok(())
    }

    /// Input behind the frame.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }
}

/// Makes `out` at least `len` bytes long; fresh room comes zeroed from the allocator and is only touched once written.
pub(super) fn room(out: &mut Vec<u8>, len: usize) {
    if out.len() < len {
        *out = vec![0; len];
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], RecordFault> {
    let (head, tail) = rest
        .split_first_chunk::<N>()
        .ok_or_else(|| fault("lz4 input cut short"))?;
    *rest = tail;
    Ok(*head)
}

fn u32_le(rest: &mut &[u8]) -> Result<u32, RecordFault> {
    take(rest).map(u32::from_le_bytes)
}

fn fault(what: &str) -> RecordFault {
    RecordFault::Payload(what.to_owned())
}
