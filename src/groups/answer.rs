//! What a group answers, and why it refuses.

use super::member::Ticket;
use bytes::Bytes;
use std::sync::Arc;

/// Why a group request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Invalid: no such member; it joins anew.
    #[error("unknown member")]
    UnknownMember,
    /// Invalid: another generation is current.
    #[error("not the current generation")]
    IllegalGeneration,
    /// Rejected: the members are rejoining; so should this one.
    #[error("a rebalance is in progress")]
    RebalanceInProgress,
    /// Invalid: a newer member runs under the same instance name (KIP-345).
    #[error("fenced by a newer member of the same instance")]
    FencedInstance,
    /// Invalid: join again with the id given (KIP-394).
    #[error("a member id is required")]
    MemberIdRequired,
    /// Invalid: no protocol in common with the other members, or another protocol type.
    #[error("inconsistent group protocol")]
    InconsistentProtocol,
    /// Invalid: the session timeout is out of bounds.
    #[error("invalid session timeout")]
    InvalidSessionTimeout,
    /// Invalid: the group id is empty.
    #[error("invalid group id")]
    InvalidGroupId,
    /// Rejected: the group has as many members as it may have.
    #[error("the group is full")]
    GroupFull,
    /// Invalid: there is no such group.
    #[error("no such group")]
    UnknownGroup,
    /// Invalid: the group still has members.
    #[error("the group is not empty")]
    NonEmptyGroup,
    /// Rejected: another node coordinates the group.
    #[error("not the coordinator")]
    NotCoordinator,
    /// Rejected: this node is about to coordinate the group.
    #[error("the coordinator is loading")]
    CoordinatorLoading,
    /// Rejected or unknown: nobody coordinates the group now, or this node has no room for it.
    #[error("no coordinator is available")]
    CoordinatorNotAvailable,
    /// Invalid: the principal may not touch the group.
    #[error("not authorized for the group")]
    NotAuthorized,
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Its id.
    pub id: Arc<str>,
    /// Its static name.
    pub instance: Option<Arc<str>>,
    /// What it says under the chosen protocol.
    pub metadata: Bytes,
}

/// The answer to JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinAnswer {
    /// Why not.
    pub error: Option<Refusal>,
    /// The generation joined; -1 on an error.
    pub generation: i32,
    /// The group's protocol type.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol chosen.
    pub protocol: Option<Arc<str>>,
    /// Who assigns.
    pub leader: Arc<str>,
    /// The member's id.
    pub member_id: Arc<str>,
    /// All members, for the leader alone.
    pub members: Vec<JoinedMember>,
    /// The leader must not assign: the assignment stands (KIP-814).
    pub skip_assignment: bool,
}

impl JoinAnswer {
    /// A refusal, which names `member_id`.
    pub fn refused(error: Refusal, member_id: Arc<str>) -> Self {
        Self {
            error: Some(error),
            generation: -1,
            protocol_type: None,
            protocol: None,
            leader: Arc::from(""),
            member_id,
            members: Vec::new(),
            skip_assignment: false,
        }
    }
}

/// The answer to SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncAnswer {
    /// Why not.
    pub error: Option<Refusal>,
    /// The group's protocol type.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol chosen.
    pub protocol: Option<Arc<str>>,
    /// The member's share, as the leader wrote it.
    pub assignment: Bytes,
}

impl SyncAnswer {
    /// A refusal.
    pub fn refused(error: Refusal) -> Self {
        Self {
            error: Some(error),
            protocol_type: None,
            protocol: None,
            assignment: Bytes::new(),
        }
    }
}

/// One entry of LeaveGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The member's id; empty when an administrator removes a static member.
    pub member_id: Arc<str>,
    /// Its static name.
    pub instance: Option<Arc<str>>,
}

/// What a step asks to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Answer a JoinGroup.
    Joined(Ticket, JoinAnswer),
    /// Answer a SyncGroup.
    Synced(Ticket, SyncAnswer),
    /// Make it durable that this generation is taken, then call `Group::stored`; until then nobody is told an assignment.
    Store {
        /// The generation.
        generation: i32,
    },
}

/// Where a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// No members.
    Empty,
    /// Waiting for members to (re)join.
    PreparingRebalance,
    /// Joined; waiting for the leader's assignment.
    CompletingRebalance,
    /// Every member can have its assignment.
    Stable,
    /// There is no such group.
    Dead,
}

impl GroupState {
    /// The name Kafka's tools know.
    pub fn name(self) -> &'static str {
        match self {
            GroupState::Empty => "Empty",
            GroupState::PreparingRebalance => "PreparingRebalance",
            GroupState::CompletingRebalance => "CompletingRebalance",
            GroupState::Stable => "Stable",
            GroupState::Dead => "Dead",
        }
    }
}

/// A member as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    /// Its id.
    pub id: Arc<str>,
    /// Its static name.
    pub instance: Option<Arc<str>>,
    /// The client's id.
    pub client_id: Arc<str>,
    /// The client's address.
    pub client_host: Arc<str>,
    /// Its metadata under the chosen protocol; only of a stable group.
    pub metadata: Bytes,
    /// Its assignment.
    pub assignment: Bytes,
}

/// A group as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Where it stands.
    pub state: GroupState,
    /// Its protocol type; empty when it never had one.
    pub protocol_type: Arc<str>,
    /// The protocol chosen; only of a stable group, else empty.
    pub protocol: Arc<str>,
    /// Its members.
    pub members: Vec<DescribedMember>,
}
