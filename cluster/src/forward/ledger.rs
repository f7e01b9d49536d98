//! What is in a lane: pure, so that its promises can be tried in all orders.

use crate::machine::Payload;
use std::collections::VecDeque;

/// The commands of a lane, oldest first; `R` is who waits for an answer.
///
/// ```text
///   push --> waiting --send--> sent --answered--> gone        close: all that is left, and nothing more
/// ```
pub(super) struct Ledger<R> {
    waiting: VecDeque<(Payload, R)>,
    sent: VecDeque<R>,
    closed: bool,
}

/// What a closed lane leaves unanswered.
pub(super) struct Left<R> {
    /// Given to the connection.
    pub sent: VecDeque<R>,
    /// Not given to it.
    pub waiting: VecDeque<(Payload, R)>,
}

impl<R> Default for Ledger<R> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            closed: false,
        }
    }
}

impl<R> Ledger<R> {
    /// Puts a command behind all others; gives it back where the lane is closed.
    pub fn push(&mut self, command: Payload, waiter: R) -> Result<(), (Payload, R)> {
        match self.closed {
            true => Err((command, waiter)),
            false => {
                self.waiting.push_back((command, waiter));
                Ok(())
            }
        }
    }

    /// The next command for the connection.
    pub fn send(&mut self) -> Option<Payload> {
        let (command, waiter) = self.waiting.pop_front()?;
        self.sent.push_back(waiter);
        Some(command)
    }

    /// Who waits for the next answer of the leader.
    pub fn answered(&mut self) -> Option<R> {
        self.sent.pop_front()
    }

    /// Whether something is not answered.
    pub fn is_busy(&self) -> bool {
        !self.sent.is_empty() || !self.waiting.is_empty()
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes no more, and gives up what is left.
    pub fn close(&mut self) -> Left<R> {
        self.closed = true;
        Left {
            sent: std::mem::take(&mut self.sent),
            waiting: std::mem::take(&mut self.waiting),
        }
    }
}
