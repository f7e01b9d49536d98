//! Carrying commands and questions to the member that must answer them, so that clients may ask any member.
//!
//! ```text
//!   Forward::submit(range, command) --+--> led here: Range::submit, as if this room were not there
//!                                     +--> led elsewhere: lane --Propose--> the leader's Range::submit
//!   Forward::ask(node, door, question) --Ask--> the room behind that door, there
//! ```
//!
//! What is promised of commands, by range and by the member they are submitted at:
//!
//! * They are proposed in the order they were submitted in. All that is not answered yet is in one place, the local range
//!   or one lane to one leader; a place that refuses a command refuses all that came after it, so that none overtakes one
//!   that its client will send again.
//! * A command is given to a connection once. Whether it was applied is not known (`Unknown`) when the connection broke
//!   before the answer, and then nobody but the client may send it again.
//! * Only `Rejected` outcomes are tried elsewhere, and only where nothing was submitted behind ([`Forward::propose`]).
//!
//! Bytes are bounded: a lane holds [`LANE_BYTES`] that are not answered (one larger command goes alone), at this end and at
//! the leader's.

mod ask;
mod lane;
mod ledger;
mod serve;
#[cfg(test)]
pub(crate) mod tests;

pub use ask::{Answers, AskError, Door, NoAnswer, Reply};

use crate::ids::{NodeId, RangeId};
use crate::machine::Payload;
use crate::peer::{PeerServer, Peers};
use crate::raft::RangeHost;
use crate::range::{Applied, ProposeError, Range};
use crate::routes::{Leader, Routes};
use ask::Doors;
use futures::future::{BoxFuture, FutureExt};
use lane::{Lane, Lanes};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Bytes of commands in one lane that are not answered yet.
// In tests more than the system holds on the way to somebody who does not read.
pub const LANE_BYTES: usize = if cfg!(test) { 16 << 20 } else { 8 << 20 };
/// The longest message: a command as long as may be, and what goes with it.
const MAX_MESSAGE: usize = crate::range::MAX_COMMAND + (2 << 20);
/// Time between two tries of a command that was refused, unless there is news of leaders before.
const AGAIN: Duration = Duration::from_millis(100);

/// Who knows who leads.
pub trait Leaders: Send + Sync + 'static {
    /// Who leads the range; `None` while that is not known.
    fn leader(&self, range: RangeId) -> Option<Leader>;

    /// Resolves when any answer of [`Leaders::leader`] may have changed.
    fn changed(&self) -> watch::Receiver<u64>;
}

impl Leaders for Routes {
    fn leader(&self, range: RangeId) -> Option<Leader> {
        self.table().range(range)
    }

    fn changed(&self) -> watch::Receiver<u64> {
        Routes::changed(self)
    }
}

/// Refuses commands for ranges that this node leads and can't take now.
pub type Admit = Arc<dyn Fn(RangeId, &Payload) -> Result<(), ProposeError> + Send + Sync>;

/// What the room is made of.
pub struct ForwardParts {
    /// This node.
    pub node: NodeId,
    /// Its ranges.
    pub host: RangeHost,
    /// Who leads what.
    pub leaders: Arc<dyn Leaders>,
    /// Its way to other members, if it has one.
    pub peers: Option<Peers>,
    /// What is asked before a command is taken for a range of this node.
    pub admit: Admit,
}

/// Carries commands and questions. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Forward {
    inner: Arc<Inner>,
}

struct Inner {
    node: NodeId,
    host: RangeHost,
    leaders: Arc<dyn Leaders>,
    peers: Option<Peers>,
    admit: Admit,
    lanes: Lanes,
    sessions: serve::Sessions,
    doors: Doors,
    stop: CancellationToken,
    _stop: DropGuard,
}

/// The room, while somebody else holds it: for rooms that it needs itself.
#[derive(Clone, Default)]
pub struct WeakForward(Weak<Inner>);

impl WeakForward {
    /// The room, if it is there.
    pub fn upgrade(&self) -> Option<Forward> {
        self.0.upgrade().map(|inner| Forward { inner })
    }
}

/// What became of a submitted command.
pub type Answer = BoxFuture<'static, Result<Applied, ProposeError>>;

/// Where a command goes.
enum Way {
    Here(Range),
    Lane(Arc<Lane>),
}

