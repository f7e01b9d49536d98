//! One client connection: frames in, answers out, in order.
//!
//! ```text
//!   reading:   socket -> frame -> request --(bounded queue)--+
//!   answering:          +------------------------------------+
//!                       v
//!             waiting -> running -> pending (front first) -> socket
//! ```
//!
//! Both halves are one task. A produce leaves `running` once it is submitted, so that the next one may follow; its answer
//! comes later, in its place. Any other request runs when nothing is pending before it, as in Kafka, where a connection has
//! one request at a time.
//!
//! Who the connection is, is asked when a request starts to run: what is sent behind a sign-in is judged after it. Until a
//! user has signed in, where that is asked for, one request is read at a time.

use super::call::{Call, Peer, Shared};
use super::dispatch::{self, Done};
use super::frame::{FrameError, FrameReader};
use super::guard::{Head, header_rest};
use super::metrics::{Metrics, Timed};
use super::reply::{Answer, Refusal};
use super::table::Api;
use super::write::{self, Sink};
use crate::auth::Who;
use crate::connections::{Held, Pulse};
use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use futures::future::BoxFuture;
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::StrBytes;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use tokio::io::AsyncRead;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Answers that are ready are written together up to so many bytes.
const TOGETHER: usize = 64 << 10;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The stream of frames ended, rightly or not.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A request could not be answered.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The client does not take answers.
    #[error("writing failed: {0}")]
    Write(io::Error),
    /// The node stops.
    #[error("the node stops")]
    Stopping,
}

/// What a request holds until its answer is written.
struct Hold {
    held: Held,
    timed: Option<Counted>,
    _ahead: Option<OwnedSemaphorePermit>,
}

/// A request that is counted once nothing holds it any more.
struct Counted {
    metrics: Arc<Metrics>,
    timed: Timed,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.metrics.done(&self.timed);
    }
}

/// A request whose header is read.
struct Request {
    call: Call,
    body: Bytes,
    hold: Hold,
    /// The body is a token of SASL without a request around it.
    bare_token: bool,
    /// Dropped when the request has run.
    running: Option<oneshot::Sender<()>>,
}

enum Arrival {
    Request(Box<Request>),
    Answer(BytesMut, Hold),
    Refused(Refusal),
}

/// An answer, there or to come.
enum Slot {
    Ready(Option<Answer>),
    Later(BoxFuture<'static, Answer>),
}

type Pending = (Slot, Option<Hold>);

/// Serves a connection until it ends.
pub(crate) async fn serve<R, S>(
    mut source: R,
    sink: S,
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    pulse: Arc<Pulse>,
) -> Ended
where
    R: AsyncRead + Unpin + Send,
    S: Sink,
{
    let (queue, arrivals) = mpsc::channel(shared.config.pipeline.max(1));
    let line = Line {
        arrivals,
        sink,
        pulse: pulse.clone(),
        most: shared.config.pipeline.max(1),
        pending: VecDeque::new(),
        running: None,
        waiting: None,
    };
    let drain = shared.config.drain;
    let mut answering = pin!(line.run());
    let reading = async {
        tokio::select! {
            biased;
            () = shared.stopping.cancelled() => Ended::Stopping,
            error = read(&mut source, &shared, &peer, &pulse, queue) => error.into(),
        }
    };
    let ended = tokio::select! {
        biased;
        () = peer.ended.cancelled() => return Refusal::UserEnded.into(),
        ended = &mut answering => return ended.err().unwrap_or(Ended::Stopping),
        ended = reading => ended,
    };
    // The queue is closed now: what came before still gets its answer, within limits.
    match tokio::time::timeout(drain, answering).await {
        Ok(Err(error)) => error,
        _ => ended,
    }
}

/// Reads requests and queues them until the stream ends.
async fn read<R: AsyncRead + Unpin>(
    source: &mut R,
    shared: &Arc<Shared>,
    peer: &Arc<Peer>,
    pulse: &Pulse,
    queue: mpsc::Sender<Arrival>,
) -> FrameError {
    let mut frames = FrameReader::new(shared.buffers.clone());
    let budget = u32::try_from(shared.config.pipeline_bytes.max(1)).unwrap_or(u32::MAX);
    let ahead = Arc::new(Semaphore::new(budget as usize));
    loop {
        if !pulse.is_admitted() && shared.trusts(peer) {
            pulse.admit();
        }
        let limit = shared.frame_limit(peer);
        let frame = match frames
            .next(source, limit, &shared.arriving, &shared.memory, pulse)
            .await
        {
            Ok(frame) => frame,
            Err(error) => return error,
        };
        pulse.opened();
        // One frame is always taken, however large.
        let size = u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX).min(budget);
        let hold = Hold {
            held: frame.held,
            timed: None,
            _ahead: ahead.clone().acquire_many_owned(size).await.ok(),
        };
        let mut arrival = match peer.sign_in.awaits_token() {
            true => bare_token(frame.bytes, hold, shared, peer),
            false => open(frame.bytes, hold, shared, peer).unwrap_or_else(Arrival::Refused),
        };
        let last = matches!(arrival, Arrival::Refused(_));
        let done = arrival.await_if(|key| {
            // How the next frame is read, and how large it may be, depends on these.
            matches!(key, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate) || !shared.trusts(peer)
        });
        if queue.send(arrival).await.is_err() || last {
            // The answering half ends the connection; nothing that follows a refused request is looked at.
            std::future::pending::<()>().await;
        }
        if let Some(done) = done {
            // It only ever closes.
            let _ = done.await;
        }
    }
}

