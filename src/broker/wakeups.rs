//! Who waits for which partitions.
//!
//! ```text
//!   subscribe --> shard of each partition (few partitions)     <-- wake: shards of what was appended, exact partitions
//!            \--> wide list, with a mask of shards (many)      <-- wake: masks that meet it
//! ```
//!
//! A subscription costs nothing while nothing is appended; an append to a partition nobody waits for costs two loads. A wide
//! subscription may wake for a partition of the same shard that it did not ask for: its owner looks and waits again.

use cluster::ids::PartitionId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use tokio::sync::Notify;

const SHARDS: usize = 256;
/// Subscriptions to more partitions than this are wide.
const NARROW: usize = 16;

/// A set of shards.
#[derive(Clone, Copy, Default)]
struct Mask([u64; SHARDS / 64]);

impl Mask {
    fn insert(&mut self, shard: usize) {
        self.0[shard / 64] |= 1 << (shard % 64);
    }

    fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }
}

fn shard(id: PartitionId) -> usize {
    let mixed = (id.topic.0 ^ u64::from(id.index).rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 56) as usize % SHARDS
}

struct List<T> {
    /// How many wait: looked at without the lock.
    count: AtomicUsize,
    waiting: Mutex<Vec<(T, Arc<Notify>)>>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            count: AtomicUsize::new(0),
            waiting: Mutex::default(),
        }
    }
}

impl<T> List<T> {
    fn add(&self, key: T, who: &Arc<Notify>) {
        let mut waiting = self.waiting.lock();
        waiting.push((key, who.clone()));
        self.count.store(waiting.len(), Ordering::Relaxed);
    }

    fn remove(&self, who: &Arc<Notify>) {
        let mut waiting = self.waiting.lock();
        waiting.retain(|(_, other)| !Arc::ptr_eq(who, other));
        self.count.store(waiting.len(), Ordering::Relaxed);
    }

    fn wake(&self, wanted: impl Fn(&T) -> bool) {
        if self.count.load(Ordering::Relaxed) > 0 {
            for (key, who) in self.waiting.lock().iter() {
                if wanted(key) {
                    who.notify_one();
                }
            }
        }
    }
}

/// The waiting subscriptions of a node.
pub(super) struct Wakeups {
    narrow: Box<[List<PartitionId>]>,
    wide: List<Mask>,
}

impl Default for Wakeups {
    fn default() -> Self {
        Self {
            narrow: (0..SHARDS).map(|_| List::default()).collect(),
            wide: List::default(),
        }
    }
}

impl Wakeups {
    /// Wakes who waits for any of `partitions`. To be called once what they wait for can be seen.
    pub(super) fn wake(&self, partitions: &[PartitionId]) {
        // Pairs with the fence in `subscribe`: either the subscriber's later look sees the append, or this sees the
        // subscriber.
        fence(Ordering::SeqCst);
        let mut mask = Mask::default();
        for id in partitions {
            let shard = shard(*id);
            mask.insert(shard);
            self.narrow[shard].wake(|wanted| wanted == id);
        }
        self.wide.wake(|wanted| wanted.meets(&mask));
    }

    /// Wakes everybody: who leads has changed.
    pub(super) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        self.narrow.iter().for_each(|list| list.wake(|_| true));
        self.wide.wake(|_| true);
    }

    pub(super) fn subscribe(self: &Arc<Self>, partitions: &[PartitionId]) -> Subscription {
        let notify = Arc::new(Notify::new());
        let mut mask = Mask::default();
        partitions.iter().for_each(|id| mask.insert(shard(*id)));
        let wide = partitions.len() > NARROW;
        if wide {
            self.wide.add(mask, &notify);
        } else {
            for id in partitions {
                self.narrow[shard(*id)].add(*id, &notify);
            }
        }
        fence(Ordering::SeqCst);
        Subscription {
            wakeups: self.clone(),
            notify,
            mask,
            wide,
        }
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        let narrow: usize = self.narrow.iter().map(|list| list.waiting.lock().len()).sum();
        narrow + self.wide.waiting.lock().len()
    }
}

/// See [`Broker::subscribe`](super::Broker::subscribe). Ends when dropped.
pub struct Subscription {
    wakeups: Arc<Wakeups>,
    notify: Arc<Notify>,
    mask: Mask,
    wide: bool,
}

impl Subscription {
    /// Resolves at the first change since the subscription was made or last woke. May resolve without a change: look again,
    /// and wait again. Cancel safe.
    pub async fn changed(&mut self) {
        self.notify.notified().await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if self.wide {
            self.wakeups.wide.remove(&self.notify);
            return;
        }
        for (word, mut bits) in self.mask.0.into_iter().enumerate() {
            while bits != 0 {
                self.wakeups.narrow[word * 64 + bits.trailing_zeros() as usize].remove(&self.notify);
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::ids::TopicId;
    use futures::FutureExt;

    fn partition(index: u32) -> PartitionId {
        PartitionId {
            topic: TopicId(7),
            index,
        }
    }

    fn woken(subscription: &mut Subscription) -> bool {
        subscription.changed().now_or_never().is_some()
    }

    #[test]
    fn wakes_who_waits_for_the_partition_and_nobody_else() {
        let wakeups = Arc::new(Wakeups::default());
        let mut one = wakeups.subscribe(&[partition(1)]);
        let mut both = wakeups.subscribe(&[partition(1), partition(2)]);
        let mut other = wakeups.subscribe(&[partition(3)]);
        let all: Vec<_> = (0..1000).map(partition).collect();
        let mut wide = wakeups.subscribe(&all);
        wakeups.wake(&[partition(1)]);
        assert!(woken(&mut one) && woken(&mut both) && woken(&mut wide));
        assert!(!woken(&mut other));
        assert!(!woken(&mut one) && !woken(&mut wide), "one change wakes once");
        wakeups.wake(&[partition(2), partition(2)]);
        assert!(!woken(&mut one) && woken(&mut both) && woken(&mut wide));
        assert!(!woken(&mut both), "a change told twice in one run wakes once");
    }

    #[test]
    fn a_change_between_subscribing_and_waiting_is_not_lost() {
        let wakeups = Arc::new(Wakeups::default());
        let mut subscription = wakeups.subscribe(&[partition(1)]);
        wakeups.wake(&[partition(1)]);
        assert!(woken(&mut subscription));
        wakeups.wake_all();
        assert!(woken(&mut subscription));
    }

    #[test]
    fn nothing_stays_behind_a_dropped_subscription() {
        let wakeups = Arc::new(Wakeups::default());
        let all: Vec<_> = (0..1000).map(partition).collect();
        let subscriptions: Vec<_> = [&all[..], &all[..1], &all[..NARROW], &[partition(1), partition(1)]]
            .into_iter()
            .map(|p| wakeups.subscribe(p))
            .collect();
        assert!(wakeups.waiting() > 0);
        drop(subscriptions);
        assert_eq!(wakeups.waiting(), 0);
        assert!(wakeups.narrow.iter().all(|l| l.count.load(Ordering::Relaxed) == 0));
    }
}
