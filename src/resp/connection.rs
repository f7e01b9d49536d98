//! One client connection: commands in, answers out, in order.
//!
//! ```text
//!   socket -> buffer -> decoder -> command --XADD--> begun: its order is fixed --+--> pending (front first) -> out -> socket
//!                                     \--any other--> when nothing is pending: run -+
//! ```
//!
//! XADDs follow each other without waiting for answers; any other command runs when all before it are answered, so that it
//! sees what they did.

use super::call::{Peer, Session, Shared};
use super::decode::{Command, Decoder, Malformed};
use super::dispatch::{self, Known, Lasts};
use super::errors::Refusal;
use super::reply::{Protocol, Reply};
use super::write::Begun;
use crate::connections::{Held, Pulse, Room};
use bytes::{BufMut, BytesMut};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What is read ahead without being counted.
const AHEAD: usize = 8 << 10;
/// Answers that are ready are written together up to so many bytes.
const TOGETHER: usize = 64 << 10;

/// How long, and how many bytes, of what a client sends that is turned away are thrown away.
const LAST_WORDS: Duration = Duration::from_secs(1);
const LAST_BYTES: usize = 256 << 10;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// Between two commands, or by QUIT.
    #[error("closed by the client")]
    Closed,
    /// What came is no command.
    #[error(transparent)]
    Malformed(Malformed),
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user that signed in is no more.
    #[error("the user changed since it signed in")]
    Revoked,
    /// The node stops.
    #[error("the node stops")]
    Stopping,
}

/// An XADD that is not answered yet.
struct Pending {
    answer: BoxFuture<'static, Reply>,
    timed: Timed,
    _held: Held,
}

/// A command that is counted once it is answered.
struct Timed {
    number: usize,
    since: Instant,
}

/// Serves a connection until it ends.
pub(crate) async fn serve<R, W>(source: R, sink: W, shared: Arc<Shared>, peer: Arc<Peer>, pulse: Arc<Pulse>) -> Ended
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let session = Session {
        number: shared.clients.fetch_add(1, Relaxed) + 1,
        protocol: Protocol::Two,
        name: String::new(),
        quits: false,
    };
    let line = Line {
        source,
        sink,
        pulse,
        session,
        decoder: Decoder::default(),
        buffer: BytesMut::new(),
        room: AHEAD,
        part: Held::default(),
        pending: VecDeque::new(),
        out: Vec::new(),
        answer: Room::default(),
        shared: shared.clone(),
        peer: peer.clone(),
    };
    let mut line = pin!(line.run());
    tokio::select! {
        biased;
        () = peer.ended(&shared) => Ended::Revoked,
        ended = &mut line => match ended {
            Ok(ended) => ended,
            Err(error) => error.into(),
        },
    }
}

struct Line<R, W> {
    source: R,
    sink: W,
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    pulse: Arc<Pulse>,
    session: Session,
    decoder: Decoder,
    /// What came and is no whole command yet.
    buffer: BytesMut,
    /// Bytes the buffer may have.
    room: usize,
    /// For those beyond what is not counted.
    part: Held,
    pending: VecDeque<Pending>,
    /// Answers that are not written yet.
    out: Vec<u8>,
    /// What these hold of memory.
    answer: Room,
}

impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send> Line<R, W> {
    async fn run(mut self) -> io::Result<Ended> {
        let most = self.shared.config.pipeline.max(1);
        loop {
            while self.pending.len() < most && !self.shared.stopping.is_cancelled() {
                let limits = self.shared.limits(&self.peer);
                match self.decoder.next(&mut self.buffer, limits) {
                    Ok(Some(command)) => {
                        self.free_buffer(&command);
                        if let Some(ended) = self.take(command).await? {
                            return Ok(ended);
                        }
                    }
                    Ok(None) => break,
                    Err(malformed) => {
                        self.answer_all().await?;
                        if !matches!(malformed, Malformed::Tls) {
                            let refusal = Refusal::wrong(format!("Protocol error: {malformed}"));
                            Reply::from(refusal).write(self.session.protocol, &mut self.out);
                        }
                        self.flush().await?;
                        // Whatever comes of it, the refusal is what there is to say.
                        let _ = tokio::time::timeout(LAST_WORDS, self.hear_out()).await;
                        return Ok(Ended::Malformed(malformed));
                    }
                }
            }
            self.flush().await?;
            if self.shared.stopping.is_cancelled() {
                self.answer_all().await?;
                self.flush().await?;
                return Ok(Ended::Stopping);
            }
            let stopping = self.shared.stopping.clone();
            let may_read = self.pending.len() < most;
            let Self { pending, .. } = &mut self;
            // Both are looked at in one place, as either may be what is waited for.
            let answered = match (pending.is_empty(), may_read) {
                (true, _) => tokio::select! {
                    biased;
                    () = stopping.cancelled() => continue,
                    got = self.read() => Err(got?),
                },
                (false, false) => tokio::select! {
                    biased;
                    () = stopping.cancelled() => continue,
                    reply = front(pending) => Ok(reply),
                },
                (false, true) => {
                    let mut taken = std::mem::take(pending);
                    let answered = tokio::select! {
                        biased;
                        () = stopping.cancelled() => None,
                        reply = front(&mut taken) => Some(Ok(reply)),
                        got = self.read() => Some(Err(got)),
                    };
                    self.pending = taken;
                    match answered {
                        None => continue,
                        Some(Ok(reply)) => Ok(reply),
                        Some(Err(got)) => Err(got?),
                    }
                }
            };
            match answered {
                Ok(reply) => self.answered(reply),
                Err(0) => {
                    // What was sent before is answered.
                    self.answer_all().await?;
                    self.flush().await?;
                    return Ok(Ended::Closed);
                }
                Err(_) => {}
            }
        }
    }

    /// Says that no more comes, and throws away what the client still sends: a socket closed with bytes unread takes the
    /// last answer with it.
    async fn hear_out(&mut self) -> io::Result<()> {
        self.sink.shutdown().await?;
        let mut left = LAST_BYTES;
        let mut part = [0; 4096];
        while left > 0 {
            match self.source.read(&mut part).await? {
                0 => break,
                got => left = left.saturating_sub(got),
            }
        }
        Ok(())
    }

    /// Reads what comes next; 0 at the end. Cancel safe.
    async fn read(&mut self) -> io::Result<usize> {
        if self.buffer.is_empty() {
            self.pulse.frame_waits();
            // A connection that never spoke, or has not for a while, has no buffer.
            if self.buffer.capacity() == 0 {
                let mut first = [0];
                let got = self.source.read(&mut first).await?;
                self.buffer.reserve(AHEAD);
                self.buffer.extend_from_slice(&first[..got]);
                self.pulse.received(got);
                return Ok(got);
            }
        }
        if self.buffer.len() >= self.room {
            let more = self.room * 2;
            self.pulse.frame_waits();
            self.shared.arriving.grow(&mut self.part, more - self.room).await;
            self.pulse.frame_claims(more);
            self.room = more;
        }
        if !self.buffer.is_empty() {
            self.pulse.frame_moves();
        }
        let left = self.room - self.buffer.len();
        make_room(&mut self.buffer, left);
        let got = self.source.read_buf(&mut (&mut self.buffer).limit(left)).await?;
        self.pulse.received(got);
        self.pulse.frame_waits();
        Ok(got)
    }

    /// A command was taken off the buffer: what it took is its own now.
    fn free_buffer(&mut self, command: &Command) {
        if command.weight() > AHEAD || self.room > AHEAD {
            self.buffer = BytesMut::from(&self.buffer[..]);
            if self.buffer.len() <= AHEAD {
                self.part = Held::default();
                self.room = AHEAD;
                self.pulse.frame_claims(0);
            }
        }
    }

    /// Begins a command, and answers it where the next one must not begin before.
    async fn take(&mut self, command: Command) -> io::Result<Option<Ended>> {
        let (shared, peer) = (self.shared.clone(), self.peer.clone());
        let known = Known::of(&command);
        let timed = Timed {
            number: known.number,
            since: Instant::now(),
        };
        self.pulse.opened();
        let mut held = Held::default();
        self.while_answering(shared.memory.grow(&mut held, command.weight()))
            .await?;
        if known.is_append() {
            let begun = self
                .while_answering(dispatch::begin(&shared, &peer, &known, &command))
                .await?;
            let answer = match begun {
                Begun::Later(answer) => answer,
                Begun::Done(reply) => std::future::ready(reply).boxed(),
            };
            self.pending.push_back(Pending {
                answer,
                timed,
                _held: held,
            });
            return Ok(None);
        }
        self.answer_all().await?;
        let lasts = known.lasts(&command);
        if lasts == Lasts::ForOthers {
            // What was asked before is not kept waiting.
            self.flush().await?;
        }
        let reply = match lasts {
            Lasts::No => {
                let Self { session, answer, .. } = self;
                dispatch::execute(&shared, &peer, session, &known, &command, answer).await
            }
            lasts => match self.watched(&shared, &peer, &known, &command, lasts).await? {
                Some(reply) => reply,
                None => return Ok(Some(Ended::Closed)),
            },
        };
        self.done(&timed, reply);
        // What it was read from, or what was refused in the end, is no more.
        self.answer.settle(self.out.len());
        if self.out.len() >= TOGETHER || self.session.quits {
            self.flush().await?;
        }
        if !self.pulse.is_admitted() && shared.trusts(&peer) {
            self.pulse.admit();
        }
        Ok(self.session.quits.then_some(Ended::Closed))
    }

    /// Runs a command that may take long, and looks for the client's end meanwhile. `None`: it has gone from a wait.
    async fn watched(
        &mut self,
        shared: &Arc<Shared>,
        peer: &Arc<Peer>,
        known: &Known,
        command: &Command,
        lasts: Lasts,
    ) -> io::Result<Option<Reply>> {
        let Self {
            source,
            buffer,
            pulse,
            session,
            answer,
            ..
        } = self;
        let mut running = pin!(dispatch::execute(shared, peer, session, known, command, answer));
        let mut open = true;
        loop {
            let left = AHEAD.saturating_sub(buffer.len());
            make_room(buffer, left);
            tokio::select! {
                biased;
                reply = &mut running => return Ok(Some(reply)),
                got = async { source.read_buf(&mut (&mut *buffer).limit(left)).await }, if open && left > 0 => match got? {
                    0 if lasts == Lasts::ForOthers => return Ok(None),
                    // It may have sent all it has, and want its answer.
                    0 => {
                        peer.has_ended.store(true, Relaxed);
                        open = false;
                    }
                    got => pulse.received(got),
                },
            }
        }
    }

    /// Does something while answers go on to come: what they hold may be what it waits for.
    async fn while_answering<F: Future>(&mut self, doing: F) -> io::Result<F::Output> {
        let mut doing = pin!(doing);
        loop {
            let reply = tokio::select! {
                biased;
                output = &mut doing => return Ok(output),
                reply = front(&mut self.pending), if !self.pending.is_empty() => reply,
            };
            self.answered(reply);
            self.flush().await?;
        }
    }

    /// The front's answer came; with it those that are ready behind.
    fn answered(&mut self, reply: Reply) {
        let mut next = Some(reply);
        while let Some(reply) = next.take() {
            let Some(first) = self.pending.pop_front() else { return };
            self.done(&first.timed, reply);
            if self.out.len() < TOGETHER && !self.pending.is_empty() {
                next = front(&mut self.pending).now_or_never();
            }
        }
    }

    /// Waits until nothing is pending.
    async fn answer_all(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            let reply = front(&mut self.pending).await;
            self.answered(reply);
            if self.out.len() >= TOGETHER {
                self.flush().await?;
            }
        }
        Ok(())
    }

    fn done(&mut self, timed: &Timed, reply: Reply) {
        let word = match &reply {
            Reply::Refused(refusal) => Some(refusal.word),
            _ => None,
        };
        match reply {
            // It may be large.
            Reply::Written(bytes) if self.out.is_empty() => self.out = bytes,
            reply => reply.write(self.session.protocol, &mut self.out),
        }
        self.shared.metrics.done(timed.number, timed.since, word);
        self.pulse.closed();
    }

    /// Writes what is answered.
    async fn flush(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.pulse.write_holds(self.answer.bytes());
        let mut rest = &self.out[..];
        while !rest.is_empty() {
            self.pulse.write_moves();
            match self.sink.write(rest).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    self.pulse.sent(n);
                    rest = &rest[n..];
                }
            }
        }
        self.sink.flush().await?;
        self.pulse.write_done();
        self.out.clear();
        self.out.shrink_to(TOGETHER);
        self.answer = Room::default();
        Ok(())
    }
}

/// Room for a read of up to so many bytes, where there is hardly any: as commands are taken off its front, a buffer gets
/// shorter.
fn make_room(buffer: &mut BytesMut, bytes: usize) {
    if buffer.capacity() - buffer.len() < bytes.min(AHEAD / 2) {
        buffer.reserve(bytes);
    }
}

/// The front's answer; the front itself stays.
fn front(pending: &mut VecDeque<Pending>) -> impl Future<Output = Reply> + '_ {
    poll_fn(|cx| match pending.front_mut() {
        Some(first) => first.answer.poll_unpin(cx),
        None => Poll::Pending,
    })
}
