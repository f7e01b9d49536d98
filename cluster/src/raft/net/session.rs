//! One replication session: requests of one range to one follower, many on their way, answers in order.

use super::super::Types;
use super::{convert, garbled, unreachable};
use crate::ids::RangeId;
use crate::peer::proto::raft_client::RaftClient;
use crate::peer::proto::{AppendRequest, AppendResponse, entry::Body};
use crate::peer::{PeerChannel, PeerError};
use futures::{Stream, StreamExt, stream};
use openraft::base::BoxStream;
use openraft::errors::RPCError;
use openraft::raft::{AppendEntriesRequest, StreamAppendResult};
use std::collections::VecDeque;
use std::future::ready;
use std::io;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// Bytes of entries on their way to one follower of one range; one request more once it is below.
const WINDOW: usize = 8 << 20;
/// Requests on their way at most.
const REQUESTS: usize = 64;
/// The session must be open after this time.
const OPEN: Duration = Duration::from_secs(2);
/// A follower that answers nothing for so long while it has something to answer is given up, to be tried anew. Long
/// against a slow disk's sync, and a long entry on a slow link.
const PATIENCE: Duration = Duration::from_secs(20);

struct Session<S> {
    range: RangeId,
    /// A follower that lacks an entry up to this index is no longer waited for: the log has to go.
    floor: watch::Receiver<u64>,
    /// Index up to which the follower holds the log; until it answers, what the first request takes it to hold.
    held: u64,
    /// `None` once it has ended.
    input: Option<S>,
    out: mpsc::Sender<AppendRequest>,
    answers: Streaming<AppendResponse>,
    /// Size of each request on its way.
    on_their_way: VecDeque<usize>,
    bytes: usize,
    /// When something was last sent into silence, or answered.
    heard: Instant,
    over: bool,
}

/// A session. The stream of answers drives it: dropped, the session ends and `input` with it. The connection is asked for once
/// there is something to send, not before: openraft waits out its backoff when it makes the first request, so that a peer that
/// can't be reached is not tried without a pause.
pub(super) fn open<'s, S>(
    client: RaftClient<PeerChannel>,
    range: RangeId,
    floor: watch::Receiver<u64>,
    input: S,
) -> BoxStream<'s, Result<StreamAppendResult<Types>, RPCError<Types>>>
where
    S: Stream<Item = AppendEntriesRequest<Types>> + Send + Unpin + 'static,
{
    let answers = stream::once(begin(client, range, floor, input)).map(|begun| match begun {
        Ok(Some(session)) => stream::unfold(session, |mut session| async move {
            let answer = session.next().await?;
            Some((answer, session))
        })
        .boxed(),
        Ok(None) => stream::empty().boxed(),
        Err(error) => stream::once(ready(Err(error))).boxed(),
    });
    Box::pin(answers.flatten())
}

/// Sends the first request; `None` where there is none.
async fn begin<S>(
    mut client: RaftClient<PeerChannel>,
    range: RangeId,
    floor: watch::Receiver<u64>,
    mut input: S,
) -> Result<Option<Session<S>>, RPCError<Types>>
where
    S: Stream<Item = AppendEntriesRequest<Types>> + Send + Unpin + 'static,
{
    let Some(first) = input.next().await else {
        return Ok(None);
    };
    let held = first.prev_log_id.map_or(0, |prev| prev.index);
    let first = convert::append_to(range, first).map_err(|error| garbled(&error))?;
    let bytes = size(&first);
    let (out, requests) = mpsc::channel(1);
    let requests = stream::once(ready(first)).chain(ReceiverStream::new(requests));
    let opened = tokio::time::timeout(OPEN, client.append_stream(requests))
        .await
        .map_err(|_| PeerError::Unreachable(format!("no answer in {OPEN:?}")))
        .and_then(|opened| opened.map_err(PeerError::from));
    let answers = opened.map_err(|error| unreachable(&error))?.into_inner();
    Ok(Some(Session {
        range,
        floor,
        held,
        input: Some(input),
        out,
        answers,
        on_their_way: VecDeque::from([bytes]),
        bytes,
        heard: Instant::now(),
        over: false,
    }))
}

