//! How a range's members reach each other.

use super::Types;
use crate::ids::NodeId;
use openraft::alias::{SnapshotOf, VoteOf};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse};
use openraft::{AnyError, EmptyNode, OptionalSend, RaftNetworkFactory, RaftNetworkV2};
use std::future::Future;

/// The network of a node that knows no other: nobody can be reached.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoPeers;

/// A client of a peer that cannot be reached.
pub(crate) struct NoPeer(NodeId);

impl NoPeer {
    fn unreachable(&self) -> Unreachable<Types> {
        Unreachable::new(&AnyError::error(format!("no way to node {}", self.0)))
    }
}

impl RaftNetworkFactory<Types> for NoPeers {
    type Network = NoPeer;

    async fn new_client(&mut self, target: NodeId, _node: &EmptyNode) -> NoPeer {
        NoPeer(target)
    }
}

impl RaftNetworkV2<Types> for NoPeer {
    type SnapshotData = ();

    async fn append_entries(
        &mut self,
        _rpc: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        Err(self.unreachable().into())
    }

    async fn vote(
        &mut self,
        _rpc: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Err(self.unreachable().into())
    }

    /// The default grants.
    async fn pre_vote(
        &mut self,
        _rpc: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Err(self.unreachable().into())
    }

    async fn full_snapshot(
        &mut self,
        _vote: VoteOf<Types>,
        _snapshot: SnapshotOf<Types, ()>,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        Err(self.unreachable().into())
    }
}
