//! What is done to whole topics and to log starts, and producer ids.

use super::command::{Command, read_dropped, read_trimmed};
use super::{AccessError, Broker, DeleteError, Look};
use crate::log::{Offset, ReadError};
use cluster::catalog::{CatalogFailure, Reply, Topic};
use cluster::ids::{PartitionId, RangeId, TopicId};
use cluster::range::ProposeError;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Producer ids taken from the catalog at once.
const PRODUCER_ID_BLOCK: u32 = 1000;

impl Broker {
    /// Moves the log start up to `to` (`None`: the high watermark) and answers the new log start.
    /// Above the high watermark: `ReadError::OutOfRange`.
    pub async fn delete_records(
        self: &Arc<Self>,
        topic: &Arc<Topic>,
        index: u32,
        to: Option<Offset>,
    ) -> Result<Offset, DeleteError> {
        let marks = self.look_into(topic, index, Look::Marks).await?.marks;
        let to = to.unwrap_or(marks.high_watermark);
        if to < 0 || to > marks.high_watermark {
            return Err(DeleteError::Access(AccessError::Read(ReadError::OutOfRange {
                asked: to,
                log_start: marks.log_start,
                log_end: marks.log_end,
            })));
        }
        let range = topic.partitions.get(index as usize).ok_or(AccessError::NotLeader)?;
        let partition = PartitionId { topic: topic.id, index };
        let log_starts = self.trim(*range, vec![(partition, to)]).await?;
        match log_starts.first() {
            Some(Some(log_start)) => Ok(*log_start),
            _ => Err(DeleteError::Access(AccessError::NotLeader)),
        }
    }

    /// Moves log starts of a range up; answers each log start, `None` for a partition that is gone.
    pub(super) async fn trim(
        &self,
        range: RangeId,
        trims: Vec<(PartitionId, Offset)>,
    ) -> Result<Vec<Option<Offset>>, ProposeError> {
        let count = trims.len();
        let answer = self.propose(range, &Command::TrimLogStart(trims)).await?;
        read_trimmed(&answer, count).map_err(|_| ProposeError::Unknown("the range's answer cannot be read"))
    }

    /// A producer id that nobody else gets, out of a block from the catalog.
    pub async fn producer_id(&self) -> Result<i64, ProposeError> {
        let mut block = self.producer_ids.lock().await;
        if block.is_empty() {
            let command = cluster::catalog::Command::AllocateProducerIds {
                count: PRODUCER_ID_BLOCK,
            };
            let first = match self.catalog.propose(command).await {
                Ok(Reply::ProducerIds(first)) => first,
                Ok(_) => return Err(ProposeError::Unknown("the catalog's answer makes no sense")),
                Err(CatalogFailure::Range(error)) => return Err(error),
                Err(CatalogFailure::Refused(why)) => return Err(ProposeError::Fatal(why.to_string())),
            };
            *block = first..first.saturating_add(i64::from(PRODUCER_ID_BLOCK));
        }
        block.next().ok_or(ProposeError::Unknown("no producer id is left"))
    }

    /// Drops a topic: the catalog row first, then its data and positions in the ranges. A range that can't be reached (or
    /// is led elsewhere) is told later by its leader, also after a crash.
    /// Answers when no member in reach knows the topic any more.
    pub async fn drop_topic(&self, topic: Arc<Topic>) -> Result<(), CatalogFailure> {
        let home = self.catalog.view().namespace_by_id(topic.namespace).map(|n| n.home);
        let command = cluster::catalog::Command::DropTopic { topic: topic.id };
        // The row as it was last: the caller's may have fewer partitions.
        let (reply, declared) = self.declare_here(command).await?;
        let last = match reply {
            Reply::Topic(last) => last,
            _ => topic,
        };
        let ranges: BTreeSet<RangeId> = last.partitions.iter().copied().chain(home).collect();
        let drops = ranges.into_iter().map(|range| self.drop_in_range(range, last.id));
        tokio::join!(futures::future::join_all(drops), self.everywhere(declared));
        Ok(())
    }

    /// Drops what a range holds of a topic that the catalog no longer has.
    pub(super) async fn drop_in_range(&self, range: RangeId, topic: TopicId) {
        let dropped = match self.propose(range, &Command::DropTopic(topic)).await {
            Ok(answer) => read_dropped(&answer).map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = dropped {
            tracing::info!(%range, %topic, why, "topic not dropped in range yet");
        }
    }
}
