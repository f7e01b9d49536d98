//! Writing answers: small ones from one buffer, stored bytes by vectored write or by the kernel from the page cache.

use crate::connections::Pulse;
use crate::log::Piece;
use bytes::Buf;
use cluster::fs::File;
use std::future::Future;
use std::io::{self, IoSlice};
use std::sync::Arc;
#[cfg(target_os = "linux")]
use tokio::io::Interest;
use tokio::io::{AsyncWrite, AsyncWriteExt, WriteHalf};
use tokio::net::{TcpStream, tcp};
use tokio_rustls::server::TlsStream;

/// Slices of one vectored write.
const SLICES: usize = 64;
/// Bytes of one read where the kernel cannot send from the file.
const COPY: usize = 256 << 10;
#[cfg(target_os = "linux")]
/// Bytes of one sendfile call: one connection must not hold the thread for long.
const SEND: usize = 1 << 20;

/// A socket, or what wraps one.
pub(crate) trait Sink: AsyncWrite + Unpin + Send {
    /// Sends some of a file's bytes without copying them through this process; `None` where that can't be.
    fn send_file(
        &self,
        file: &Arc<dyn File>,
        position: u64,
        len: usize,
    ) -> impl Future<Output = io::Result<Option<usize>>> + Send;
}

impl Sink for tcp::WriteHalf<'_> {
    #[cfg(not(target_os = "linux"))]
    async fn send_file(&self, _file: &Arc<dyn File>, _position: u64, _len: usize) -> io::Result<Option<usize>> {
        Ok(None)
    }

    #[cfg(target_os = "linux")]
    async fn send_file(&self, file: &Arc<dyn File>, position: u64, len: usize) -> io::Result<Option<usize>> {
        let Some(from) = file.raw_fd() else { return Ok(None) };
        let len = len.min(SEND);
        // The kernel would wait for the disk on this thread, and all its connections with it.
        if !file.is_cached(position, len as u64) {
            let file = file.clone();
            let warm = move || file.warm(position, len as u64);
            tokio::task::spawn_blocking(warm).await.map_err(io::Error::other)?;
        }
        let stream: &TcpStream = self.as_ref();
        let to = std::os::fd::AsRawFd::as_raw_fd(stream);
        let sent = stream
            .async_io(Interest::WRITABLE, || {
                let mut offset = i64::try_from(position).map_err(io::Error::other)?;
                // SAFETY: both descriptors are open for the call: `file` owns one and `stream` the other.
                match unsafe { libc::sendfile(to, from, &mut offset, len) } {
                    n if n >= 0 => Ok(n as usize),
                    _ => Err(io::Error::last_os_error()),
                }
            })
            .await?;
        Ok(Some(sent))
    }
}

/// Under TLS each byte passes through the session, so files are read, a bounded piece at a time.
impl Sink for WriteHalf<&mut TlsStream<TcpStream>> {
    async fn send_file(&self, _file: &Arc<dyn File>, _position: u64, _len: usize) -> io::Result<Option<usize>> {
        Ok(None)
    }
}

/// Writes one buffer.
pub(crate) async fn whole<S: Sink>(sink: &mut S, mut bytes: impl Buf, pulse: &Pulse) -> io::Result<()> {
    all(sink, &mut bytes, pulse).await?;
    done(sink, pulse).await
}

async fn all<S: Sink>(sink: &mut S, bytes: &mut impl Buf, pulse: &Pulse) -> io::Result<()> {
    while bytes.has_remaining() {
        pulse.write_moves();
        match sink.write_buf(bytes).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => pulse.sent(n),
        }
    }
    Ok(())
}

/// An answer ends: what a TLS session holds back goes too.
async fn done<S: Sink>(sink: &mut S, pulse: &Pulse) -> io::Result<()> {
    sink.flush().await?;
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
    done(sink, pulse).await
}

async fn vectored<S: Sink>(sink: &mut S, mut slices: &mut [IoSlice<'_>], pulse: &Pulse) -> io::Result<()> {
    // Also drops empty slices in front.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        pulse.write_moves();
        match sink.write_vectored(slices).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => {
                pulse.sent(n);
                IoSlice::advance_slices(&mut slices, n);
            }
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
        let sent = match sink.send_file(file, position, len).await? {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(n) => {
                pulse.sent(n);
                n
            }
            None => {
                let (file, at, want) = (file.clone(), position, len.min(COPY));
                let read = move || {
                    let mut buffer = vec![0; want];
                    file.read_exact_at(&mut buffer, at).map(|()| buffer)
                };
                let buffer = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)??;
                all(sink, &mut &buffer[..], pulse).await?;
                want
            }
        };
        position += sent as u64;
        len -= sent;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use cluster::fs::{Disk, FileSystem, MemoryFs};
    use std::path::Path;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    /// Pieces of all kinds and sizes, and the bytes they stand for.
    fn mixed(file: &Arc<dyn File>, content: &[u8]) -> (Vec<Piece>, Vec<u8>) {
        let (mut all, mut expected) = (Vec::new(), Vec::new());
        for (n, (position, len)) in [(0, 1), (5, 0), (7, 3_000_000), (1 << 20, 100_000)]
            .into_iter()
            .enumerate()
        {
            for size in [0, 1, 5000 * n] {
                let bytes = Bytes::from(vec![n as u8 + 100; size]);
                expected.extend_from_slice(&bytes);
                all.push(Piece::Memory(bytes));
            }
            expected.extend_from_slice(&content[position..position + len]);
            all.push(Piece::File {
                file: file.clone(),
                position: position as u64,
                len,
            });
        }
        for n in 0..200u8 {
            all.push(Piece::Memory(Bytes::from(vec![n; 3])));
            expected.extend_from_slice(&[n; 3]);
        }
        (all, expected)
    }

    async fn round_trip(files: &dyn FileSystem, path: &Path) {
        let content: Vec<u8> = (0..4u32 << 20).map(|i| (i ^ (i >> 9)) as u8).collect();
        let file = files.create(path).unwrap();
        file.write_all_at(&content, 0).unwrap();
        let (sent, expected) = mixed(&file, &content);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let writing = tokio::spawn(async move {
            let (_, mut sink) = server.split();
            let pulse = Pulse::new(true);
            pieces(&mut sink, &sent, &pulse).await.unwrap();
        });
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        writing.await.unwrap();
        assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
    }

    #[tokio::test]
    async fn pieces_arrive_whole_from_a_disk() {
        let dir = tempfile::tempdir().unwrap();
        round_trip(&Disk, &dir.path().join("f")).await;
    }

    #[tokio::test]
    async fn pieces_arrive_whole_where_the_kernel_cannot_send() {
        let files = MemoryFs::new(7);
        round_trip(&files, Path::new("/f")).await;
    }

    #[tokio::test]
    async fn a_file_that_ends_early_ends_the_connection() {
        let dir = tempfile::tempdir().unwrap();
        let file = Disk.create(&dir.path().join("f")).unwrap();
        file.write_all_at(b"short", 0).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let (_, mut sink) = server.split();
        let piece = Piece::File {
            file,
            position: 0,
            len: 6,
        };
        let error = pieces(&mut sink, &[piece], &Pulse::new(true)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
