//! A lane: the commands of one range on their way to one leader, in order.

use super::ledger::{Ledger, Left};
use super::{LANE_BYTES, Leaders, MAX_MESSAGE};
use crate::ids::{NodeId, RangeId};
use crate::machine::Payload;
use crate::peer::proto::forward_client::ForwardClient;
use crate::peer::proto::propose_request::Message as Request;
use crate::peer::proto::propose_response::Message as Response;
use crate::peer::proto::{self, OpenLane, ProposeRequest};
use crate::peer::{Class, Peers};
use crate::range::{Applied, ProposeError};
use bytes::Bytes;
use futures::Stream;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The leader must take the lane in this time.
const OPEN: Duration = Duration::from_secs(3);
/// How long answers are waited for from a leader once another is known to lead. One that lives answers at once.
const GRACE: Duration = Duration::from_millis(500);
/// What a command takes of the lane's bytes besides its own.
const EACH: usize = 1 << 10;

type Outcome = Result<Applied, ProposeError>;

/// The lanes of a node, one a range at most.
pub(super) struct Lanes {
    open: Mutex<HashMap<RangeId, Arc<Lane>>>,
    run: Uuid,
    /// Number of the next lane; 0 lanes were ever opened as long as it is 0.
    next: AtomicU64,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            run: Uuid::new_v4(),
            next: AtomicU64::new(0),
        }
    }
}

impl Lanes {
    pub fn lock(&self) -> MutexGuard<'_, HashMap<RangeId, Arc<Lane>>> {
        self.open.lock()
    }

    pub fn is_busy(&self, range: RangeId) -> bool {
        // A node alone never takes the lock. Who opened a lane before submitting this sees it.
        self.next.load(Ordering::Acquire) != 0 && self.lock().get(&range).is_some_and(|lane| lane.is_busy())
    }

    /// What the next lane calls itself.
    pub fn next(&self) -> (Uuid, u64) {
        (self.run, self.next.fetch_add(1, Ordering::AcqRel))
    }
}

/// Who waits for an answer.
struct Waiter {
    to: oneshot::Sender<Outcome>,
    _bytes: OwnedSemaphorePermit,
}

impl Waiter {
    fn tell(self, outcome: Outcome) {
        // Whoever asked may be gone.
        let _ = self.to.send(outcome);
    }
}

/// A lane. Its task holds it until it ends.
pub(super) struct Lane {
    range: RangeId,
    leader: NodeId,
    state: Mutex<State>,
    room: Arc<Semaphore>,
    left: CancellationToken,
}

#[derive(Default)]
struct State {
    ledger: Ledger<Waiter>,
    /// The leader has the lane. Nothing is given to a connection before: it might be to nobody.
    taken: bool,
    /// The connection, waiting for a command.
    connection: Option<Waker>,
    /// All that was in the lane is answered, after its end.
    over: bool,
}

/// How a lane ended.
enum End {
    /// The leader says that it proposed nothing of what it did not answer.
    Closed,
    /// What became of that is not known.
    Broken(String),
}

impl Lane {
    /// A lane to `leader`, and the task that runs it, until the lane ends or `stop` says so.
    pub fn start(
        range: RangeId,
        leader: NodeId,
        peers: Peers,
        leaders: Arc<dyn Leaders>,
        (run, number): (Uuid, u64),
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let lane = Arc::new(Self {
            range,
            leader,
            state: Mutex::default(),
            room: Arc::new(Semaphore::new(LANE_BYTES)),
            left: stop.child_token(),
        });
        let open = OpenLane {
            range: range.0,
            run: Bytes::copy_from_slice(run.as_bytes()),
            number,
        };
        tokio::spawn(lane.clone().run(peers, leaders, open));
        lane
    }

    pub fn leader(&self) -> NodeId {
        self.leader
    }

    /// Whether something is not answered. A lane that has ended is, until all that was in it is: whoever goes another way
    /// then can know what was refused.
    pub fn is_busy(&self) -> bool {
        let state = self.state.lock();
        state.ledger.is_busy() || (state.ledger.is_closed() && !state.over)
    }

    pub fn is_open(&self) -> bool {
        !self.state.lock().ledger.is_closed()
    }

    /// Nobody submits here any more.
    pub fn leave(&self) {
        self.left.cancel();
    }

    /// Puts a command behind all others, once there is room for it. Gives it back where the lane has ended.
    pub async fn submit(&self, command: Payload) -> Result<impl Future<Output = Outcome> + Send + use<>, Payload> {
        let size = command.size().saturating_add(EACH).min(LANE_BYTES) as u32;
        let Ok(bytes) = self.room.clone().acquire_many_owned(size).await else {
            return Err(command);
        };
        let (to, answer) = oneshot::channel();
        let mut state = self.state.lock();
        let pushed = state.ledger.push(command, Waiter { to, _bytes: bytes });
        let connection = state.connection.take();
        drop(state);
        pushed.map_err(|(command, _)| command)?;
        if let Some(connection) = connection {
            connection.wake();
        }
        Ok(async move {
            let unknown = |_| Err(ProposeError::Unknown("the way to the leader was given up"));
            answer.await.unwrap_or_else(unknown)
        })
    }

