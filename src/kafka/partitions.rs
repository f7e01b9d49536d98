//! What handlers ask of a partition before they touch it: does it exist, who leads it, is the client's epoch current.

use super::call::Call;
use super::endpoints::Brokers;
use cluster::catalog::{State, Topic};
use cluster::ids::{RangeId, SYSTEM_RANGE};
use cluster::routes::Table;
use kafka_protocol::ResponseError;
use std::sync::Arc;

/// A broker id that is none.
pub(crate) const NO_BROKER: i32 = -1;
/// An epoch that is none.
pub(crate) const NO_EPOCH: i32 = -1;

/// The number of an existing partition.
pub(crate) fn index(topic: &Topic, index: i32) -> Result<u32, ResponseError> {
    u32::try_from(index)
        .ok()
        .filter(|i| (*i as usize) < topic.partitions.len())
        .ok_or(ResponseError::UnknownTopicOrPartition)
}

/// Raft terms are leader epochs.
pub(crate) fn epoch(term: u64) -> i32 {
    i32::try_from(term).unwrap_or(i32::MAX)
}

/// Who leads, by range: asked once per range and request, not per partition.
pub(crate) struct Leaders<'a> {
    state: &'a State,
    table: Table,
    brokers: Brokers,
    known: Vec<(RangeId, Option<(i32, i32)>)>,
}

impl<'a> Leaders<'a> {
    pub(crate) fn new(call: &Call, state: &'a Arc<State>) -> Self {
        Self {
            state,
            table: call.broker().routes().with_state(state.clone()),
            brokers: call.brokers(state),
            known: Vec::new(),
        }
    }

    /// The brokers that the client is told about.
    pub(crate) fn brokers(&self) -> &Brokers {
        &self.brokers
    }

    /// (broker id, leader epoch) of a range as clients are told, where known. An epoch is told with its own leader only
    /// (one leader for ever).
    pub(crate) fn of(&mut self, range: RangeId) -> Option<(i32, i32)> {
        if let Some((_, known)) = self.known.iter().find(|(r, _)| *r == range) {
            return *known;
        }
        let known = self.table.range(range).and_then(|leader| {
            let shown = self.brokers.shown(self.state, leader.node, range)?;
            Some((shown.broker, epoch(leader.epoch)))
        });
        self.known.push((range, known));
        known
    }

    /// Broker ids of those that hold a range, as clients are told; `leader` is always among them, first.
    pub(crate) fn replicas(&self, range: RangeId, leader: i32) -> Vec<i32> {
        let mut brokers = vec![leader];
        let row = self.state.range(range);
        for voter in row.iter().flat_map(|row| &row.voters) {
            if let Some(shown) = self.brokers.shown(self.state, *voter, range)
                && !brokers.contains(&shown.broker)
            {
                brokers.push(shown.broker);
            }
        }
        brokers
    }

    /// The broker that takes declarations; anybody listed carries them there.
    pub(crate) fn controller(&mut self) -> i32 {
        let leader = self.of(SYSTEM_RANGE).map(|(broker, _)| broker);
        let anybody = || self.brokers.listed().first().map(|e| e.broker);
        leader.or_else(anybody).unwrap_or(NO_BROKER)
    }
}
