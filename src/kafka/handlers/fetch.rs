//! Fetch (1): stored bytes from an offset on, waiting for more where there are too few.
//!
//! ```text
//!   read all -> enough, or an error? -> answer
//!                 no: subscribe -> read all again -> wait for a commit or the deadline -> read all again ..
//! ```
//!
//! Partitions that other members lead are asked of them (`elsewhere`).

mod elsewhere;
#[cfg(test)]
mod tests;

use crate::auth::Action;
use crate::broker::{AccessError, FetchFrom, Fetched};
use crate::connections::Held;
use crate::kafka::access::Access;
use crate::kafka::call::Call;
use crate::kafka::errors;
use crate::kafka::fetch_response::{FetchHead, PartitionAnswer, write};
use crate::kafka::fetch_sessions::{Context, TopicKey, Wanted, Wants};
use crate::kafka::partitions::{self, Leaders};
use crate::kafka::reply::{Answer, Refusal};
use crate::log::{Piece, ReadError};
use cluster::catalog::{State, Topic};
use cluster::ids::PartitionId;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::FetchRequest;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What an answer may hold of records in memory when others hold all they may together: slow clients get less at a time
/// instead of memory.
const SCARCE: usize = 64 << 10;

/// What the request asks of the answer as a whole.
struct Bounds {
    min_bytes: usize,
    max_bytes: usize,
    /// The first batch comes whatever its size, so that a client always gets on.
    first_whole: bool,
    deadline: Instant,
}

/// One pass over the partitions.
#[derive(Default)]
struct Pass {
    answers: Vec<PartitionAnswer>,
    bytes: usize,
    failed: bool,
    /// Some of it is led by other members, and was not read.
    elsewhere: bool,
}

impl Pass {
    /// Bytes that are held in memory until the answer is written.
    fn in_memory(&self) -> usize {
        let pieces = self.answers.iter().flat_map(|a| &a.pieces);
        pieces
            .map(|p| match p {
                Piece::Memory(bytes) => bytes.len(),
                Piece::File { .. } => 0,
            })
            .sum()
    }
}

/// Answers a fetch, or says why the connection must close.
pub(crate) async fn fetch(call: &Call, request: FetchRequest) -> Result<Answer, Refusal> {
    let by_id = call.version >= 13;
    let mut bounds = Bounds {
        min_bytes: usize::try_from(request.min_bytes).unwrap_or(0),
        max_bytes: usize::try_from(request.max_bytes)
            .unwrap_or(0)
            .min(call.shared.config.max_fetch),
        first_whole: request.max_bytes >= 0,
        deadline: Instant::now() + Duration::from_millis(request.max_wait_ms.max(0) as u64),
    };
    let mut head = FetchHead {
        api: call.api,
        version: call.version,
        correlation: call.correlation,
        committed: request.isolation_level == 1,
        error: None,
        session: 0,
        endpoints: &[],
    };
    let context = call.shared.sessions.begin(
        &call.who,
        request.session_id,
        request.session_epoch,
        by_id,
        request.topics,
        request.forgotten_topics_data,
    );
    let (mut wants, session, changed_only) = match context {
        Ok(Context::Full { wants, session }) => (wants, session, false),
        Ok(Context::Incremental { wants, session }) => (wants, Some(session), true),
        Err(error) => {
            head.error = Some(error);
            return write(&head, &[], Vec::new()).map(|pieces| Answer::Pieces(pieces, Held::default()));
        }
    };
    let mut pass = enough(call, &wants, &bounds).await;
    let held = match pass.elsewhere {
        true => {
            let all;
            (pass, all) = Box::pin(elsewhere::enough(call, &wants, &bounds)).await;
            all
        }
        false => {
            let mut held = call.shared.answers.try_take(pass.in_memory());
            if held.is_none() && bounds.max_bytes > SCARCE {
                bounds.max_bytes = SCARCE;
                pass = Topics::default().read(call, &wants, &bounds);
                held = call.shared.answers.try_take(pass.in_memory());
            }
            held.unwrap_or_default()
        }
    };
    call.stands()?;
    let mut answers = settle(&mut wants, pass.answers, changed_only, session.is_some());
    let endpoints = match call.version >= 12 && pass.failed {
        true => name_leaders(call, &wants, &mut answers),
        false => Vec::new(),
    };
    head.endpoints = &endpoints;
    head.session = session.as_ref().map_or(0, |s| s.number);
    let pieces = write(&head, &wants.topics, answers)?;
    if let Some(session) = session {
        session.put_back(wants);
    }
    Ok(Answer::Pieces(pieces, held))
}

