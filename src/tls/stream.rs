//! A client's connection, encrypted or not.

use futures::FutureExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// A connection that a [`super::Door`] opened: left in the clear, right under TLS, where what is written may stay in the
/// session until it is flushed.
pub type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Tells a client under TLS that no more comes (close_notify), as far as the socket takes it at once: it could not tell a
/// connection that just ends from one that was cut.
pub fn say_goodbye(stream: &mut TlsStream<TcpStream>) {
    let _ = stream.shutdown().now_or_never();
}
