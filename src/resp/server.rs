//! The listener: accepts, limits, watches and stops connections.

use super::call::{Peer, Shared};
use super::config::RespConfig;
use super::connection::{self, Ended};
use super::decode::Malformed;
use super::metrics::Metrics;
use super::watch::{self, Changes};
use crate::auth::Auth;
use crate::broker::Broker;
use crate::connections::{Budget, Counts, Full, HURRY, Most, Patience, Pulse, Reason, Registry};
use crate::names::Names;
use crate::ql::exec::Engine;
use crate::tls::{self, Door, Stream, Unwelcome};
use futures::FutureExt;
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time between two looks for connections that are idle or stuck.
const ROUND: Duration = Duration::from_secs(1);
/// Pause after a failed accept: the process is out of descriptors, and trying at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running RESP port. Dropping it closes the port and its connections.
pub struct RespServer {
    address: SocketAddr,
    pub(super) shared: Arc<Shared>,
    registry: Arc<Registry>,
    counts: Arc<Counts>,
    connections: TaskTracker,
    accepting: JoinHandle<()>,
    watching: JoinHandle<()>,
    closing: CancellationToken,
}

impl RespServer {
    /// Serves what connects to `listener` and comes in by `door`. Within a tokio runtime.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start(
        listener: TcpListener,
        door: Door,
        config: RespConfig,
        broker: Arc<Broker>,
        engine: Arc<Engine>,
        auth: Arc<Auth>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let most = Most {
            all: config.max_connections,
            per_address: config.max_connections_per_address(),
            newcomers: config.max_unauthenticated,
        };
        let counts = Arc::new(Counts::default());
        let registry = Arc::new(Registry::new(most, counts.clone()));
        let Budget {
            arriving,
            memory,
            answers,
        } = config.budget.clone();
        let shared = Arc::new(Shared {
            names: Names::new(config.database.clone()),
            broker,
            engine,
            auth,
            arriving,
            memory,
            answers,
            changes: Changes::new(),
            metrics: Metrics::new(),
            clients: AtomicU64::new(0),
            stopping: CancellationToken::new(),
            config,
        });
        let watching = tokio::spawn(watch::look_out(shared.clone()));
        let closing = CancellationToken::new();
        let connections = TaskTracker::new();
        let accept = Accept {
            listener,
            door,
            shared: shared.clone(),
            registry: registry.clone(),
            counts: counts.clone(),
            connections: connections.clone(),
            closing: closing.clone(),
        };
        Ok(Self {
            address,
            shared,
            registry,
            counts,
            connections,
            accepting: tokio::spawn(accept.run()),
            watching,
            closing,
        })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.registry.count()
    }

    /// What `/metrics` shows of the port.
    pub fn collector(&self) -> impl Fn(&mut String) + Send + Sync + 'static {
        let (registry, counts, shared) = (self.registry.clone(), self.counts.clone(), self.shared.clone());
        move |out| {
            counts.print("tessaridb_resp", &registry.summary(), out);
            shared.metrics.print(out);
        }
    }

    /// Stops accepting, lets commands under way finish for a moment (`RespConfig::drain`), and closes. Reads that wait are
    /// answered at once, with nothing.
    pub async fn stop(self) {
        self.accepting.abort();
        self.connections.close();
        self.shared.stopping.cancel();
        let drain = self.shared.config.drain;
        if tokio::time::timeout(drain, self.connections.wait()).await.is_err() {
            self.closing.cancel();
            self.connections.wait().await;
        }
    }
}

impl Drop for RespServer {
    fn drop(&mut self) {
        self.accepting.abort();
        self.watching.abort();
        self.shared.stopping.cancel();
        self.closing.cancel();
    }
}

struct Accept {
    listener: TcpListener,
    door: Door,
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    counts: Arc<Counts>,
    connections: TaskTracker,
    closing: CancellationToken,
}

