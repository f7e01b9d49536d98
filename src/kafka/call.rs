//! What a handler knows of the request it answers.

use super::config::KafkaConfig;
use super::endpoints::{Endpoint, advertised, canonical};
use super::names::Names;
use crate::broker::Broker;
use crate::groups::Coordinator;
use cluster::catalog::{Catalog, State};
use cluster::ids::NodeId;
use kafka_protocol::protocol::StrBytes;
use std::net::SocketAddr;
use std::sync::Arc;

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
}

/// One client connection.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The client's address.
    pub remote: SocketAddr,
    /// The address the client reached.
    pub local: SocketAddr,
}

/// One request.
pub(crate) struct Call {
    /// The node.
    pub shared: Arc<Shared>,
    /// The connection it came on.
    pub peer: Arc<Peer>,
    /// Version of the request, and of the answer.
    pub version: i16,
    /// What the client calls itself.
    pub client_id: Option<StrBytes>,
}

impl Call {
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

    /// The brokers this client may be told about.
    pub fn endpoints(&self, state: &State) -> Vec<Endpoint> {
        let (host, port) = advertised(self.shared.config.advertise.as_ref(), self.peer.local);
        state
            .member(self.shared.node)
            .map(|member| Endpoint {
                broker: member.broker.0,
                host,
                port,
            })
            .into_iter()
            .collect()
    }
}