impl Arrival {
    /// Something that ends when the request has run, where `wanted` says so of its kind.
    fn await_if(&mut self, wanted: impl FnOnce(ApiKey) -> bool) -> Option<oneshot::Receiver<()>> {
        match self {
            Self::Request(request) if wanted(request.call.api.key) => {
                let (running, done) = oneshot::channel();
                request.running = Some(running);
                Some(done)
            }
            _ => None,
        }
    }
}

/// A frame that is a token: version 0 of a request that it has no header of.
fn bare_token(frame: Bytes, hold: Hold, shared: &Arc<Shared>, peer: &Arc<Peer>) -> Arrival {
    let Some(api) = Api::of(ApiKey::SaslAuthenticate as i16) else {
        return Arrival::Refused(Refusal::NoHeader);
    };
    Arrival::Request(Box::new(Request {
        call: Call {
            shared: shared.clone(),
            peer: peer.clone(),
            who: Who::Anonymous,
            api,
            version: 0,
            correlation: 0,
            client_id: None,
            carried: false,
            refused: None,
        },
        body: frame,
        hold,
        bare_token: true,
        running: None,
    }))
}

/// Reads the header by hand: the codec's own reading of it panics on short frames.
fn open(frame: Bytes, mut hold: Hold, shared: &Arc<Shared>, peer: &Arc<Peer>) -> Result<Arrival, Refusal> {
    let head = Head::read(&frame).ok_or(Refusal::NoHeader)?;
    let not_served = Refusal::NotServed {
        key: head.key,
        version: head.version,
    };
    let api = Api::of(head.key).ok_or_else(|| not_served.clone())?;
    hold.timed = Some(Counted {
        metrics: shared.metrics.clone(),
        timed: Metrics::begin(api),
    });
    if !api.decodes(head.version) {
        // KIP-511: the one request that is answered in any version, without a look at its body.
        return match api.key {
            ApiKey::ApiVersions => {
                let answer = dispatch::unsupported_api_versions(api, head.correlation)?;
                Ok(Arrival::Answer(answer, hold))
            }
            _ => Err(not_served),
        };
    }
    let (client_id, body) = header_rest(api, head.version, &frame)?;
    // A name for logs only: whatever it is, the request is answered.
    let client_id = client_id.map(|at| {
        StrBytes::from_utf8(frame.slice(at.clone()))
            .unwrap_or_else(|_| StrBytes::from_string(String::from_utf8_lossy(&frame[at]).into_owned()))
    });
    Ok(Arrival::Request(Box::new(Request {
        call: Call {
            shared: shared.clone(),
            peer: peer.clone(),
            who: Who::Anonymous,
            api,
            version: head.version,
            correlation: head.correlation,
            client_id,
            carried: false,
            refused: None,
        },
        body: frame.slice(body..),
        hold,
        bare_token: false,
        running: None,
    })))
}

