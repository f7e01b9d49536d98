//! How long a range is left alone after it was handed over.
//!
//! A hand-over stops the range for a moment. Where the lead doesn't stay where it is wanted, since that member is short of
//! time or its connections are slow, handing it over again and again would be all that the range does. So each further
//! one waits twice as long, until the lead has stayed for a while.

use std::time::Duration;
use tokio::time::Instant;

/// After the first hand-over.
const FIRST: Duration = Duration::from_secs(2);
/// After many in a row.
const LONGEST: Duration = Duration::from_secs(64);
/// A range that was not handed over for so long begins anew.
const FORGOTTEN: Duration = Duration::from_secs(180);

/// A range's rest. Time is an argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    since: Instant,
    length: Duration,
}

impl Rest {
    /// The rest after a hand-over at `now`, which followed on `before`.
    pub fn after(before: Option<Self>, now: Instant) -> Self {
        let length = match before {
            Some(before) if now.saturating_duration_since(before.since) < FORGOTTEN => (before.length * 2).min(LONGEST),
            _ => FIRST,
        };
        Self { since: now, length }
    }

    /// Whether the range is still to be left alone.
    pub fn lasts(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_that_does_not_stay_is_handed_over_ever_more_rarely() {
        let mut now = Instant::now();
        let mut rest = None;
        let mut lengths = Vec::new();
        for _ in 0..8 {
            let next = Rest::after(rest, now);
            lengths.push(next.length.as_secs());
            assert!(next.lasts(now + next.length - Duration::from_millis(1)));
            now += next.length;
            assert!(!next.lasts(now));
            rest = Some(next);
        }
        assert_eq!(lengths, [2, 4, 8, 16, 32, 64, 64, 64]);
        let anew = Rest::after(rest, now + FORGOTTEN);
        assert_eq!(anew.length, FIRST);
    }
}
