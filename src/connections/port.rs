//! The listener of a port: accepts, limits, watches and stops connections. What is spoken on them is a [`Protocol`]'s.

use super::counts::{Counts, Reason};
use super::memory::Budget;
use super::pulse::{HURRY, Patience, Pulse};
use super::registry::{Full, Most, Registry};
use crate::tls::{Door, Stream, Unwelcome};
use futures::FutureExt;
use socket2::{SockRef, TcpKeepalive};
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time between two looks for connections that are idle or stuck.
const ROUND: Duration = Duration::from_secs(1);
/// Pause after a failed accept: the process is out of descriptors, and trying at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a port speaks, and what its connections share.
pub(crate) trait Protocol: Send + Sync + 'static {
    /// What the log calls one of its connections.
    const CONNECTION: &'static str;
    /// What the log adds where a client without TLS came to a port with it.
    const TLS_WANTED: Option<&'static str>;
    /// What a connection too many is told, where it can be.
    const FULL: &'static [u8];

    /// What is known of a connection.
    type Peer: Send + Sync;
    /// How one ends.
    type Ended: Display + Send;

    /// A connection that has a place now.
    fn meet(&self, remote: SocketAddr, local: SocketAddr) -> Self::Peer;

    /// Whether nobody is asked to sign in.
    fn is_open(&self) -> bool;

    /// Cancelled when the port stops: connections finish what is under way.
    fn stopping(&self) -> &CancellationToken;

    /// Serves a connection that was let in, until it ends.
    fn serve(
        self: Arc<Self>,
        stream: &mut Stream,
        peer: Arc<Self::Peer>,
        pulse: Arc<Pulse>,
    ) -> impl Future<Output = Self::Ended> + Send;

    /// How such an end is counted and told an operator; `None`: it is for debugging alone.
    fn reason(ended: &Self::Ended) -> Option<Reason>;
}

/// How many connections a port has, and how patient it is with them.
pub(crate) struct Rules {
    pub most: Most,
    /// A connection without a request for this long is closed.
    pub idle: Duration,
    /// One that stands still within a request or an answer.
    pub stall: Duration,
    /// From a connection's beginning to its sign-in.
    pub sign_in: Duration,
    /// What requests and answers hold.
    pub budget: Budget,
    /// Bytes of answers that the system holds for a client that has not taken them; `None`: as many as it likes.
    pub send_buffer: Option<usize>,
}

/// A running port. Dropping it closes the port and its connections.
pub(crate) struct Port {
    address: SocketAddr,
    registry: Arc<Registry>,
    counts: Arc<Counts>,
    connections: TaskTracker,
    accepting: JoinHandle<()>,
    watching: JoinHandle<()>,
    stopping: CancellationToken,
    closing: CancellationToken,
}

impl Port {
    /// Serves what connects to `listener` and comes in by `door`, and runs `watching` as long as it does. Within a tokio
    /// runtime.
    ///
    /// # Errors
    /// The listener has no address.
    pub(crate) fn open<P: Protocol>(
        listener: TcpListener,
        door: Door,
        protocol: Arc<P>,
        rules: Rules,
        watching: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let counts = Arc::new(Counts::default());
        let registry = Arc::new(Registry::new(rules.most, counts.clone()));
        let (stopping, closing) = (protocol.stopping().clone(), CancellationToken::new());
        let connections = TaskTracker::new();
        let accept = Accept {
            listener,
            door,
            protocol,
            rules,
            registry: registry.clone(),
            counts: counts.clone(),
            connections: connections.clone(),
            closing: closing.clone(),
        };
        Ok(Self {
            address,
            registry,
            counts,
            connections,
            accepting: tokio::spawn(accept.run()),
            watching: tokio::spawn(watching),
            stopping,
            closing,
        })
    }

    /// Where it listens.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Connections open now.
    pub(crate) fn connections(&self) -> usize {
        self.registry.count()
    }

