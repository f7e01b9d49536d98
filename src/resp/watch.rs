//! Tells connections what the catalog changed for them: topics or rights, for reads that wait; users, for connections that
//! end with theirs. Most changes of the catalog (a producer id, a wrong password) are none of their business.

use super::call::Shared;
use std::sync::Arc;
use tokio::sync::watch;

/// Who waits for changes.
pub(crate) struct Changes {
    users: watch::Sender<()>,
    any: watch::Sender<()>,
}

impl Changes {
    pub(crate) fn new() -> Self {
        Self {
            users: watch::Sender::new(()),
            any: watch::Sender::new(()),
        }
    }

    /// Changes when users or what they may do does.
    pub(crate) fn users(&self) -> watch::Receiver<()> {
        self.users.subscribe()
    }

    /// Changes when topics do, too.
    pub(crate) fn any(&self) -> watch::Receiver<()> {
        self.any.subscribe()
    }
}

/// Looks at every change of the catalog; never returns while there is one.
pub(crate) async fn look_out(shared: Arc<Shared>) {
    let catalog = shared.broker.catalog();
    let mut versions = catalog.changed();
    let mut before = catalog.view();
    while versions.changed().await.is_ok() {
        let now = catalog.view();
        let users = !now.has_users_of(&before);
        if users {
            shared.changes.users.send_replace(());
        }
        if users || !now.has_topics_of(&before) {
            shared.changes.any.send_replace(());
        }
        before = now;
    }
}
