//! When a connection last moved, and how much: what the reaper looks at, at the cost of one relaxed store per event.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

/// The limits of a port that the reaper enforces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub idle: Duration,
    pub stall: Duration,
    /// From a connection's beginning to its sign-in.
    pub sign_in: Duration,
    /// Whether requests wait for memory that half-read ones hold: these must hurry then.
    pub pressed: bool,
    /// Whether answers wait for memory that others hold: who takes these must hurry then.
    pub answers_pressed: bool,
}

/// How long a half-read frame, or an answer that is being taken, may rest, and how many bytes of it a second must come or
/// go, while others wait for memory.
pub(crate) const HURRY: Duration = Duration::from_secs(2);
const PACE: u64 = 32 << 10;

/// Why a connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tired {
    NotSignedIn,
    Idle,
    HalfFrame,
    SlowReader,
}

/// Moments are milliseconds since the connection was made, plus one; 0 means that nothing is waited for.
pub(crate) struct Pulse {
    made: Instant,
    admitted: AtomicBool,
    frame: AtomicU64,
    /// Since when the frame arrives without waiting for memory, and the bytes since.
    arriving: AtomicU64,
    arrived: AtomicU64,
    /// Length of the frame that arrives, and since when.
    claim: AtomicU64,
    claimed: AtomicU64,
    write: AtomicU64,
    /// Bytes of memory that what is written holds, and by when more of it must have gone.
    holds: AtomicUsize,
    due: AtomicU64,
    request: AtomicU64,
    open: AtomicUsize,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl Pulse {
    /// `admitted`: nothing is asked of the client before its requests.
    pub(crate) fn new(admitted: bool) -> Self {
        Self {
            made: Instant::now(),
            admitted: AtomicBool::new(admitted),
            frame: AtomicU64::new(0),
            arriving: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            claim: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
            write: AtomicU64::new(0),
            holds: AtomicUsize::new(0),
            due: AtomicU64::new(0),
            request: AtomicU64::new(1),
            open: AtomicUsize::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        self.made.elapsed().as_millis() as u64 + 1
    }

    /// The client is through its handshake, and signed in where that is wanted: it no longer counts as a newcomer.
    pub(crate) fn admit(&self) {
        self.admitted.store(true, Relaxed);
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.admitted.load(Relaxed)
    }

    /// A frame is begun, and the client must go on with it.
    pub(crate) fn frame_moves(&self) {
        let now = self.now();
        if self.frame.load(Relaxed) == 0 {
            self.arriving.store(now, Relaxed);
            self.arrived.store(0, Relaxed);
        }
        self.frame.store(now, Relaxed);
    }

    /// Bytes came.
    pub(crate) fn received(&self, bytes: usize) {
        // One task writes these; others only read them.
        let add = |counter: &AtomicU64| counter.store(counter.load(Relaxed) + bytes as u64, Relaxed);
        add(&self.arrived);
        add(&self.bytes_in);
    }

    /// A frame of so many bytes is on its way that takes memory for itself; 0: it is whole.
    pub(crate) fn frame_claims(&self, bytes: usize) {
        self.claimed.store(self.now(), Relaxed);
        self.claim.store(bytes as u64, Relaxed);
    }

    /// The bytes of the frame that arrives, and for how long it has; 0 where none does.
    pub(crate) fn claim(&self) -> (u64, Duration) {
        let age = self.now().saturating_sub(self.claimed.load(Relaxed));
        (self.claim.load(Relaxed), Duration::from_millis(age))
    }

    /// Between frames, or waiting for memory: not the client's doing.
    pub(crate) fn frame_waits(&self) {
        self.frame.store(0, Relaxed);
    }

    /// What is written next holds so many bytes of the memory that answers share.
    pub(crate) fn write_holds(&self, bytes: usize) {
        self.holds.store(bytes, Relaxed);
    }

    /// The socket took bytes, and must take more.
    pub(crate) fn write_moves(&self) {
        let now = self.now();
        if self.write.load(Relaxed) == 0 {
            self.due.store(now + HURRY.as_millis() as u64, Relaxed);
        }
        self.write.store(now, Relaxed);
    }

    /// Bytes went: they give time for the next ones. No more than `HURRY` is saved up, as a socket takes the first ones at
    /// once, whether the client does or not.
    pub(crate) fn sent(&self, bytes: usize) {
        let now = self.now();
        let earned = self.due.load(Relaxed).max(now) + (bytes as u64).saturating_mul(1000) / PACE;
        self.due.store(earned.min(now + HURRY.as_millis() as u64), Relaxed);
        self.bytes_out
            .store(self.bytes_out.load(Relaxed) + bytes as u64, Relaxed);
    }

    /// Nothing is to be written.
    pub(crate) fn write_done(&self) {
        self.write.store(0, Relaxed);
        self.holds.store(0, Relaxed);
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

    /// Bytes received and sent so far.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.bytes_in.load(Relaxed), self.bytes_out.load(Relaxed))
    }

    /// Whether the connection has outlived the patience with it.
    pub(crate) fn tired(&self, patience: Patience) -> Option<Tired> {
        let now = self.now();
        let since = |moment: &AtomicU64| match moment.load(Relaxed) {
            0 => Duration::ZERO,
            at => Duration::from_millis(now.saturating_sub(at)),
        };
        if !self.is_admitted() && self.open() == 0 && self.made.elapsed() > patience.sign_in {
            Some(Tired::NotSignedIn)
        } else if since(&self.frame) > patience.stall || (patience.pressed && self.dawdles(now)) {
            Some(Tired::HalfFrame)
        } else if since(&self.write) > patience.stall || (patience.answers_pressed && self.is_overdue(now)) {
            Some(Tired::SlowReader)
        } else if self.open() == 0 && since(&self.request) > patience.idle {
            Some(Tired::Idle)
        } else {
            None
        }
    }

    /// Whether an answer that holds memory is hardly taken.
    fn is_overdue(&self, now: u64) -> bool {
        self.write.load(Relaxed) != 0 && self.holds.load(Relaxed) > 0 && now > self.due.load(Relaxed)
    }

    /// Whether a frame is on its way that hardly moves.
    fn dawdles(&self, now: u64) -> bool {
        if self.frame.load(Relaxed) == 0 {
            return false;
        }
        let taken = Duration::from_millis(now.saturating_sub(self.arriving.load(Relaxed)));
        taken > HURRY && self.arrived.load(Relaxed) < PACE * taken.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        idle: Duration::from_secs(600),
        stall: Duration::from_secs(60),
        sign_in: Duration::from_secs(10),
        pressed: false,
        answers_pressed: false,
    };

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn tells_idle_from_stalled_from_busy() {
        let pulse = Pulse::new(true);
        pass(590).await;
        assert_eq!(pulse.tired(PATIENCE), None);
        pulse.opened();
        pass(700).await;
        assert_eq!(pulse.tired(PATIENCE), None);
        pulse.write_moves();
        pass(61).await;
        assert_eq!(pulse.tired(PATIENCE), Some(Tired::SlowReader));
        pulse.write_done();
        pulse.closed();
        assert_eq!(pulse.tired(PATIENCE), None);
        pulse.frame_moves();
        pass(61).await;
        assert_eq!(pulse.tired(PATIENCE), Some(Tired::HalfFrame));
        pulse.frame_waits();
        pass(600).await;
        assert_eq!(pulse.tired(PATIENCE), Some(Tired::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_has_little_time_unless_its_sign_in_is_looked_at() {
        let pulse = Pulse::new(false);
        pass(10).await;
        assert_eq!(pulse.tired(PATIENCE), None);
        pass(1).await;
        assert_eq!(pulse.tired(PATIENCE), Some(Tired::NotSignedIn));
        pulse.opened();
        assert_eq!(pulse.tired(PATIENCE), None);
        pulse.closed();
        pulse.admit();
        assert_eq!(pulse.tired(PATIENCE), None);
    }

    #[tokio::test(start_paused = true)]
    async fn half_frames_must_hurry_while_others_wait_for_memory() {
        let pressed = Patience {
            pressed: true,
            ..PATIENCE
        };
        let pulse = Pulse::new(true);
        pulse.frame_moves();
        pass(3).await;
        assert_eq!(pulse.tired(PATIENCE), None);
        assert_eq!(pulse.tired(pressed), Some(Tired::HalfFrame));
        // A byte now and then is not enough.
        pulse.frame_moves();
        pulse.received(1);
        assert_eq!(pulse.tired(pressed), Some(Tired::HalfFrame));
        pulse.received(3 * PACE as usize);
        assert_eq!(pulse.tired(pressed), None);
        // Time spent waiting for memory is not the client's.
        pulse.frame_waits();
        pass(50).await;
        assert_eq!(pulse.tired(pressed), None);
        pulse.frame_moves();
        assert_eq!(pulse.tired(pressed), None);
        assert_eq!(pulse.bytes(), (3 * PACE + 1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_hold_memory_must_be_taken_while_others_wait_for_it() {
        let pressed = Patience {
            answers_pressed: true,
            ..PATIENCE
        };
        let pulse = Pulse::new(true);
        pulse.opened();
        pulse.write_moves();
        pass(3).await;
        assert_eq!(pulse.tired(pressed), None, "it holds nothing");
        pulse.write_done();
        pulse.write_holds(16 << 20);
        pulse.write_moves();
        assert_eq!(pulse.tired(pressed), None, "it has just begun");
        // What the socket takes at once buys no more time than a moment.
        pulse.sent(6 << 20);
        pulse.write_moves();
        pass(3).await;
        assert_eq!(pulse.tired(PATIENCE), None);
        assert_eq!(pulse.tired(pressed), Some(Tired::SlowReader));
        // A byte now and then is not enough; what goes at a pace is.
        pulse.sent(1);
        pulse.write_moves();
        pass(1).await;
        assert_eq!(pulse.tired(pressed), Some(Tired::SlowReader));
        for _ in 0..10 {
            pulse.sent(2 * PACE as usize);
            pulse.write_moves();
            pass(1).await;
            assert_eq!(pulse.tired(pressed), None);
        }
        pulse.write_done();
        pass(3).await;
        assert_eq!(pulse.tired(pressed), None);
    }
}