/// What comes next in a session.
enum Event {
    Answer(Result<Option<AppendResponse>, Status>),
    /// A request of so many bytes of entries is on its way.
    Sent(usize),
    /// There is nothing more to send.
    Ended,
    Garbled(io::Error),
    Silence,
    /// The floor has moved.
    Floor,
    Behind,
}

impl<S> Session<S>
where
    S: Stream<Item = AppendEntriesRequest<Types>> + Unpin,
{
    async fn event(&mut self) -> Event {
        let room = self.bytes < WINDOW && self.on_their_way.len() < REQUESTS;
        let waits = !self.on_their_way.is_empty();
        let deadline = self.heard + PATIENCE;
        if self.held < *self.floor.borrow() {
            return Event::Behind;
        }
        let Self {
            range,
            input,
            out,
            answers,
            floor,
            ..
        } = self;
        let sends = room && input.is_some();
        // Left where it is when something else comes first: a permit is given back, `input` keeps its place.
        let send = async {
            // A closed connection tells its error in the answers.
            let (Ok(permit), Some(input)) = (out.reserve().await, input) else {
                return Event::Ended;
            };
            let Some(request) = input.next().await else {
                return Event::Ended;
            };
            match convert::append_to(*range, request) {
                Ok(request) => {
                    let size = size(&request);
                    permit.send(request);
                    Event::Sent(size)
                }
                Err(error) => Event::Garbled(error),
            }
        };
        tokio::select! {
            biased;
            answer = answers.message() => Event::Answer(answer),
            sent = send, if sends => sent,
            // Looked at anew at the next turn. It never changes once the range has stopped.
            Ok(()) = floor.changed() => Event::Floor,
            () = tokio::time::sleep_until(deadline), if waits => Event::Silence,
        }
    }

    /// Sends while there is room, until there is an answer. `None` when all is answered and nothing will come.
    async fn next(&mut self) -> Option<Result<StreamAppendResult<Types>, RPCError<Types>>> {
        loop {
            if self.over || (self.input.is_none() && self.on_their_way.is_empty()) {
                return None;
            }
            match self.event().await {
                Event::Answer(Ok(Some(answer))) => {
                    self.heard = Instant::now();
                    self.bytes -= self.on_their_way.pop_front().unwrap_or(0);
                    let result = convert::appended_from(answer);
                    if let Ok(Ok(Some(last))) = &result {
                        self.held = self.held.max(last.index);
                    }
                    // Whatever is not a match is the last answer of a session.
                    self.over = !matches!(result, Ok(Ok(_)));
                    return Some(result.map_err(|status| garbled(&status).into()));
                }
                Event::Answer(Ok(None)) => {
                    return self.end(PeerError::Unreachable("the peer ended the session".into()));
                }
                Event::Answer(Err(status)) => return self.end(status.into()),
                Event::Sent(size) => {
                    if self.on_their_way.is_empty() {
                        self.heard = Instant::now();
                    }
                    self.bytes += size;
                    self.on_their_way.push_back(size);
                }
                Event::Ended => self.input = None,
                Event::Floor => {}
                Event::Behind => {
                    return self.end(PeerError::Unreachable("it lacks more than the log can hold".into()));
                }
                Event::Garbled(error) => {
                    self.over = true;
                    return Some(Err(garbled(&error).into()));
                }
                Event::Silence => {
                    return self.end(PeerError::Unreachable(format!("nothing was answered for {PATIENCE:?}")));
                }
            }
        }
    }

    fn end(&mut self, error: PeerError) -> Option<Result<StreamAppendResult<Types>, RPCError<Types>>> {
        self.over = true;
        Some(Err(unreachable(&error).into()))
    }
}

/// Bytes of entries.
fn size(request: &AppendRequest) -> usize {
    let body = |body: &Body| match body {
        Body::Blank(_) => 0,
        Body::Command(command) => command.head.len() + command.parts.iter().map(bytes::Bytes::len).sum::<usize>(),
        Body::Membership(json) => json.len(),
    };
    let entries = request.entries.iter();
    entries.map(|entry| entry.body.as_ref().map_or(0, body)).sum()
}