    async fn run(self: Arc<Self>, peers: Peers, leaders: Arc<dyn Leaders>, open: OpenLane) {
        let end = tokio::select! {
            end = self.drive(&peers, open) => end,
            () = self.led_elsewhere(&*leaders) => End::Broken("another member leads".into()),
            () = self.left.cancelled() => End::Broken("the lane is not needed any more".into()),
        };
        let (Left { sent, waiting }, connection) = {
            let mut state = self.state.lock();
            (state.ledger.close(), state.connection.take())
        };
        self.room.close();
        if let Some(connection) = connection {
            connection.wake();
        }
        if let (End::Broken(why), false) = (&end, sent.is_empty() && waiting.is_empty()) {
            let (range, leader) = (self.range, self.leader);
            let (sent, waiting) = (sent.len(), waiting.len());
            tracing::info!(%range, %leader, sent, waiting, why, "commands did not reach the leader");
        }
        let leader = leaders.leader(self.range).map(|leader| leader.node);
        let refused = || ProposeError::NotLeader {
            range: self.range,
            leader: leader.filter(|leader| *leader != self.leader),
        };
        for waiter in sent {
            waiter.tell(Err(match end {
                End::Closed => refused(),
                End::Broken(_) => ProposeError::Unknown("the way to the leader broke"),
            }));
        }
        for (_, waiter) in waiting {
            waiter.tell(Err(refused()));
        }
        self.state.lock().over = true;
    }

    async fn drive(self: &Arc<Self>, peers: &Peers, open: OpenLane) -> End {
        let channel = match peers.channel(self.leader, Class::Forward) {
            Ok(channel) => channel,
            Err(error) => return End::Broken(error.to_string()),
        };
        let mut client = ForwardClient::new(channel).max_encoding_message_size(MAX_MESSAGE);
        let outgoing = Outgoing {
            open: Some(open),
            lane: self.clone(),
        };
        let mut answers = match tokio::time::timeout(OPEN, client.propose(outgoing)).await {
            Ok(Ok(opened)) => opened.into_inner(),
            Ok(Err(status)) => return End::Broken(crate::peer::PeerError::from(status).to_string()),
            Err(_) => return End::Broken(format!("no answer in {OPEN:?}")),
        };
        let connection = {
            let mut state = self.state.lock();
            state.taken = true;
            state.connection.take()
        };
        if let Some(connection) = connection {
            connection.wake();
        }
        loop {
            let message = match answers.message().await {
                Ok(Some(response)) => response.message,
                Ok(None) => return End::Broken("the leader ended the lane".into()),
                Err(status) => return End::Broken(crate::peer::PeerError::from(status).to_string()),
            };
            let outcome = match message {
                Some(Response::Closed(_)) => return End::Closed,
                message => self.outcome(message),
            };
            let waiter = self.state.lock().ledger.answered();
            match waiter {
                Some(waiter) => waiter.tell(outcome),
                None => return End::Broken("an answer to nothing".into()),
            }
        }
    }

    fn outcome(&self, message: Option<Response>) -> Outcome {
        match message {
            Some(Response::Applied(proto::Applied { answer, index })) => Ok(Applied { index, answer }),
            Some(Response::NotLeader(proto::NotLeader { leader })) => Err(ProposeError::NotLeader {
                range: self.range,
                leader: proto::node_id(&leader).ok(),
            }),
            Some(Response::NoSpace(_)) => Err(ProposeError::NoSpace),
            // An answer of a newer member says nothing here.
            Some(Response::Unknown(_) | Response::Closed(_)) | None => {
                Err(ProposeError::Unknown("the leader does not know"))
            }
        }
    }

    /// Resolves a while after another member has come to lead.
    async fn led_elsewhere(&self, leaders: &dyn Leaders) {
        let elsewhere = || leaders.leader(self.range).is_some_and(|now| now.node != self.leader);
        let mut changed = leaders.changed();
        loop {
            changed.borrow_and_update();
            if elsewhere() {
                tokio::time::sleep(GRACE).await;
                if elsewhere() {
                    return;
                }
            } else if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// What the connection takes from a lane.
struct Outgoing {
    open: Option<OpenLane>,
    lane: Arc<Lane>,
}

impl Stream for Outgoing {
    type Item = ProposeRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ProposeRequest>> {
        let request = |message| Poll::Ready(Some(ProposeRequest { message: Some(message) }));
        if let Some(open) = self.open.take() {
            return request(Request::Open(open));
        }
        let mut state = self.lane.state.lock();
        let next = if state.taken { state.ledger.send() } else { None };
        match next {
            Some(Payload { head, parts }) => request(Request::Command(proto::Command {
                head,
                parts: parts.to_vec(),
            })),
            None if state.ledger.is_closed() => Poll::Ready(None),
            None => {
                state.connection = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
