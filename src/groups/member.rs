//! One member of a group, and what it tells about itself when it joins.

use bytes::Bytes;
use std::sync::Arc;

/// Names a request that waits for its answer; given by the caller, unique within the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Milliseconds on a clock that never goes back; its zero is the caller's.
pub type Millis = u64;

/// No time: never.
pub(super) const NEVER: Millis = Millis::MAX;

/// One way of assigning that a member supports, with what it tells the leader under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Its name, as `range` or `cooperative-sticky`.
    pub name: Arc<str>,
    /// Opaque to the coordinator, but for the topics of a consumer's subscription.
    pub metadata: Bytes,
}

/// A JoinGroup request.
#[derive(Clone, Debug)]
pub struct Join {
    /// The member id the client holds; empty for none.
    pub member_id: Arc<str>,
    /// The id to give to a member that holds none. Must be unique for ever.
    pub fresh_id: Arc<str>,
    /// The name of a static member (KIP-345).
    pub instance: Option<Arc<str>>,
    /// The client's id.
    pub client_id: Arc<str>,
    /// The client's address.
    pub client_host: Arc<str>,
    /// How long the member may be silent, milliseconds.
    pub session_timeout: u32,
    /// How long others wait for it to rejoin, milliseconds. Version 0 has none: give the session timeout.
    pub rebalance_timeout: u32,
    /// What the members have in common, as `consumer`.
    pub protocol_type: Arc<str>,
    /// In the member's order of preference.
    pub protocols: Vec<Protocol>,
    /// Version 4 and later: a member without an id is first given one (KIP-394).
    pub requires_known_id: bool,
    /// Version 9 and later: a leader can be told to skip the assignment (KIP-814).
    pub can_skip_assignment: bool,
}

/// A member, in the group from its JoinGroup on.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: Arc<str>,
    pub(super) instance: Option<Arc<str>>,
    pub(super) client_id: Arc<str>,
    pub(super) client_host: Arc<str>,
    pub(super) session_timeout: u32,
    pub(super) rebalance_timeout: u32,
    pub(super) protocols: Vec<Protocol>,
    pub(super) assignment: Bytes,
    /// Its JoinGroup that waits.
    pub(super) joining: Option<Ticket>,
    /// Its SyncGroup that waits.
    pub(super) syncing: Option<Ticket>,
    /// Whether it sent SyncGroup in this generation.
    pub(super) synced: bool,
    /// Whether it has not been answered its first JoinGroup: it can't send heartbeats, so its session may end meanwhile.
    pub(super) new: bool,
    /// When its session ends.
    pub(super) deadline: Millis,
}

impl Member {
    pub(super) fn new(id: Arc<str>, join: Join, ticket: Ticket) -> Self {
        Self {
            id,
            instance: join.instance,
            client_id: join.client_id,
            client_host: join.client_host,
            session_timeout: join.session_timeout,
            rebalance_timeout: join.rebalance_timeout,
            protocols: join.protocols,
            assignment: Bytes::new(),
            joining: Some(ticket),
            syncing: None,
            synced: false,
            new: true,
            deadline: NEVER,
        }
    }

    /// Bytes this member keeps in memory, about.
    pub(super) fn bytes(&self) -> usize {
        protocols_bytes(&self.protocols) + self.assignment.len() + MEMBER_BYTES
    }

    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        self.protocols
            .iter()
            .find(|p| &*p.name == protocol)
            .map(|p| p.metadata.clone())
            .unwrap_or_default()
    }
}

/// What a member takes beside its protocols and assignment: ids, map entries, parked answers.
pub(super) const MEMBER_BYTES: usize = 512;

pub(super) fn protocols_bytes(protocols: &[Protocol]) -> usize {
    protocols.iter().map(|p| p.name.len() + p.metadata.len() + 64).sum()
}
