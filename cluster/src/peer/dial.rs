//! The calling side: addresses, connections, and what is told of failures.

use super::gate::{Introduce, Standing};
use crate::ids::NodeId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{broadcast, watch};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, ServerTlsConfig};
use tonic::{Code, Status};

/// A TCP connection, or a TLS handshake, that takes longer has failed.
const CONNECT: Duration = Duration::from_secs(2);
/// A connection on which a ping is not answered in this time is closed.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4));
/// Times between looks at whether a process is ending.
const ENDING: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(10),
    Duration::from_millis(30),
    Duration::from_millis(100),
];
/// Bytes that may be on their way unread: one stream's, and one connection's. A gigabit link of 100 ms holds 12 MiB.
pub(super) const WINDOWS: (u32, u32) = (16 << 20, 64 << 20);
/// Largest HTTP/2 frame taken.
pub(super) const FRAME: u32 = 256 << 10;

/// What a connection is for. Each class has its own, so that bulk delays no sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Heartbeats, votes, hand-overs and news: small, and late is wrong.
    Urgent,
    /// Entries of the ranges' logs.
    Replication,
    /// Snapshots and segments.
    Bulk,
    /// Clients' requests, carried to who must answer them.
    Forward,
}

/// A node's certificate and key, and the authority that vouches for all nodes of the store; all PEM.
#[derive(Clone)]
pub struct Credentials {
    /// The node's certificate (chain), for server and client use.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
    /// Certificates of the store's authority.
    pub authority: Vec<u8>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// How bytes travel between peers.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Mutual TLS. The server's certificate must be good for the host of the address that was dialled.
    Tls(Credentials),
    /// In the clear: for tests.
    #[cfg(any(test, feature = "testing"))]
    Plain,
    /// By no socket at all: for simulations.
    #[cfg(feature = "testing")]
    Carried(Arc<dyn super::Carrier>),
}

impl Transport {
    fn client(&self, host: &str) -> Option<ClientTlsConfig> {
        match self {
            Self::Tls(credentials) => Some(
                ClientTlsConfig::new()
                    .domain_name(host)
                    .ca_certificate(Certificate::from_pem(&credentials.authority))
                    .identity(Identity::from_pem(&credentials.certificate, &credentials.key))
                    .timeout(CONNECT),
            ),
            #[cfg(any(test, feature = "testing"))]
            Self::Plain => None,
            #[cfg(feature = "testing")]
            Self::Carried(_) => None,
        }
    }

    pub(super) fn server(&self) -> Option<ServerTlsConfig> {
        match self {
            Self::Tls(credentials) => Some(
                ServerTlsConfig::new()
                    .identity(Identity::from_pem(&credentials.certificate, &credentials.key))
                    .client_ca_root(Certificate::from_pem(&credentials.authority))
                    .client_auth_optional(false)
                    .timeout(CONNECT),
            ),
            #[cfg(any(test, feature = "testing"))]
            Self::Plain => None,
            #[cfg(feature = "testing")]
            Self::Carried(_) => None,
        }
    }
}

/// Why a peer did not answer as it should. What was asked may have been done, except by a refusal.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PeerError {
    /// Nobody told where the node is.
    #[error("no address of node {0}")]
    NoAddress(NodeId),
    /// The address is none.
    #[error("{address:?} is no address of a peer: {why}")]
    Address {
        /// What was told.
        address: String,
        /// What is wrong with it.
        why: String,
    },
    /// No connection, or it broke, or no answer came in time.
    #[error("the peer can't be reached: {0}")]
    Unreachable(String),
    /// Surely not done: the peer refuses this node (another store, another node, dropped, another version).
    #[error("the peer refuses: {0}")]
    Refused(String),
    /// The peer's answer makes no sense.
    #[error("the peer's answer can't be read: {0}")]
    Answer(String),
}

impl From<Status> for PeerError {
    fn from(status: Status) -> Self {
        let why = describe(&status);
        match status.code() {
            Code::FailedPrecondition | Code::PermissionDenied | Code::Unimplemented => Self::Refused(why),
            Code::InvalidArgument => Self::Answer(why),
            _ => Self::Unreachable(why),
        }
    }
}

/// A status and what is behind it, for people: the reasons of a failed connection lie deep.
fn describe(status: &Status) -> String {
    let mut text = status.message().to_string();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

/// A connection that introduces the node on each call.
pub(crate) type PeerChannel = InterceptedService<Line, Introduce>;

#[cfg(not(feature = "testing"))]
type Line = tonic::transport::Channel;
#[cfg(feature = "testing")]
type Line = super::carried::Line;

/// The node's connections to its peers. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Peers {
    inner: Arc<Inner>,
}

