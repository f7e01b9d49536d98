//! The answering side: what other members ask of the partitions and positions that this node leads. Nothing that came
//! this way is asked on.

use super::answer::{self, Hint, NoRows, Row, Told};
use super::question::{FetchQuestion, Question};
use crate::broker::declared::Declared;
use crate::broker::fetch::Fetched;
use crate::broker::look::{Look, LookInto};
use crate::broker::{AccessError, Broker, PositionError, Subscription};
use crate::log::Piece;
use bytes::{Bytes, BytesMut};
use cluster::catalog::Topic;
use cluster::forward::{Answers, NoAnswer};
use cluster::ids::{NodeId, PartitionId};
use cluster::range::ProposeError;
use futures::FutureExt;
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Bytes of one part of an answer.
const PART: usize = 256 << 10;
/// Pieces of this size go out as they are; smaller ones are put together.
const WHOLE: usize = 64 << 10;

/// The room behind the door.
pub(super) struct Reads {
    pub broker: Weak<Broker>,
}

impl Answers for Reads {
    fn answer(&self, _from: NodeId, question: Bytes, within: Duration) -> BoxStream<'static, Result<Bytes, NoAnswer>> {
        let no = |why: String| stream::once(std::future::ready(Err(NoAnswer(why)))).boxed();
        let Some(broker) = self.broker.upgrade() else {
            return no("this node stops".into());
        };
        match Question::decode(&question) {
            Ok(Question::Fetch(fetch)) => stream::unfold(Polled::new(broker, fetch, within), |mut polled| async move {
                let part = polled.next().await?;
                Some((part, polled))
            })
            .boxed(),
            Ok(Question::Declared { index, topics }) => {
                let known = async move { broker.knows(Declared { index, topics }, within).await };
                stream::once(known.map(|known| Ok(vec![u8::from(known)].into()))).boxed()
            }
            Ok(question) => stream::once(once(broker, question)).flatten().boxed(),
            Err(malformed) => no(malformed.to_string()),
        }
    }
}

/// Answers to everything that is not waited for.
async fn once(broker: Arc<Broker>, question: Question) -> BoxStream<'static, Result<Bytes, NoAnswer>> {
    let pieces = match question {
        // Never here: `answer` takes it.
        Question::Fetch(_) | Question::Declared { .. } => Vec::new(),
        Question::Look(looks) => look(broker, looks).await,
        Question::Run {
            partition,
            offset,
            max_bytes,
        } => {
            let read = move || {
                let told = match topic(&broker, partition) {
                    Ok(topic) => broker
                        .run_here(&topic, partition.index, offset, max_bytes as usize)
                        .map_err(|error| (error, hint(&broker, &topic, partition.index))),
                    Err(error) => Err(error),
                };
                answer::encode_run(&told)
            };
            cluster::threads::blocking(read).await.unwrap_or_default()
        }
        Question::Positions { namespace, reader } => rows(broker.positions_here(namespace, &reader).await),
        Question::Readers(namespace) => rows(broker.readers_here(namespace).await),
        Question::PositionsIn(namespace, topic) => rows(broker.positions_in_here(namespace, topic).await),
    };
    let outgoing = Outgoing(pieces.into());
    stream::unfold(outgoing, |mut outgoing| async move {
        let part = outgoing.next().await?;
        Some((part, outgoing))
    })
    .boxed()
}

fn rows<R: Row>(rows: Result<Vec<R>, PositionError>) -> Vec<Piece> {
    let rows = rows.map_err(|error| match error {
        PositionError::Propose(ProposeError::NotLeader { .. }) => NoRows::NotLeader,
        PositionError::NoNamespace => NoRows::NoNamespace,
        error => NoRows::Unavailable(error.to_string()),
    });
    vec![Piece::Memory(answer::encode_rows(&rows).into())]
}

