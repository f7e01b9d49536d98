//! Connections: accepted, bounded, let in, and ended in good order.

use super::metrics::Reason;
use super::sign_in::Remote;
use super::taken::Taker;
use super::{Server, Shared, answer};
use crate::complaints::Complaints;
use crate::connections::Answers;
use crate::tls::{self, Door, Stream, Unwelcome};
use axum::{Extension, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How long a request's head may take to arrive, also on a connection kept open.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long requests under way are waited for when the node stops.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// Pause after a failed accept: the process is out of descriptors, and trying at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long, and how many bytes, of what a client sent are read and thrown away so that it gets to read why it is closed.
const LAST_WORDS: Duration = Duration::from_secs(1);
const LAST_BYTES: u64 = 64 * 1024;

impl Server {
    /// Answers connections until `stop`, then finishes requests under way, for ten seconds at most.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let front = Arc::new(Front {
            router: self.router(),
            shared: self.shared,
            door: self.door,
            answers: self.answers,
            stall: self.limits.stall,
            complaints: Complaints::default(),
        });
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(self.limits.connections.max(1)));
        // Three quarters for any one address, so that no single client takes the port from all others.
        let addresses = Addresses::of(self.limits.connections.saturating_mul(3).div_ceil(4));
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let (stream, remote) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    front
                        .complaints
                        .complain(|more| tracing::warn!(%error, more, "a connection was not accepted"));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (Ok(permit), Some(place)) = (room.clone().try_acquire_owned(), addresses.enter(remote.ip())) else {
                front.turn_away(&stream, remote);
                continue;
            };
            // Answers are small and asked for one at a time: don't hold them back.
            let _ = stream.set_nodelay(true);
            let visitor = front.clone();
            tokio::spawn(visitor.receive(stream, remote, graceful.watcher(), stop.clone(), (permit, place)));
        }
        drop(listener);
        if tokio::time::timeout(DRAIN_TIME, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests under way were cut off");
        }
    }
}

/// How many connections each address has.
#[derive(Clone)]
struct Addresses {
    most: usize,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One connection's place among its address's.
struct Place {
    addresses: Addresses,
    of: IpAddr,
}

impl Addresses {
    /// At least one for each address.
    fn of(most: usize) -> Self {
        Self {
            most: most.max(1),
            open: Arc::default(),
        }
    }

    fn enter(&self, of: IpAddr) -> Option<Place> {
        let mut open = self.open.lock();
        let count = open.entry(of).or_insert(0);
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Place {
            addresses: self.clone(),
            of,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.addresses.open.lock();
        if let Some(count) = open.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.of);
            }
        }
    }
}

/// What every connection needs.
struct Front {
    router: Router,
    shared: Arc<Shared>,
    door: Door,
    answers: Arc<Answers>,
    stall: Duration,
    complaints: Complaints,
}

impl Front {
    /// Lets a connection in and answers its requests; gives up before the first one when the node stops.
    async fn receive(
        self: Arc<Self>,
        stream: TcpStream,
        remote: SocketAddr,
        watcher: Watcher,
        stop: CancellationToken,
        room: (OwnedSemaphorePermit, Place),
    ) {
        let _counted = self.shared.metrics.connected();
        let opened = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            opened = self.open(stream, remote) => opened,
        };
        let Some(stream) = opened else { return };
        let taker = Taker::new(&self.answers, remote.ip());
        let router = self.router.clone();
        let router = router.layer(Extension(Remote(remote))).layer(Extension(taker.clone()));
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .serve_connection(TokioIo::new(taker.watch(stream)), TowerToHyperService::new(router));
        tokio::select! {
            biased;
            ended = watcher.watch(connection) => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
            }
            () = taker.gives_up(self.stall) => {
                self.shared.metrics.closed(Reason::SlowReader);
                self.complaints
                    .complain(|more| tracing::warn!(%remote, more, "HTTP connection closed: it takes no answers"));
            }
        }
        drop(room);
    }

    async fn open(&self, stream: TcpStream, remote: SocketAddr) -> Option<Stream> {
        let close = |why: Reason, what: &dyn std::fmt::Display| {
            self.shared.metrics.closed(why);
            self.complaints
                .complain(|more| tracing::warn!(%remote, more, "HTTP connection closed: {what}"));
            None
        };
        match self.door.open(stream).await {
            Ok(Stream::Left(plain)) => match tokio::time::timeout(HEAD_TIME, tls::speaks_tls(&plain)).await {
                Ok(Some(false)) => Some(Stream::Left(plain)),
                Ok(Some(true)) => close(Reason::TlsUnasked, &"a TLS client on a port without TLS"),
                // It ended, or said nothing.
                Ok(None) | Err(_) => None,
            },
            Ok(encrypted) => Some(encrypted),
            Err(Unwelcome::Gone) => None,
            Err(Unwelcome::PlainText(stream)) => {
                let told = message("400 Bad Request", "this port speaks TLS: ask it by https", "invalid");
                let _ = tokio::time::timeout(LAST_WORDS, tell(stream, &told)).await;
                close(Reason::NoTls, &"a client without TLS on a port with TLS")
            }
            Err(unwelcome) => close(Reason::Handshake, &unwelcome),
        }
    }

    /// One too many: it is told so, as far as the socket takes it at once.
    fn turn_away(&self, stream: &TcpStream, remote: SocketAddr) {
        self.shared.metrics.closed(Reason::Connections);
        self.complaints
            .complain(|more| tracing::warn!(%remote, more, "HTTP connection refused: too many are open"));
        if !self.door.is_locked() {
            let told = message(
                "503 Service Unavailable",
                "too many connections are open",
                "unavailable",
            );
            let _ = stream.try_write(told.as_bytes());
        }
    }
}

/// An answer outside of HTTP's own machinery, after which the connection is closed.
fn message(status: &str, error: &str, code: &str) -> String {
    let body = answer::failure_body(error, code);
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Writes, and reads what the client still sends: a socket closed with bytes unread takes the answer with it.
async fn tell(mut stream: TcpStream, told: &str) -> io::Result<()> {
    stream.write_all(told.as_bytes()).await?;
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(LAST_BYTES), &mut tokio::io::sink()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_room_for_others() {
        let addresses = Addresses::of(2);
        let (greedy, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let first = addresses.enter(greedy).unwrap();
        let _second = addresses.enter(greedy).unwrap();
        assert!(addresses.enter(greedy).is_none());
        let others = addresses.enter(other).unwrap();
        drop(first);
        assert!(addresses.enter(greedy).is_some());
        drop(others);
        assert_eq!(addresses.open.lock().len(), 1, "nothing is kept of who has left");
    }
}
