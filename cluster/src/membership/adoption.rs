//! Meeting the nodes that rows declare, and taking them into the store.
//!
//! ```text
//!   dial AT, Hello --> another node than the row's?        trouble
//!                  --> of this store: bind the row to it, or it is met --> system range
//!                  --> of another, with declarations:      trouble
//!                  --> of another or none, with nothing:   Adopt; it comes back as of this store
//! ```

use crate::catalog::{Catalog, Command, Member, MemberCommand, Standing, State};
use crate::ids::{BrokerId, NodeId};
use crate::peer::{Greeting, PeerError, Peers};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// Between two tries to meet a node.
const AGAIN: Duration = Duration::from_millis(500);

/// Nodes met, and what stands in the way of others. Cheap to clone; all clones are the same.
#[derive(Clone, Default)]
pub(super) struct Adoptions {
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    met: BTreeSet<NodeId>,
    troubles: BTreeMap<BrokerId, String>,
    /// Rows being looked at, and when each may be looked at again.
    busy: BTreeMap<BrokerId, Option<Instant>>,
}

/// What to do about the node found at a row's address.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    /// It is of this store: the row's.
    Met(NodeId),
    /// It is of this store, and the row does not name it yet.
    Bind(NodeId),
    /// It has nothing of its own.
    Adopt(NodeId),
    /// It can't be taken.
    Trouble(String),
}

fn judge(member: &Member, greeting: &Greeting, store: Uuid, state: &State) -> Finding {
    let node = greeting.node;
    if member.node.is_some_and(|wanted| wanted != node) {
        return Finding::Trouble(format!("node {node} is there"));
    }
    if state.is_banned(node) {
        return Finding::Trouble(format!("node {node} was dropped from the store"));
    }
    match (greeting.store == Some(store), member.node) {
        (true, Some(_)) => Finding::Met(node),
        (true, None) => Finding::Bind(node),
        (false, _) if greeting.occupied => Finding::Trouble(format!("node {node} has declarations of its own")),
        (false, _) => Finding::Adopt(node),
    }
}

impl Adoptions {
    /// Nodes that were met and are of this store.
    pub fn met(&self) -> BTreeSet<NodeId> {
        self.known.lock().met.clone()
    }

    /// What stands in the way, by row.
    pub fn troubles(&self) -> BTreeMap<BrokerId, String> {
        self.known.lock().troubles.clone()
    }

    /// Looks at the rows that have not joined; answers at once, the looking goes on.
    pub fn look(&self, peers: &Peers, catalog: &Catalog, me: NodeId, state: &State) {
        let Some(store) = state.store() else { return };
        for member in state.members().filter(|member| member.standing == Standing::Declared) {
            let Some(at) = member.at.clone() else { continue };
            let known = &mut *self.known.lock();
            if member.node.is_some_and(|node| node == me || known.met.contains(&node)) {
                continue;
            }
            let ready = known
                .busy
                .get(&member.broker)
                .is_none_or(|free| free.is_some_and(|at| at <= Instant::now()));
            if !ready {
                continue;
            }
            known.busy.insert(member.broker, None);
            let (this, member, peers, catalog) = (self.clone(), member.clone(), peers.clone(), catalog.clone());
            tokio::spawn(async move {
                let trouble = this.meet(&member, &at, store, &peers, &catalog).await.err();
                this.note(member.broker, &at, trouble);
            });
        }
    }

    fn note(&self, broker: BrokerId, at: &str, trouble: Option<String>) {
        let known = &mut *self.known.lock();
        known.busy.insert(broker, Some(Instant::now() + AGAIN));
        match trouble {
            Some(why) => {
                if known.troubles.get(&broker) != Some(&why) {
                    tracing::warn!(%broker, at, why, "a member does not join");
                    known.troubles.insert(broker, why);
                }
            }
            None => drop(known.troubles.remove(&broker)),
        }
    }

    async fn meet(
        &self,
        member: &Member,
        at: &str,
        store: Uuid,
        peers: &Peers,
        catalog: &Catalog,
    ) -> Result<(), String> {
        let told = |error: PeerError| error.to_string();
        let greeting = peers.hello(at, member.node).await.map_err(told)?;
        match judge(member, &greeting, store, &catalog.view()) {
            Finding::Met(node) => {
                tracing::info!(%node, at, "a member was met");
                self.known.lock().met.insert(node);
                Ok(())
            }
            Finding::Bind(node) => {
                let broker = member.broker;
                let bind = Command::Member(MemberCommand::Bind { broker, node });
                catalog.propose(bind).await.map(drop).map_err(|error| error.to_string())
            }
            Finding::Adopt(node) => {
                tracing::info!(%node, at, "a node is taken into the store");
                peers.adopt(at, node, store).await.map_err(told)
            }
            Finding::Trouble(why) => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::ReplicaSpec;

    const STORE: Uuid = Uuid::from_u128(1);

    fn state(node: Option<u128>) -> State {
        let mut state = State::default();
        let spec = ReplicaSpec {
            name: "two".into(),
            at: "two:1".into(),
            clients_at: None,
            http_at: None,
            kafka_at: None,
            node: node.map(NodeId),
            roles: None,
        };
        let define = MemberCommand::Define {
            spec,
            if_not_exists: false,
        };
        state.apply(Command::JoinNode { node: NodeId(1) }).unwrap();
        state.apply(Command::Member(define)).unwrap();
        state
    }

    fn finding(row: Option<u128>, store: Option<u128>, occupied: bool) -> Finding {
        let state = state(row);
        let greeting = Greeting {
            version: 1,
            node: NodeId(2),
            store: store.map(Uuid::from_u128),
            build: "test".into(),
            occupied,
        };
        judge(state.replica("two").unwrap(), &greeting, STORE, &state)
    }

    #[test]
    fn a_node_is_met_bound_adopted_or_left_alone() {
        assert_eq!(finding(Some(2), Some(1), true), Finding::Met(NodeId(2)));
        assert_eq!(finding(None, Some(1), true), Finding::Bind(NodeId(2)));
        for store in [None, Some(5)] {
            assert_eq!(finding(Some(2), store, false), Finding::Adopt(NodeId(2)));
            assert_eq!(finding(None, store, false), Finding::Adopt(NodeId(2)));
        }
        assert!(matches!(finding(Some(2), Some(5), true), Finding::Trouble(_)));
        assert!(matches!(finding(Some(3), None, false), Finding::Trouble(_)));
    }

    #[test]
    fn a_dropped_node_is_not_taken_back() {
        let mut state = state(Some(2));
        state
            .apply(Command::Member(MemberCommand::Drop { name: "two".into() }))
            .unwrap();
        let other = self::state(None);
        let greeting = Greeting {
            version: 1,
            node: NodeId(2),
            store: None,
            build: "test".into(),
            occupied: false,
        };
        let found = judge(other.replica("two").unwrap(), &greeting, STORE, &state);
        assert!(matches!(found, Finding::Trouble(_)));
    }
}
