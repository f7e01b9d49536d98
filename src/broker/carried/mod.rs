//! Reads of what other members lead: asked of them, and answered for them.
//!
//! ```text
//!   front door --> Broker::{look, run, positions ..} --led here--> as if this room were not there
//!              \--> FetchElsewhere                   --led elsewhere--> Forward::ask --> Reads of the leader --> its logs
//! ```
//!
//! The leader judges and reads; nothing that lies here is served in its place. What can't be asked of it (nobody is known
//! to lead, the way broke, it leads no more) is answered as not led, which every client tries again.

mod answer;
mod fetching;
mod question;
mod serve;
#[cfg(test)]
mod tests;

pub use fetching::Lost;

use super::fetch::{FetchFrom, Fetched};
use super::look::{LookInto, Looked};
use super::run::Run;
use super::{AccessError, Broker, Position, PositionError};
use crate::log::Offset;
use answer::{NoRows, Row, Told};
use bytes::Bytes;
use cluster::catalog::Topic;
use cluster::forward::Door;
use cluster::ids::{NamespaceId, NodeId, PartitionId, RangeId};
use cluster::planted::{self, Bug};
use cluster::range::{MAX_COMMAND, ProposeError};
use fetching::{Incoming, Part};
use futures::future::join_all;
use question::FetchQuestion;
pub(super) use question::Question;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a member may take for an answer it need not wait for. It may have to find a time in a cold log.
const ANSWER: Duration = Duration::from_secs(10);
/// How long it may take, beyond what it is to wait, to answer a fetch.
const LATE: Duration = Duration::from_secs(5);
/// The longest answer taken whole: a batch as large as may be, and what goes with it.
const MOST: usize = MAX_COMMAND + (2 << 20);
/// The longest list of positions taken.
const MOST_ROWS: usize = 256 << 20;

/// A fetch of partitions that one other member leads.
#[derive(Clone, Debug)]
pub struct FetchAsked {
    /// How long the leader waits for `min_bytes`.
    pub wait: Duration,
    /// Enough, of all partitions together.
    pub min_bytes: usize,
    /// Most bytes of all partitions together.
    pub max_bytes: usize,
    /// The first batch comes whatever its size.
    pub first_whole: bool,
    /// In the order in which they are served.
    pub parts: Vec<(PartitionId, FetchFrom)>,
}

/// What came of the leader.
pub enum Heard {
    /// A pass whose stored bytes, this many, follow. Whoever has no room for them drops the fetch now.
    Begins(usize),
    /// What each partition holds; in the order asked. The first pass comes at once. Another one follows where that was
    /// not enough and has changed, once it is enough or the wait is over; it takes the place of the first.
    Pass(Vec<Result<Fetched, AccessError>>),
    /// So many bytes could be read by now, of all partitions together; still fewer than enough.
    More(usize),
}

/// A fetch that another member answers. Dropped, it waits there no longer.
pub struct FetchElsewhere {
    broker: Arc<Broker>,
    partitions: Vec<PartitionId>,
    incoming: Incoming,
}

impl FetchElsewhere {
    /// What comes next; `None` when the answer is over. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Heard>, Lost> {
        Ok(match self.incoming.next().await? {
            Some(Part::Begins(bytes)) => Some(Heard::Begins(bytes)),
            Some(Part::More(bytes)) => Some(Heard::More(bytes)),
            Some(Part::Pass(pass)) => {
                let told = pass.into_iter().zip(&self.partitions);
                Some(Heard::Pass(
                    told.map(|(told, id)| self.broker.learn(*id, told)).collect(),
                ))
            }
            None => None,
        })
    }
}

impl Broker {
    /// Answers what other members ask of this node, as long as it runs.
    pub(super) fn answer_members(self: &Arc<Self>) {
        let broker = Arc::downgrade(self);
        self.forward.open(Door::Reads, Arc::new(serve::Reads { broker }));
    }

    /// Whether this node leads a partition.
    pub(super) fn leads(&self, topic: &Topic, index: u32) -> bool {
        let range = topic.partitions.get(index as usize);
        range.is_some_and(|range| self.ranges.leadership(*range).is_some_and(|now| now.here))
    }

    /// The other member that leads a partition, if one is known to.
    pub fn led_elsewhere(&self, topic: &Topic, index: u32) -> Option<NodeId> {
        if planted::has(Bug::ReadWithoutLead) {
            return None;
        }
        self.range_elsewhere(*topic.partitions.get(index as usize)?)
    }

    pub(super) fn range_elsewhere(&self, range: RangeId) -> Option<NodeId> {
        if self.ranges.leadership(range).is_some_and(|now| now.here) {
            return None;
        }
        let leader = self.routes.table().range(range)?;
        (leader.node != self.node).then_some(leader.node)
    }

    /// Asks `node` for what it leads.
    pub async fn fetch_elsewhere(self: &Arc<Self>, node: NodeId, asked: FetchAsked) -> Result<FetchElsewhere, Lost> {
        let wait_ms = u32::try_from(asked.wait.as_millis()).unwrap_or(u32::MAX);
        let within = asked.wait.saturating_add(LATE);
        let partitions: Vec<_> = asked.parts.iter().map(|(partition, _)| *partition).collect();
        let question = Question::Fetch(FetchQuestion {
            wait_ms,
            min_bytes: asked.min_bytes as u64,
            max_bytes: asked.max_bytes as u64,
            first_whole: asked.first_whole,
            parts: asked.parts,
        });
        let reply = self
            .forward
            .ask(node, Door::Reads, question.encode().into(), within)
            .await
            .map_err(|error| Lost(error.to_string()))?;
        Ok(FetchElsewhere {
            broker: self.clone(),
            incoming: Incoming::new(reply, partitions.len()),
            partitions,
        })
    }

