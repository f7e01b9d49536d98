//! Answers, as clients take them: what a large one holds of the memory that the answers of all ports share, and when a
//! client that does not take it is given up.

use crate::connections::{Answers, Patience, Pulse, Purse, Room, Tired};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Time between two looks at a connection.
const ROUND: Duration = Duration::from_secs(1);

/// How a connection takes its answers; an extension of each of its requests.
#[derive(Clone)]
pub(super) struct Taker {
    answers: Arc<Answers>,
    pulse: Arc<Pulse>,
    purse: Arc<Purse>,
}

/// An answer's bytes, and what they hold.
struct Paid {
    bytes: Bytes,
    _room: Room,
}

impl AsRef<[u8]> for Paid {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Taker {
    pub(super) fn new(answers: &Arc<Answers>, address: IpAddr) -> Self {
        Self {
            answers: answers.clone(),
            pulse: Arc::new(Pulse::new(true)),
            purse: Arc::new(answers.purse(address.to_canonical())),
        }
    }

    /// Has an answer hold memory until it is written, waiting while others hold too much.
    pub(super) async fn pay(&self, response: Response) -> Response {
        let (parts, body) = response.into_parts();
        // It is in memory, so that it comes whole.
        let bytes = body
            .collect()
            .await
            .map_or_else(|_| Bytes::new(), |whole| whole.to_bytes());
        let mut room = Room::default();
        self.purse.grow(&mut room, bytes.len(), bytes.len()).await;
        self.pulse.write_holds(room.bytes());
        let paid = Paid { bytes, _room: room };
        Response::from_parts(parts, Body::from(Bytes::from_owner(paid)))
    }

    /// Resolves once the client took nothing for `stall`; sooner where others wait for the memory of its answer.
    pub(super) async fn gives_up(&self, stall: Duration) {
        let mut round = tokio::time::interval(ROUND.min(stall).max(Duration::from_millis(10)));
        loop {
            round.tick().await;
            let patience = Patience {
                idle: Duration::MAX,
                stall,
                sign_in: Duration::MAX,
                pressed: false,
                answers_pressed: self.answers.are_short(),
            };
            if self.pulse.tired(patience) == Some(Tired::SlowReader) {
                return;
            }
        }
    }

    /// The connection's stream, its writes told.
    pub(super) fn watch<S>(&self, stream: S) -> Watched<S> {
        Watched {
            stream,
            pulse: self.pulse.clone(),
            waits: false,
        }
    }
}

/// A stream that tells when it was last written to.
pub(super) struct Watched<S> {
    stream: S,
    pulse: Arc<Pulse>,
    /// The last write took nothing: being asked again moves nothing.
    waits: bool,
}

impl<S> Watched<S> {
    fn written(&mut self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.waits = polled.is_pending();
        let sent = ready!(polled)?;
        self.pulse.sent(sent);
        Poll::Ready(Ok(sent))
    }

    fn begins(&mut self) {
        if !self.waits {
            self.pulse.write_moves();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.begins();
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.begins();
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.written(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if !self.waits {
            self.pulse.write_done();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
