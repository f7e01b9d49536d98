//! Letting go, at every interval and for ranges led here: records that retention gives up, and what is left of topics whose
//! drop a crash or a lost range kept from being finished.

use super::Broker;
use crate::log::{Logs, Offset};
use cluster::catalog::State;
use cluster::ids::{PartitionId, RangeId, TopicId};
use std::collections::BTreeSet;
use std::sync::Weak;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// Partitions trimmed by one command.
const TRIMS: usize = 1000;

/// Segments in a topic's retention time and bytes, at least.
const ROLLS: u64 = 8;

/// Runs until stopped.
pub(super) async fn run(broker: Weak<Broker>, stop: CancellationToken) {
    let Some(interval) = broker.upgrade().map(|b| b.config.retention_interval) else {
        return;
    };
    let mut ticks = tokio::time::interval(interval.max(std::time::Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let Some(broker) = broker.upgrade() else { return };
        if stop.run_until_cancelled(broker.let_go(super::now_ms())).await.is_none() {
            return;
        }
    }
}

impl Broker {
    /// One round, at `now_ms`.
    pub(super) async fn let_go(&self, now_ms: i64) {
        let catalog = self.catalog.view();
        for (range, held) in self.ranges.led() {
            let mut topics = held.view.topics.lock().clone();
            topics.extend(held.view.positions.lock().topics());
            for topic in left_over(&catalog, topics) {
                self.drop_in_range(range, topic).await;
            }
            let (catalog, logs) = (catalog.clone(), self.logs.clone());
            // Looks into index files.
            let expired = cluster::threads::blocking(move || expired(&catalog, &logs, range, now_ms)).await;
            for trims in expired.unwrap_or_default().chunks(TRIMS) {
                if let Err(error) = self.trim(range, trims.to_vec()).await {
                    tracing::info!(%range, %error, "retention postponed");
                    break;
                }
            }
        }
    }
}

/// Topics of which something is held though the catalog has dropped them.
fn left_over(catalog: &State, held: BTreeSet<TopicId>) -> Vec<TopicId> {
    held.into_iter().filter(|topic| catalog.was_dropped(*topic)).collect()
}

/// The range's partitions whose log start retention moves, and where to.
fn expired(catalog: &State, logs: &Logs, range: RangeId, now_ms: i64) -> Vec<(PartitionId, Offset)> {
    let mut trims = Vec::new();
    for topic in catalog.topics() {
        if topic.retain_ms.is_none() && topic.retain_bytes.is_none() {
            continue;
        }
        for (index, _) in topic.partitions.iter().enumerate().filter(|(_, r)| **r == range) {
            let id = PartitionId {
                topic: topic.id,
                index: index as u32,
            };
            if let Some(log) = logs.get(id) {
                // Segments are let go whole: one that is still written must end before it outlives its records by far.
                log.roll_if(
                    now_ms,
                    topic.retain_ms.map(|ms| ms / ROLLS),
                    topic.retain_bytes.map(|bytes| bytes / ROLLS),
                );
                let to = log.retention_point(now_ms, topic.retain_ms, topic.retain_bytes);
                if to > log.log_start() {
                    trims.push((id, to));
                }
            }
        }
    }
    trims
}