async fn look(broker: Arc<Broker>, looks: Vec<(PartitionId, Look)>) -> Vec<Piece> {
    let look = move || {
        let told: Vec<Told<_>> = looks
            .into_iter()
            .map(|(partition, look)| {
                let topic = topic(&broker, partition)?;
                let index = partition.index;
                let into = LookInto { topic, index, look };
                let looked = broker.look_here(&into);
                looked.map_err(|error| (error, hint(&broker, &into.topic, index)))
            })
            .collect();
        vec![Piece::Memory(answer::encode_looks(&told).into())]
    };
    // Some may read from disk.
    cluster::threads::blocking(look).await.unwrap_or_default()
}

/// A topic as this node knows it. One it does not know (yet, or any more) is answered like one it does not lead.
fn topic(broker: &Broker, partition: PartitionId) -> Result<Arc<Topic>, (AccessError, Hint)> {
    let view = broker.catalog().view();
    let topic = view.topic_by_id(partition.topic).cloned();
    topic.ok_or((AccessError::NotLeader, (0, None)))
}

fn hint(broker: &Broker, topic: &Topic, index: u32) -> Hint {
    let leader = broker.routes().table().partition(topic, index);
    leader.map_or((0, None), |leader| (leader.epoch, Some(leader.node)))
}

/// Pieces on their way out.
struct Outgoing(VecDeque<Piece>);

impl Outgoing {
    async fn next(&mut self) -> Option<Result<Bytes, NoAnswer>> {
        let mut gathered = BytesMut::new();
        loop {
            match self.0.front_mut() {
                Some(Piece::Memory(bytes)) if bytes.len() >= WHOLE && gathered.is_empty() => {
                    let part = bytes.split_to(bytes.len().min(PART));
                    if bytes.is_empty() {
                        self.0.pop_front();
                    }
                    return Some(Ok(part));
                }
                Some(Piece::Memory(bytes)) if bytes.len() < WHOLE && gathered.len() + bytes.len() <= PART => {
                    gathered.extend_from_slice(bytes);
                    self.0.pop_front();
                }
                Some(Piece::File { file, position, len }) if gathered.is_empty() => {
                    let (file, at, want) = (file.clone(), *position, PART.min(*len));
                    *position += want as u64;
                    *len -= want;
                    if *len == 0 {
                        self.0.pop_front();
                    }
                    let read = move || {
                        let mut bytes = vec![0; want];
                        file.read_exact_at(&mut bytes, at).map(|()| bytes)
                    };
                    let read = cluster::threads::blocking(read).await.map_err(io::Error::other);
                    return Some(match read.and_then(|read| read) {
                        Ok(bytes) => Ok(bytes.into()),
                        Err(error) => {
                            tracing::error!(%error, "stored bytes that another member asked for cannot be read");
                            Err(NoAnswer(format!("stored bytes cannot be read: {error}")))
                        }
                    });
                }
                Some(_) => return Some(Ok(gathered.freeze())),
                None if gathered.is_empty() => return None,
                None => return Some(Ok(gathered.freeze())),
            }
        }
    }
}

/// A fetch of another member, which may wait here.
///
/// ```text
///   pass --enough, an error, nothing to wait for--> end
///     |
///     +--> wait --append--> enough, or an error? --> pass, end         what was told in the first pass and did not change
///            ^                |no                                      is not told again: then the end is the answer
///            +----- more -----+          deadline --> pass if anything changed, end
/// ```
struct Polled {
    broker: Arc<Broker>,
    asked: FetchQuestion,
    /// The topics of the parts, as of a version of the catalog.
    topics: Vec<Result<Arc<Topic>, (AccessError, Hint)>>,
    version: Option<u64>,
    until: Instant,
    subscription: Option<Subscription>,
    outgoing: Outgoing,
    stage: Stage,
}

enum Stage {
    First,
    Waiting(Seen),
    Over,
}

/// What was told last.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    bytes: usize,
    /// Sums of high watermarks and of log starts: both only grow.
    marks: (i128, i128),
}

struct Pass {
    answers: Vec<Told<Fetched>>,
    failed: bool,
    seen: Seen,
}

impl Pass {
    fn pieces(self) -> VecDeque<Piece> {
        let head = Piece::Memory(answer::encode_pass(&self.answers).into());
        let stored = self.answers.into_iter().flatten().flat_map(|f| f.slice.pieces);
        std::iter::once(head).chain(stored).collect()
    }
}

