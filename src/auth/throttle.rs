//! How long a name waits after wrong passwords. No clock and no state of the store in here.

use cluster::catalog::WrongPasswords;
use std::collections::BTreeMap;
use std::time::Duration;

/// Wrong passwords in a row that are let pass.
const FREE: u32 = 3;
/// The first wait; each further wrong password doubles it.
const FIRST_MS: i64 = 1_000;
/// The longest wait.
const LONGEST_MS: i64 = 5 * 60 * 1_000;
/// Names whose failures are kept here at most.
const MAX_NAMES: usize = 10_000;

/// How long from `now_ms` until a try is looked at; `None` for at once. Never longer than the whole wait, whatever the
/// clocks of members say.
pub(super) fn wait(wrong: WrongPasswords, now_ms: i64) -> Option<Duration> {
    let doublings = wrong.count.checked_sub(FREE)?;
    let whole = FIRST_MS
        .checked_shl(doublings.min(20))
        .unwrap_or(LONGEST_MS)
        .min(LONGEST_MS);
    let left = wrong.last_ms.saturating_add(whole).saturating_sub(now_ms).min(whole);
    match u64::try_from(left) {
        Ok(left) if left > 0 => Some(Duration::from_millis(left)),
        _ => None,
    }
}

/// Failures seen here that the catalog does not have, or not yet: it may have lost its majority, and that must not let
/// anybody try on.
#[derive(Default)]
pub(super) struct Unrecorded(BTreeMap<String, WrongPasswords>);

impl Unrecorded {
    pub(super) fn add(&mut self, name: &str, now_ms: i64) {
        if self.0.len() >= MAX_NAMES {
            // Only where the catalog takes nothing. Those that wait no longer go first, then all: the memory is bounded.
            self.0.retain(|_, wrong| wait(*wrong, now_ms).is_some());
            if self.0.len() >= MAX_NAMES {
                self.0.clear();
            }
        }
        let wrong = self
            .0
            .entry(name.to_owned())
            .or_insert(WrongPasswords { count: 0, last_ms: 0 });
        wrong.count = wrong.count.saturating_add(1);
        wrong.last_ms = now_ms;
    }

    /// One failure is in the catalog now.
    pub(super) fn recorded(&mut self, name: &str) {
        if let Some(wrong) = self.0.get_mut(name) {
            wrong.count -= 1;
            if wrong.count == 0 {
                self.0.remove(name);
            }
        }
    }

    pub(super) fn forget(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// What the catalog says and what it does not know yet, together.
    pub(super) fn with(&self, name: &str, recorded: Option<WrongPasswords>) -> Option<WrongPasswords> {
        match (self.0.get(name).copied(), recorded) {
            (Some(here), Some(there)) => Some(WrongPasswords {
                count: here.count.saturating_add(there.count),
                last_ms: here.last_ms.max(there.last_ms),
            }),
            (here, there) => here.or(there),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_a_second_to_five_minutes() {
        let after = |count| wait(WrongPasswords { count, last_ms: 1_000 }, 1_000);
        let seconds: Vec<_> = [3, 4, 5, 11, 12, 13, u32::MAX]
            .map(|n| after(n).unwrap().as_secs())
            .to_vec();
        assert_eq!(seconds, [1, 2, 4, 256, 300, 300, 300]);
        assert_eq!([0, 1, 2].map(after), [None; 3]);
    }

    #[test]
    fn a_wait_ends_and_no_clock_makes_it_longer() {
        let wrong = WrongPasswords {
            count: 4,
            last_ms: 10_000,
        };
        assert_eq!(wait(wrong, 11_500), Some(Duration::from_millis(500)));
        assert_eq!(wait(wrong, 12_000), None);
        assert_eq!(wait(wrong, i64::MIN), Some(Duration::from_millis(2_000)));
        assert_eq!(wait(wrong, i64::MAX), None);
    }

    #[test]
    fn failures_not_recorded_count_besides_those_that_are() {
        let mut here = Unrecorded::default();
        here.add("ada", 5);
        let there = WrongPasswords { count: 2, last_ms: 9 };
        assert_eq!(
            here.with("ada", Some(there)),
            Some(WrongPasswords { count: 3, last_ms: 9 })
        );
        assert_eq!(here.with("bob", Some(there)), Some(there));
        here.recorded("ada");
        assert_eq!(here.with("ada", None), None);
    }

    #[test]
    fn names_kept_here_are_bounded() {
        let mut here = Unrecorded::default();
        for n in 0..2 * MAX_NAMES {
            here.add(&n.to_string(), 1);
        }
        assert!(here.0.len() <= MAX_NAMES);
    }
}
