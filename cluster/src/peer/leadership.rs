//! News of who leads: told by each node of the ranges it has, so that every node can find every leader.

use super::dial::{Class, PeerError, Peers};
use super::proto::membership_client::MembershipClient;
use super::proto::{LeadershipNews, RangeLeader, WatchLeadershipRequest, node_bytes, node_id};
use crate::ids::{NodeId, RangeId};
use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tonic::Status;

/// Who leads a range, as somebody knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeNews {
    /// The range.
    pub range: RangeId,
    /// Raft term. News of an earlier term than one already known is old.
    pub term: u64,
    /// Who leads in it; `None` where that is not known.
    pub leader: Option<NodeId>,
}

/// What this node knows of its ranges' leaders, for others to watch. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct LeadershipFeed {
    known: watch::Sender<Arc<BTreeMap<RangeId, RangeNews>>>,
}

impl LeadershipFeed {
    /// Tells what is known of a range.
    pub(crate) fn tell(&self, news: RangeNews) {
        self.known.send_if_modified(|known| {
            let new = known.get(&news.range) != Some(&news);
            if new {
                Arc::make_mut(known).insert(news.range, news);
            }
            new
        });
    }

    /// The node no longer has the range.
    pub(crate) fn forget(&self, range: RangeId) {
        self.known
            .send_if_modified(|known| known.contains_key(&range) && Arc::make_mut(known).remove(&range).is_some());
    }

    /// All that is known, as it changes.
    pub fn watch(&self) -> watch::Receiver<Arc<BTreeMap<RangeId, RangeNews>>> {
        self.known.subscribe()
    }

    /// First all that is known, then what changes. Changes that follow each other fast are told once.
    pub(super) fn stream(&self) -> BoxStream<'static, Result<LeadershipNews, Status>> {
        let start = (self.known.subscribe(), BTreeMap::<RangeId, RangeNews>::new(), true);
        stream::unfold(start, |(mut known, told, first)| async move {
            if !first {
                known.changed().await.ok()?;
            }
            let now = known.borrow_and_update().clone();
            let ranges = now
                .iter()
                .filter(|(range, news)| told.get(range) != Some(*news))
                .map(|(_, news)| RangeLeader {
                    range: news.range.0,
                    term: news.term,
                    leader: news.leader.map_or_else(Bytes::new, node_bytes),
                })
                .collect();
            let told = BTreeMap::clone(&now);
            Some((Ok(LeadershipNews { ranges }), (known, told, false)))
        })
        .boxed()
    }
}

impl Peers {
    /// What a peer knows of its ranges' leaders: first all of it, then what changes. Ends with an error when the
    /// connection does.
    pub async fn watch_leadership(
        &self,
        node: NodeId,
    ) -> Result<impl Stream<Item = Result<Vec<RangeNews>, PeerError>> + Send + use<>, PeerError> {
        let mut client = MembershipClient::new(self.channel(node, Class::Urgent)?);
        let news = client.watch_leadership(WatchLeadershipRequest {}).await?.into_inner();
        Ok(news.map(|news| {
            let decode = |range: RangeLeader| {
                let leader = match range.leader.is_empty() {
                    true => None,
                    false => Some(node_id(&range.leader)?),
                };
                Ok(RangeNews {
                    range: RangeId(range.range),
                    term: range.term,
                    leader,
                })
            };
            Ok(news?.ranges.into_iter().map(decode).collect::<Result<_, Status>>()?)
        }))
    }
}
