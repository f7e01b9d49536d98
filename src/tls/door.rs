//! How a port opens its connections: in the clear, or after a handshake.

use super::Stream;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// First byte of a TLS record that begins a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// How a port opens its connections.
#[derive(Clone)]
pub struct Door {
    lock: Option<(TlsAcceptor, Duration)>,
}

/// Why a connection was not opened.
#[derive(Debug, thiserror::Error)]
pub enum Unwelcome {
    /// It doesn't begin as TLS does. The stream, for those who have an answer in plain text.
    #[error("a client without TLS on a port with TLS")]
    PlainText(TcpStream),
    /// The handshake failed; the client was sent an alert where there is one that says why.
    #[error("no TLS handshake: {0}")]
    Handshake(io::Error),
    /// No handshake in time.
    #[error("no TLS handshake in time")]
    Slow,
    /// It broke, or ended without a word.
    #[error("closed before a TLS handshake")]
    Gone,
}

impl Door {
    /// A port in the clear.
    pub fn plain() -> Self {
        Self { lock: None }
    }

    pub(super) fn locked(acceptor: TlsAcceptor, time: Duration) -> Self {
        Self {
            lock: Some((acceptor, time)),
        }
    }

    /// Whether connections are encrypted.
    pub fn is_locked(&self) -> bool {
        self.lock.is_some()
    }

    /// Opens an accepted connection; takes a handshake's time at most.
    ///
    /// # Errors
    /// The connection is to be closed.
    pub async fn open(&self, stream: TcpStream) -> Result<Stream, Unwelcome> {
        let Some((acceptor, time)) = &self.lock else {
            return Ok(Stream::Left(stream));
        };
        let handshake = Box::pin(handshake(acceptor, stream));
        tokio::time::timeout(*time, handshake)
            .await
            .unwrap_or(Err(Unwelcome::Slow))
    }
}

async fn handshake(acceptor: &TlsAcceptor, stream: TcpStream) -> Result<Stream, Unwelcome> {
    // Looked at before anything is built for the connection: silent ones cost a socket and a task.
    match first_byte(&stream).await {
        None => Err(Unwelcome::Gone),
        Some(HANDSHAKE) => match acceptor.accept(stream).await {
            Ok(stream) => Ok(Stream::Right(Box::new(stream))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Unwelcome::Gone),
            Err(error) => Err(Unwelcome::Handshake(error)),
        },
        Some(_) => Err(Unwelcome::PlainText(stream)),
    }
}

/// Whether a client begins as TLS does; waits for its first byte. `None`: it ended.
pub async fn speaks_tls(stream: &TcpStream) -> Option<bool> {
    first_byte(stream).await.map(|byte| byte == HANDSHAKE)
}

async fn first_byte(stream: &TcpStream) -> Option<u8> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(1..) => Some(first[0]),
        Ok(0) | Err(_) => None,
    }
}
