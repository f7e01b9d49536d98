//! When a connection last moved: what the reaper looks at, at the cost of one relaxed store per event.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

/// The limits of [`super::KafkaConfig`] that the reaper enforces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub idle: Duration,
    pub stall: Duration,
}

/// Why a connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tired {
    Idle,
    HalfFrame,
    SlowReader,
}

/// Moments are milliseconds since the connection was made, plus one; 0 means that nothing is waited for.
pub(crate) struct Pulse {
    made: Instant,
    frame: AtomicU64,
    write: AtomicU64,
    request: AtomicU64,
    open: AtomicUsize,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            made: Instant::now(),
            frame: AtomicU64::new(0),
            write: AtomicU64::new(0),
            request: AtomicU64::new(1),
            open: AtomicUsize::new(0),
        }
    }

    fn now(&self) -> u64 {
        self.made.elapsed().as_millis() as u64 + 1
    }

    /// A frame is begun, and the client must go on with it.
    pub(crate) fn frame_moves(&self) {
        self.frame.store(self.now(), Relaxed);
    }

    /// Between frames, or waiting for memory: not the client's doing.
    pub(crate) fn frame_waits(&self) {
        self.frame.store(0, Relaxed);
    }

    /// The socket took bytes, and must take more.
    pub(crate) fn write_moves(&self) {
        self.write.store(self.now(), Relaxed);
    }

    /// Nothing is to be written.
    pub(crate) fn write_done(&self) {
        self.write.store(0, Relaxed);
    }

    /// A request came.
    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Relaxed);
    }

    /// A request is answered.
    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Relaxed);
        self.request.store(self.now(), Relaxed);
    }

    /// Requests not answered yet.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Whether the connection has outlived the patience with it.
    pub(crate) fn tired(&self, patience: Patience) -> Option<Tired> {
        let now = self.now();
        let since = |moment: &AtomicU64| match moment.load(Relaxed) {
            0 => Duration::ZERO,
            at => Duration::from_millis(now.saturating_sub(at)),
        };
        if since(&self.frame) > patience.stall {
            Some(Tired::HalfFrame)
        } else if since(&self.write) > patience.stall {
            Some(Tired::SlowReader)
        } else if self.open() == 0 && since(&self.request) > patience.idle {
            Some(Tired::Idle)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tells_idle_from_stalled_from_busy() {
        let patience = Patience {
            idle: Duration::from_secs(600),
            stall: Duration::from_secs(60),
        };
        let pulse = Pulse::new();
        let pass = |s| tokio::time::advance(Duration::from_secs(s));
        pass(590).await;
        assert_eq!(pulse.tired(patience), None);
        pulse.opened();
        pass(700).await;
        assert_eq!(pulse.tired(patience), None);
        pulse.write_moves();
        pass(61).await;
        assert_eq!(pulse.tired(patience), Some(Tired::SlowReader));
        pulse.write_done();
        pulse.closed();
        assert_eq!(pulse.tired(patience), None);
        pulse.frame_moves();
        pass(61).await;
        assert_eq!(pulse.tired(patience), Some(Tired::HalfFrame));
        pulse.frame_waits();
        pass(600).await;
        assert_eq!(pulse.tired(patience), Some(Tired::Idle));
    }
}