impl Forward {
    /// Within a tokio runtime.
    pub fn new(parts: ForwardParts) -> Self {
        let stop = CancellationToken::new();
        Self {
            inner: Arc::new(Inner {
                node: parts.node,
                host: parts.host,
                leaders: parts.leaders,
                peers: parts.peers,
                admit: parts.admit,
                lanes: Lanes::default(),
                sessions: serve::Sessions::default(),
                doors: Doors::default(),
                stop: stop.clone(),
                _stop: stop.drop_guard(),
            }),
        }
    }

    /// A handle that does not keep the room.
    pub fn downgrade(&self) -> WeakForward {
        WeakForward(Arc::downgrade(&self.inner))
    }

    /// Whether this node has a way to other members.
    pub fn reaches_others(&self) -> bool {
        self.inner.peers.is_some()
    }

    /// Lets members of the store carry commands and questions to this node.
    pub fn serve(&self, server: PeerServer) -> PeerServer {
        server.with(serve::Service::server(self.clone()))
    }

    /// Whether commands of the range are on their way to another member: then what is submitted now must go behind them,
    /// even if this node has come to lead meanwhile. Costs a load where no lane is open.
    pub fn is_busy(&self, range: RangeId) -> bool {
        self.inner.lanes.is_busy(range)
    }

    /// Hands a command to whoever leads the range; waits until `deadline` while nobody is known to. When this returns `Ok`
    /// the command's place among all submissions of this caller is fixed; the answer comes later. Waits while too many
    /// bytes are on their way.
    pub async fn submit(&self, range: RangeId, command: Payload, deadline: Instant) -> Result<Answer, ProposeError> {
        let mut command = command;
        let mut changed = self.inner.leaders.changed();
        loop {
            changed.borrow_and_update();
            match self.way(range)? {
                Some(Way::Here(local)) => {
                    (self.inner.admit)(range, &command)?;
                    return Ok(local.submit_indexed(command).await?.boxed());
                }
                Some(Way::Lane(lane)) => match lane.submit(command).await {
                    Ok(answer) => return Ok(answer.boxed()),
                    // The lane ended before the command was in it; what was in it is being told so.
                    Err(back) => {
                        command = back;
                        tokio::task::yield_now().await;
                    }
                },
                None => match timeout_at(deadline, changed.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => return Err(ProposeError::NotLeader { range, leader: None }),
                },
            }
        }
    }

    /// [`Forward::submit`] and wait; what was surely not applied, as another member leads by now, is tried again until
    /// `deadline`. Not for commands that others of the same caller follow before this is answered.
    pub async fn propose(&self, range: RangeId, command: Payload, deadline: Instant) -> Result<Applied, ProposeError> {
        let mut changed = self.inner.leaders.changed();
        loop {
            changed.borrow_and_update();
            let outcome = match self.submit(range, command.clone(), deadline).await {
                Ok(answer) => answer.await,
                Err(error) => Err(error),
            };
            match outcome {
                Err(ProposeError::NotLeader { .. }) if Instant::now() < deadline => {
                    // Whoever was asked may be the first to know.
                    let _ = timeout_at(deadline.min(Instant::now() + AGAIN), changed.changed()).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Where a command of the range goes now; `None` while nobody is known to lead.
    fn way(&self, range: RangeId) -> Result<Option<Way>, ProposeError> {
        let inner = &*self.inner;
        let mut lanes = inner.lanes.lock();
        if let Some(lane) = lanes.get(&range).filter(|lane| lane.is_busy()) {
            return Ok(Some(Way::Lane(lane.clone())));
        }
        let Some(leader) = inner.leaders.leader(range) else {
            return Ok(None);
        };
        let local = inner.host.range(range);
        if leader.node == inner.node {
            if let Some(lane) = lanes.remove(&range) {
                lane.leave();
            }
            return Ok(local.filter(|_| leader.here).map(Way::Here));
        }
        if let Some(lane) = lanes
            .get(&range)
            .filter(|lane| lane.is_open() && lane.leader() == leader.node)
        {
            return Ok(Some(Way::Lane(lane.clone())));
        }
        let refused = || ProposeError::NotLeader {
            range,
            leader: Some(leader.node),
        };
        let peers = inner.peers.as_ref().ok_or_else(refused)?;
        // What was submitted here while this node led may yet be refused: nothing overtakes it.
        if local.is_some_and(|local| !local.is_quiet()) {
            return Err(refused());
        }
        let lane = Lane::start(
            range,
            leader.node,
            peers.clone(),
            inner.leaders.clone(),
            inner.lanes.next(),
            &inner.stop,
        );
        if let Some(old) = lanes.insert(range, lane.clone()) {
            old.leave();
        }
        Ok(Some(Way::Lane(lane)))
    }
}