impl Polled {
    fn new(broker: Arc<Broker>, asked: FetchQuestion, within: Duration) -> Self {
        let wait = Duration::from_millis(asked.wait_ms.into()).min(within);
        Self {
            broker,
            asked,
            topics: Vec::new(),
            version: None,
            until: Instant::now() + wait,
            subscription: None,
            outgoing: Outgoing(VecDeque::new()),
            stage: Stage::First,
        }
    }

    async fn next(&mut self) -> Option<Result<Bytes, NoAnswer>> {
        loop {
            if let Some(part) = self.outgoing.next().await {
                return Some(part);
            }
            match self.stage {
                Stage::First => {
                    if self.asked.wait_ms > 0 {
                        // Before the look, so that nothing is missed between.
                        let partitions: Vec<_> = self.asked.parts.iter().map(|(partition, _)| *partition).collect();
                        self.subscription = Some(self.broker.subscribe(&partitions));
                    }
                    let pass = self.read();
                    self.stage = match self.subscription {
                        Some(_) if !self.is_enough(&pass) => Stage::Waiting(pass.seen),
                        _ => Stage::Over,
                    };
                    self.outgoing.0 = pass.pieces();
                }
                Stage::Waiting(told) => {
                    let over = match &mut self.subscription {
                        Some(subscription) => tokio::select! {
                            () = subscription.changed() => false,
                            () = tokio::time::sleep_until(self.until) => true,
                            () = self.broker.stop.cancelled() => true,
                        },
                        None => true,
                    };
                    let pass = self.read();
                    if self.is_enough(&pass) || over {
                        self.stage = Stage::Over;
                        if pass.failed || pass.seen != told {
                            self.outgoing.0 = pass.pieces();
                        }
                    } else if pass.seen.bytes > told.bytes {
                        let bytes = pass.seen.bytes;
                        // The marks stay as told, so that the last pass tells them.
                        self.stage = Stage::Waiting(Seen { bytes, ..told });
                        return Some(Ok(answer::encode_more(bytes).into()));
                    }
                }
                Stage::Over => return None,
            }
        }
    }

    fn is_enough(&self, pass: &Pass) -> bool {
        pass.failed || pass.seen.bytes as u64 >= self.asked.min_bytes
    }

    fn look_up(&mut self) {
        let view = self.broker.catalog().view();
        if self.version != Some(view.version()) {
            self.version = Some(view.version());
            let parts = self.asked.parts.iter();
            self.topics = parts.map(|(partition, _)| topic(&self.broker, *partition)).collect();
        }
    }

    fn read(&mut self) -> Pass {
        self.look_up();
        let mut pass = Pass {
            answers: Vec::with_capacity(self.asked.parts.len()),
            failed: false,
            seen: Seen {
                bytes: 0,
                marks: (0, 0),
            },
        };
        let most = usize::try_from(self.asked.max_bytes).unwrap_or(usize::MAX);
        for ((partition, from), topic) in self.asked.parts.iter().zip(&self.topics) {
            let told = match topic {
                Ok(topic) => {
                    let left = most.saturating_sub(pass.seen.bytes);
                    let first_whole = self.asked.first_whole && pass.seen.bytes == 0;
                    let fetched = self.broker.fetch(topic, partition.index, from, left, first_whole);
                    fetched.map_err(|error| (error, hint(&self.broker, topic, partition.index)))
                }
                Err((AccessError::NotLeader, hint)) => Err((AccessError::NotLeader, *hint)),
                Err(_) => Err((AccessError::NotLeader, (0, None))),
            };
            match &told {
                Ok(fetched) => {
                    pass.failed |= fetched.diverging.is_some();
                    pass.seen.bytes += fetched.slice.bytes;
                    pass.seen.marks.0 += i128::from(fetched.marks.high_watermark);
                    pass.seen.marks.1 += i128::from(fetched.marks.log_start);
                }
                Err(_) => pass.failed = true,
            }
            pass.answers.push(told);
        }
        pass
    }
}
