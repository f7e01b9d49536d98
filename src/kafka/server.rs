//! The port: what its connections share, and how each is served.

use super::call::{Peer, Shared};
use super::carry::Carried;
use super::config::KafkaConfig;
use super::connection::{self, Ended};
use super::fetch_sessions::FetchSessions;
use super::frame::FrameError;
use super::metrics::Metrics;
use super::pool::Pool;
use super::watch::{self, Watch};
use crate::auth::Auth;
use crate::broker::Broker;
use crate::connections::{Budget, Most, Port, Protocol, Pulse, Reason, Rules};
use crate::groups::Coordinator;
use crate::names::Names;
use crate::tls::{Door, Stream};
use cluster::ids::NodeId;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Bytes of free frame buffers kept.
const BUFFERS: usize = 64 << 20;

/// A running Kafka port. Dropping it closes the port and its connections.
pub struct KafkaServer {
    port: Port,
    shared: Arc<Shared>,
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
        let metrics = Arc::new(Metrics::new());
        let rules = Rules {
            most: Most {
                all: config.max_connections,
                per_address: config.max_connections_per_address,
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
        let (connections, metrics) = (self.port.collector("tessaridb_kafka"), self.shared.metrics.clone());
        move |out| {
            connections(out);
            metrics.print(out);
        }
    }

    /// Stops accepting, lets requests under way finish for a moment (`KafkaConfig::drain`), and closes.
    pub async fn stop(self) {
        let Self { port, shared } = self;
        let drain = shared.config.drain + Duration::from_secs(1);
        port.stop(drain).await;
    }
}

impl Protocol for Shared {
    const CONNECTION: &'static str = "connection";
    const TLS_WANTED: Option<&'static str> = Some("security.protocol must be SSL or SASL_SSL");
    const FULL: &'static [u8] = b"";

    type Peer = Peer;
    type Ended = Ended;

    fn meet(&self, remote: SocketAddr, local: SocketAddr) -> Peer {
        Peer::new(remote, local, self.config.session)
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
            Ended::Stopping | Ended::Write(_) | Ended::Frame(FrameError::End | FrameError::Cut | FrameError::Io(_)) => {
                None
            }
            Ended::Frame(_) => Some(Reason::Frame),
            Ended::Refused(_) => Some(Reason::Request),
        }
    }
}
