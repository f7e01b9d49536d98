//! The rows of the catalog.

use crate::ids::{BrokerId, DatabaseId, NamespaceId, NodeId, RangeId, TopicId};
use serde::{Deserialize, Serialize};
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
    /// The members that hold it.
    pub voters: Vec<NodeId>,
    /// Partitions placed on it, for even placement.
    pub partitions: u32,
    /// Namespaces that have it as their home.
    pub homes: u32,
}

/// A node that is part of the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Its node id.
    pub node: NodeId,
    /// Its number on the Kafka wire.
    pub broker: BrokerId,
}
