//! The identities every room shares. None is ever reused.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A node's identity: 128 random bits made at first open, written as 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u128);

impl NodeId {
    /// A fresh random identity.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().as_u128())
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text was not 32 hex digits.
#[derive(Debug, thiserror::Error)]
#[error("a node id is 32 hex digits")]
pub struct InvalidNodeId;

impl FromStr for NodeId {
    type Err = InvalidNodeId;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if s.len() != 32 || !s.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(InvalidNodeId);
        }
        u128::from_str_radix(s, 16).map(Self).map_err(|_| InvalidNodeId)
    }
}

impl Serialize for NodeId {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id!(
    /// One Raft group. 0 is the system range; data ranges count from 1.
    RangeId(u32)
);
id!(
    /// A namespace.
    NamespaceId(u32)
);
id!(
    /// A database, unique over all namespaces.
    DatabaseId(u32)
);
id!(
    /// One incarnation of a topic, unique over all databases; a recreated topic has another.
    TopicId(u64)
);
id!(
    /// One declaration of a user; a user declared again under the same name has another.
    UserId(u64)
);
id!(
    /// The small number a member has on the Kafka wire.
    BrokerId(i32)
);

/// The range that holds the catalog.
pub const SYSTEM_RANGE: RangeId = RangeId(0);

/// One partition of one topic incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct PartitionId {
    /// The topic incarnation.
    pub topic: TopicId,
    /// Partition number within the topic, from 0.
    pub index: u32,
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.index)
    }
}
