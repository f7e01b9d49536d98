//! The way from one node to another: free, or held.

use super::Inner;
use super::calls::Event;
use cluster::ids::NodeId;
use rand::Rng;

/// A connection on which nothing comes for so long is given up, in milliseconds.
pub const SILENCE: u64 = 5000;
/// A connection that can't be made in this time has failed, in milliseconds.
const CONNECT: u64 = 2000;

#[derive(Default)]
pub struct Way {
    held: Option<u64>,
    /// The connections of before are gone.
    broken: bool,
    kept: Vec<Event>,
}

impl Way {
    pub fn hold(&mut self, now: u64) {
        self.held.get_or_insert(now);
        self.broken = false;
    }

    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    pub fn keep(&mut self, event: Event) {
        self.kept.push(event);
    }
}

impl Inner {
    /// How long a piece takes.
    pub fn delay(&mut self) -> u64 {
        let (least, most) = self.weather.delay;
        match self.random.random_bool(self.weather.spikes) {
            true => self.random.random_range(most..=20 * most.max(1)),
            false => self.random.random_range(least..=most),
        }
    }

    pub fn free_all(&mut self) {
        for (_, way) in std::mem::take(&mut self.ways) {
            for event in way.kept {
                // Before all that is on its way still: what a stream carries does not overtake itself.
                self.sent += 1;
                self.queue.insert((self.now.saturating_sub(1), self.sent), event);
            }
        }
    }

    pub fn reset(&mut self, one: NodeId, other: NodeId) {
        let between = |from: NodeId, to: NodeId| (from, to) == (one, other) || (from, to) == (other, one);
        let calls = self.calls.iter().filter(|(_, call)| between(call.from, call.to));
        let ids: Vec<u64> = calls.map(|(id, _)| *id).collect();
        for id in ids {
            let delay = self.delay();
            if let Some(call) = self.calls.get_mut(&id) {
                call.lost = true;
            }
            self.sent += 1;
            self.queue
                .insert((self.now + delay, self.sent), Event::Break { call: id });
        }
    }

    /// Gives up the connections whose way was held for too long, and those that can't be made meanwhile.
    pub fn break_held(&mut self) {
        let now = self.now;
        let mut silent = Vec::new();
        let mut failed = Vec::new();
        for (ends, way) in &mut self.ways {
            let Some(since) = way.held else { continue };
            if now < since + SILENCE {
                continue;
            }
            if !std::mem::replace(&mut way.broken, true) {
                silent.push(*ends);
            }
            // What was begun after that waits for a connection; also where only the way back is held, and the request came.
            failed.extend(way.kept.drain(..).filter_map(|event| event.call()));
        }
        for (one, other) in silent {
            self.reset(one, other);
        }
        for call in failed {
            self.sent += 1;
            self.queue.insert((now + CONNECT, self.sent), Event::Break { call });
        }
    }
}
