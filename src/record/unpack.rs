//! Bounded decompression: a stream of chunks, never more than a cap in all, memory taken for what was produced or is surely
//! producible, never for a claim.
//!
//! What a codec takes is what every known client reads (docs/compatibility.md): one gzip member, one lz4 frame of independent
//! blocks, snappy raw or in xerial's framing, any number of zstd frames; nothing behind them.

use super::fault::RecordFault;
use super::header::Compression;
use super::lz4::{Lz4Frame, room};
use super::snappy::Snappy;
use flate2::bufread::GzDecoder;
use std::io::Read;

/// Bytes decompressed at a time where the codec streams.
const CHUNK: usize = 64 << 10;
/// zstd's own default limit, and what its highest level needs: 128 MiB. The window is touched only as output fills it.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

enum Codec<'a> {
    Gzip(Box<GzDecoder<&'a [u8]>>),
    Snappy(Snappy<'a>),
    Lz4(Lz4Frame<'a>),
    Zstd(zstd::stream::read::Decoder<'a, &'a [u8]>),
}

/// The decompressed records of one batch, chunk by chunk.
pub(super) struct Unpacker<'a> {
    codec: Codec<'a>,
    chunk: Vec<u8>,
    at: usize,
    end: usize,
    produced: u64,
    cap: u64,
}

impl<'a> Unpacker<'a> {
    /// `compression` other than `None`; `cap` in bytes.
    pub(super) fn new(compression: Compression, bytes: &'a [u8], cap: u64) -> Result<Self, RecordFault> {
        let codec = match compression {
            Compression::None => return Err(RecordFault::payload("no codec")),
            Compression::Gzip => Codec::Gzip(Box::new(GzDecoder::new(bytes))),
            Compression::Snappy => Codec::Snappy(Snappy::new(bytes)?),
            Compression::Lz4 => Codec::Lz4(Lz4Frame::new(bytes)?),
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes).map_err(RecordFault::payload)?;
                decoder
                    .window_log_max(ZSTD_WINDOW_LOG_MAX)
                    .map_err(RecordFault::payload)?;
                Codec::Zstd(decoder)
            }
        };
        Ok(Self {
            codec,
            chunk: Vec::new(),
            at: 0,
            end: 0,
            produced: 0,
            cap,
        })
    }

    /// What is left of the current chunk, after decompressing the next one if it is used up; empty at the end.
    #[inline]
    pub(super) fn chunk(&mut self) -> Result<&[u8], RecordFault> {
        if self.at == self.end {
            self.refill()?;
        }
        Ok(&self.chunk[self.at..self.end])
    }

    /// Takes `n` bytes of [`Self::chunk`].
    #[inline]
    pub(super) fn take(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.at);
        self.at += n;
    }

    /// Bytes taken so far.
    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.produced - (self.end - self.at) as u64
    }

    fn refill(&mut self) -> Result<(), RecordFault> {
        (self.at, self.end) = (0, 0);
        let budget = self.cap - self.produced;
        let got = match &mut self.codec {
            Codec::Gzip(gzip) => {
                room(&mut self.chunk, CHUNK);
                let got = gzip.read(&mut self.chunk).map_err(RecordFault::payload)?;
                if got == 0 && !gzip.get_ref().is_empty() {
                    return Err(RecordFault::LeftOver);
                }
                got
            }
            Codec::Zstd(zstd) => {
                room(&mut self.chunk, CHUNK);
                zstd.read(&mut self.chunk).map_err(RecordFault::payload)?
            }
            Codec::Snappy(snappy) => snappy.next_block(&mut self.chunk, budget, self.cap)?,
            Codec::Lz4(lz4) => {
                let got = lz4.next_block(&mut self.chunk)?;
                if got == 0 && lz4.left() > 0 {
                    return Err(RecordFault::LeftOver);
                }
                got
            }
        };
        if got as u64 > budget {
            return Err(RecordFault::Expansion(self.cap));
        }
        self.produced += got as u64;
        self.end = got;
        Ok(())
    }
}
