//! The memory that requests and answers take: permits before bytes.

use super::answers::Answers;
use super::pulse::HURRY;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// What the requests and answers of a node's ports may hold, all ports together. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Budget {
    /// What requests may hold that are not whole yet.
    pub(crate) arriving: Arc<Memory>,
    /// What whole requests may hold.
    pub(crate) memory: Arc<Memory>,
    /// What answers may hold of records in memory.
    pub(crate) answers: Arc<Answers>,
}

impl Budget {
    /// A budget of so many bytes for requests, a quarter of it for those that are still arriving, and as many for answers.
    pub fn new(bytes: usize) -> Self {
        let arriving = bytes / 4;
        Self {
            arriving: Arc::new(Memory::new(arriving)),
            memory: Arc::new(Memory::new(bytes - arriving)),
            answers: Arc::new(Answers::new(bytes)),
        }
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").finish_non_exhaustive()
    }
}

/// The bytes that requests of all connections may hold at one time.
///
/// Permits are taken as bytes arrive, so several half-read frames could wait for each other for ever. One of them at a time
/// may then go beyond the budget, up to its frame limit:
///
/// ```text
///   bytes held <= budget + largest frame
/// ```
pub(crate) struct Memory {
    budget: usize,
    free: Arc<Semaphore>,
    beyond: Arc<Semaphore>,
    waiting: Mutex<Waiters>,
}

/// Since when each waits, in the order they came.
#[derive(Default)]
struct Waiters {
    next: u64,
    since: BTreeMap<u64, Instant>,
    /// When somebody last went without what was not free.
    refused: Option<Instant>,
}

/// Bytes held; given back when dropped.
#[derive(Default)]
pub(crate) struct Held {
    permits: Option<OwnedSemaphorePermit>,
    beyond: Option<OwnedSemaphorePermit>,
}

impl Memory {
    /// A budget in bytes.
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            budget,
            free: Arc::new(Semaphore::new(budget.min(Semaphore::MAX_PERMITS))),
            beyond: Arc::new(Semaphore::new(1)),
            waiting: Mutex::default(),
        }
    }

    /// Bytes there are in all.
    pub(crate) fn budget(&self) -> usize {
        self.budget
    }

    /// Whether at least half of it is free.
    pub(crate) fn is_roomy(&self) -> bool {
        self.free.available_permits() >= self.budget / 2
    }

    /// How long the one has waited that waits longest for bytes that others hold.
    pub(crate) fn longest_wait(&self) -> Option<Duration> {
        let waiting = self.waiting.lock();
        waiting.since.first_key_value().map(|(_, since)| since.elapsed())
    }

    /// Takes so many bytes if they are free now.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Held> {
        let bytes = u32::try_from(bytes).ok()?;
        let Ok(permits) = self.free.clone().try_acquire_many_owned(bytes) else {
            self.waiting.lock().refused = Some(Instant::now());
            return None;
        };
        Some(Held {
            permits: Some(permits),
            beyond: None,
        })
    }

    /// Whether somebody waits for bytes that others hold, or went without a moment ago.
    pub(crate) fn is_short(&self) -> bool {
        let waiting = self.waiting.lock();
        !waiting.since.is_empty() || waiting.refused.is_some_and(|at| at.elapsed() < HURRY)
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.available_permits()
    }

    /// Takes so many bytes more, waiting while others hold too much.
    pub(crate) async fn grow(&self, held: &mut Held, bytes: usize) {
        if bytes == 0 || held.beyond.is_some() {
            return;
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Ok(more) = self.free.clone().try_acquire_many_owned(bytes) {
            held.add(more);
            return;
        }
        let _waiting = Waiting::new(&self.waiting);
        // Neither semaphore is ever closed; an error would mean no limit, not no service.
        tokio::select! {
            biased;
            more = self.free.clone().acquire_many_owned(bytes) => {
                if let Ok(more) = more {
                    held.add(more);
                }
            }
            beyond = self.beyond.clone().acquire_owned() => held.beyond = beyond.ok(),
        }
    }
}

/// Listed while it is held, also by a future that is dropped.
struct Waiting<'m> {
    waiters: &'m Mutex<Waiters>,
    number: u64,
}

impl<'m> Waiting<'m> {
    fn new(waiters: &'m Mutex<Waiters>) -> Self {
        let mut listed = waiters.lock();
        let number = listed.next;
        listed.next += 1;
        listed.since.insert(number, Instant::now());
        Self { waiters, number }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waiters.lock().since.remove(&self.number);
    }
}

impl Held {
    /// The bytes of both.
    pub(crate) fn and(mut self, other: Self) -> Self {
        if let Some(more) = other.permits {
            self.add(more);
        }
        self.beyond = self.beyond.or(other.beyond);
        self
    }

    /// Bytes of the budget; what is beyond it is not told.
    pub(crate) fn bytes(&self) -> usize {
        self.permits.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Gives back what it holds more than so many bytes.
    pub(crate) fn keep(&mut self, bytes: usize) {
        let within = self.bytes();
        if let (Some(permits), Some(more)) = (&mut self.permits, within.checked_sub(bytes)) {
            drop(permits.split(more));
        }
        if within >= bytes {
            self.beyond = None;
        }
    }

    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.permits {
            Some(permits) => permits.merge(more),
            none => *none = Some(more),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn one_goes_beyond_the_budget_and_the_next_waits() {
        let memory = Memory::new(100);
        let (mut a, mut b, mut c) = (Held::default(), Held::default(), Held::default());
        memory.grow(&mut a, 60).now_or_never().unwrap();
        memory.grow(&mut b, 60).now_or_never().unwrap();
        assert!(!memory.is_roomy() && memory.longest_wait().is_none());
        let mut waiting = Box::pin(memory.grow(&mut c, 60));
        assert!((&mut waiting).now_or_never().is_none());
        assert!(memory.longest_wait().is_some());
        drop(waiting);
        assert!(memory.longest_wait().is_none());
        memory.grow(&mut b, 1_000_000).now_or_never().unwrap();
        drop(b);
        memory.grow(&mut c, 60).now_or_never().unwrap();
        drop(a);
        let mut d = Held::default();
        memory.grow(&mut d, 100).now_or_never().unwrap();
        assert!(memory.grow(&mut Held::default(), 1).now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_without_makes_it_short_for_a_moment() {
        let memory = Memory::new(100);
        let held = memory.try_take(60);
        assert!(held.is_some() && !memory.is_short());
        assert!(memory.try_take(60).is_none() && memory.is_short());
        tokio::time::advance(HURRY).await;
        assert!(!memory.is_short());
    }
}