    /// What `/metrics` shows of its connections; each name begins with `name`.
    pub(crate) fn collector(&self, name: &'static str) -> impl Fn(&mut String) + Send + Sync + use<> {
        let (registry, counts) = (self.registry.clone(), self.counts.clone());
        move |out| counts.print(name, &registry.summary(), out)
    }

    /// Stops accepting, tells the connections, waits for them for so long, and closes the rest.
    pub(crate) async fn stop(self, drain: Duration) {
        self.accepting.abort();
        self.connections.close();
        self.stopping.cancel();
        if tokio::time::timeout(drain, self.connections.wait()).await.is_err() {
            self.closing.cancel();
            self.connections.wait().await;
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.accepting.abort();
        self.watching.abort();
        self.stopping.cancel();
        self.closing.cancel();
    }
}

struct Accept<P> {
    listener: TcpListener,
    door: Door,
    protocol: Arc<P>,
    rules: Rules,
    registry: Arc<Registry>,
    counts: Arc<Counts>,
    connections: TaskTracker,
    closing: CancellationToken,
}

impl<P: Protocol> Accept<P> {
    async fn run(self) {
        let Rules {
            idle,
            stall,
            sign_in,
            ref budget,
            ..
        } = self.rules;
        let patience = || Patience {
            idle,
            stall,
            sign_in,
            pressed: budget.arriving.longest_wait().is_some(),
            answers_pressed: budget.answers.are_short(),
        };
        let shortest = idle.min(stall).min(sign_in);
        let mut round = tokio::time::interval(ROUND.min(shortest).max(Duration::from_millis(10)));
        round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, remote)) => self.welcome(stream, remote),
                    Err(error) => {
                        // Out of descriptors, or a connection gone before it was taken: neither ends the port.
                        self.registry
                            .complain(|more| tracing::warn!(%error, more, "no {} accepted", P::CONNECTION));
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                _ = round.tick() => {
                    self.registry.reap(patience());
                    if self.is_stuck() {
                        self.registry.relieve();
                    }
                }
            }
        }
    }

    /// Whether requests wait for memory that only others hold which arrive too; where whole ones hold all they may, it is
    /// the node that is slow.
    fn is_stuck(&self) -> bool {
        let waits = self.rules.budget.arriving.longest_wait();
        waits.is_some_and(|longest| longest > HURRY) && self.rules.budget.memory.longest_wait().is_none()
    }

    fn welcome(&self, stream: TcpStream, remote: SocketAddr) {
        let close = self.closing.child_token();
        let pulse = Arc::new(Pulse::new(!self.door.is_locked() && self.protocol.is_open()));
        let address = remote.ip().to_canonical();
        let entry = match Registry::enter(&self.registry, address, pulse.clone(), close.clone()) {
            Ok(entry) => entry,
            Err(full) => return self.turn_away(&stream, remote, full),
        };
        let local = match greet(&stream, self.rules.send_buffer) {
            Ok(local) => local,
            Err(error) => return tracing::debug!(%remote, %error, "a {} that broke at once", P::CONNECTION),
        };
        let visit = Visit {
            door: self.door.clone(),
            remote,
            peer: Arc::new(self.protocol.meet(remote, local)),
            protocol: self.protocol.clone(),
            counts: self.counts.clone(),
            pulse,
            close,
        };
        let registry = self.registry.clone();
        self.connections.spawn(async move {
            match AssertUnwindSafe(Box::pin(visit.serve(stream))).catch_unwind().await {
                Ok(farewell) => visit.log(&registry, farewell),
                // The panic's own message went to the panic hook.
                Err(_) => tracing::error!(%remote, "a request panicked; its {} is closed", P::CONNECTION),
            }
            drop(entry);
        });
    }

    /// One too many: it is told so, as far as the socket takes it at once.
    fn turn_away(&self, stream: &TcpStream, remote: SocketAddr, full: Full) {
        self.registry
            .complain(|more| tracing::warn!(%remote, more, "{} refused: {full}", P::CONNECTION));
        if !self.door.is_locked() && !P::FULL.is_empty() {
            let _ = stream.try_write(P::FULL);
        }
    }
}

