//! What answers hold of memory, so that nobody's answers keep the others' waiting.
//!
//! ```text
//!   an answer's first SMALL bytes -> small: a sixteenth of the budget, for them alone
//!   what goes beyond              -> the share of the client's address: three quarters of the rest -> large
//! ```
//!
//! What goes beyond is taken at once, up to the most that the answer may have, and what it did not need given back: answers
//! that are half read would wait for each other otherwise.

use super::memory::{Held, Memory};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

/// Bytes of an answer that wait for no larger answer.
pub(crate) const SMALL: usize = 128 << 10;

/// What the answers of all ports may hold.
pub(crate) struct Answers {
    small: Memory,
    large: Memory,
    /// By address, as long as one of its connections is open.
    shares: Mutex<HashMap<IpAddr, Weak<Memory>>>,
}

/// What a connection's answers are paid from.
pub(crate) struct Purse {
    answers: Arc<Answers>,
    share: Arc<Memory>,
}

/// What one answer holds; given back when dropped.
#[derive(Default)]
pub(crate) struct Room {
    small: Held,
    share: Held,
    large: Held,
    /// Of `small`.
    few: usize,
    /// Of the others.
    many: usize,
}

impl Answers {
    /// A budget in bytes.
    pub(crate) fn new(budget: usize) -> Self {
        let small = budget / 16;
        Self {
            small: Memory::new(small),
            large: Memory::new(budget - small),
            shares: Mutex::default(),
        }
    }

    /// Takes so many bytes if they are free now.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Held> {
        self.large.try_take(bytes)
    }

    /// Whether answers wait for what others hold, or had to do with less a moment ago.
    pub(crate) fn are_short(&self) -> bool {
        let waits = |memory: &Memory| memory.is_short();
        // Of shares that are used up, too: their own address waits.
        waits(&self.small)
            || waits(&self.large)
            || self
                .shares
                .lock()
                .values()
                .filter_map(Weak::upgrade)
                .any(|share| waits(&share))
    }

    /// What a connection from this address pays its answers from.
    pub(crate) fn purse(self: &Arc<Self>, address: IpAddr) -> Purse {
        let mut shares = self.shares.lock();
        let share = shares.get(&address).and_then(Weak::upgrade).unwrap_or_else(|| {
            shares.retain(|_, share| share.strong_count() > 0);
            let share = Arc::new(Memory::new(self.large.budget() / 4 * 3));
            shares.insert(address, Arc::downgrade(&share));
            share
        });
        Purse {
            answers: self.clone(),
            share,
        }
    }
}

impl Purse {
    /// Has the room hold so many bytes, or as many as it holds, waiting while others hold too much. Where that is more than
    /// a few, it takes `most` at once.
    pub(crate) async fn grow(&self, room: &mut Room, bytes: usize, most: usize) {
        let missing = |bytes: usize, room: &Room| bytes.saturating_sub(room.bytes());
        if missing(bytes, room) == 0 {
            return;
        }
        if bytes <= SMALL {
            let more = missing(bytes, room);
            self.answers.small.grow(&mut room.small, more).await;
            room.few += more;
        } else {
            let more = missing(bytes.max(most.min(self.share.budget())), room);
            self.share.grow(&mut room.share, more).await;
            self.answers.large.grow(&mut room.large, more).await;
            room.many += more;
        }
    }
}

impl Room {
    /// Bytes it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.few + self.many
    }

    /// Gives back what it holds beyond so many bytes.
    pub(crate) fn settle(&mut self, bytes: usize) {
        let many = bytes.saturating_sub(self.few).min(self.many);
        self.share.keep(many);
        self.large.keep(many);
        self.many = many;
        let few = bytes.min(self.few);
        self.small.keep(few);
        self.few = few;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const MIB: usize = 1 << 20;

    fn purses() -> (Arc<Answers>, Purse, Purse) {
        let answers = Arc::new(Answers::new(16 * MIB));
        let (greedy, other) = (answers.purse([10, 0, 0, 1].into()), answers.purse([10, 0, 0, 2].into()));
        (answers, greedy, other)
    }

    async fn large(purse: &Purse) -> Room {
        let mut room = Room::default();
        purse.grow(&mut room, SMALL + 1, 4 * MIB).await;
        room
    }

    #[test]
    fn one_address_leaves_memory_to_the_others() {
        let (answers, greedy, other) = purses();
        // Two within its share, and one beyond.
        let rooms: Vec<Room> = (0..3).map(|_| large(&greedy).now_or_never().expect("free")).collect();
        let waiting = large(&greedy);
        let mut waiting = Box::pin(waiting);
        assert!((&mut waiting).now_or_never().is_none());
        assert!(answers.are_short());
        let its = large(&other).now_or_never().expect("not the greedy one's");
        assert_eq!(its.bytes(), 4 * MIB);
        drop(rooms);
        assert!((&mut waiting).now_or_never().is_some());
        assert!(!answers.are_short());
    }

    #[test]
    fn small_answers_do_not_wait_for_large_ones() {
        let (_answers, greedy, _) = purses();
        let _rooms: Vec<Room> = (0..3).map(|_| large(&greedy).now_or_never().expect("free")).collect();
        assert!(large(&greedy).now_or_never().is_none());
        let mut small = Room::default();
        greedy.grow(&mut small, SMALL, 4 * MIB).now_or_never().expect("free");
        assert_eq!(small.bytes(), SMALL);
    }

    #[test]
    fn what_an_answer_did_not_need_is_given_back() {
        let (answers, greedy, _) = purses();
        let free = || (answers.small.free(), answers.large.free(), greedy.share.free());
        let before = free();
        let mut room = Room::default();
        greedy.grow(&mut room, 10, 4 * MIB).now_or_never().expect("free");
        greedy.grow(&mut room, MIB, 4 * MIB).now_or_never().expect("free");
        assert_eq!(room.bytes(), 4 * MIB);
        greedy.grow(&mut room, 4 * MIB, 4 * MIB).now_or_never().expect("held");
        room.settle(MIB);
        assert_eq!(free(), (before.0 - 10, before.1 - MIB + 10, before.2 - MIB + 10));
        room.settle(4);
        assert_eq!((room.bytes(), free()), (4, (before.0 - 4, before.1, before.2)));
        drop(room);
        assert_eq!(free(), before);
    }

    #[test]
    fn nothing_is_kept_of_addresses_that_have_left() {
        let (answers, greedy, other) = purses();
        assert!(Arc::ptr_eq(&greedy.share, &answers.purse([10, 0, 0, 1].into()).share));
        drop((greedy, other));
        let _third = answers.purse([10, 0, 0, 3].into());
        assert_eq!(answers.shares.lock().len(), 1);
    }
}
