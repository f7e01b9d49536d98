//! The memory that requests take: permits before bytes, and buffers that are used again.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes that requests of all connections may hold at one time.
///
/// Permits are taken as bytes arrive, so several half-read frames could wait for each other for ever. One of them at a time
/// may then go beyond the budget, up to its frame limit:
///
/// ```text
///   bytes held <= budget + largest frame
/// ```
pub(crate) struct Memory {
    free: Arc<Semaphore>,
    beyond: Arc<Semaphore>,
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
            free: Arc::new(Semaphore::new(budget.min(Semaphore::MAX_PERMITS))),
            beyond: Arc::new(Semaphore::new(1)),
        }
    }

    /// Takes so many bytes if they are free now.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Held> {
        let bytes = u32::try_from(bytes).ok()?;
        let permits = self.free.clone().try_acquire_many_owned(bytes).ok()?;
        Some(Held {
            permits: Some(permits),
            beyond: None,
        })
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

impl Held {
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
        assert!(memory.grow(&mut c, 60).now_or_never().is_none());
        memory.grow(&mut b, 1_000_000).now_or_never().unwrap();
        drop(b);
        memory.grow(&mut c, 60).now_or_never().unwrap();
        drop(a);
        let mut d = Held::default();
        memory.grow(&mut d, 100).now_or_never().unwrap();
        assert!(memory.grow(&mut Held::default(), 1).now_or_never().is_none());
    }
}