/// Reads until there is enough, an error to tell, or no time left.
async fn enough(call: &Call, wants: &Wants, bounds: &Bounds) -> Pass {
    let mut topics = Topics::default();
    let pass = topics.read(call, wants, bounds);
    if is_enough(&pass, bounds) {
        return pass;
    }
    // What is led elsewhere fails the pass, so that it gets no further than this.
    let mut subscription = call.broker().subscribe(&topics.partitions(wants, |_| true));
    let mut changes = call.shared.watch.changes();
    loop {
        changes.mark_unchanged();
        // Once more: it may have come between the last look and the subscription.
        let pass = topics.read(call, wants, bounds);
        if is_enough(&pass, bounds) {
            return pass;
        }
        tokio::select! {
            () = subscription.changed() => {}
            // The topic may be gone, or the right to read it.
            Ok(()) = changes.changed() => {}
            () = tokio::time::sleep_until(bounds.deadline) => return topics.read(call, wants, bounds),
            () = call.shared.stopping.cancelled() => return pass,
        }
    }
}

fn is_enough(pass: &Pass, bounds: &Bounds) -> bool {
    pass.failed || pass.bytes >= bounds.min_bytes || pass.answers.is_empty() || Instant::now() >= bounds.deadline
}

/// The topics of a fetch, looked up again when the catalog changed, and with them whether they may be read: a right that is
/// lost while the fetch waits, or between two fetches of a session, counts.
#[derive(Default)]
struct Topics {
    version: Option<u64>,
    found: Vec<Result<Arc<Topic>, ResponseError>>,
}

impl Topics {
    fn look_up(&mut self, call: &Call, topics: &[TopicKey]) {
        let state: Arc<State> = call.view();
        let access = Access::new(call, &state);
        if self.version == Some(state.version()) {
            return;
        }
        self.version = Some(state.version());
        let by_id = call.version >= 13;
        self.found = topics
            .iter()
            .map(|key| access.topic_of(Action::Read, by_id, &key.name, key.id).cloned())
            .collect();
    }

    /// The topic and number of a partition, if it exists.
    fn find(&self, wanted: &Wanted) -> Result<(&Arc<Topic>, u32), ResponseError> {
        let topic = self.found[wanted.topic].as_ref().map_err(|e| *e)?;
        Ok((topic, partitions::index(topic, wanted.partition)?))
    }

    /// Those that exist, of the `which` places in the order of the pass.
    fn partitions(&self, wants: &Wants, which: impl Fn(usize) -> bool) -> Vec<PartitionId> {
        let wanted = in_turn(wants).enumerate().filter(|(place, _)| which(*place));
        let id = |(_, wanted)| {
            let (topic, index) = self.find(wanted).ok()?;
            Some(PartitionId { topic: topic.id, index })
        };
        wanted.filter_map(id).collect()
    }

    /// Reads every partition. The first batch comes whatever its size; what follows stays within the bounds.
    fn read(&mut self, call: &Call, wants: &Wants, bounds: &Bounds) -> Pass {
        self.read_some(call, wants, bounds.max_bytes, bounds.first_whole, |_| true)
    }

    /// Reads the `which` places; the others are left empty.
    fn read_some(
        &mut self,
        call: &Call,
        wants: &Wants,
        max_bytes: usize,
        first_whole: bool,
        which: impl Fn(usize) -> bool,
    ) -> Pass {
        self.look_up(call, &wants.topics);
        let mut pass = Pass {
            answers: Vec::with_capacity(wants.partitions.len()),
            ..Pass::default()
        };
        for (place, wanted) in in_turn(wants).enumerate() {
            if !which(place) {
                pass.answers.push(PartitionAnswer::default());
                continue;
            }
            let left = max_bytes.saturating_sub(pass.bytes);
            let answer = match self.find(wanted) {
                Ok((topic, index)) => {
                    let first_whole = first_whole && pass.bytes == 0;
                    match call.broker().fetch(topic, index, &from(wanted), left, first_whole) {
                        Ok(fetched) => answer(wanted, fetched),
                        Err(error) => {
                            pass.elsewhere |= matches!(error, AccessError::NotLeader)
                                && call.broker().led_elsewhere(topic, index).is_some();
                            refusal(wanted, failed(topic, index, &error))
                        }
                    }
                }
                Err(error) => refusal(wanted, error),
            };
            pass.add(answer);
        }
        pass
    }
}