struct Inner {
    node: NodeId,
    transport: Transport,
    standing: watch::Receiver<Standing>,
    addresses: watch::Receiver<Arc<BTreeMap<NodeId, String>>>,
    links: Mutex<HashMap<(NodeId, Class), Link>>,
    returned: broadcast::Sender<NodeId>,
}

struct Link {
    address: String,
    channel: PeerChannel,
}

impl Peers {
    /// `addresses` says where each node listens for peers (`host:port`), and may change at any time.
    pub fn new(
        node: NodeId,
        transport: Transport,
        standing: watch::Receiver<Standing>,
        addresses: watch::Receiver<Arc<BTreeMap<NodeId, String>>>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                node,
                transport,
                standing,
                addresses,
                links: Mutex::default(),
                returned: broadcast::Sender::new(64),
            }),
        }
    }

    /// The node that calls.
    pub fn node(&self) -> NodeId {
        self.inner.node
    }

    /// The connection to a peer, made when it is first used and again after it broke.
    pub(crate) fn channel(&self, node: NodeId, class: Class) -> Result<PeerChannel, PeerError> {
        let inner = &*self.inner;
        let address = inner.addresses.borrow().get(&node).cloned();
        let address = address.ok_or(PeerError::NoAddress(node))?;
        let mut links = inner.links.lock();
        match links.get(&(node, class)) {
            Some(link) if link.address == address => Ok(link.channel.clone()),
            _ => {
                let channel = self.line(&address, Some(node), class)?;
                let link = Link {
                    address,
                    channel: channel.clone(),
                };
                links.insert((node, class), link);
                Ok(channel)
            }
        }
    }

    /// A connection to whoever listens at `address`; with `node`, one that only this node answers on.
    pub(crate) fn connection(&self, address: &str, node: Option<NodeId>) -> Result<PeerChannel, PeerError> {
        self.line(address, node, Class::Urgent)
    }

    #[cfg_attr(not(feature = "testing"), allow(unused_variables))]
    fn line(&self, address: &str, node: Option<NodeId>, class: Class) -> Result<PeerChannel, PeerError> {
        let introduce = Introduce {
            node: self.inner.node,
            to: node,
            standing: self.inner.standing.clone(),
        };
        #[cfg(feature = "testing")]
        if let Transport::Carried(carrier) = &self.inner.transport {
            let line = super::carried::Line::carried(carrier.clone(), self.inner.node, address, class);
            return Ok(InterceptedService::new(line, introduce));
        }
        let bad = |why: String| PeerError::Address {
            address: address.into(),
            why,
        };
        let (host, port) = address.rsplit_once(':').ok_or_else(|| bad("it has no port".into()))?;
        port.parse::<u16>().map_err(|_| bad("its port is none".into()))?;
        let host = host
            .strip_prefix('[')
            .map_or(host, |h| h.strip_suffix(']').unwrap_or(h));
        let tls = self.inner.transport.client(host);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
            .map_err(|error| bad(error.to_string()))?
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_frame_size(FRAME);
        if let Some(tls) = tls {
            endpoint = endpoint.tls_config(tls).map_err(|error| bad(error.to_string()))?;
        }
        let channel = endpoint.connect_lazy();
        #[cfg(feature = "testing")]
        let channel = super::carried::Line::from(channel);
        Ok(InterceptedService::new(channel, introduce))
    }

    /// Whether nobody listens where a peer should: the machine is there and says so, so the peer's process has ended. Asks a
    /// few times, as a process that is ending closes one thing after the other.
    pub(crate) async fn has_ended(&self, node: NodeId) -> bool {
        let Some(address) = self.inner.addresses.borrow().get(&node).cloned() else {
            return false;
        };
        for pause in ENDING {
            tokio::time::sleep(pause).await;
            match self.listens(&address).await {
                Some(false) => return true,
                Some(true) => {}
                // A machine or a network that is gone says nothing.
                None => return false,
            }
        }
        false
    }

    async fn listens(&self, address: &str) -> Option<bool> {
        #[cfg(feature = "testing")]
        if let Transport::Carried(carrier) = &self.inner.transport {
            return carrier.listens(self.inner.node, address);
        }
        match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await.ok()? {
            Ok(_) => Some(true),
            Err(error) => (error.kind() == ErrorKind::ConnectionRefused).then_some(false),
        }
    }

    /// Nodes that answer again after they did not.
    pub(crate) fn returned(&self) -> broadcast::Receiver<NodeId> {
        self.inner.returned.subscribe()
    }

    /// Says that a node answers again.
    pub(crate) fn has_returned(&self, node: NodeId) {
        // Nobody may be listening.
        let _ = self.inner.returned.send(node);
    }
}
