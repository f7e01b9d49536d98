//! Frames: a 32-bit length, then so many bytes.
//!
//! A frame takes memory twice: while it arrives, from a budget of its own, as its bytes come; and when it is whole, from
//! that of requests. So frames that never end can't keep out those that do: small ones don't touch the first budget, and
//! the reaper takes back from it what doesn't move, and what claims most when those that hold a part wait for more.

use super::pool::Pool;
use crate::connections::{Held, Memory, Pulse};
use bytes::{BufMut, Bytes};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};

/// What is read ahead at most: one system call then brings length and content of a small frame.
const AHEAD: usize = 8 << 10;
/// Memory a claimed length alone may take; more only as bytes arrive.
const TRUSTED: usize = 64 << 10;
/// What a connection that has sent larger frames is trusted with.
const MOST_TRUSTED: usize = 4 << 20;

/// Why no frame came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The client closed between two frames.
    #[error("closed by the client")]
    End,
    /// The client closed within a frame.
    #[error("closed by the client within a frame")]
    Cut,
    /// No frame has that length.
    #[error("a frame of {length} bytes where 1 to {limit} are taken{}", .hint.map(|h| format!(": {h}")).unwrap_or_default())]
    Length {
        /// The length claimed.
        length: i32,
        /// The limit.
        limit: usize,
        /// What the bytes look like.
        hint: Option<&'static str>,
    },
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A frame and the memory it holds.
pub(crate) struct Frame {
    /// What follows the length.
    pub bytes: Bytes,
    /// Given back when the request is answered.
    pub held: Held,
}

/// Reads the frames of one connection.
pub(crate) struct FrameReader {
    ahead: Vec<u8>,
    taken: usize,
    trusted: usize,
    /// Nothing was read yet.
    first: bool,
    pool: Arc<Pool>,
}

impl FrameReader {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self {
            ahead: Vec::new(),
            taken: 0,
            trusted: TRUSTED,
            first: true,
            pool,
        }
    }

    /// Bytes read ahead and not used.
    fn left(&self) -> usize {
        self.ahead.len() - self.taken
    }

    /// The next frame, of at most `limit` bytes: `arriving` is held while it comes, `whole` from then on.
    pub(crate) async fn next<R: AsyncRead + Unpin>(
        &mut self,
        source: &mut R,
        limit: usize,
        arriving: &Memory,
        whole: &Memory,
        pulse: &Pulse,
    ) -> Result<Frame, FrameError> {
        let prefix = self.length(source, pulse).await?;
        let length = i32::from_be_bytes(prefix);
        // With a high limit a ClientHello could pass for a length.
        let tls = std::mem::take(&mut self.first) && prefix.starts_with(&TLS);
        if length <= 0 || length as usize > limit || tls {
            let hint = hint(prefix);
            return Err(FrameError::Length { length, limit, hint });
        }
        let length = length as usize;
        let mut held = Held::default();
        if self.left() >= length {
            pulse.frame_waits();
            whole.grow(&mut held, length).await;
            let bytes = Bytes::copy_from_slice(&self.ahead[self.taken..self.taken + length]);
            self.taken += length;
            return Ok(Frame { bytes, held });
        }
        // What a connection sent before earns it trust, but not when memory is short.
        let trusted = if arriving.is_roomy() { self.trusted } else { TRUSTED };
        let mut room = length.min(trusted);
        let mut part = Held::default();
        pulse.frame_claims(length);
        pulse.frame_waits();
        arriving.grow(&mut part, room).await;
        let mut buffer = self.pool.take(room);
        // Less than the room, and than the frame, was read ahead.
        buffer.buffer().extend_from_slice(&self.ahead[self.taken..]);
        self.ahead.clear();
        self.taken = 0;
        loop {
            let have = buffer.buffer().len();
            if have == length {
                break;
            }
            if have == room {
                let more = length.min(room * 2);
                pulse.frame_waits();
                arriving.grow(&mut part, more - room).await;
                buffer.grow(more);
                room = more;
            }
            pulse.frame_moves();
            let got = source.read_buf(&mut buffer.buffer().limit(room - have)).await?;
            pulse.received(got);
            if got == 0 {
                return Err(FrameError::Cut);
            }
        }
        pulse.frame_waits();
        pulse.frame_claims(0);
        self.trusted = self.trusted.max(length.min(MOST_TRUSTED));
        whole.grow(&mut held, length).await;
        Ok(Frame {
            bytes: buffer.freeze(),
            held,
        })
    }

    async fn length<R: AsyncRead + Unpin>(&mut self, source: &mut R, pulse: &Pulse) -> Result<[u8; 4], FrameError> {
        while self.left() < 4 {
            self.ahead.drain(..self.taken);
            self.taken = 0;
            if self.ahead.is_empty() {
                pulse.frame_waits();
                // A connection that never spoke has no buffer.
                if self.ahead.capacity() == 0 {
                    let mut first = [0; 1];
                    if source.read(&mut first).await? == 0 {
                        return Err(FrameError::End);
                    }
                    pulse.received(1);
                    self.ahead.reserve_exact(AHEAD);
                    self.ahead.push(first[0]);
                    continue;
                }
            } else {
                pulse.frame_moves();
            }
            let room = AHEAD - self.ahead.len();
            let got = source.read_buf(&mut (&mut self.ahead).limit(room)).await?;
            pulse.received(got);
            if got == 0 {
                return Err(match self.ahead.is_empty() {
                    true => FrameError::End,
                    false => FrameError::Cut,
                });
            }
        }
        let at = self.taken;
        self.taken += 4;
        Ok([
            self.ahead[at],
            self.ahead[at + 1],
            self.ahead[at + 2],
            self.ahead[at + 3],
        ])
    }
}

/// How a TLS client begins: a handshake record of version 3 (RFC 8446, section 5.1).
const TLS: [u8; 2] = [0x16, 0x03];

/// What a senseless length looks like.
fn hint(prefix: [u8; 4]) -> Option<&'static str> {
    match &prefix {
        [0x16, 0x03, ..] => Some("a TLS client on a port without TLS"),
        b"GET " | b"POST" | b"PUT " | b"HEAD" | b"OPTI" | b"DELE" | b"PRI " => Some("an HTTP client on the Kafka port"),
        b"*1\r\n" | b"*2\r\n" | b"*3\r\n" => Some("a RESP client on the Kafka port"),
        _ => None,
    }
}

#[cfg(test)]
#[path = "frame_test.rs"]
mod tests;
