//! Declarations, known wherever a client may ask next.
//!
//! ```text
//!   propose --> applied at the catalog's leader, and here --> every member in reach: applied there, leaders known?
//!                                                        \--> leaders known here?
//! ```
//!
//! A declaration is durable before any of this, and stays whatever comes of it: so the wait is bounded, and ends as if all
//! knew. Kafka's older brokers answered REQUEST_TIMED_OUT then, and a client that tried again was told that the topic exists.
//! A member that was not reached in time answers what a client tries again by itself (3, 5 or 6), until it knows.

use super::Broker;
use super::carried::Question;
use cluster::catalog::{CatalogFailure, Command, Reply};
use cluster::forward::Door;
use cluster::ids::{NodeId, TopicId};
use futures::future::join_all;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Who should know a declaration before it is answered: members heard of lately. This node may be among them.
pub type Live = Arc<dyn Fn() -> BTreeSet<NodeId> + Send + Sync>;

/// How long the others, and elections, are waited for. An election takes a second, a member at work learns of a declaration
/// within a beat (150 ms).
const PATIENCE: Duration = Duration::from_secs(3);
/// The answer is a byte.
const MOST: usize = 16;

/// What members are to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The place of the last command in the catalog's log.
    pub(super) index: u64,
    /// Topics whose partitions somebody must be known to lead.
    pub(super) topics: Vec<TopicId>,
}

impl Declared {
    /// Both.
    pub fn and(mut self, other: Self) -> Self {
        self.index = self.index.max(other.index);
        self.topics.extend(other.topics);
        self
    }
}

/// Topics that an answer of the catalog tells of.
fn topics(reply: &Reply) -> Vec<TopicId> {
    match reply {
        Reply::Topic(topic) => vec![topic.id],
        Reply::Together(replies) => replies.iter().flat_map(topics).collect(),
        Reply::Done | Reply::Store(_) | Reply::Broker(_) | Reply::Namespace(_) | Reply::ProducerIds(_) => Vec::new(),
    }
}

impl Broker {
    /// Declares, and answers when every member in reach knows it, and who leads the partitions of the topics it is about.
    ///
    /// # Errors
    /// The catalog's. That a member does not know in time is none.
    pub async fn declare(&self, command: Command) -> Result<Reply, CatalogFailure> {
        let (reply, declared) = self.declare_here(command).await?;
        self.everywhere(declared).await;
        Ok(reply)
    }

    /// Declares, and answers when this node knows it; with what [`Broker::everywhere`] takes.
    ///
    /// # Errors
    /// The catalog's.
    pub async fn declare_here(&self, command: Command) -> Result<(Reply, Declared), CatalogFailure> {
        let (index, reply) = self.catalog.propose_at(command).await?;
        let topics = topics(&reply);
        Ok((reply, Declared { index, topics }))
    }

    /// Waits until every member in reach knows what was declared, but some seconds at most.
    pub async fn everywhere(&self, declared: Declared) {
        let others = (self.live)();
        let Declared { index, topics } = &declared;
        let question = Question::Declared {
            index: *index,
            topics: topics.clone(),
        };
        let question = bytes::Bytes::from(question.encode());
        let asked = others.into_iter().filter(|node| *node != self.node).map(|node| {
            let question = question.clone();
            async move {
                let answer = match self.forward.ask(node, Door::Reads, question, PATIENCE).await {
                    Ok(reply) => reply.whole(MOST).await,
                    Err(error) => Err(error),
                };
                match answer.as_deref() {
                    Ok([1]) => {}
                    Ok(_) => tracing::info!(%node, index, "a member does not know a declaration yet"),
                    Err(error) => tracing::info!(%node, index, %error, "a member may not know a declaration yet"),
                }
            }
        });
        let (_, known) = tokio::join!(join_all(asked), self.knows(declared.clone(), PATIENCE));
        if !known {
            tracing::info!(index, "nobody is known yet to lead some partitions of a topic");
        }
    }

    /// Whether this node comes to know what was declared within this time.
    pub(super) async fn knows(&self, declared: Declared, within: Duration) -> bool {
        let Declared { index, topics } = declared;
        let known = async {
            if self.catalog.has(index).await.is_err() {
                // The catalog is gone, and the node with it.
                return false;
            }
            let (mut leaders, mut versions) = (self.routes.changed(), self.catalog.changed());
            loop {
                leaders.borrow_and_update();
                versions.borrow_and_update();
                if self.all_led(&topics) {
                    return true;
                }
                tokio::select! {
                    changed = leaders.changed() => if changed.is_err() { return false },
                    changed = versions.changed() => if changed.is_err() { return false },
                }
            }
        };
        timeout(within.min(PATIENCE), known).await.unwrap_or(false)
    }

    /// Whether somebody is known to lead each partition of the topics, and may answer where it is this node. Of a topic that
    /// is no more nothing is left to know.
    fn all_led(&self, topics: &[TopicId]) -> bool {
        let table = self.routes.table();
        let topics = topics.iter().filter_map(|id| table.state().topic_by_id(*id));
        let mut ranges = topics.flat_map(|topic| topic.partitions.iter());
        ranges.all(|range| {
            let leader = table.range(*range);
            leader.is_some_and(|leader| leader.here || leader.node != self.node)
        })
    }
}