impl Pass {
    fn add(&mut self, answer: PartitionAnswer) {
        self.bytes += answer.bytes;
        self.failed |= answer.error.is_some() || answer.diverging.is_some();
        self.answers.push(answer);
    }
}

/// The partitions, beginning with the one whose turn it is.
fn in_turn(wants: &Wants) -> impl Iterator<Item = &Wanted> {
    let (before, from) = wants.partitions.split_at(wants.turn.min(wants.partitions.len()));
    from.iter().chain(before)
}

fn from(wanted: &Wanted) -> FetchFrom {
    FetchFrom {
        offset: wanted.offset,
        max_bytes: usize::try_from(wanted.max_bytes).unwrap_or(0),
        leader_epoch: wanted.leader_epoch,
        last_fetched_epoch: wanted.last_fetched_epoch,
    }
}

fn answer(wanted: &Wanted, fetched: Fetched) -> PartitionAnswer {
    let Fetched {
        marks,
        diverging,
        slice,
    } = fetched;
    PartitionAnswer {
        topic: wanted.topic,
        partition: wanted.partition,
        high_watermark: marks.high_watermark,
        last_stable_offset: marks.high_watermark,
        log_start: marks.log_start,
        diverging,
        bytes: slice.bytes,
        pieces: slice.pieces,
        ..Default::default()
    }
}

fn refusal(wanted: &Wanted, error: ResponseError) -> PartitionAnswer {
    PartitionAnswer {
        topic: wanted.topic,
        partition: wanted.partition,
        error: Some(error),
        high_watermark: -1,
        last_stable_offset: -1,
        log_start: -1,
        ..Default::default()
    }
}

fn failed(topic: &Topic, index: u32, error: &AccessError) -> ResponseError {
    if let AccessError::Read(error @ ReadError::Storage { .. }) = error {
        tracing::error!(topic = topic.full_name(), partition = index, %error, "a partition cannot be read");
    }
    errors::access(error)
}

/// Remembers what is told. In a session only what changed is told, and the next fetch begins behind the last partition
/// that was served.
fn settle(
    wants: &mut Wants,
    mut answers: Vec<PartitionAnswer>,
    changed_only: bool,
    session: bool,
) -> Vec<PartitionAnswer> {
    if !session {
        return answers;
    }
    let count = wants.partitions.len();
    let first = wants.turn.min(count);
    let mut place = first;
    let mut last_served = None;
    answers.retain(|answer| {
        let at = place % count;
        place += 1;
        let wanted = &mut wants.partitions[at];
        let changed = answer.bytes > 0
            || answer.error.is_some()
            || answer.diverging.is_some()
            || answer.high_watermark != wanted.told_high_watermark
            || answer.log_start != wanted.told_log_start;
        if answer.bytes > 0 {
            last_served = Some(at);
        }
        // An error is told as -1, so that its end is told too.
        wanted.told_high_watermark = answer.high_watermark;
        wanted.told_log_start = answer.log_start;
        changed || !changed_only
    });
    if let Some(at) = last_served {
        wants.turn = (at + 1) % count;
    }
    answers
}

/// KIP-951: partitions that are led elsewhere come with their leader, and the answer with its address (version 16).
fn name_leaders(call: &Call, wants: &Wants, answers: &mut [PartitionAnswer]) -> Vec<crate::kafka::endpoints::Endpoint> {
    let state = call.view();
    let mut topics = Topics::default();
    topics.look_up(call, &wants.topics);
    let mut leaders = Leaders::new(call, &state);
    let mut named = false;
    for answer in answers {
        let elsewhere = matches!(
            answer.error,
            Some(ResponseError::NotLeaderOrFollower | ResponseError::FencedLeaderEpoch)
        );
        if elsewhere
            && let Ok(topic) = &topics.found[answer.topic]
            && let Some(range) = topic.partitions.get(answer.partition as usize)
        {
            answer.leader = leaders.of(*range);
            named |= answer.leader.is_some();
        }
    }
    match named {
        true => leaders.brokers().listed().to_vec(),
        false => Vec::new(),
    }
}
