//! How a range's members reach each other, over the node's [`Peers`].
//!
//! ```text
//!   openraft, per range and member:
//!     replication --> session: one gRPC stream per range on the replication connection, many requests on their way
//!     heartbeat ----> pulse: the beats of all ranges on one stream of the urgent connection
//!     vote, hand-over --> calls on the urgent connection
//!     snapshot -----> one call on the bulk connection, then pieces of bulk data, asked for by the receiver
//! ```
//!
//! Ranges don't wait for each other: each session has its own flow control, answers of beats come in any order.

mod convert;
mod fetch;
mod pulse;
mod service;
mod session;
mod snapshot;

pub(super) use fetch::{Fetchers, Pace};
pub(super) use service::Service;

use super::{Raft, Types};
use crate::ids::{NodeId, RangeId};
use crate::machine::Bulk;
use crate::peer::proto::raft_client::RaftClient;
use crate::peer::{Class, PeerChannel, PeerError, Peers, proto};
use bytes::Bytes;
use openraft::alias::{SnapshotOf, VoteOf};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, stream_append_sequential};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{AnyError, EmptyNode, OptionalSend, RaftNetworkFactory, RaftNetworkV2};
use pulse::Pulses;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The longest message: an entry as long as may be, and what goes with it.
const MAX_MESSAGE: usize = crate::range::MAX_COMMAND + (2 << 20);

/// The network of a node. Without peers nobody can be reached.
#[derive(Clone)]
pub(super) struct Network {
    ways: Option<Ways>,
}

#[derive(Clone)]
struct Ways {
    peers: Peers,
    pulses: Arc<Pulses>,
}

impl Network {
    pub fn new(peers: Option<Peers>) -> Self {
        let ways = peers.map(|peers| Ways {
            pulses: Arc::new(Pulses::new(peers.clone())),
            peers,
        });
        Self { ways }
    }

    /// How a range fetches what snapshots leave out.
    pub fn fetchers(&self, range: RangeId, pace: Arc<Pace>, stop: CancellationToken) -> Fetchers {
        Fetchers {
            range,
            ways: self.ways.clone(),
            pace,
            stop,
        }
    }

    /// The network as one range uses it.
    /// `floor`: members that lack an entry up to this index are no longer sent the log.
    pub fn of(&self, range: RangeId, floor: watch::Receiver<u64>) -> Factory {
        Factory {
            range,
            floor,
            ways: self.ways.clone(),
        }
    }
}

/// Makes a range's clients.
pub(super) struct Factory {
    range: RangeId,
    floor: watch::Receiver<u64>,
    ways: Option<Ways>,
}

/// A range's way to one member.
pub(super) struct Client {
    range: RangeId,
    floor: watch::Receiver<u64>,
    target: NodeId,
    beats: bool,
    ways: Option<Ways>,
}

impl Factory {
    fn client(&self, target: NodeId, beats: bool) -> Client {
        Client {
            range: self.range,
            floor: self.floor.clone(),
            target,
            beats,
            ways: self.ways.clone(),
        }
    }
}

impl RaftNetworkFactory<Types> for Factory {
    type Network = Client;

    async fn new_client(&mut self, target: NodeId, _node: &EmptyNode) -> Client {
        self.client(target, false)
    }

    async fn new_heartbeat_client(&mut self, target: NodeId, _node: &EmptyNode) -> Client {
        self.client(target, true)
    }
}

/// Anything a peer does wrong makes openraft wait a little before it tries again.
fn unreachable(error: &PeerError) -> Unreachable<Types> {
    Unreachable::new(error)
}

fn garbled(error: &(impl std::error::Error + 'static)) -> NetworkError<Types> {
    NetworkError::new(error)
}

impl Client {
    fn ways(&self) -> Result<&Ways, Unreachable<Types>> {
        let none = || Unreachable::new(&AnyError::error(format!("no way to node {}", self.target)));
        self.ways.as_ref().ok_or_else(none)
    }

    fn grpc(&self, class: Class) -> Result<RaftClient<PeerChannel>, Unreachable<Types>> {
        let channel = self.ways()?.peers.channel(self.target, class);
        let client = RaftClient::new(channel.map_err(|error| unreachable(&error))?);
        Ok(client.max_encoding_message_size(MAX_MESSAGE))
    }
}

impl RaftNetworkV2<Types> for Client {
    type SnapshotData = Bytes;

    /// A beat: carries no entries.
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let request = convert::append_to(self.range, rpc).map_err(|error| garbled(&error))?;
        let answer = self.ways()?.pulses.beat(self.target, request).await;
        let answer = answer.map_err(|error| unreachable(&error))?;
        let result = convert::appended_from(answer).map_err(|status| garbled(&status))?;
        Ok(result.into())
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<Types>, RPCError<Types>>>, RPCError<Types>>>
    where
        S: futures::Stream<Item = AppendEntriesRequest<Types>> + OptionalSend + Unpin + 'static,
    {
        if self.beats {
            return stream_append_sequential(self, input, option);
        }
        Box::pin(async move {
            let client = self.grpc(Class::Replication)?;
            Ok(session::open(client, self.range, self.floor.clone(), input))
        })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let mut client = self.grpc(Class::Urgent)?;
        let request = convert::vote_request_to(self.range, &rpc);
        let answer = within(option, client.vote(request)).await?;
        Ok(convert::vote_response_from(answer).map_err(|status| garbled(&status))?)
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let mut client = self.grpc(Class::Urgent)?;
        let request = convert::vote_request_to(self.range, &rpc);
        let answer = within(option, client.pre_vote(request)).await?;
        Ok(convert::vote_response_from(answer).map_err(|status| garbled(&status))?)
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<Types>,
        snapshot: SnapshotOf<Types, Bytes>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let client = self.grpc(Class::Bulk)?;
        tokio::select! {
            sent = snapshot::send(client, self.range, vote, snapshot) => sent,
            closed = cancel => Err(closed.into()),
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let mut client = self.grpc(Class::Urgent)?;
        let request = proto::TransferRequest {
            range: self.range.0,
            from: Some(convert::vote_to(req.from_leader())),
            to: proto::node_bytes(*req.to_node_id()),
            last: convert::log_id_to(req.last_log_id().copied()),
        };
        let answer = within(option, client.transfer_leader(request)).await?;
        if !answer.refused.is_empty() {
            return Err(unreachable(&PeerError::Refused(answer.refused)).into());
        }
        Ok(Ok(()))
    }
}

/// An answer in openraft's time.
async fn within<T>(
    option: RPCOption,
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, RPCError<Types>> {
    let ttl = option.hard_ttl();
    match tokio::time::timeout(ttl, call).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(unreachable(&status.into()).into()),
        Err(_) => Err(unreachable(&PeerError::Unreachable(format!("no answer in {ttl:?}"))).into()),
    }
}

/// The replica of a range, where it runs on this node.
pub(super) trait Replicas: Send + Sync + 'static {
    /// Finds it.
    fn replica(&self, range: RangeId) -> Option<Raft>;

    /// Finds what gives others its bulk data.
    fn bulk(&self, range: RangeId) -> Option<Arc<dyn Bulk>>;
}
