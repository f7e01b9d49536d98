//! The listener: accepts, limits, watches and stops connections.

use super::call::{Peer, Shared};
use super::carry::Carried;
use super::config::KafkaConfig;
use super::connection::{self, Ended};
use super::endpoints::canonical;
use super::fetch_sessions::FetchSessions;
use super::frame::FrameError;
use super::metrics::Metrics;
use super::pool::Pool;
use super::watch::{self, Watch};
use super::write::Sink;
use crate::auth::Auth;
use crate::broker::Broker;
use crate::connections::{Budget, Counts, HURRY, Most, Patience, Pulse, Reason, Registry};
use crate::groups::Coordinator;
use crate::names::Names;
use crate::tls::{self, Door, Stream, Unwelcome};
use cluster::ids::NodeId;
use futures::FutureExt;
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Bytes of free frame buffers kept.
const BUFFERS: usize = 64 << 20;
/// Time between two looks for connections that are idle or stuck.
const ROUND: Duration = Duration::from_secs(1);

/// A running Kafka port. Dropping it closes the port and its connections.
pub struct KafkaServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    counts: Arc<Counts>,
    connections: TaskTracker,
    accepting: JoinHandle<()>,
    watching: JoinHandle<()>,
    closing: CancellationToken,
}

impl KafkaServer {
    /// Serves what connects to `listener` and comes in by `door`.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start(
        listener: TcpListener,
        door: Door,
        config: KafkaConfig,
        node: NodeId,
        broker: Arc<Broker>,
        groups: Arc<Coordinator>,
        auth: Arc<Auth>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let metrics = Arc::new(Metrics::new());
        let most = Most {
            all: config.max_connections,
            per_address: config.max_connections_per_address,
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
            buffers: Pool::new(BUFFERS.min(arriving.budget())),
            arriving,
            memory,
            answers,
            metrics,
            validators: Semaphore::new(std::thread::available_parallelism().map_or(1, |n| n.get())),
            inflating: Semaphore::new(1),
            sessions: FetchSessions::new(config.fetch_sessions),
            stopping: CancellationToken::new(),
            node,
            broker,
            groups,
            auth,
            watch: Watch::new(),
            config,
        });
        let requests = Carried(Arc::downgrade(&shared));
        shared
            .broker
            .forward()
            .open(cluster::forward::Door::Requests, Arc::new(requests));
        let watching = tokio::spawn(watch::look_out(shared.clone()));
        let closing = CancellationToken::new();
        let connections = TaskTracker::new();
        let accepting = tokio::spawn(
            Accept {
                listener,
                door,
                shared: shared.clone(),
                registry: registry.clone(),
                counts: counts.clone(),
                connections: connections.clone(),
                closing: closing.clone(),
            }
            .run(),
        );
        Ok(Self {
            address,
            shared,
            registry,
            counts,
            connections,
            accepting,
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
        let (registry, counts, metrics) = (self.registry.clone(), self.counts.clone(), self.shared.metrics.clone());
        move |out| {
            counts.print("tessaridb_kafka", &registry.summary(), out);
            metrics.print(out);
        }
    }

    /// Stops accepting, lets requests under way finish for a moment (`KafkaConfig::drain`), and closes.
    pub async fn stop(self) {
        self.accepting.abort();
        self.connections.close();
        self.shared.stopping.cancel();
        let drain = self.shared.config.drain + Duration::from_secs(1);
        if tokio::time::timeout(drain, self.connections.wait()).await.is_err() {
            self.closing.cancel();
            self.connections.wait().await;
        }
    }
}

impl Drop for KafkaServer {
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
                        // Out of descriptors, or a connection gone before it was taken: neither ends the port.
                        self.registry.complain(|more| tracing::warn!(%error, more, "no connection accepted"));
                        tokio::time::sleep(Duration::from_millis(50)).await;
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

    /// Whether frames wait for memory that only others hold which arrive too; where whole requests hold all they may,
    /// it is the node that is slow.
    fn is_stuck(&self) -> bool {
        let waits = self.shared.arriving.longest_wait();
        waits.is_some_and(|longest| longest > HURRY) && self.shared.memory.longest_wait().is_none()
    }

    fn welcome(&self, stream: TcpStream, remote: SocketAddr) {
        let close = self.closing.child_token();
        let pulse = Arc::new(Pulse::new(!self.door.is_locked() && self.shared.is_open()));
        let entry = match Registry::enter(&self.registry, canonical(remote.ip()), pulse.clone(), close.clone()) {
            Ok(entry) => entry,
            Err(full) => {
                self.registry
                    .complain(|more| tracing::warn!(%remote, more, "connection refused: {full}"));
                return;
            }
        };
        let peer = match greet(&stream, remote, &self.shared.config) {
            Ok(peer) => Arc::new(peer),
            Err(error) => return tracing::debug!(%remote, %error, "a connection that broke at once"),
        };
        let visit = Visit {
            door: self.door.clone(),
            shared: self.shared.clone(),
            counts: self.counts.clone(),
            peer,
            pulse,
            close,
        };
        let registry = self.registry.clone();
        self.connections.spawn(async move {
            match AssertUnwindSafe(Box::pin(visit.serve(stream))).catch_unwind().await {
                Ok(farewell) => log(&registry, &visit, farewell),
                // The panic's own message went to the panic hook.
                Err(_) => tracing::error!(%remote, "a request panicked; its connection is closed"),
            }
            drop(entry);
        });
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

    async fn talk<R: AsyncRead + Unpin + Send, S: Sink>(&self, source: R, sink: S) -> Option<Ended> {
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

fn greet(stream: &TcpStream, remote: SocketAddr, config: &KafkaConfig) -> io::Result<Peer> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(20))
        .with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
    Ok(Peer::new(remote, stream.local_addr()?, config.session))
}

/// What an operator should know of is told, at most once a second; the rest is for debugging.
fn log(registry: &Registry, visit: &Visit, farewell: Option<Farewell>) {
    let remote = visit.peer.remote;
    let count = |why| visit.counts.closed(why);
    match farewell {
        Some(Farewell::Unwelcome(unwelcome)) => match unwelcome {
            Unwelcome::Gone => tracing::debug!(%remote, "connection closed"),
            Unwelcome::Slow => {
                count(Reason::SignInTime);
                registry.complain(|more| tracing::warn!(%remote, more, "connection closed: {unwelcome}"));
            }
            Unwelcome::Handshake(_) => {
                count(Reason::Handshake);
                registry.complain(|more| tracing::warn!(%remote, more, "connection closed: {unwelcome}"));
            }
            Unwelcome::PlainText(_) => {
                count(Reason::NoTls);
                let wanted = "security.protocol must be SSL or SASL_SSL";
                registry.complain(|more| tracing::warn!(%remote, more, wanted, "connection closed: {unwelcome}"));
            }
        },
        None
        | Some(Farewell::Ended(
            Ended::Stopping | Ended::Frame(FrameError::End | FrameError::Cut | FrameError::Io(_)),
        )) => {
            tracing::debug!(%remote, "connection closed");
        }
        Some(Farewell::Ended(Ended::Write(error))) => tracing::debug!(%remote, %error, "connection closed"),
        Some(Farewell::Ended(error)) => {
            count(match error {
                Ended::Frame(_) => Reason::Frame,
                _ => Reason::Request,
            });
            registry.complain(|more| tracing::warn!(%remote, more, "connection closed: {error}"));
        }
    }
}
