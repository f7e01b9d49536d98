//! Log lines that strangers can cause: at most one a second, and a count of those held back.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// One source of log lines; each front door has its own.
#[derive(Default)]
pub struct Complaints {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Instant>,
    held_back: u64,
}

impl Complaints {
    /// Calls `log` with the number of lines held back since the last one, or holds this one back too.
    pub fn complain(&self, log: impl FnOnce(u64)) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.last.is_some_and(|last| now - last < PAUSE) {
            state.held_back += 1;
            return;
        }
        state.last = Some(now);
        let more = std::mem::take(&mut state.held_back);
        drop(state);
        log(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_a_second_and_the_number_of_those_held_back() {
        let complaints = Complaints::default();
        let mut logged = Vec::new();
        for _ in 0..3 {
            complaints.complain(|more| logged.push(more));
        }
        tokio::time::advance(PAUSE).await;
        complaints.complain(|more| logged.push(more));
        assert_eq!(logged, [0, 2]);
    }
}
