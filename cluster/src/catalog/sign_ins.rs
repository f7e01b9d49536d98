//! Wrong passwords, by name: one count for the whole store, kept alike for users and for names that nobody has, so that
//! nothing tells which is which.

use super::model::WrongPasswords;
use super::state::State;
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

/// Names remembered. The least troubled one makes room for a further one: whoever wants a name forgotten has to bring
/// all others to as many wrong passwords, which takes longer than to wait.
pub const MAX_NAMES: usize = 10_000;
/// Bytes of a name that count.
const MAX_NAME: usize = 200;
/// After so long without a wrong password, counting starts anew. Milliseconds.
const FORGOTTEN_MS: i64 = 24 * 60 * 60 * 1000;

/// The counts. Persistent, as the whole state is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct SignIns(OrdMap<String, WrongPasswords>);

impl SignIns {
    pub(super) fn count(&mut self, name: &str, now_ms: i64) {
        let name = key(name);
        let before = self.0.get(name).copied();
        if before.is_none() && self.0.len() >= MAX_NAMES {
            let least = self.0.iter().min_by_key(|(_, w)| (w.count, w.last_ms));
            if let Some(least) = least.map(|(name, _)| name.clone()) {
                self.0.remove(&least);
            }
        }
        let count = match before {
            Some(before) if now_ms.saturating_sub(before.last_ms) < FORGOTTEN_MS => before.count.saturating_add(1),
            _ => 1,
        };
        // Members' clocks differ: the last moment told is never taken back.
        let last_ms = before.map_or(now_ms, |before| before.last_ms.max(now_ms));
        self.0.insert(name.to_owned(), WrongPasswords { count, last_ms });
    }

    pub(super) fn forget(&mut self, name: &str) {
        self.0.remove(key(name));
    }
}

fn key(name: &str) -> &str {
    let end = (0..=name.len().min(MAX_NAME))
        .rev()
        .find(|at| name.is_char_boundary(*at));
    &name[..end.unwrap_or(0)]
}

impl State {
    /// Wrong passwords given for a name since the last right one.
    pub fn wrong_passwords(&self, name: &str) -> Option<WrongPasswords> {
        self.sign_ins.0.get(key(name)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_wrong_passwords_grows_until_it_is_forgotten() {
        let mut s = SignIns::default();
        for (at, count) in [(10, 1), (30, 2), (20, 3)] {
            s.count("ada", at);
            assert_eq!(s.0["ada"].count, count);
        }
        assert_eq!(s.0["ada"].last_ms, 30, "the latest moment told");
        s.count("ada", 30 + FORGOTTEN_MS);
        assert_eq!(s.0["ada"].count, 1);
        s.forget("ada");
        assert_eq!(s, SignIns::default());
    }

    #[test]
    fn names_are_bounded_and_the_least_troubled_goes_first() {
        let mut s = SignIns::default();
        for at in 0..3 {
            s.count("target", at);
        }
        for n in 0..MAX_NAMES + 5 {
            s.count(&format!("name{n}"), 100 + n as i64);
        }
        assert_eq!(s.0.len(), MAX_NAMES);
        assert_eq!(s.0["target"].count, 3);
        assert!(!s.0.contains_key("name0"), "the oldest of those with one");
    }

    #[test]
    fn a_long_name_is_kept_up_to_its_bound() {
        let mut s = SignIns::default();
        let long = "\u{e4}".repeat(5000);
        s.count(&long, 1);
        assert_eq!(s.0.keys().next().unwrap().len(), 200);
        s.forget(&long);
        assert!(s.0.is_empty());
    }
}