    /// An answer about a partition; one that was not led there tells who leads it.
    fn learn<T>(&self, partition: PartitionId, told: Told<T>) -> Result<T, AccessError> {
        told.map_err(|(error, (term, leader))| {
            if let (AccessError::NotLeader, Some(leader)) = (&error, leader)
                && let Some(topic) = self.catalog.view().topic_by_id(partition.topic)
                && let Some(range) = topic.partitions.get(partition.index as usize)
            {
                self.routes.hear(*range, term, Some(leader));
            }
            error
        })
    }

    /// Puts in what other members lead.
    pub(super) async fn look_elsewhere(
        self: &Arc<Self>,
        looks: &[LookInto],
        mut answers: Vec<Result<Looked, AccessError>>,
    ) -> Vec<Result<Looked, AccessError>> {
        let mut leaders: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (place, (into, answer)) in looks.iter().zip(&answers).enumerate() {
            if matches!(answer, Err(AccessError::NotLeader))
                && let Some(node) = self.led_elsewhere(&into.topic, into.index)
            {
                leaders.entry(node).or_default().push(place);
            }
        }
        let asked = leaders.into_iter().map(|(node, places)| async move {
            let part = |place: &usize| {
                let LookInto { topic, index, look } = &looks[*place];
                let partition = PartitionId {
                    topic: topic.id,
                    index: *index,
                };
                (partition, *look)
            };
            let parts: Vec<_> = places.iter().map(part).collect();
            let ids: Vec<_> = parts.iter().map(|(partition, _)| *partition).collect();
            let answer = self.ask(node, &Question::Look(parts), MOST).await;
            let told = answer.and_then(|answer| answer::decode_looks(&answer, ids.len()).map_err(|_| unreadable()));
            (places, ids, told)
        });
        for (places, ids, told) in join_all(asked).await {
            match told {
                Ok(told) => {
                    for ((place, id), told) in places.into_iter().zip(ids).zip(told) {
                        answers[place] = self.learn(id, told);
                    }
                }
                // As they were: not led.
                Err(lost) => tracing::debug!(%lost, "partitions' leader not asked"),
            }
        }
        answers
    }

    pub(super) async fn run_elsewhere(
        &self,
        node: NodeId,
        topic: &Topic,
        index: u32,
        offset: Offset,
        max_bytes: usize,
    ) -> Result<Run, AccessError> {
        let partition = PartitionId { topic: topic.id, index };
        let question = Question::Run {
            partition,
            offset,
            max_bytes: u32::try_from(max_bytes).unwrap_or(u32::MAX),
        };
        let answer = self.ask(node, &question, MOST).await;
        match answer.and_then(|answer| answer::decode_run(&answer).map_err(|_| unreadable())) {
            Ok(told) => self.learn(partition, told),
            Err(lost) => {
                tracing::debug!(%lost, "a partition's leader not asked");
                Err(AccessError::NotLeader)
            }
        }
    }

    pub(super) async fn positions_elsewhere(
        &self,
        node: NodeId,
        range: RangeId,
        namespace: NamespaceId,
        reader: &str,
    ) -> Result<Vec<(PartitionId, Position)>, PositionError> {
        let reader = reader.to_owned();
        self.rows(node, range, Question::Positions { namespace, reader }).await
    }

    pub(super) async fn readers_elsewhere(
        &self,
        node: NodeId,
        range: RangeId,
        namespace: NamespaceId,
    ) -> Result<Vec<String>, PositionError> {
        self.rows(node, range, Question::Readers(namespace)).await
    }

    pub(super) async fn positions_in_elsewhere(
        &self,
        node: NodeId,
        range: RangeId,
        topic: &Topic,
    ) -> Result<Vec<(String, u32, Position)>, PositionError> {
        let question = Question::PositionsIn(topic.namespace, topic.id);
        self.rows(node, range, question).await
    }

    async fn rows<R: Row>(&self, node: NodeId, range: RangeId, question: Question) -> Result<Vec<R>, PositionError> {
        let not_led = || PositionError::Propose(ProposeError::NotLeader { range, leader: None });
        let answer = self.ask(node, &question, MOST_ROWS).await.map_err(|lost| {
            tracing::debug!(%lost, "a namespace's leader not asked");
            not_led()
        })?;
        match answer::decode_rows(&answer) {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(NoRows::NoNamespace)) => Err(PositionError::NoNamespace),
            Ok(Err(NoRows::NotLeader)) => Err(not_led()),
            Ok(Err(NoRows::Unavailable(why))) => {
                tracing::debug!(why, "a namespace's leader has no answer");
                Err(not_led())
            }
            Err(malformed) => {
                tracing::warn!(%malformed, %node, "an answer of another member");
                Err(not_led())
            }
        }
    }

    /// Asks, and takes the answer as one.
    async fn ask(&self, node: NodeId, question: &Question, most: usize) -> Result<Bytes, Lost> {
        let lost = |error: cluster::forward::AskError| Lost(error.to_string());
        let question = question.encode().into();
        let reply = self
            .forward
            .ask(node, Door::Reads, question, ANSWER)
            .await
            .map_err(lost)?;
        reply.whole(most).await.map_err(lost)
    }
}

fn unreadable() -> Lost {
    Lost("its answer can't be read".into())
}
