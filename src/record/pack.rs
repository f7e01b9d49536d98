//! Compressing records, in the forms every client reads.

use super::header::Compression;
use std::io::{self, Write};

/// The two snappy forms clients write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnappyForm {
    /// One raw block.
    Raw,
    /// xerial's framing in chunks of 32 KiB.
    Xerial,
}

/// A codec could not compress: it was given more than it can take.
#[derive(Debug, thiserror::Error)]
#[error("compression failed: {0}")]
pub struct PackError(#[from] io::Error);

pub(super) fn pack(codec: Compression, snappy: SnappyForm, bytes: &[u8]) -> Result<Vec<u8>, PackError> {
    Ok(match codec {
        Compression::None => bytes.to_vec(),
        Compression::Gzip => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            out.write_all(bytes)?;
            out.finish()?
        }
        Compression::Snappy => pack_snappy(snappy, bytes).map_err(io::Error::other)?,
        Compression::Lz4 => {
            let info = lz4_flex::frame::FrameInfo::new()
                .block_mode(lz4_flex::frame::BlockMode::Independent)
                .block_size(lz4_flex::frame::BlockSize::Max64KB);
            let mut out = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
            out.write_all(bytes)?;
            out.finish().map_err(io::Error::other)?
        }
        Compression::Zstd => zstd::encode_all(bytes, 3)?,
    })
}

fn pack_snappy(form: SnappyForm, bytes: &[u8]) -> Result<Vec<u8>, snap::Error> {
    let mut encoder = snap::raw::Encoder::new();
    if form == SnappyForm::Raw {
        return encoder.compress_vec(bytes);
    }
    let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for chunk in bytes.chunks(32 << 10) {
        let block = encoder.compress_vec(chunk)?;
        out.extend_from_slice(&(block.len() as u32).to_be_bytes());
        out.extend_from_slice(&block);
    }
    Ok(out)
}
