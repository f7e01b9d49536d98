//! Audit lines of refused rights: each refusal of a connection once, so that a client that asks on and on fills no log.

use parking_lot::Mutex;
use std::collections::HashSet;

/// Refusals of one connection that are remembered; further ones are not told.
const MOST: usize = 256;

/// What a connection was refused.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    told: Mutex<HashSet<(i16, String)>>,
}

impl Refusals {
    /// Tells of a refusal (of a kind of request, by a number of the port's own, on something) that was not told before.
    pub(crate) fn note(&self, request: i16, what: &str, tell: impl FnOnce()) {
        {
            let mut told = self.told.lock();
            if told.len() >= MOST || !told.insert((request, what.to_owned())) {
                return;
            }
        }
        tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_told_once_and_no_more_than_are_remembered() {
        let refusals = Refusals::default();
        let mut told = Vec::new();
        for (request, what) in [(1, "a"), (1, "a"), (0, "a"), (1, "b"), (0, "a")] {
            refusals.note(request, what, || told.push((request, what)));
        }
        assert_eq!(told, [(1, "a"), (0, "a"), (1, "b")]);
        let mut more = 0;
        for n in 0..2 * MOST {
            refusals.note(3, &n.to_string(), || more += 1);
        }
        assert_eq!(more, MOST - 3);
    }
}
