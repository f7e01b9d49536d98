//! The rows of the catalog.

use crate::ids::{DatabaseId, NamespaceId, NodeId, RangeId, TopicId, UserId};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acknowledge {
    /// Durable on a majority of the range's voters.
    #[default]
    Majority,
    /// Durable on the leader.
    Leader,
}

/// A namespace: the unit of replication, of acknowledgement and of group coordination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Namespace {
    /// Identity.
    pub id: NamespaceId,
    /// Name, an identifier.
    pub name: String,
    /// Replicas wanted; `None` means as many as there are members (one on a single node).
    pub replication: Option<u8>,
    /// When its writes are acknowledged.
    pub acknowledge: Acknowledge,
    /// The range whose leader coordinates the namespace's groups and holds its reader positions.
    pub home: RangeId,
}

/// A database within a namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Database {
    /// Identity.
    pub id: DatabaseId,
    /// The namespace it is in.
    pub namespace: NamespaceId,
    /// Name, an identifier.
    pub name: String,
}

/// One incarnation of a topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Topic {
    /// Identity of this incarnation.
    pub id: TopicId,
    /// The topic id Kafka clients see (KIP-516); never zero.
    pub uuid: Uuid,
    /// The namespace it is in.
    pub namespace: NamespaceId,
    /// The database it is in.
    pub database: DatabaseId,
    /// Namespace name, kept here so that a full name needs no look-up.
    pub namespace_name: String,
    /// Database name.
    pub database_name: String,
    /// Name, an identifier.
    pub name: String,
    /// The range of each partition, by partition number.
    pub partitions: Vec<RangeId>,
    /// The field by which TessariQL places messages.
    pub by: Option<String>,
    /// Messages older than this many milliseconds may go; `None` keeps them.
    pub retain_ms: Option<u64>,
    /// A partition's bytes beyond this may go; `None` keeps them.
    pub retain_bytes: Option<u64>,
    /// Largest batch accepted, in bytes as sent; `None` is the node's default.
    pub max_bytes: Option<u32>,
    /// Whether records carry the broker's append time (`message.timestamp.type`).
    pub log_append_time: bool,
    /// When it was declared, milliseconds since the epoch.
    pub created_ms: i64,
}

impl Topic {
    /// `<namespace>.<database>.<topic>`: the name Kafka clients use.
    pub fn full_name(&self) -> String {
        format!("{}.{}.{}", self.namespace_name, self.database_name, self.name)
    }
}

/// A data range: one Raft group of the pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RangeRow {
    /// Identity.
    pub id: RangeId,
    /// The voters it begins with, the same on every member that makes it. Empty once it has been given to others: from
    /// then on nobody may make it anew, or founders that lost it since could elect each other over an empty log.
    #[serde(default)]
    pub founders: Vec<NodeId>,
    /// Whether it was ever given to others than its founders.
    #[serde(default)]
    pub moved: bool,
    /// The members that are to hold it.
    pub voters: Vec<NodeId>,
    /// The member that should lead it, once somebody has chosen.
    #[serde(default)]
    pub leader: Option<NodeId>,
    /// The replication factor it was made for; `None`: as many replicas as members.
    #[serde(default)]
    pub replication: Option<u8>,
    /// Partitions placed on it, for even placement.
    pub partitions: u32,
    /// Namespaces that have it as their home.
    pub homes: u32,
}

impl RangeRow {
    /// The voters with which a member that has nothing of the range makes it; empty where it must wait for the leader.
    pub fn founders(&self) -> &[NodeId] {
        match (self.moved, self.founders.is_empty()) {
            (true, _) => &[],
            // Rows of versions that knew one member only.
            (false, true) => &self.voters,
            (false, false) => &self.founders,
        }
    }
}

/// Who may do what: a user of the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// Name, an identifier; unique over the whole store.
    pub name: String,
    /// Identity of this declaration; a user declared again under the same name has another.
    pub id: UserId,
    /// Where the role holds.
    pub scope: Scope,
    /// What the user may do there.
    pub role: Role,
    /// How the user signs in.
    pub hash: PasswordHash,
    /// Grows with each change of the password; who signed in with an earlier one is signed in no longer.
    pub credential: u64,
    /// What was granted, by topic.
    #[serde(default)]
    pub grants: OrdMap<TopicId, Privileges>,
    /// Set by the first grant and never unset: from then on the user has its grants and nothing of its role, also when
    /// the topics it was granted are dropped.
    #[serde(default)]
    pub granted: bool,
}

impl User {
    /// Whether the user may do everything in the whole store.
    pub fn owns_store(&self) -> bool {
        self.scope == Scope::Store && self.role == Role::Owner && !self.granted
    }
}

/// Where a user's role holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everywhere.
    Store,
    /// In one namespace.
    Namespace(NamespaceId),
    /// In one database.
    Database(DatabaseId),
}

/// What a user may do; each may do what the one before may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Writes and declares, too.
    Editor,
    /// Decides about users, too, and in the store about its members.
    Owner,
}

/// What a grant allows on its topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges {
    /// Reading.
    pub read: bool,
    /// Writing.
    pub write: bool,
}

impl Privileges {
    /// Whether nothing is allowed.
    pub fn is_empty(self) -> bool {
        !self.read && !self.write
    }
}

/// A password's hash in PHC form. Nothing of it is shown by `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(Arc<str>);

impl PasswordHash {
    /// Takes a hash as it is; whoever proposes it has checked it.
    pub fn new(phc: impl Into<Arc<str>>) -> Self {
        Self(phc.into())
    }

    /// The hash.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("********")
    }
}

/// Wrong passwords given for a name since the last right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongPasswords {
    /// How many.
    pub count: u32,
    /// When the last one was given, milliseconds since the epoch.
    pub last_ms: i64,
}
