//! When which group wants its clock read: one task for all groups, asleep until the earliest.

use super::member::Millis;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Weak;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until};

/// A clock that never goes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(&self) -> Millis {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(Millis::MAX)
    }

    /// `None` for a time too far away to come.
    fn at(&self, millis: Millis) -> Option<Instant> {
        self.0.checked_add(Duration::from_millis(millis))
    }
}

/// Times, each with what it is for.
pub(super) struct Timers<T> {
    due: Mutex<Due<T>>,
    earlier: Notify,
}

struct Due<T> {
    next: u64,
    at: BTreeMap<(Millis, u64), Weak<T>>,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self {
            due: Mutex::new(Due {
                next: 0,
                at: BTreeMap::new(),
            }),
            earlier: Notify::new(),
        }
    }
}

impl<T> Timers<T> {
    pub(super) fn add(&self, at: Millis, what: Weak<T>) {
        let mut due = self.due.lock();
        let number = due.next;
        due.next += 1;
        due.at.insert((at, number), what);
        if due.at.keys().next() == Some(&(at, number)) {
            self.earlier.notify_one();
        }
    }

    /// Waits until something is due and takes it.
    pub(super) async fn due(&self, clock: Clock) -> Vec<(Millis, Weak<T>)> {
        loop {
            let first = self.due.lock().at.keys().next().map(|(at, _)| *at);
            match first.and_then(|at| clock.at(at)) {
                Some(at) => tokio::select! {
                    () = self.earlier.notified() => continue,
                    () = sleep_until(at) => {}
                },
                None => {
                    self.earlier.notified().await;
                    continue;
                }
            }
            let now = clock.now();
            let mut due = self.due.lock();
            let later = due.at.split_off(&(now.saturating_add(1), 0));
            let taken = std::mem::replace(&mut due.at, later);
            if !taken.is_empty() {
                return taken.into_iter().map(|((at, _), what)| (at, what)).collect();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test(start_paused = true)]
    async fn due_in_order_and_woken_by_an_earlier_one() {
        let clock = Clock::start();
        let timers = Arc::new(Timers::<u32>::default());
        let (a, b) = (Arc::new(1), Arc::new(2));
        timers.add(5_000, Arc::downgrade(&a));
        let waiting = tokio::spawn({
            let timers = timers.clone();
            async move {
                let first = timers.due(clock).await;
                (clock.now(), first[0].0, first[0].1.upgrade().map(|v| *v))
            }
        });
        tokio::task::yield_now().await;
        timers.add(1_000, Arc::downgrade(&b));
        let (now, at, what) = waiting.await.unwrap();
        assert_eq!((at, what), (1_000, Some(2)));
        assert!((1_000..5_000).contains(&now));
        let second = timers.due(clock).await;
        assert_eq!(second[0].0, 5_000);
    }
}