/// One connection.
struct Visit<P: Protocol> {
    door: Door,
    remote: SocketAddr,
    protocol: Arc<P>,
    counts: Arc<Counts>,
    peer: Arc<P::Peer>,
    pulse: Arc<Pulse>,
    close: CancellationToken,
}

/// How a connection ended that was not told to close.
enum Farewell<E> {
    Unwelcome(Unwelcome),
    Ended(E),
}

impl<P: Protocol> Visit<P> {
    /// Lets the connection in and serves it; `None`: it was told to close.
    async fn serve(&self, stream: TcpStream) -> Option<Farewell<P::Ended>> {
        let mut stream = match self.unless_closed(self.door.open(stream)).await? {
            Ok(stream) => stream,
            Err(unwelcome) => return Some(Farewell::Unwelcome(unwelcome)),
        };
        if self.protocol.is_open() {
            self.pulse.admit();
        }
        let served = self
            .protocol
            .clone()
            .serve(&mut stream, self.peer.clone(), self.pulse.clone());
        let ended = self.unless_closed(Box::pin(served)).await;
        if let Stream::Right(encrypted) = &mut stream {
            crate::tls::say_goodbye(encrypted);
        }
        ended.map(Farewell::Ended)
    }

    async fn unless_closed<F: Future>(&self, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            () = self.close.cancelled() => None,
            output = future => Some(output),
        }
    }

    /// What an operator should know of is told, at most once a second; the rest is for debugging.
    fn log(&self, registry: &Registry, farewell: Option<Farewell<P::Ended>>) {
        let remote = self.remote;
        let tell = |why: Reason, wanted: Option<&str>, what: &dyn Display| {
            self.counts.closed(why);
            registry.complain(|more| tracing::warn!(%remote, more, wanted, "{} closed: {what}", P::CONNECTION));
        };
        match farewell {
            Some(Farewell::Unwelcome(Unwelcome::Gone)) | None => {
                tracing::debug!(%remote, "{} closed", P::CONNECTION);
            }
            Some(Farewell::Unwelcome(unwelcome)) => match unwelcome {
                Unwelcome::Slow => tell(Reason::SignInTime, None, &unwelcome),
                Unwelcome::PlainText(_) => tell(Reason::NoTls, P::TLS_WANTED, &unwelcome),
                Unwelcome::Handshake(_) | Unwelcome::Gone => tell(Reason::Handshake, None, &unwelcome),
            },
            Some(Farewell::Ended(ended)) => match P::reason(&ended) {
                Some(why) => tell(why, None, &ended),
                None => tracing::debug!(%remote, "{} closed: {ended}", P::CONNECTION),
            },
        }
    }
}

/// Readies the socket; where the client reached it.
fn greet(stream: &TcpStream, send_buffer: Option<usize>) -> io::Result<SocketAddr> {
    stream.set_nodelay(true)?;
    if let Some(bytes) = send_buffer {
        // Linux takes as much again for its own accounting.
        SockRef::from(stream).set_send_buffer_size(bytes)?;
    }
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(20))
        .with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
    stream.local_addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the system holds at most for a client, before and after it is greeted.
    async fn greeted(send_buffer: Option<usize>) -> (usize, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let holds = || SockRef::from(&stream).send_buffer_size().unwrap();
        let before = holds();
        greet(&stream, send_buffer).unwrap();
        (before, holds())
    }

    #[tokio::test]
    async fn the_system_holds_no_more_of_an_answer_than_it_was_told() {
        let bytes = 100 << 10;
        let (_, told) = greeted(Some(bytes)).await;
        // It may account for as much again.
        assert!((bytes..=2 * bytes).contains(&told), "{told}");
        let (before, after) = greeted(None).await;
        assert_eq!(before, after, "its own choice");
    }
}
