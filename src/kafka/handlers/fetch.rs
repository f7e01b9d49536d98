//! Fetch (1): stored bytes from an offset on, waiting for more where there are too few.
//!
//! ```text
//!   read all -> enough, or an error? -> answer
//!                 no: subscribe -> read all again -> wait for a commit or the deadline -> read all again ..
//! ```

use crate::auth::Action;
use crate::broker::{AccessError, Marks};
use crate::kafka::access::Access;
use crate::kafka::call::Call;
use crate::kafka::errors;
use crate::kafka::fetch_response::{FetchHead, PartitionAnswer, write};
use crate::kafka::fetch_sessions::{Context, TopicKey, Wanted, Wants};
use crate::kafka::memory::Held;
use crate::kafka::partitions::{self, Leaders, check_epoch};
use crate::kafka::reply::{Answer, Refusal};
use crate::log::{Piece, ReadError, Slice};
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
struct Pass {
    answers: Vec<PartitionAnswer>,
    bytes: usize,
    failed: bool,
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
    call.stands()?;
    let mut held = call.shared.answers.try_take(pass.in_memory());
    if held.is_none() && bounds.max_bytes > SCARCE {
        bounds.max_bytes = SCARCE;
        pass = Topics::default().read(call, &wants, &bounds);
        held = call.shared.answers.try_take(pass.in_memory());
    }
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
    Ok(Answer::Pieces(pieces, held.unwrap_or_default()))
}

/// Reads until there is enough, an error to tell, or no time left.
async fn enough(call: &Call, wants: &Wants, bounds: &Bounds) -> Pass {
    let mut topics = Topics::default();
    let pass = topics.read(call, wants, bounds);
    if is_enough(&pass, bounds) {
        return pass;
    }
    let mut subscription = call.broker().subscribe(&topics.partitions(wants));
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

    fn partitions(&self, wants: &Wants) -> Vec<PartitionId> {
        let id = |wanted: &Wanted| {
            let topic = self.found[wanted.topic].as_ref().ok()?;
            let index = partitions::index(topic, wanted.partition).ok()?;
            Some(PartitionId { topic: topic.id, index })
        };
        wants.partitions.iter().filter_map(id).collect()
    }

    /// Reads every partition, beginning with the one whose turn it is. The first batch comes whatever its size; what
    /// follows stays within the bounds.
    fn read(&mut self, call: &Call, wants: &Wants, bounds: &Bounds) -> Pass {
        self.look_up(call, &wants.topics);
        let mut pass = Pass {
            answers: Vec::with_capacity(wants.partitions.len()),
            bytes: 0,
            failed: false,
        };
        let (before, from) = wants.partitions.split_at(wants.turn.min(wants.partitions.len()));
        for wanted in from.iter().chain(before) {
            let left = bounds.max_bytes.saturating_sub(pass.bytes);
            let max = usize::try_from(wanted.max_bytes).unwrap_or(0).min(left);
            let answer = match &self.found[wanted.topic] {
                Ok(topic) => one(call, topic, wanted, max, bounds.first_whole && pass.bytes == 0),
                Err(error) => Err(*error),
            };
            let answer = answer.unwrap_or_else(|error| PartitionAnswer {
                topic: wanted.topic,
                partition: wanted.partition,
                error: Some(error),
                high_watermark: -1,
                last_stable_offset: -1,
                log_start: -1,
                ..Default::default()
            });
            pass.bytes += answer.bytes;
            pass.failed |= answer.error.is_some() || answer.diverging.is_some();
            pass.answers.push(answer);
        }
        pass
    }
}

fn one(
    call: &Call,
    topic: &Topic,
    wanted: &Wanted,
    max_bytes: usize,
    first_whole: bool,
) -> Result<PartitionAnswer, ResponseError> {
    let broker = call.broker();
    let index = partitions::index(topic, wanted.partition)?;
    if wanted.leader_epoch >= 0 {
        let marks = broker.marks(topic, index).map_err(|e| errors::access(&e))?;
        check_epoch(wanted.leader_epoch, marks.leader_epoch)?;
    }
    if wanted.last_fetched_epoch >= 0
        && let Some(diverging) = diverging(call, topic, index, wanted)?
    {
        return Ok(diverging);
    }
    let (marks, slice) = match broker.read(topic, index, wanted.offset, max_bytes, first_whole) {
        Ok(read) => read,
        Err(error) => return Err(failed(topic, index, &error)),
    };
    Ok(answer(wanted, &marks, slice))
}

fn answer(wanted: &Wanted, marks: &Marks, slice: Slice) -> PartitionAnswer {
    PartitionAnswer {
        topic: wanted.topic,
        partition: wanted.partition,
        high_watermark: marks.high_watermark,
        last_stable_offset: marks.high_watermark,
        log_start: marks.log_start,
        bytes: slice.bytes,
        pieces: slice.pieces,
        ..Default::default()
    }
}

fn failed(topic: &Topic, index: u32, error: &AccessError) -> ResponseError {
    if let AccessError::Read(error @ ReadError::Storage { .. }) = error {
        tracing::error!(topic = topic.full_name(), partition = index, %error, "a partition cannot be read");
    }
    errors::access(error)
}

/// KIP-595: a client that says which epoch it read last learns where that epoch ended, if not where it thinks.
fn diverging(
    call: &Call,
    topic: &Topic,
    index: u32,
    wanted: &Wanted,
) -> Result<Option<PartitionAnswer>, ResponseError> {
    let broker = call.broker();
    let marks = broker.marks(topic, index).map_err(|e| errors::access(&e))?;
    let end = match wanted.last_fetched_epoch {
        epoch if epoch == marks.leader_epoch => Some((epoch, marks.log_end)),
        epoch => broker
            .epoch_end(topic, index, epoch)
            .map_err(|e| failed(topic, index, &e))?,
    };
    let (epoch, end) = end.ok_or(ResponseError::OffsetOutOfRange)?;
    if epoch >= wanted.last_fetched_epoch && end >= wanted.offset {
        return Ok(None);
    }
    let mut told = answer(wanted, &marks, Slice::default());
    told.diverging = Some((epoch, end));
    Ok(Some(told))
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
