//! What a handler knows of the request it answers.

use super::config::KafkaConfig;
use super::endpoints::{Brokers, canonical};
use super::fetch_sessions::FetchSessions;
use super::memory::Memory;
use super::names::Names;
use super::pool::Pool;
use super::table::Api;
use crate::broker::Broker;
use crate::groups::Coordinator;
use cluster::catalog::{Catalog, State};
use cluster::ids::NodeId;
use kafka_protocol::protocol::StrBytes;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// What all connections of a node share.
pub(crate) struct Shared {
    /// The configuration.
    pub config: KafkaConfig,
    /// How topic names are read.
    pub names: Names,
    /// This node.
    pub node: NodeId,
    /// The store.
    pub broker: Arc<Broker>,
    /// The group coordinator.
    pub groups: Arc<Coordinator>,
    /// What requests may hold.
    pub memory: Memory,
    /// What answers may hold of records in memory.
    pub answers: Memory,
    /// Validating compressed batches: as many at a time as there are cores, so that it leaves the others their share.
    pub validators: Semaphore,
    /// Frame buffers.
    pub buffers: Arc<Pool>,
    /// Fetch sessions (KIP-227).
    pub sessions: FetchSessions,
    /// Cancelled when the node stops: nothing is waited for any more.
    pub stopping: CancellationToken,
}

impl Shared {
    /// The largest frame a connection may send now.
    pub(crate) fn frame_limit(&self, peer: &Peer) -> usize {
        if peer.trusted {
            self.config.max_frame
        } else {
            self.config.max_frame_before_sign_in
        }
    }
}

/// One client connection.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The client's address.
    pub remote: SocketAddr,
    /// The address the client reached.
    pub local: SocketAddr,
    /// Signed in, or on a port that asks for no sign-in.
    pub trusted: bool,
}

/// One request.
pub(crate) struct Call {
    /// The node.
    pub shared: Arc<Shared>,
    /// The connection it came on.
    pub peer: Arc<Peer>,
    /// Its row in the table.
    pub api: &'static Api,
    /// Version of the request, and of the answer.
    pub version: i16,
    /// Comes back in the answer.
    pub correlation: i32,
    /// What the client calls itself.
    pub client_id: Option<StrBytes>,
}

impl Call {
    /// The store.
    pub fn broker(&self) -> &Broker {
        &self.shared.broker
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        self.shared.broker.catalog()
    }

    /// What is declared now; take it once per request.
    pub fn view(&self) -> Arc<State> {
        self.catalog().view()
    }

    /// The client's host as group members show it: `/10.1.2.3`.
    pub fn client_host(&self) -> String {
        format!("/{}", canonical(self.peer.remote.ip()))
    }

    /// The brokers this client is told about.
    pub fn brokers(&self, state: &State) -> Brokers {
        let configured = self.shared.config.advertise.as_ref();
        Brokers::new(state, self.shared.node, configured, self.peer.local)
    }
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