/// The answering half.
struct Line<S> {
    arrivals: mpsc::Receiver<Arrival>,
    sink: S,
    pulse: Arc<Pulse>,
    most: usize,
    pending: VecDeque<Pending>,
    running: Option<BoxFuture<'static, Pending>>,
    waiting: Option<Box<Request>>,
}

impl<S: Sink> Line<S> {
    async fn run(mut self) -> Result<(), Ended> {
        let mut open = true;
        loop {
            if self.running.is_none() {
                let free = self.pending.is_empty();
                let next = self.waiting.take_if(|r| free || r.call.api.key == ApiKey::Produce);
                self.running = next.map(|request| start(request).boxed());
            }
            let more = open && self.running.is_none() && self.waiting.is_none() && self.pending.len() < self.most;
            tokio::select! {
                biased;
                answer = front(&mut self.pending), if !self.pending.is_empty() => self.write(answer).await?,
                slot = running(&mut self.running), if self.running.is_some() => {
                    self.running = None;
                    self.pending.push_back(slot);
                }
                arrival = self.arrivals.recv(), if more => match arrival {
                    Some(Arrival::Request(request)) => self.waiting = Some(request),
                    Some(Arrival::Answer(bytes, hold)) => {
                        self.pending.push_back((Slot::Ready(Some(Answer::Whole(bytes))), Some(hold)));
                    }
                    Some(Arrival::Refused(refusal)) => {
                        self.pending.push_back((Slot::Ready(Some(Answer::Close(refusal))), None));
                    }
                    None => open = false,
                },
                else => return Ok(()),
            }
        }
    }

    /// Writes the front's answer, and with it what is ready behind.
    async fn write(&mut self, answer: Answer) -> Result<(), Ended> {
        let mut next = Some(answer);
        while let Some(answer) = next.take() {
            match answer {
                Answer::Whole(mut bytes) => {
                    let mut done = vec![self.pending.pop_front()];
                    while bytes.len() < TOGETHER && next.is_none() && !self.pending.is_empty() {
                        match front(&mut self.pending).now_or_never() {
                            Some(Answer::Whole(more)) => {
                                bytes.extend_from_slice(&more);
                                done.push(self.pending.pop_front());
                            }
                            Some(other) => next = Some(other),
                            None => break,
                        }
                    }
                    write::whole(&mut self.sink, bytes, &self.pulse)
                        .await
                        .map_err(Ended::Write)?;
                    done.iter().for_each(|_| self.pulse.closed());
                }
                Answer::Pieces(pieces, held) => {
                    let _done = self.pending.pop_front();
                    self.pulse.write_holds(held.bytes());
                    write::pieces(&mut self.sink, &pieces, &self.pulse)
                        .await
                        .map_err(Ended::Write)?;
                    self.pulse.closed();
                }
                Answer::Nothing => {
                    self.pending.pop_front();
                    self.pulse.closed();
                }
                Answer::Last(bytes, refusal) => {
                    write::whole(&mut self.sink, bytes, &self.pulse)
                        .await
                        .map_err(Ended::Write)?;
                    return Err(refusal.into());
                }
                Answer::Close(refusal) => return Err(refusal.into()),
            }
        }
        Ok(())
    }
}

/// The front's answer; the front itself stays until the answer is written.
fn front(pending: &mut VecDeque<Pending>) -> impl Future<Output = Answer> + '_ {
    poll_fn(|cx| match pending.front_mut() {
        Some((Slot::Later(answer), _)) => answer.poll_unpin(cx),
        Some((Slot::Ready(answer), _)) => std::task::Poll::Ready(answer.take().unwrap_or(Answer::Nothing)),
        None => std::task::Poll::Pending,
    })
}

async fn running(running: &mut Option<BoxFuture<'static, Pending>>) -> Pending {
    match running {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn start(request: Box<Request>) -> Pending {
    let Request {
        call,
        body,
        mut hold,
        bare_token,
        running: _running,
    } = *request;
    let done = match bare_token {
        true => dispatch::bare_token(call, body).await.map(Done::Answered),
        false => dispatch::execute(call, body, &mut hold.held).await,
    };
    let slot = match done {
        Ok(Done::Answered(answer)) => Slot::Ready(Some(answer)),
        Ok(Done::Submitted(answer)) => Slot::Later(answer),
        Err(refusal) => Slot::Ready(Some(Answer::Close(refusal))),
    };
    (slot, Some(hold))
}
