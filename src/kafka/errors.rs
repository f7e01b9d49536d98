//! What each refusal of the rooms is called on the wire.
//!
//! A write whose outcome is not known is never UNKNOWN_SERVER_ERROR (-1): the Java client would drop the batch and shift
//! its sequences (KAFKA-14034). It is REQUEST_TIMED_OUT (7), which every producer retries.

use crate::broker::{AccessError, AppendError, DeleteError};
use crate::log::ReadError;
use crate::names::NameError;
use cluster::catalog::{CatalogError, CatalogFailure, Kind};
use cluster::range::ProposeError;
use kafka_protocol::ResponseError;

/// For a topic name.
pub(crate) fn name(error: NameError) -> ResponseError {
    match error {
        NameError::Invalid => ResponseError::InvalidTopicException,
        NameError::Unknown => ResponseError::UnknownTopicOrPartition,
    }
}

/// What a client is told beside a code that says nothing about names and rights.
pub(crate) fn sentence(error: ResponseError) -> String {
    match error {
        ResponseError::InvalidTopicException => NameError::Invalid.to_string(),
        ResponseError::UnknownTopicOrPartition => NameError::Unknown.to_string(),
        ResponseError::TopicAuthorizationFailed => "this user may not do this with this topic".to_owned(),
        ResponseError::ClusterAuthorizationFailed => "this user may not do this with the store".to_owned(),
        error => error.to_string(),
    }
}

/// For a proposal to a range that holds partitions.
pub(crate) fn propose(error: &ProposeError) -> ResponseError {
    match error {
        ProposeError::NotLeader { .. } => ResponseError::NotLeaderOrFollower,
        ProposeError::NoSpace => ResponseError::KafkaStorageError,
        ProposeError::Unknown(_) => ResponseError::RequestTimedOut,
        ProposeError::Fatal(_) => ResponseError::NotLeaderOrFollower,
    }
}

/// For an append.
pub(crate) fn append(error: &AppendError) -> ResponseError {
    match error {
        AppendError::Propose(e) => propose(e),
        AppendError::OutOfOrderSequence { .. } => ResponseError::OutOfOrderSequenceNumber,
        AppendError::InvalidProducerEpoch { .. } => ResponseError::InvalidProducerEpoch,
        // Kafka answers a repeat older than five batches with 45 (seen on 4.3.1).
        AppendError::DuplicateSequence => ResponseError::OutOfOrderSequenceNumber,
        AppendError::Gone => ResponseError::UnknownTopicOrPartition,
    }
}

/// For reading a partition.
pub(crate) fn access(error: &AccessError) -> ResponseError {
    match error {
        AccessError::NotLeader => ResponseError::NotLeaderOrFollower,
        AccessError::FencedEpoch => ResponseError::FencedLeaderEpoch,
        AccessError::UnknownEpoch => ResponseError::UnknownLeaderEpoch,
        AccessError::Read(ReadError::OutOfRange { .. }) => ResponseError::OffsetOutOfRange,
        AccessError::Read(ReadError::Storage { .. }) => ResponseError::KafkaStorageError,
    }
}

/// For deleting records.
pub(crate) fn delete(error: &DeleteError) -> ResponseError {
    match error {
        DeleteError::Access(e) => access(e),
        DeleteError::Propose(e) => propose(e),
    }
}

/// For a declaration.
pub(crate) fn catalog(error: &CatalogFailure) -> ResponseError {
    match error {
        CatalogFailure::Refused(e) => refused(e),
        CatalogFailure::Range(ProposeError::NotLeader { .. } | ProposeError::Fatal(_)) => ResponseError::NotController,
        CatalogFailure::Range(ProposeError::NoSpace) => ResponseError::KafkaStorageError,
        CatalogFailure::Range(ProposeError::Unknown(_)) => ResponseError::RequestTimedOut,
    }
}

