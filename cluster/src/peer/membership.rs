//! Hello: nodes get to know each other.

use super::dial::{PeerError, Peers};
use super::gate::{Gate, PROTOCOL_NEWEST, PROTOCOL_OLDEST};
use super::leadership::LeadershipFeed;
use super::proto::membership_client::MembershipClient;
use super::proto::membership_server::Membership;
use super::proto::{HelloReply, HelloRequest, LeadershipNews, WatchLeadershipRequest, node_bytes, node_id};
use crate::ids::NodeId;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::time::Duration;
use tonic::{Request, Response, Status};
use uuid::Uuid;

/// Hello must be answered in this time.
const HELLO: Duration = Duration::from_secs(3);

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Version of the peer protocol both speak.
    pub version: u32,
    /// Who it is.
    pub node: NodeId,
    /// The store it belongs to.
    pub store: Option<Uuid>,
    /// Its program's version.
    pub build: String,
    /// Whether it has declarations of its own, which it would lose in another store.
    pub occupied: bool,
}

impl Peers {
    /// Asks whoever listens at `address` (`host:port`) who it is. With `node`, anybody else refuses.
    pub async fn hello(&self, address: &str, node: Option<NodeId>) -> Result<Greeting, PeerError> {
        let mut client = MembershipClient::new(self.connection(address, node)?);
        let ask = client.hello(HelloRequest {
            oldest: PROTOCOL_OLDEST,
            newest: PROTOCOL_NEWEST,
            build: env!("CARGO_PKG_VERSION").into(),
        });
        let reply = tokio::time::timeout(HELLO, ask)
            .await
            .map_err(|_| PeerError::Unreachable(format!("{address} did not answer in {HELLO:?}")))??
            .into_inner();
        let store = match &reply.store[..] {
            [] => None,
            bytes => Some(Uuid::from_slice(bytes).map_err(|error| PeerError::Answer(error.to_string()))?),
        };
        Ok(Greeting {
            version: reply.version,
            node: node_id(&reply.node).map_err(|status| PeerError::Answer(status.message().into()))?,
            store,
            build: reply.build,
            occupied: reply.occupied,
        })
    }
}

/// The serving side.
pub(super) struct Service {
    pub gate: Gate,
    pub feed: LeadershipFeed,
}

#[tonic::async_trait]
impl Membership for Service {
    type WatchLeadershipStream = BoxStream<'static, Result<LeadershipNews, Status>>;

    async fn hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        let HelloRequest { oldest, newest, build } = request.into_inner();
        let version = newest.min(PROTOCOL_NEWEST);
        if version < oldest.max(PROTOCOL_OLDEST) {
            return Err(Status::failed_precondition(format!(
                "{build} speaks versions {oldest} to {newest} of the peer protocol, this node {PROTOCOL_OLDEST} to {PROTOCOL_NEWEST}"
            )));
        }
        let standing = self.gate.standing.borrow().clone();
        Ok(Response::new(HelloReply {
            version,
            node: node_bytes(self.gate.node),
            store: standing
                .store
                .map_or_else(Bytes::new, |store| Bytes::copy_from_slice(store.as_bytes())),
            build: env!("CARGO_PKG_VERSION").into(),
            occupied: standing.occupied,
        }))
    }

    async fn watch_leadership(
        &self,
        request: Request<WatchLeadershipRequest>,
    ) -> Result<Response<Self::WatchLeadershipStream>, Status> {
        // Hello's gate lets strangers in; this is for members.
        let mut gate = self.gate.clone();
        gate.strangers = false;
        let (metadata, _, _) = request.into_parts();
        let mut bare = Request::new(());
        *bare.metadata_mut() = metadata;
        tonic::service::Interceptor::call(&mut gate, bare)?;
        Ok(Response::new(self.feed.stream()))
    }
}
