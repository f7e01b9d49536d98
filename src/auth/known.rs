//! Which names signed in lately, and from where. It decides who waits for whom, never who is let in.

use super::turns::Place;
use std::collections::HashMap;

/// How long a good sign-in is remembered: longer than a session lasts.
const LATELY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Places remembered at most.
const MOST: usize = 10_000;

/// Places, and when somebody last signed in well there, in milliseconds.
#[derive(Default)]
pub(super) struct Known(HashMap<Place, i64>);

impl Known {
    pub(super) fn add(&mut self, place: Place, now_ms: i64) {
        if self.0.len() >= MOST && !self.0.contains_key(&place) {
            self.0.retain(|_, at| is_lately(*at, now_ms));
            // Only good sign-ins come here: a few are dear, and there are no floods of them.
            if self.0.len() >= MOST {
                let oldest = self.0.iter().min_by_key(|(_, at)| **at).map(|(place, _)| place.clone());
                oldest.and_then(|oldest| self.0.remove(&oldest));
            }
        }
        self.0.insert(place, now_ms);
    }

    pub(super) fn has(&self, place: &Place, now_ms: i64) -> bool {
        self.0.get(place).is_some_and(|at| is_lately(*at, now_ms))
    }
}

fn is_lately(at: i64, now_ms: i64) -> bool {
    now_ms.saturating_sub(at) < LATELY_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_sign_in_is_remembered_for_a_day_and_bounded() {
        let mut known = Known::default();
        let place = |n: usize| Place::new(None, &n.to_string());
        known.add(place(0), 0);
        assert!(known.has(&place(0), LATELY_MS - 1));
        assert!(!known.has(&place(0), LATELY_MS));
        assert!(!known.has(&place(1), 0));
        for n in 0..MOST + 5 {
            known.add(place(n), n as i64);
        }
        assert_eq!(known.0.len(), MOST);
        assert!(!known.has(&place(4), MOST as i64) && known.has(&place(5), MOST as i64));
    }
}
