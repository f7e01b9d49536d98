//! What handlers ask of a partition before they touch it: does it exist, who leads it, is the client's epoch current.

use super::call::Call;
use super::errors;
use cluster::catalog::{State, Topic};
use cluster::ids::RangeId;
use cluster::range::Leadership;
use kafka_protocol::ResponseError;
use std::sync::Arc;
use uuid::Uuid;

/// A broker id that is none.
pub(crate) const NO_BROKER: i32 = -1;
/// An epoch that is none.
pub(crate) const NO_EPOCH: i32 = -1;

/// The topic that a request names; which of the two counts depends on the version.
pub(crate) fn topic(
    call: &Call,
    state: &State,
    by_id: bool,
    name: &str,
    id: Uuid,
) -> Result<Arc<Topic>, ResponseError> {
    if by_id {
        state.topic_by_uuid(id).cloned().ok_or(ResponseError::UnknownTopicId)
    } else {
        call.shared.names.topic(state, name).cloned().map_err(errors::name)
    }
}

/// The number of an existing partition.
pub(crate) fn index(topic: &Topic, index: i32) -> Result<u32, ResponseError> {
    u32::try_from(index)
        .ok()
        .filter(|i| (*i as usize) < topic.partitions.len())
        .ok_or(ResponseError::UnknownTopicOrPartition)
}

/// KIP-320: whether the client knows the leader epoch that is current. -1: it does not say.
pub(crate) fn check_epoch(asked: i32, current: i32) -> Result<(), ResponseError> {
    if asked < 0 || asked == current {
        Ok(())
    } else if asked < current {
        Err(ResponseError::FencedLeaderEpoch)
    } else {
        Err(ResponseError::UnknownLeaderEpoch)
    }
}

/// Raft terms are leader epochs.
pub(crate) fn epoch(term: u64) -> i32 {
    i32::try_from(term).unwrap_or(i32::MAX)
}

/// Who leads, by range: asked once per range and request, not per partition.
pub(crate) struct Leaders<'a> {
    call: &'a Call,
    state: &'a State,
    known: Vec<(RangeId, Option<(i32, i32)>)>,
}

impl<'a> Leaders<'a> {
    pub(crate) fn new(call: &'a Call, state: &'a State) -> Self {
        Self {
            call,
            state,
            known: Vec::new(),
        }
    }

    /// (broker id, leader epoch) of a range, where known. An epoch is told with its own leader only (one leader for ever).
    pub(crate) fn of(&mut self, range: RangeId) -> Option<(i32, i32)> {
        if let Some((_, known)) = self.known.iter().find(|(r, _)| *r == range) {
            return *known;
        }
        let leadership = self.call.broker().leadership(range).map(|l| *l.borrow());
        let known = match leadership {
            Some(Leadership {
                leader: Some(node),
                term,
                ..
            }) => self.state.member(node).map(|m| (m.broker.0, epoch(term))),
            _ => None,
        };
        self.known.push((range, known));
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_below_are_fenced_and_above_unknown() {
        assert_eq!(check_epoch(-1, 4), Ok(()));
        assert_eq!(check_epoch(4, 4), Ok(()));
        assert_eq!(check_epoch(3, 4), Err(ResponseError::FencedLeaderEpoch));
        assert_eq!(check_epoch(5, 4), Err(ResponseError::UnknownLeaderEpoch));
    }
}
