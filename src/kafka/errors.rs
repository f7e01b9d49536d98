//! What each refusal of the rooms is called on the wire.
//!
//! A write whose outcome is not known is never UNKNOWN_SERVER_ERROR (-1): the Java client would drop the batch and shift
//! its sequences (KAFKA-14034). It is REQUEST_TIMED_OUT (7), which every producer retries.

use super::names::NameError;
use crate::broker::{AccessError, AppendError, DeleteError};
use crate::log::ReadError;
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
        CatalogError::StillDepended { .. } => ResponseError::InvalidRequest,
        CatalogError::BadName { .. } => ResponseError::InvalidTopicException,
        CatalogError::InvalidPartitions { .. } => ResponseError::InvalidPartitions,
        CatalogError::InvalidValue(_) => ResponseError::InvalidConfig,
        CatalogError::NotUnderstood(_) => ResponseError::UnsupportedVersion,
    }
}
