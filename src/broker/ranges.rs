//! The ranges this node holds, and waiting for one that is not ready.

use super::Broker;
use super::machine::{MachineParts, PartitionMachine, RangeView};
use crate::log::{Health, Logs};
use arc_swap::ArcSwap;
use bytes::Bytes;
use cluster::forward::Admit;
use cluster::ids::{NodeId, RangeId};
use cluster::machine::Payload;
use cluster::meta::MetaError;
use cluster::range::{Leadership, ProposeError, Range};
use cluster::routes::Followed;
use futures::TryFutureExt;
use futures::future::Either;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// A range of this node.
pub(super) struct Held {
    pub(super) range: Range,
    leadership: watch::Receiver<Leadership>,
    pub(super) view: Arc<RangeView>,
    _route: Followed,
}

impl Held {
    /// Who leads now.
    pub(super) fn leadership(&self) -> Leadership {
        *self.leadership.borrow()
    }
}

#[derive(Default)]
pub(super) struct Ranges {
    held: ArcSwap<HashMap<RangeId, Arc<Held>>>,
    /// Views of machines whose range has not been added yet.
    starting: Mutex<HashMap<RangeId, Arc<RangeView>>>,
    /// Changes with `held`.
    added: watch::Sender<()>,
}

impl Ranges {
    pub(super) fn get(&self, id: RangeId) -> Option<Arc<Held>> {
        self.held.load().get(&id).cloned()
    }

    /// Who leads the range, `None` where it is not held here.
    pub(super) fn leadership(&self, id: RangeId) -> Option<Leadership> {
        self.held.load().get(&id).map(|held| held.leadership())
    }

    /// The ranges that this node leads.
    pub(super) fn led(&self) -> Vec<(RangeId, Arc<Held>)> {
        let held = self.held.load();
        let led = held.iter().filter(|(_, h)| h.leadership().here);
        led.map(|(id, h)| (*id, h.clone())).collect()
    }
}

impl Broker {
    /// The machine to start a range with, as of its last checkpoint. Once for each range.
    pub fn machine(&self, range: RangeId) -> Result<PartitionMachine, MetaError> {
        let machine = PartitionMachine::open(MachineParts {
            range,
            logs: self.logs.clone(),
            meta: self.meta.clone(),
            wakeups: self.wakeups.clone(),
            metrics: self.metrics.clone(),
            stop: self.stop.clone(),
        })?;
        self.ranges.starting.lock().insert(range, machine.view());
        Ok(machine)
    }

    /// Serves a range that was started with [`Broker::machine`] of the same number, within a tokio runtime.
    ///
    /// # Panics
    /// Without that machine.
    pub fn add_range(&self, id: RangeId, range: Range) {
        let view = self.ranges.starting.lock().remove(&id);
        let view = view.expect("a range is started with the broker's machine");
        let leadership = range.leadership();
        tokio::spawn({
            let (mut leadership, wakeups, stop) = (leadership.clone(), self.wakeups.clone(), self.stop.clone());
            async move {
                // Whoever waits for records must learn that they will not come from here.
                while let Some(Ok(())) = stop.run_until_cancelled(leadership.changed()).await {
                    wakeups.wake_all();
                }
            }
        });
        let held = Arc::new(Held {
            _route: self.routes.follow(&range),
            range,
            leadership,
            view,
        });
        self.ranges.held.rcu(|ranges| {
            let mut ranges = HashMap::clone(ranges);
            ranges.insert(id, held.clone());
            ranges
        });
        self.ranges.added.send_replace(());
    }

    /// Serves a range no more: it is given to others.
    pub fn remove_range(&self, id: RangeId) {
        self.ranges.held.rcu(|ranges| {
            let mut ranges = HashMap::clone(ranges);
            ranges.remove(&id);
            ranges
        });
        self.wakeups.wake_all();
    }

    /// Who leads the range, as it changes. `None` while this node does not hold the range.
    pub fn leadership(&self, range: RangeId) -> Option<watch::Receiver<Leadership>> {
        self.ranges.get(range).map(|held| held.leadership.clone())
    }

    /// Resolves once this node leads the range; waits for it, briefly, while it is starting or electing.
    pub async fn led_here(&self, range: RangeId) -> Result<(), ProposeError> {
        match self.led(range).await? {
            None => Ok(()),
            leader => Err(not_leader(range, leader)),
        }
    }

    /// Resolves once somebody is known to lead the range: `None` for this node, else who it is. Waits for that, briefly.
    pub async fn led(&self, range: RangeId) -> Result<Option<NodeId>, ProposeError> {
        let (mut added, mut changed) = (self.ranges.added.subscribe(), self.routes.changed());
        let settled = async {
            loop {
                added.borrow_and_update();
                changed.borrow_and_update();
                if self.ranges.leadership(range).is_some_and(|now| now.here) {
                    return None;
                }
                if let Some(node) = self.range_elsewhere(range) {
                    return Some(node);
                }
                tokio::select! {
                    _ = added.changed() => {}
                    _ = changed.changed() => {}
                }
            }
        };
        let deadline = Instant::now() + self.config.range_wait;
        timeout_at(deadline, settled).await.map_err(|_| not_leader(range, None))
    }

    /// Hands a command to a range, here or at the member that leads it; waits briefly while nobody does. When this
    /// returns `Ok`, the command's place among all that this caller submits is fixed.
    pub(super) async fn submit(
        &self,
        id: RangeId,
        command: Payload,
    ) -> Result<impl Future<Output = Result<Bytes, ProposeError>> + Send + use<>, ProposeError> {
        if let Some(held) = self.led_now(id) {
            if !command.parts.is_empty() {
                check_room(&self.health.borrow())?;
            }
            return Ok(Either::Left(held.range.submit(command).await?));
        }
        let deadline = Instant::now() + self.config.range_wait;
        let answer = self.forward.submit(id, command, deadline).await?;
        Ok(Either::Right(answer.map_ok(|applied| applied.answer)))
    }

    /// [`Broker::submit`] and wait for the answer. What was refused as another member leads by now is tried again.
    pub(super) async fn propose(&self, id: RangeId, command: &super::command::Command) -> Result<Bytes, ProposeError> {
        let command = Payload::head(command.encode());
        if let Some(held) = self.led_now(id) {
            match held.range.propose(command.clone()).await {
                Err(ProposeError::NotLeader { .. }) => {}
                outcome => return outcome,
            }
        }
        let deadline = Instant::now() + self.config.range_wait;
        let applied = self.forward.propose(id, command, deadline).await?;
        Ok(applied.answer)
    }

    /// The range, if this node leads it and nothing is on its way to a leader elsewhere.
    fn led_now(&self, id: RangeId) -> Option<Arc<Held>> {
        let held = self.ranges.get(id).filter(|held| held.leadership().here)?;
        (!self.forward.is_busy(id)).then_some(held)
    }
}

/// Refuses what would grow logs that can't be written.
fn check_room(health: &Health) -> Result<(), ProposeError> {
    match health {
        Health::Good => Ok(()),
        Health::Full => Err(ProposeError::NoSpace),
        Health::Failed(why) => Err(ProposeError::Fatal(why.clone())),
    }
}

/// What a node asks before it takes a command for a range that it leads: records need logs that can be written.
pub fn admit(logs: &Logs) -> Admit {
    let health = logs.health();
    Arc::new(move |_, command| match command.parts.is_empty() {
        true => Ok(()),
        false => check_room(&health.borrow()),
    })
}

fn not_leader(range: RangeId, leader: Option<cluster::ids::NodeId>) -> ProposeError {
    ProposeError::NotLeader { range, leader }
}
