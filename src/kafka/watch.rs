//! Tells open connections what the catalog changed for them: waiting fetches that topics or rights changed, and
//! connections whose user is no more that they end.
//!
//! One task looks at each change of the catalog; most are none of the connections' business (a producer id, a wrong
//! password), and waking every waiting fetch for those would be a way to keep a node busy.

use super::call::{Peer, Shared};
use crate::auth::{self, NotStanding};
use cluster::catalog::State;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::watch;

/// Connections that a user has signed in on, and who waits for changes.
pub(crate) struct Watch {
    signed_in: Mutex<HashMap<usize, Weak<Peer>>>,
    changes: watch::Sender<()>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            signed_in: Mutex::default(),
            changes: watch::Sender::new(()),
        }
    }

    /// Changes when topics, users or grants do.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// From now on the connection ends with its user.
    pub(crate) fn enter(&self, peer: &Arc<Peer>) {
        let mut signed_in = self.signed_in.lock();
        if signed_in.len() == signed_in.capacity() {
            signed_in.retain(|_, peer| peer.strong_count() > 0);
        }
        // A place is a live connection's own; that of a closed one may be taken over.
        signed_in.insert(Arc::as_ptr(peer) as usize, Arc::downgrade(peer));
    }

    /// Ends the connections whose user is no more, or has another password.
    fn sweep(&self, view: &State) {
        let peers: Vec<Arc<Peer>> = {
            let mut signed_in = self.signed_in.lock();
            signed_in.retain(|_, peer| peer.strong_count() > 0);
            signed_in.values().filter_map(Weak::upgrade).collect()
        };
        for peer in peers {
            if auth::standing(view, &peer.sign_in.who()).err() == Some(NotStanding::Ended) {
                peer.ended.cancel();
            }
        }
    }
}

/// Looks at every change of the catalog; never returns.
pub(crate) async fn look_out(shared: Arc<Shared>) {
    let catalog = shared.broker.catalog();
    let mut versions = catalog.changed();
    let mut before = catalog.view();
    loop {
        if versions.changed().await.is_err() {
            // The catalog is gone, and the node with it.
            return;
        }
        let now = catalog.view();
        let users = !now.has_users_of(&before);
        if users {
            shared.watch.sweep(&now);
        }
        if users || !now.has_topics_of(&before) {
            shared.watch.changes.send_replace(());
        }
        before = now;
    }
}
