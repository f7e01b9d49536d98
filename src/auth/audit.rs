//! Who signed in, who changed what, who was refused: events with the target `audit`.
//!
//! Log lines go where the node's log goes; `--log-format json` makes each an object. `--log` turns them off or on by their
//! target, as in `info,audit=off`.

use super::principal::{Caller, Origin, Who};
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Lines about what did not happen, a second; there may be as many of these as anybody cares to cause.
const REFUSALS_A_SECOND: u32 = 100;

/// Tells what happened.
#[derive(Default)]
pub struct Audit {
    refusals: Mutex<Bound>,
}

#[derive(Default)]
struct Bound {
    since: Option<Instant>,
    told: u32,
    passed_over: u64,
}

impl Bound {
    /// Whether one more may be told, and how many were not before it.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if self
            .since
            .is_none_or(|since| now.duration_since(since) >= Duration::from_secs(1))
        {
            self.since = Some(now);
            self.told = 0;
        }
        if self.told >= REFUSALS_A_SECOND {
            self.passed_over += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.passed_over))
    }
}

fn name(who: &Who) -> &str {
    match who {
        Who::Anonymous => "",
        Who::User(principal) => &principal.name,
        Who::Folder => "(folder)",
    }
}

fn remote(origin: &Origin) -> String {
    origin.remote.map_or_else(String::new, |remote| remote.to_string())
}

impl Audit {
    pub(super) fn sign_in(&self, user: &str, origin: &Origin, outcome: &'static str) {
        let passed_over = match outcome {
            "good" => 0,
            _ => match self.refusals.lock().take(Instant::now()) {
                Some(passed_over) => passed_over,
                None => return,
            },
        };
        tracing::info!(
            target: "audit",
            event = "sign-in",
            outcome,
            user,
            surface = %origin.surface,
            remote = remote(origin),
            passed_over,
        );
    }

    /// Users, grants or members were changed: `what` is the statement, without passwords.
    pub fn changed(&self, caller: &Caller, what: &str) {
        tracing::info!(
            target: "audit",
            event = "change",
            user = name(&caller.who),
            surface = %caller.origin.surface,
            remote = remote(&caller.origin),
            what,
        );
    }

    /// Somebody may not: `what` says what was refused, without passwords or the contents of messages.
    pub fn refused(&self, who: &Who, origin: &Origin, what: &str) {
        let Some(passed_over) = self.refusals.lock().take(Instant::now()) else {
            return;
        };
        tracing::info!(
            target: "audit",
            event = "refusal",
            user = name(who),
            surface = %origin.surface,
            remote = remote(origin),
            what,
            passed_over,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_told_are_bounded_and_those_passed_over_counted() {
        let (mut bound, start) = (Bound::default(), Instant::now());
        for _ in 0..REFUSALS_A_SECOND {
            assert_eq!(bound.take(start), Some(0));
        }
        assert_eq!(bound.take(start), None);
        assert_eq!(bound.take(start + Duration::from_millis(999)), None);
        assert_eq!(bound.take(start + Duration::from_secs(1)), Some(2));
        assert_eq!(bound.take(start + Duration::from_secs(1)), Some(0));
    }
}