impl Accept {
    async fn run(self) {
        let config = &self.shared.config;
        let patience = || Patience {
            idle: config.max_idle,
            stall: config.max_stall,
            sign_in: config.sign_in_time,
            pressed: self.shared.arriving.longest_wait().is_some(),
            answers_pressed: self.shared.answers.are_short(),
        };
        let shortest = config.max_idle.min(config.max_stall).min(config.sign_in_time);
        let mut round = tokio::time::interval(ROUND.min(shortest).max(Duration::from_millis(10)));
        round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, remote)) => self.welcome(stream, remote),
                    Err(error) => {
                        self.registry.complain(|more| tracing::warn!(%error, more, "no RESP connection accepted"));
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

    /// Whether commands wait for memory that only others hold which arrive too; where whole ones hold all they may, it is
    /// the node that is slow.
    fn is_stuck(&self) -> bool {
        let waits = self.shared.arriving.longest_wait();
        waits.is_some_and(|longest| longest > HURRY) && self.shared.memory.longest_wait().is_none()
    }

    fn welcome(&self, stream: TcpStream, remote: SocketAddr) {
        let close = self.closing.child_token();
        let pulse = Arc::new(Pulse::new(!self.door.is_locked() && self.shared.is_open()));
        let address = remote.ip().to_canonical();
        let entry = match Registry::enter(&self.registry, address, pulse.clone(), close.clone()) {
            Ok(entry) => entry,
            Err(full) => return self.turn_away(&stream, remote, full),
        };
        if let Err(error) = greet(&stream) {
            return tracing::debug!(%remote, %error, "a RESP connection that broke at once");
        }
        let visit = Visit {
            door: self.door.clone(),
            shared: self.shared.clone(),
            counts: self.counts.clone(),
            peer: Arc::new(Peer::new(remote, self.shared.answers.purse(address))),
            pulse,
            close,
        };
        let registry = self.registry.clone();
        self.connections.spawn(async move {
            match AssertUnwindSafe(Box::pin(visit.serve(stream))).catch_unwind().await {
                Ok(farewell) => log(&registry, &visit, farewell),
                // The panic's own message went to the panic hook.
                Err(_) => tracing::error!(%remote, "a command panicked; its connection is closed"),
            }
            drop(entry);
        });
    }

    /// One too many: it is told so, as far as the socket takes it at once.
    fn turn_away(&self, stream: &TcpStream, remote: SocketAddr, full: Full) {
        self.registry
            .complain(|more| tracing::warn!(%remote, more, "RESP connection refused: {full}"));
        if !self.door.is_locked() {
            let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
        }
    }
}

/// One connection.
struct Visit {
    door: Door,
    shared: Arc<Shared>,
    counts: Arc<Counts>,
    peer: Arc<Peer>,
    pulse: Arc<Pulse>,
    close: CancellationToken,
}

/// How a connection ended that was not told to close.
enum Farewell {
    Unwelcome(Unwelcome),
    Ended(Ended),
}

impl Visit {
    /// Lets the connection in and serves it; `None`: it was told to close.
    async fn serve(&self, stream: TcpStream) -> Option<Farewell> {
        let mut stream = match self.unless_closed(self.door.open(stream)).await? {
            Ok(stream) => stream,
            Err(unwelcome) => return Some(Farewell::Unwelcome(unwelcome)),
        };
        if self.shared.is_open() {
            self.pulse.admit();
        }
        let ended = match &mut stream {
            Stream::Left(plain) => {
                let (source, sink) = plain.split();
                self.talk(source, sink).await
            }
            Stream::Right(encrypted) => {
                let (source, sink) = tokio::io::split(&mut **encrypted);
                let ended = self.talk(source, sink).await;
                tls::say_goodbye(encrypted);
                ended
            }
        };
        ended.map(Farewell::Ended)
    }

    async fn talk<R, W>(&self, source: R, sink: W) -> Option<Ended>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send,
    {
        let (shared, peer, pulse) = (self.shared.clone(), self.peer.clone(), self.pulse.clone());
        self.unless_closed(Box::pin(connection::serve(source, sink, shared, peer, pulse)))
            .await
    }

    async fn unless_closed<F: Future>(&self, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            () = self.close.cancelled() => None,
            output = future => Some(output),
        }
    }
}

fn greet(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(20))
        .with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// What an operator should know of is told, at most once a second; the rest is for debugging.
fn log(registry: &Registry, visit: &Visit, farewell: Option<Farewell>) {
    let remote = visit.peer.remote;
    let tell = |why: Reason, what: &dyn std::fmt::Display| {
        visit.counts.closed(why);
        registry.complain(|more| tracing::warn!(%remote, more, "RESP connection closed: {what}"));
    };
    match farewell {
        Some(Farewell::Unwelcome(Unwelcome::Gone)) | None => tracing::debug!(%remote, "RESP connection closed"),
        Some(Farewell::Unwelcome(unwelcome)) => {
            let why = match &unwelcome {
                Unwelcome::Slow => Reason::SignInTime,
                Unwelcome::PlainText(_) => Reason::NoTls,
                Unwelcome::Handshake(_) | Unwelcome::Gone => Reason::Handshake,
            };
            tell(why, &unwelcome);
        }
        Some(Farewell::Ended(ended)) => match ended {
            Ended::Closed | Ended::Stopping | Ended::Io(_) | Ended::Revoked => {
                tracing::debug!(%remote, "RESP connection closed: {ended}");
            }
            Ended::Malformed(malformed @ (Malformed::Size(_) | Malformed::Arguments(_))) => {
                tell(Reason::Request, &malformed);
            }
            Ended::Malformed(malformed) => tell(Reason::Frame, &malformed),
        },
    }
}
