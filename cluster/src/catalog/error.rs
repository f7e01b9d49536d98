//! Why a declaration is refused. All are `Invalid` (the asker's fault) unless said otherwise.

use crate::ids::NodeId;
use crate::range::ProposeError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Kind {
    Namespace,
    Database,
    Topic,
    User,
    Replica,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Namespace => "namespace",
            Kind::Database => "database",
            Kind::Topic => "topic",
            Kind::User => "user",
            Kind::Replica => "replica",
        })
    }
}

/// A refusal; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatalogError {
    /// There is one already.
    #[error("{kind} {name} is already defined")]
    NameTaken {
        /// What.
        kind: Kind,
        /// Which.
        name: String,
    },
    /// There is none.
    #[error("{kind} {name} is not defined")]
    Unknown {
        /// What.
        kind: Kind,
        /// Which.
        name: String,
    },
    /// Something is inside; there is no cascade.
    #[error("{kind} {name} still holds {count} {inside}{}, {first} among them", if *count == 1 { "" } else { "s" })]
    StillDepended {
        /// What was to be dropped.
        kind: Kind,
        /// Which.
        name: String,
        /// How many are inside.
        count: usize,
        /// What is inside.
        inside: Kind,
        /// One of them.
        first: String,
    },
    /// Not an identifier.
    #[error("{name:?} is not a name: letters, digits and _ only, no digit first, at most 200 bytes")]
    BadName {
        /// The text.
        name: String,
    },
    /// The partition count is out of bounds or would shrink.
    #[error("{asked} partitions: {why}")]
    InvalidPartitions {
        /// The count asked for.
        asked: u32,
        /// Why not.
        why: String,
    },
    /// A revocation would leave the user without any grant.
    #[error("this is the last grant of {name}")]
    LastGrant {
        /// Whose.
        name: String,
    },
    /// Nobody would be left who may do everything in the store, though it has users.
    #[error("{name} is the last owner of the store")]
    LastOwner {
        /// Who.
        name: String,
    },
    /// A grant on a topic outside what the user is ON.
    #[error("this lies outside what {name} may reach")]
    OutsideTenancy {
        /// Who.
        name: String,
    },
    /// The node was dropped from the store, and may never come back.
    #[error("node {node} was dropped and cannot come back")]
    NodeTombstoned {
        /// The node.
        node: NodeId,
    },
    /// Whoever asked was dropped, or lost the rights, or the store got users, before the command was applied.
    #[error("whoever asked for this may do so no longer")]
    AskerChanged,
    /// A value out of bounds.
    #[error("{0}")]
    InvalidValue(String),
    /// A command of a newer version; `Rejected`.
    #[error("this node does not know the command: {0}")]
    NotUnderstood(String),
}

/// Why a proposal to the catalog brought no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogFailure {
    /// It was applied and refused.
    #[error(transparent)]
    Refused(#[from] CatalogError),
    /// It was not, or may not have been, applied.
    #[error(transparent)]
    Range(#[from] ProposeError),
}
