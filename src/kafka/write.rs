//! Writing answers: small ones from one buffer, stored bytes by vectored write or by the kernel from the page cache.

use super::pulse::Pulse;
use crate::log::Piece;
use bytes::Buf;
use cluster::fs::File;
use std::future::Future;
use std::io::{self, IoSlice};
use std::sync::Arc;
use tokio::io::{AsyncWrite, AsyncWriteExt, Interest};
use tokio::net::tcp;

/// Slices of one vectored write.
const SLICES: usize = 64;
/// Bytes of one read where the kernel cannot send from the file.
const COPY: usize = 256 << 10;
/// Bytes of one sendfile call: one connection must not hold the thread for long.
const SEND: usize = 1 << 20;

/// A socket, or what wraps one.
pub(crate) trait Sink: AsyncWrite + Unpin + Send {
    /// Sends some of a file's bytes without copying them through this process; `None` where that can't be.
    fn send_file(
        &self,
        file: &dyn File,
        position: u64,
        len: usize,
    ) -> impl Future<Output = io::Result<Option<usize>>> + Send;
}

impl Sink for tcp::WriteHalf<'_> {
    async fn send_file(&self, file: &dyn File, position: u64, len: usize) -> io::Result<Option<usize>> {
        let Some(from) = file.raw_fd() else { return Ok(None) };
        let stream: &tokio::net::TcpStream = self.as_ref();
        let to = std::os::fd::AsRawFd::as_raw_fd(stream);
        let sent = stream
            .async_io(Interest::WRITABLE, || {
                let mut offset = i64::try_from(position).map_err(io::Error::other)?;
                // SAFETY: both descriptors are open for the call: `file` owns one and `stream` the other.
                match unsafe { libc::sendfile(to, from, &mut offset, len.min(SEND)) } {
                    n if n >= 0 => Ok(n as usize),
                    _ => Err(io::Error::last_os_error()),
                }
            })
            .await?;
        Ok(Some(sent))
    }
}

/// Writes one buffer.
pub(crate) async fn whole<S: Sink>(sink: &mut S, mut bytes: impl Buf, pulse: &Pulse) -> io::Result<()> {
    while bytes.has_remaining() {
        pulse.write_moves();
        if sink.write_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    pulse.write_done();
    Ok(())
}

/// Writes pieces in order.
pub(crate) async fn pieces<S: Sink>(sink: &mut S, pieces: &[Piece], pulse: &Pulse) -> io::Result<()> {
    let mut rest = pieces;
    while let Some(first) = rest.first() {
        match first {
            Piece::Memory(_) => {
                let run = rest.iter().take(SLICES).take_while(|p| matches!(p, Piece::Memory(_)));
                let mut slices: smallvec::SmallVec<[IoSlice<'_>; SLICES]> = run
                    .filter_map(|p| match p {
                        Piece::Memory(bytes) => Some(IoSlice::new(bytes)),
                        Piece::File { .. } => None,
                    })
                    .collect();
                rest = &rest[slices.len()..];
                vectored(sink, &mut slices, pulse).await?;
            }
            Piece::File { file, position, len } => {
                rest = &rest[1..];
                send(sink, file, *position, *len, pulse).await?;
            }
        }
    }
    pulse.write_done();
    Ok(())
}

async fn vectored<S: Sink>(sink: &mut S, mut slices: &mut [IoSlice<'_>], pulse: &Pulse) -> io::Result<()> {
    // Also drops empty slices in front.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        pulse.write_moves();
        match sink.write_vectored(slices).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => IoSlice::advance_slices(&mut slices, n),
        }
    }
    Ok(())
}

async fn send<S: Sink>(
    sink: &mut S,
    file: &Arc<dyn File>,
    mut position: u64,
    mut len: usize,
    pulse: &Pulse,
) -> io::Result<()> {
    while len > 0 {
        pulse.write_moves();
        let sent = match sink.send_file(&**file, position, len).await? {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(n) => n,
            None => {
                let (file, at, want) = (file.clone(), position, len.min(COPY));
                let read = move || {
                    let mut buffer = vec![0; want];
                    file.read_exact_at(&mut buffer, at).map(|()| buffer)
                };
                let buffer = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)??;
                whole(sink, &buffer[..], pulse).await?;
                want
            }
        };
        position += sent as u64;
        len -= sent;
    }
    Ok(())
}
