//! The port: what its connections share, and how each is served.

use super::call::{Peer, Shared};
use super::config::RespConfig;
use super::connection::{self, Ended};
use super::decode::Malformed;
use super::metrics::Metrics;
use super::watch::{self, Changes};
use crate::auth::Auth;
use crate::broker::Broker;
use crate::connections::{Budget, Most, Port, Protocol, Pulse, Reason, Rules};
use crate::names::Names;
use crate::ql::exec::Engine;
use crate::tls::{Door, Stream};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A running RESP port. Dropping it closes the port and its connections.
pub struct RespServer {
    port: Port,
    pub(super) shared: Arc<Shared>,
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
        let rules = Rules {
            most: Most {
                all: config.max_connections,
                per_address: config.max_connections_per_address(),
                newcomers: config.max_unauthenticated,
            },
            idle: config.max_idle,
            stall: config.max_stall,
            sign_in: config.sign_in_time,
            budget: config.budget.clone(),
            send_buffer: config.send_buffer,
        };
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
        let watching = watch::look_out(shared.clone());
        Ok(Self {
            port: Port::open(listener, door, shared.clone(), rules, watching)?,
            shared,
        })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.port.local_addr()
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.port.connections()
    }

    /// What `/metrics` shows of the port.
    pub fn collector(&self) -> impl Fn(&mut String) + Send + Sync + 'static {
        let (connections, shared) = (self.port.collector("tessaridb_resp"), self.shared.clone());
        move |out| {
            connections(out);
            shared.metrics.print(out);
        }
    }

    /// Stops accepting, lets commands under way finish for a moment (`RespConfig::drain`), and closes. Reads that wait are
    /// answered at once, with nothing.
    pub async fn stop(self) {
        let Self { port, shared } = self;
        port.stop(shared.config.drain).await;
    }
}

impl Protocol for Shared {
    const CONNECTION: &'static str = "RESP connection";
    const TLS_WANTED: Option<&'static str> = None;
    const FULL: &'static [u8] = b"-ERR max number of clients reached\r\n";

    type Peer = Peer;
    type Ended = Ended;

    fn meet(&self, remote: SocketAddr, _local: SocketAddr) -> Peer {
        Peer::new(remote, self.answers.purse(remote.ip().to_canonical()))
    }

    fn is_open(&self) -> bool {
        Self::is_open(self)
    }

    fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    async fn serve(self: Arc<Self>, stream: &mut Stream, peer: Arc<Peer>, pulse: Arc<Pulse>) -> Ended {
        match stream {
            Stream::Left(plain) => {
                let (source, sink) = plain.split();
                connection::serve(source, sink, self, peer, pulse).await
            }
            Stream::Right(encrypted) => {
                let (source, sink) = tokio::io::split(&mut **encrypted);
                connection::serve(source, sink, self, peer, pulse).await
            }
        }
    }

    fn reason(ended: &Ended) -> Option<Reason> {
        match ended {
            Ended::Closed | Ended::Stopping | Ended::Io(_) | Ended::Revoked => None,
            Ended::Malformed(Malformed::Size(_) | Malformed::Arguments(_)) => Some(Reason::Request),
            Ended::Malformed(_) => Some(Reason::Frame),
        }
    }
}
