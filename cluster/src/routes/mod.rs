//! The routing table: which member answers for what.
//!
//! ```text
//!   catalog (members, topics, ranges)  --+
//!   ranges of this node: who leads     --+-->  Routes::table()  -->  partition -> Leader { node, epoch, here }
//!   news of other members              --+                           namespace -> its groups' coordinator
//! ```
//!
//! Reading takes two pointer loads and no lock; a [`Table`] stays as it is while held. It is the only source of what
//! clients are told and of where requests are carried to.
//!
//! (range, term) has one leader for ever: Raft gives a term to one candidate at most. So whoever tells of a leader in a
//! term can be believed, and a later term is always newer than an earlier one.

use crate::catalog::{Catalog, Namespace, State, Topic};
use crate::ids::{NodeId, RangeId, SYSTEM_RANGE};
use crate::range::{Leadership, Range};
use arc_swap::ArcSwap;
use imbl::OrdMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Who answers for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The member.
    pub node: NodeId,
    /// Raft term of the range, which is the leader epoch of its partitions.
    pub epoch: u64,
    /// It is this node, and it may answer.
    pub here: bool,
}

/// The newest term known of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    term: u64,
    leader: Option<NodeId>,
}

impl Known {
    /// Takes news in, whatever order they come in.
    fn merge(self, news: Known) -> Known {
        match news.term.cmp(&self.term) {
            std::cmp::Ordering::Less => self,
            std::cmp::Ordering::Equal => Known {
                leader: self.leader.or(news.leader),
                ..self
            },
            std::cmp::Ordering::Greater => news,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Leaders {
    /// Ranges of this node.
    local: OrdMap<RangeId, Leadership>,
    /// What other members told.
    heard: OrdMap<RangeId, Known>,
    /// Terms whose leader was seen to end, and that leader.
    ended: OrdMap<RangeId, (u64, NodeId)>,
}

impl Leaders {
    fn known(&self, range: RangeId) -> Known {
        let local = self.local.get(&range).copied().unwrap_or_default();
        let heard = self.heard.get(&range).copied().unwrap_or_default();
        let known = Known {
            term: local.term,
            leader: local.leader,
        };
        known.merge(heard)
    }

    fn hear(&mut self, range: RangeId, news: Known) {
        let known = self.heard.get(&range).copied().unwrap_or_default();
        self.heard.insert(range, known.merge(news));
    }

    fn end(&mut self, node: NodeId) {
        let ranges: BTreeSet<RangeId> = self.local.keys().chain(self.heard.keys()).copied().collect();
        for range in ranges {
            let Known { term, leader } = self.known(range);
            if leader == Some(node) {
                self.ended.insert(range, (term, node));
            }
        }
    }

    fn revive(&mut self, node: NodeId) {
        let others = self.ended.iter().filter(|(_, (_, ended))| *ended != node);
        self.ended = others.map(|(range, ended)| (*range, *ended)).collect();
    }
}

/// The routing table of a node. Cheap to clone; all clones are the same table.
#[derive(Clone)]
pub struct Routes {
    inner: Arc<Inner>,
}

struct Inner {
    node: NodeId,
    catalog: Catalog,
    leaders: ArcSwap<Leaders>,
    /// Grows with every change of leaders.
    changed: watch::Sender<u64>,
}

/// The table at one moment.
#[derive(Clone)]
pub struct Table {
    node: NodeId,
    state: Arc<State>,
    leaders: Arc<Leaders>,
}

/// Follows a range of this node until it is dropped.
#[must_use = "the range is forgotten when this is dropped"]
pub struct Followed {
    routes: Routes,
    range: RangeId,
    task: AbortHandle,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
        let range = self.range;
        self.routes.change(|leaders| {
            leaders.local.remove(&range);
        });
    }
}

impl Routes {
    /// A table of what `node` knows.
    pub fn new(node: NodeId, catalog: Catalog) -> Self {
        Self {
            inner: Arc::new(Inner {
                node,
                catalog,
                leaders: ArcSwap::default(),
                changed: watch::Sender::new(0),
            }),
        }
    }

    /// The table now. Never waits.
    pub fn table(&self) -> Table {
        self.with_state(self.inner.catalog.view())
    }

    /// The table now, over a view of the catalog that the caller has already.
    pub fn with_state(&self, state: Arc<State>) -> Table {
        Table {
            node: self.inner.node,
            state,
            leaders: self.inner.leaders.load_full(),
        }
    }

    /// Resolves when leaders have changed since it was last asked.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Keeps the table true of a range of this node. What is known of it now is in the table when this returns. Within
    /// a tokio runtime.
    pub fn follow(&self, range: &Range) -> Followed {
        let id = range.id();
        let mut leadership = range.leadership();
        let now = *leadership.borrow_and_update();
        self.tell(id, now);
        let routes = self.clone();
        let task = tokio::spawn(async move {
            while leadership.changed().await.is_ok() {
                let now = *leadership.borrow_and_update();
                routes.tell(id, now);
            }
        });
        Followed {
            routes: self.clone(),
            range: id,
            task: task.abort_handle(),
        }
    }

    fn tell(&self, range: RangeId, now: Leadership) {
        self.change(|leaders| {
            leaders.local.insert(range, now);
        });
    }

    /// What another member says: who leads `range` in `term`, where it knows.
    pub fn hear(&self, range: RangeId, term: u64, leader: Option<NodeId>) {
        let news = Known { term, leader };
        let known = self.inner.leaders.load().heard.get(&range).copied();
        if known.unwrap_or_default().merge(news) != known.unwrap_or_default() {
            self.change(|leaders| leaders.hear(range, news));
        }
    }

    /// A member's process was seen to end: what it led has no leader until another is heard of, or it answers again. So
    /// clients ask again soon, and what is to be carried there waits instead.
    pub fn member_ended(&self, node: NodeId) {
        if node != self.inner.node {
            self.change(|leaders| leaders.end(node));
        }
    }

    /// A member answers.
    pub fn member_answers(&self, node: NodeId) {
        let ended = |leaders: &Leaders| leaders.ended.values().any(|(_, ended)| *ended == node);
        if ended(&self.inner.leaders.load()) {
            self.change(|leaders| leaders.revive(node));
        }
    }

    fn change(&self, change: impl Fn(&mut Leaders)) {
        self.inner.leaders.rcu(|leaders| {
            let mut leaders = Leaders::clone(leaders);
            change(&mut leaders);
            leaders
        });
        self.inner.changed.send_modify(|version| *version += 1);
    }
}

impl Table {
    /// This node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// What is declared.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Who leads a range; `None` while that is not known: it is being elected, nobody has told, or its process has ended.
    pub fn range(&self, range: RangeId) -> Option<Leader> {
        let local = self.leaders.local.get(&range).copied().unwrap_or_default();
        let Known { term, leader } = self.leaders.known(range);
        let leader = leader.filter(|node| self.leaders.ended.get(&range) != Some(&(term, *node)));
        leader.map(|node| Leader {
            node,
            epoch: term,
            here: node == self.node && local.here && local.term == term,
        })
    }

    /// Who leads a partition, numbered from 0.
    pub fn partition(&self, topic: &Topic, index: u32) -> Option<Leader> {
        self.range(*topic.partitions.get(index as usize)?)
    }

    /// Who coordinates the groups of a namespace and holds its reader positions.
    pub fn home(&self, namespace: &Namespace) -> Option<Leader> {
        self.range(namespace.home)
    }

    /// Who takes declarations.
    pub fn catalog(&self) -> Option<Leader> {
        self.range(SYSTEM_RANGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(local: Leadership, heard: Known) -> Table {
        let mut leaders = Leaders::default();
        leaders.local.insert(RangeId(1), local);
        leaders.heard.insert(RangeId(1), heard);
        Table {
            node: NodeId(1),
            state: Arc::default(),
            leaders: Arc::new(leaders),
        }
    }

    fn local(term: u64, leader: Option<u128>, here: bool) -> Leadership {
        Leadership {
            leader: leader.map(NodeId),
            term,
            here,
        }
    }

    fn heard(term: u64, leader: Option<u128>) -> Known {
        Known {
            term,
            leader: leader.map(NodeId),
        }
    }

    fn known(table: &Table) -> Option<(u128, u64, bool)> {
        table.range(RangeId(1)).map(|l| (l.node.0, l.epoch, l.here))
    }

    #[test]
    fn the_later_term_counts_whoever_tells_of_it() {
        let lead = local(5, Some(1), true);
        assert_eq!(known(&table(lead, heard(4, Some(2)))), Some((1, 5, true)));
        // Led here once; this node has not noticed yet.
        assert_eq!(known(&table(lead, heard(6, Some(2)))), Some((2, 6, false)));
        // Being elected.
        assert_eq!(known(&table(lead, heard(6, None))), None);
        assert_eq!(known(&table(local(7, None, false), heard(6, Some(2)))), None);
    }

    #[test]
    fn who_led_a_term_is_known_from_anybody() {
        assert_eq!(
            known(&table(local(6, None, false), heard(6, Some(2)))),
            Some((2, 6, false))
        );
        // The others know that this node leads before it may answer.
        assert_eq!(
            known(&table(local(6, None, false), heard(6, Some(1)))),
            Some((1, 6, false))
        );
    }

    #[test]
    fn a_leader_whose_process_ended_is_told_no_more() {
        let mut leaders = Leaders::default();
        let known = |leaders: &Leaders, range| {
            let mut table = table(Leadership::default(), Known::default());
            table.leaders = Arc::new(leaders.clone());
            table.range(RangeId(range)).map(|l| (l.node.0, l.epoch))
        };
        leaders.hear(RangeId(1), heard(4, Some(2)));
        leaders.hear(RangeId(2), heard(4, Some(3)));
        leaders.end(NodeId(2));
        assert_eq!((known(&leaders, 1), known(&leaders, 2)), (None, Some((3, 4))));
        // Who has not seen it yet changes nothing.
        leaders.hear(RangeId(1), heard(4, Some(2)));
        assert_eq!(known(&leaders, 1), None);
        leaders.hear(RangeId(1), heard(5, Some(3)));
        assert_eq!(known(&leaders, 1), Some((3, 5)));
        // It comes back, and leads.
        leaders.hear(RangeId(1), heard(6, Some(2)));
        assert_eq!(known(&leaders, 1), Some((2, 6)));
        // It had not ended: it was only not reached.
        leaders.end(NodeId(2));
        assert_eq!(known(&leaders, 1), None);
        leaders.revive(NodeId(2));
        assert_eq!(known(&leaders, 1), Some((2, 6)));
    }

    #[test]
    fn a_range_of_others_is_known_by_hearsay() {
        let mut table = table(local(0, None, false), heard(3, Some(2)));
        Arc::make_mut(&mut table.leaders).local.remove(&RangeId(1));
        assert_eq!(known(&table), Some((2, 3, false)));
        assert_eq!(table.range(RangeId(2)), None);
    }

    proptest! {
        /// Terms are given to one leader each, whatever part of that each teller knows.
        #[test]
        fn the_order_of_news_does_not_matter(
            news in proptest::collection::vec((1..6u64, any::<bool>()), 1..12),
            order in any::<proptest::sample::Index>(),
        ) {
            let told = |(term, knows): &(u64, bool)| heard(*term, knows.then_some(u128::from(term * 7 % 3)));
            let all = |news: &[(u64, bool)]| news.iter().map(told).fold(Known::default(), Known::merge);
            let mut turned = news.clone();
            turned.rotate_left(order.index(news.len()));
            prop_assert_eq!(all(&news), all(&turned));
            turned.reverse();
            prop_assert_eq!(all(&news), all(&turned));
        }
    }
}
