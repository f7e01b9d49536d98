//! Commits of groups that are on their way to the log.
//!
//! A member that is given a partition asks where to begin. What the coordinator took of the member before it must be in that
//! answer, however long the log takes, or the position would go back by what the new member commits.

use cluster::ids::NamespaceId;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::Notify;

type Key = (NamespaceId, Arc<str>);

/// Commits that have not ended. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Commits {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    open: Mutex<Open>,
    /// Some commit has ended.
    ended: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    groups: HashMap<Key, BTreeSet<u64>>,
}

/// One commit; it has ended when this is dropped.
pub(super) struct Begun {
    commits: Commits,
    key: Key,
    number: u64,
}

impl Commits {
    /// A commit begins. To be called before it is judged.
    pub fn begin(&self, namespace: NamespaceId, group: &Arc<str>) -> Begun {
        let key = (namespace, group.clone());
        let mut open = self.shared.open.lock();
        let number = open.next;
        open.next += 1;
        open.groups.entry(key.clone()).or_default().insert(number);
        Begun {
            commits: self.clone(),
            key,
            number,
        }
    }

    /// Resolves once all commits of the group that have begun by now have ended; later ones are not waited for.
    pub async fn settled(&self, namespace: NamespaceId, group: &Arc<str>) {
        let key = (namespace, group.clone());
        let before = self.shared.open.lock().next;
        loop {
            let mut ended = std::pin::pin!(self.shared.ended.notified());
            ended.as_mut().enable();
            let oldest = {
                let open = self.shared.open.lock();
                open.groups.get(&key).and_then(|numbers| numbers.first().copied())
            };
            if oldest.is_none_or(|oldest| oldest >= before) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut open = self.commits.shared.open.lock();
        if let Some(numbers) = open.groups.get_mut(&self.key) {
            numbers.remove(&self.number);
            if numbers.is_empty() {
                open.groups.remove(&self.key);
            }
        }
        drop(open);
        self.commits.shared.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const SHOP: NamespaceId = NamespaceId(1);

    #[test]
    fn who_asks_waits_for_the_commits_before_and_no_others() {
        let commits = Commits::default();
        let (billing, other) = (Arc::from("billing"), Arc::from("other"));
        let settled = || commits.settled(SHOP, &billing);
        assert!(settled().now_or_never().is_some());
        let first = commits.begin(SHOP, &billing);
        let mut waiting = Box::pin(settled());
        assert!((&mut waiting).now_or_never().is_none());
        assert!(commits.settled(SHOP, &other).now_or_never().is_some());
        let second = commits.begin(SHOP, &billing);
        let mut later = Box::pin(settled());
        drop(first);
        assert!((&mut waiting).now_or_never().is_some());
        assert!((&mut later).now_or_never().is_none());
        drop(second);
        assert!((&mut later).now_or_never().is_some());
        assert!(commits.shared.open.lock().groups.is_empty());
    }
}