fn refused(error: &CatalogError) -> ResponseError {
    match error {
        CatalogError::NameTaken { .. } => ResponseError::TopicAlreadyExists,
        CatalogError::Unknown { kind: Kind::Topic, .. } => ResponseError::UnknownTopicOrPartition,
        CatalogError::Unknown { .. } => ResponseError::InvalidTopicException,
        CatalogError::StillDepended { .. }
        // Users and grants are not declared over Kafka.
        | CatalogError::LastGrant { .. }
        | CatalogError::LastOwner { .. }
        | CatalogError::OutsideTenancy { .. } => ResponseError::InvalidRequest,
        CatalogError::BadName { .. } => ResponseError::InvalidTopicException,
        CatalogError::InvalidPartitions { .. } => ResponseError::InvalidPartitions,
        CatalogError::InvalidValue(_) => ResponseError::InvalidConfig,
        // No request of Kafka's changes members.
        CatalogError::NodeTombstoned { .. } => ResponseError::InvalidRequest,
        CatalogError::AskerChanged => ResponseError::ClusterAuthorizationFailed,
        CatalogError::NotUnderstood(_) => ResponseError::UnsupportedVersion,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::ids::RangeId;

    fn proposals() -> [(ProposeError, i16); 4] {
        let elsewhere = ProposeError::NotLeader {
            range: RangeId(1),
            leader: None,
        };
        [
            (elsewhere, 6),
            (ProposeError::NoSpace, 56),
            (ProposeError::Unknown("timed out"), 7),
            (ProposeError::Fatal("a sync failed".into()), 6),
        ]
    }

    #[test]
    fn proposals_to_partitions() {
        for (error, code) in proposals() {
            assert_eq!(propose(&error).code(), code, "{error}");
            assert_eq!(append(&error.clone().into()).code(), code, "{error}");
            assert_eq!(delete(&error.into()).code(), code);
        }
    }

    #[test]
    fn appends() {
        let cases = [
            (AppendError::OutOfOrderSequence { expected: 3, got: 5 }, 45),
            (AppendError::InvalidProducerEpoch { current: 2, got: 1 }, 47),
            (AppendError::DuplicateSequence, 45),
            (AppendError::Gone, 3),
        ];
        for (error, code) in cases {
            assert_eq!(append(&error).code(), code, "{error}");
        }
    }

    #[test]
    fn an_outcome_that_is_not_known_is_never_an_unknown_error() {
        for (error, _) in proposals() {
            for code in [propose(&error), catalog(&error.clone().into())] {
                assert!(code.code() > 0 && code.is_retriable(), "{error}: {code}");
            }
        }
    }

    #[test]
    fn reads() {
        let range = ReadError::OutOfRange {
            asked: 9,
            log_start: 0,
            log_end: 5,
        };
        let storage = ReadError::Storage {
            file: "f".into(),
            position: 7,
            why: "torn".into(),
        };
        for (error, code) in [
            (AccessError::NotLeader, 6),
            (AccessError::FencedEpoch, 74),
            (AccessError::UnknownEpoch, 75),
            (AccessError::Read(range), 1),
            (AccessError::Read(storage), 56),
        ] {
            assert_eq!(access(&error).code(), code, "{error}");
            assert_eq!(delete(&error.into()).code(), code);
        }
    }

    #[test]
    fn declarations() {
        let name = || "n".to_owned();
        let unknown = |kind| CatalogError::Unknown { kind, name: name() };
        let cases = [
            (
                CatalogError::NameTaken {
                    kind: Kind::Topic,
                    name: name(),
                },
                36,
            ),
            (unknown(Kind::Topic), 3),
            (unknown(Kind::Namespace), 17),
            (unknown(Kind::Database), 17),
            (CatalogError::BadName { name: name() }, 17),
            (CatalogError::InvalidPartitions { asked: 0, why: name() }, 37),
            (CatalogError::InvalidValue(name()), 40),
        ];
        for (error, code) in cases {
            assert_eq!(catalog(&error.clone().into()).code(), code, "{error}");
        }
        assert_eq!(super::name(NameError::Invalid).code(), 17);
        assert_eq!(super::name(NameError::Unknown).code(), 3);
    }
}
