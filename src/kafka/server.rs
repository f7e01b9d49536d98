//! The listener: accepts, limits, watches and stops connections.

use super::call::{Peer, Shared};
use super::config::KafkaConfig;
use super::connection::{self, Ended};
use super::endpoints::canonical;
use super::fetch_sessions::FetchSessions;
use super::frame::FrameError;
use super::memory::Memory;
use super::names::Names;
use super::pool::Pool;
use super::pulse::{Patience, Pulse};
use super::registry::Registry;
use super::watch::{self, Watch};
use crate::auth::Auth;
use crate::broker::Broker;
use crate::groups::Coordinator;
use cluster::ids::NodeId;
use futures::FutureExt;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Bytes of free frame buffers kept.
const BUFFERS: usize = 64 << 20;
/// Time between two looks for connections that are idle or stuck.
const ROUND: Duration = Duration::from_secs(5);

/// A running Kafka port. Dropping it closes the port and its connections.
pub struct KafkaServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    connections: TaskTracker,
    accepting: JoinHandle<()>,
    watching: JoinHandle<()>,
    closing: CancellationToken,
}

impl KafkaServer {
    /// Serves what connects to `listener`.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start(
        listener: TcpListener,
        config: KafkaConfig,
        node: NodeId,
        broker: Arc<Broker>,
        groups: Arc<Coordinator>,
        auth: Arc<Auth>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let registry = Arc::new(Registry::new(
            config.max_connections,
            config.max_connections_per_address,
        ));
        let shared = Arc::new(Shared {
            names: Names::new(config.database.clone()),
            memory: Memory::new(config.request_memory.max(config.max_frame)),
            answers: Memory::new(config.request_memory),
            validators: Semaphore::new(std::thread::available_parallelism().map_or(1, |n| n.get())),
            buffers: Pool::new(BUFFERS.min(config.request_memory)),
            sessions: FetchSessions::new(config.fetch_sessions),
            stopping: CancellationToken::new(),
            node,
            broker,
            groups,
            auth,
            watch: Watch::new(),
            config,
        });
        let watching = tokio::spawn(watch::look_out(shared.clone()));
        let closing = CancellationToken::new();
        let connections = TaskTracker::new();
        let accepting = tokio::spawn(
            Accept {
                listener,
                shared: shared.clone(),
                registry: registry.clone(),
                connections: connections.clone(),
                closing: closing.clone(),
            }
            .run(),
        );
        Ok(Self {
            address,
            shared,
            registry,
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
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    connections: TaskTracker,
    closing: CancellationToken,
}

impl Accept {
    async fn run(self) {
        let patience = Patience {
            idle: self.shared.config.max_idle,
            stall: self.shared.config.max_stall,
        };
        let mut round = tokio::time::interval(
            ROUND
                .min(patience.stall)
                .min(patience.idle)
                .max(Duration::from_millis(10)),
        );
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
                _ = round.tick() => self.registry.reap(patience),
            }
        }
    }

    fn welcome(&self, stream: TcpStream, remote: SocketAddr) {
        let close = self.closing.child_token();
        let pulse = Arc::new(Pulse::new());
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
        let shared = self.shared.clone();
        let registry = self.registry.clone();
        self.connections.spawn(async move {
            let serve = one(stream, shared, peer, pulse, close);
            match AssertUnwindSafe(Box::pin(serve)).catch_unwind().await {
                Ok(ended) => log(&registry, remote, ended),
                // The panic's own message went to the panic hook.
                Err(_) => tracing::error!(%remote, "a request panicked; its connection is closed"),
            }
            drop(entry);
        });
    }
}

async fn one(
    mut stream: TcpStream,
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    pulse: Arc<Pulse>,
    close: CancellationToken,
) -> Option<Ended> {
    let (source, sink) = stream.split();
    tokio::select! {
        biased;
        () = close.cancelled() => None,
        ended = connection::serve(source, sink, shared, peer, pulse) => Some(ended),
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
fn log(registry: &Registry, remote: SocketAddr, ended: Option<Ended>) {
    match ended {
        None | Some(Ended::Stopping | Ended::Frame(FrameError::End | FrameError::Cut | FrameError::Io(_))) => {
            tracing::debug!(%remote, "connection closed");
        }
        Some(Ended::Write(error)) => tracing::debug!(%remote, %error, "connection closed"),
        Some(error) => registry.complain(|more| tracing::warn!(%remote, more, "connection closed: {error}")),
    }
}
