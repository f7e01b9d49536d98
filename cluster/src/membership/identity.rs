//! What the peer code is told of this node and of the others: published from the catalog.

use crate::catalog::{Catalog, State};
use crate::ids::NodeId;
use crate::peer::Standing;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use uuid::Uuid;

/// Addresses of nodes, `host:port`.
pub type Addresses = Arc<BTreeMap<NodeId, String>>;

/// What this node is to its store, and where the others are. Cheap to clone.
#[derive(Clone)]
pub struct Identity {
    node: NodeId,
    /// The store the node was taken into, before its catalog has come.
    adopted: Option<Uuid>,
    standing: watch::Sender<Standing>,
    addresses: watch::Sender<Addresses>,
}

impl Identity {
    /// `adopted`: the store that the node was taken into.
    pub fn new(node: NodeId, adopted: Option<Uuid>) -> Self {
        let standing = Standing {
            store: adopted,
            ..Standing::default()
        };
        Self {
            node,
            adopted,
            standing: watch::Sender::new(standing),
            addresses: watch::Sender::new(Addresses::default()),
        }
    }

    /// What the node is to its store.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Where the others are.
    pub fn addresses(&self) -> watch::Receiver<Addresses> {
        self.addresses.subscribe()
    }

    /// Keeps both true; for a task of its own. Ends when the catalog does.
    pub async fn follow(self, catalog: Catalog) {
        let mut changed = catalog.changed();
        loop {
            self.publish(&catalog.view());
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    fn publish(&self, state: &State) {
        let now = standing(state, self.node, self.adopted);
        self.standing.send_if_modified(|was| {
            let new = *was != now;
            *was = now;
            new
        });
        let others = state.members().filter(|member| member.node != Some(self.node));
        let addresses: BTreeMap<NodeId, String> = others
            .filter_map(|member| Some((member.node?, member.at.clone()?)))
            .collect();
        self.addresses.send_if_modified(|was| {
            let new = **was != addresses;
            *was = Arc::new(addresses);
            new
        });
    }
}

/// Whether anything is declared in the store of `node`, so that it is not to be given up for another.
pub fn is_occupied(state: &State, node: NodeId) -> bool {
    let others = state.members().any(|member| member.node != Some(node));
    let named = state.member(node).is_some_and(|member| member.name.is_some());
    others || named || state.namespaces().next().is_some() || !state.is_open()
}

fn standing(state: &State, node: NodeId, adopted: Option<Uuid>) -> Standing {
    Standing {
        store: adopted.or_else(|| state.store()),
        banned: Arc::new(state.banned().collect()),
        occupied: adopted.is_some() || is_occupied(state, node),
    }
}
