//! What other rooms refuse, in the words of the language.

use super::super::error::ErrorKind;
use crate::broker::{AccessError, AppendError, PositionError};
use cluster::catalog::{CatalogError, CatalogFailure, Kind};
use cluster::range::ProposeError;

fn what(kind: Kind) -> &'static str {
    match kind {
        Kind::Namespace => "the namespace",
        Kind::Database => "the database",
        Kind::Topic => "the topic",
        Kind::User => "the user",
        Kind::Replica => "the replica",
    }
}

fn inside(kind: Kind, count: usize) -> &'static str {
    match (kind, count) {
        (Kind::Namespace, 1) => "namespace",
        (Kind::Namespace, _) => "namespaces",
        (Kind::Database, 1) => "database",
        (Kind::Database, _) => "databases",
        (Kind::Topic, 1) => "topic",
        (Kind::Topic, _) => "topics",
        (Kind::User, 1) => "user",
        (Kind::User, _) => "users",
        (Kind::Replica, 1) => "replica",
        (Kind::Replica, _) => "replicas",
    }
}

impl From<CatalogError> for ErrorKind {
    fn from(error: CatalogError) -> Self {
        match error {
            CatalogError::NameTaken { kind, name } => Self::NameTaken { what: what(kind), name },
            CatalogError::Unknown { kind, name } => Self::Unknown { what: what(kind), name },
            CatalogError::StillDepended {
                kind,
                name,
                count,
                inside: within,
                first,
            } => Self::StillDepended {
                what: what(kind),
                name,
                count,
                inside: inside(within, count),
                first,
            },
            CatalogError::LastGrant { name } => Self::LastGrant(name),
            CatalogError::LastOwner { name } => Self::LastOwner(name),
            CatalogError::OutsideTenancy { name } => Self::OutsideTenancy(name),
            CatalogError::BadName { .. } | CatalogError::InvalidPartitions { .. } | CatalogError::InvalidValue(_) => {
                Self::InvalidValue(error.to_string())
            }
            CatalogError::NodeTombstoned { node } => Self::NodeTombstoned(node.to_string()),
            CatalogError::AskerChanged => Self::Retry(error.to_string()),
            CatalogError::NotUnderstood(_) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<CatalogFailure> for ErrorKind {
    fn from(failure: CatalogFailure) -> Self {
        match failure {
            CatalogFailure::Refused(error) => error.into(),
            CatalogFailure::Range(error) => error.into(),
        }
    }
}

impl From<ProposeError> for ErrorKind {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::NotLeader { .. } | ProposeError::NoSpace => Self::Retry(error.to_string()),
            ProposeError::Unknown(why) => Self::OutcomeUnknown(why.to_owned()),
            ProposeError::Fatal(_) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<AppendError> for ErrorKind {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Propose(error) => error.into(),
            AppendError::Gone => Self::Retry(error.to_string()),
            // Only idempotent producers are answered these; a script is none.
            AppendError::OutOfOrderSequence { .. }
            | AppendError::InvalidProducerEpoch { .. }
            | AppendError::DuplicateSequence => Self::Internal(error.to_string()),
        }
    }
}

impl From<PositionError> for ErrorKind {
    fn from(error: PositionError) -> Self {
        match error {
            PositionError::Propose(error) => error.into(),
            PositionError::Moved | PositionError::NoNamespace => Self::Retry(error.to_string()),
        }
    }
}

impl From<AccessError> for ErrorKind {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::NotLeader => Self::Unavailable("the partition has no leader that answers".to_owned()),
            error @ (AccessError::FencedEpoch | AccessError::UnknownEpoch) => Self::Unavailable(error.to_string()),
            AccessError::Read(error) => Self::Internal(error.to_string()),
        }
    }
}
