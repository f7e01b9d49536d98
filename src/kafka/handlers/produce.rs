//! Produce (0): batches in, offsets out.
//!
//! ```text
//!   submit:  decode -> names -> each batch validated -> Broker::append (order fixed here)
//!   answer:  durable and applied -> offsets, in request order
//! ```
//!
//! A partition's refusal concerns that partition alone; the others are stored.

use crate::auth::Action;
use crate::broker::{AppendBatch, AppendError, Appended};
use crate::kafka::access::Access;
use crate::kafka::call::{Call, now_ms};
use crate::kafka::endpoints::Endpoint;
use crate::kafka::errors;
use crate::kafka::partitions::{self, Leaders};
use crate::kafka::reply::{Answer, Refusal, encode};
use crate::kafka::skipped::Sequenced;
use crate::kafka::topic_configs::MAX_AHEAD_MS;
use crate::record::{self, BatchHeader, Compression, Limits, TimestampType, restamp_time};
use bytes::Bytes;
use cluster::catalog::{State, Topic};
use cluster::ids::{PartitionId, RangeId};
use futures::FutureExt;
use futures::future::BoxFuture;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{BrokerId, ProduceRequest, ProduceResponse};
use kafka_protocol::protocol::StrBytes;
use std::sync::Arc;
use std::time::Duration;

/// Most decompressed bytes of one batch (a bomb is refused, not inflated).
const MAX_DECOMPRESSED: u64 = Limits::DEFAULT_MAX_DECOMPRESSED_BYTES;
/// Most decompressed bytes of a batch that others need not wait for: the decoders of all cores at once hold little. What
/// swells beyond is looked at again, one request at a time, as a decoder may hold as much as it brings forth.
const USUAL_DECOMPRESSED: u64 = 8 << 20;
/// The same on the reactor, where a small bomb would take the thread from all its connections.
const INLINE_DECOMPRESSED: u64 = 1 << 20;
/// Validating more than this moves off the reactor. A compressed byte may stand for a thousand.
const INLINE: usize = 256 << 10;
const INLINE_COMPRESSED: usize = 1 << 10;
/// An answer is waited for at least so long: durability takes a sync, whatever `timeout_ms` says.
const LEAST_WAIT: Duration = Duration::from_secs(1);

/// A batch on its way in, and where its answer belongs.
struct Item {
    topic: usize,
    partition: usize,
    to: PartitionId,
    range: RangeId,
    sent: Bytes,
    limit: usize,
    log_append_time: bool,
}

/// Where a submitted batch's answer belongs.
struct Place {
    topic: usize,
    partition: usize,
    range: RangeId,
    batch: Option<Sequenced>,
}

/// Why a partition's batch is refused.
struct Fault {
    error: ResponseError,
    message: Option<String>,
    record: Option<i32>,
    /// What was sent is no single batch of this format: nothing of the partition was looked at.
    no_batch: bool,
    /// It decompresses to more than was allowed.
    swollen: bool,
}

impl From<ResponseError> for Fault {
    fn from(error: ResponseError) -> Self {
        Self {
            error,
            message: None,
            record: None,
            no_batch: false,
            swollen: false,
        }
    }
}

impl From<record::Refusal> for Fault {
    fn from(refusal: record::Refusal) -> Self {
        Self {
            error: ResponseError::try_from_code(refusal.error_code()).unwrap_or(ResponseError::InvalidRecord),
            record: match refusal {
                record::Refusal::Record { index, .. } => Some(index),
                _ => None,
            },
            message: Some(refusal.to_string()),
            no_batch: matches!(
                refusal,
                record::Refusal::NoBatch { .. } | record::Refusal::SeveralBatches | record::Refusal::Magic(_)
            ),
            swollen: matches!(
                refusal,
                record::Refusal::Record {
                    fault: record::RecordFault::Expansion(_),
                    ..
                }
            ),
        }
    }
}

/// Checks and submits. When this returns, the batches' order is fixed.
pub(crate) async fn submit(call: Call, request: ProduceRequest) -> Result<BoxFuture<'static, Answer>, Refusal> {
    let acks = request.acks;
    let wait = Duration::from_millis(request.timeout_ms.max(0) as u64).max(LEAST_WAIT);
    let state = call.view();
    let mut response = ProduceResponse::default();
    let (items, topics) = items(&call, &state, request, &mut response);
    let mut batches = Vec::with_capacity(items.len());
    let mut places = Vec::with_capacity(items.len());
    let mut no_batches = Vec::new();
    let walk = call.shared.config.walk_records;
    for (item, outcome) in validate(&call, items, walk).await {
        match outcome {
            Ok(batch) => {
                places.push(Place {
                    topic: item.topic,
                    partition: item.partition,
                    range: item.range,
                    batch: Sequenced::new(item.to, &batch.header),
                });
                batches.push(batch);
            }
            Err(fault) => {
                if fault.no_batch {
                    no_batches.push((item.topic, item.partition));
                }
                refuse(
                    &mut response.responses[item.topic].partition_responses[item.partition],
                    fault,
                );
            }
        }
    }
    let answers = match batches.is_empty() {
        true => None,
        false => Some(call.broker().append(batches).await),
    };
    let answer = async move {
        if let Some(answers) = answers {
            let answers = tokio::time::timeout(wait, answers).await;
            fill(&call, &mut response, places, answers.ok());
        }
        tell_log_starts(&call, &mut response, &topics, &no_batches);
        if acks == 0 {
            return without_answer(&response);
        }
        match encode(call.api, call.version, call.correlation, &response) {
            Ok(bytes) => Answer::Whole(bytes),
            Err(refusal) => Answer::Close(refusal),
        }
    };
    Ok(answer.boxed())
}

/// Kafka closes the connection, so that the client asks for metadata again.
fn without_answer(response: &ProduceResponse) -> Answer {
    let failed = response
        .responses
        .iter()
        .flat_map(|t| &t.partition_responses)
        .any(|p| p.error_code != 0);
    match failed {
        true => Answer::Close(Refusal::Unacknowledged),
        false => Answer::Nothing,
    }
}

/// Refusals that come from looking at the partition carry its log start, as in Kafka.
fn tell_log_starts(
    call: &Call,
    response: &mut ProduceResponse,
    topics: &[Option<Arc<Topic>>],
    no_batches: &[(usize, usize)],
) {
    for (of, (answers, topic)) in response.responses.iter_mut().zip(topics).enumerate() {
        let Some(topic) = topic else { continue };
        for (at, answer) in answers.partition_responses.iter_mut().enumerate() {
            let looked = !no_batches.contains(&(of, at))
                && matches!(
                    ResponseError::try_from_code(answer.error_code),
                    Some(
                        ResponseError::InvalidRecord
                            | ResponseError::InvalidTimestamp
                            | ResponseError::OutOfOrderSequenceNumber
                            | ResponseError::InvalidProducerEpoch
                    )
                );
            if looked && let Ok(marks) = call.broker().marks(topic, answer.index as u32) {
                answer.log_start_offset = marks.log_start;
            }
        }
    }
}

/// Lays out the response, refuses what names no partition, and lists the rest; with the topic of each part of the response.
fn items(
    call: &Call,
    state: &State,
    request: ProduceRequest,
    response: &mut ProduceResponse,
) -> (Vec<Item>, Vec<Option<Arc<Topic>>>) {
    let by_id = call.version >= 13;
    let access = Access::new(call, state);
    let whole = if !(-1..=1).contains(&request.acks) {
        Some(ResponseError::InvalidRequiredAcks)
    } else if request.transactional_id.is_some() {
        Some(ResponseError::TransactionalIdAuthorizationFailed)
    } else {
        None
    };
    let mut items = Vec::new();
    let mut topics = Vec::with_capacity(request.topic_data.len());
    response.responses.reserve(request.topic_data.len());
    for data in request.topic_data {
        if data.partition_data.is_empty() {
            continue;
        }
        let topic = match whole {
            Some(error) => Err(error),
            None => access
                .topic_of(Action::Write, by_id, &data.name, data.topic_id)
                .cloned(),
        };
        let mut partitions = Vec::with_capacity(data.partition_data.len());
        for partition in data.partition_data {
            let mut answer = PartitionProduceResponse::default()
                .with_index(partition.index)
                .with_base_offset(-1);
            match topic.as_ref().map_err(|e| *e).and_then(|t| place(t, partition.index)) {
                Ok((topic, index)) => items.push(Item {
                    topic: response.responses.len(),
                    partition: partitions.len(),
                    to: PartitionId { topic: topic.id, index },
                    range: topic.partitions[index as usize],
                    sent: partition.records.unwrap_or_default(),
                    limit: topic.max_bytes.unwrap_or(call.shared.config.max_message_bytes) as usize,
                    log_append_time: topic.log_append_time,
                }),
                Err(error) => refuse(&mut answer, error.into()),
            }
            partitions.push(answer);
        }
        response.responses.push(
            TopicProduceResponse::default()
                .with_name(data.name)
                .with_topic_id(data.topic_id)
                .with_partition_responses(partitions),
        );
        topics.push(topic.ok());
    }
    (items, topics)
}

fn place(topic: &Arc<Topic>, index: i32) -> Result<(&Arc<Topic>, u32), ResponseError> {
    partitions::index(topic, index).map(|index| (topic, index))
}

/// Validates each batch, off the reactor where that is work.
async fn validate(call: &Call, items: Vec<Item>, walk: bool) -> Vec<(Item, Result<AppendBatch, Fault>)> {
    let version = call.version;
    let work = move |items: Vec<Item>, cap: u64| -> Vec<_> {
        items
            .into_iter()
            .map(|item| {
                let outcome = check(&item, version, walk, cap);
                (item, outcome)
            })
            .collect()
    };
    let mut outcomes = match is_light(&items) {
        true => work(items, INLINE_DECOMPRESSED),
        false => {
            let _turn = call.shared.validators.acquire().await;
            off_reactor(move || work(items, USUAL_DECOMPRESSED)).await
        }
    };
    if outcomes.iter().any(|(_, outcome)| is_swollen(outcome)) {
        let _turn = call.shared.inflating.acquire().await;
        outcomes = off_reactor(move || {
            for (item, outcome) in &mut outcomes {
                if is_swollen(outcome) {
                    *outcome = check(item, version, walk, MAX_DECOMPRESSED);
                }
            }
            outcomes
        })
        .await;
    }
    outcomes
}

fn is_swollen(outcome: &Result<AppendBatch, Fault>) -> bool {
    outcome.as_ref().is_err_and(|fault| fault.swollen)
}

async fn off_reactor<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The runtime is stopping, or validation panicked: the connection goes down with it.
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
    }
}

fn is_light(items: &[Item]) -> bool {
    // Attributes are at byte 21; their low bits name the codec.
    let compressed = |sent: &[u8]| sent.get(22).is_some_and(|b| b & 7 != 0);
    let (mut plain, mut packed) = (0, 0);
    for item in items {
        match compressed(&item.sent) {
            true => packed += item.sent.len(),
            false => plain += item.sent.len(),
        }
    }
    plain <= INLINE && packed <= INLINE_COMPRESSED
}

/// `cap`: most bytes that are decompressed.
fn check(item: &Item, version: i16, walk: bool, cap: u64) -> Result<AppendBatch, Fault> {
    let limits = Limits {
        max_batch_bytes: item.limit,
        max_decompressed_bytes: cap,
        walk,
    };
    let valid = record::validate(&item.sent, &limits)?;
    if valid.header.is_transactional() {
        return Err(ResponseError::TransactionalIdAuthorizationFailed.into());
    }
    if valid.compression == Compression::Zstd && version < 7 {
        return Err(ResponseError::UnsupportedCompressionType.into());
    }
    let mut header = valid.header;
    let mut bytes = item.sent.slice(..valid.len);
    let mut max_timestamp = valid.max_timestamp;
    if header.timestamp_type() == TimestampType::LogAppendTime {
        if item.log_append_time {
            return Err(untimely("a producer does not set the timestamp type to LogAppendTime"));
        }
        // The topic's type counts, as in Kafka; what was hidden behind the producer's mark then shows.
        (bytes, header) = create_time(&bytes, max_timestamp)?;
        max_timestamp = record::validate(&bytes, &limits)?.max_timestamp;
    }
    if !item.log_append_time && max_timestamp > now_ms().saturating_add(MAX_AHEAD_MS) {
        return Err(untimely("a timestamp more than an hour ahead of this node's clock"));
    }
    if max_timestamp != header.max_timestamp && !item.log_append_time {
        // Time lookups trust the header, so it is made true, as in Kafka.
        (bytes, header) = create_time(&bytes, max_timestamp)?;
    }
    Ok(AppendBatch {
        partition: item.to,
        range: item.range,
        header,
        bytes,
        log_append_time: item.log_append_time,
    })
}

fn untimely(why: &str) -> Fault {
    Fault {
        message: Some(why.to_owned()),
        ..ResponseError::InvalidTimestamp.into()
    }
}

fn create_time(bytes: &Bytes, max_timestamp: i64) -> Result<(Bytes, BatchHeader), Fault> {
    let invalid = |_| Fault::from(ResponseError::InvalidRecord);
    let bytes = restamp_time(bytes, TimestampType::CreateTime, max_timestamp)
        .map_err(invalid)?
        .to_bytes();
    let header = BatchHeader::parse(&bytes).map_err(invalid)?;
    Ok((bytes, header))
}

fn refuse(answer: &mut PartitionProduceResponse, fault: Fault) {
    answer.error_code = fault.error.code();
    answer.base_offset = -1;
    let message = fault.message.map(StrBytes::from_string);
    if let Some(index) = fault.record {
        answer.record_errors = vec![
            BatchIndexAndErrorMessage::default()
                .with_batch_index(index)
                .with_batch_index_error_message(message.clone()),
        ];
    }
    answer.error_message = message;
}

/// Writes the outcomes in their places; `None`: they did not come in time.
fn fill(
    call: &Call,
    response: &mut ProduceResponse,
    places: Vec<Place>,
    answers: Option<Vec<Result<Appended, AppendError>>>,
) {
    let mut answers = answers.map(Vec::into_iter);
    let mut moved = Vec::new();
    let skipped = &call.peer.skipped;
    for place in places {
        let Place {
            topic,
            partition,
            range,
            batch,
        } = place;
        let answer = &mut response.responses[topic].partition_responses[partition];
        match answers.as_mut().map(|a| a.next()) {
            Some(Some(Ok(appended))) => {
                answer.base_offset = appended.base_offset;
                answer.log_append_time_ms = appended.log_append_time;
                answer.log_start_offset = appended.log_start;
                batch.into_iter().for_each(|batch| skipped.stored(batch));
            }
            Some(Some(Err(error))) => {
                let code = match (&error, batch) {
                    (AppendError::OutOfOrderSequence { expected, .. }, Some(batch))
                        if skipped.explains(batch, *expected) =>
                    {
                        ResponseError::NotLeaderOrFollower
                    }
                    _ => errors::append(&error),
                };
                if let (AppendError::Propose(_), Some(batch)) = (&error, batch) {
                    skipped.refused(batch);
                }
                if code == ResponseError::NotLeaderOrFollower {
                    moved.push((topic, partition, range));
                }
                refuse(
                    answer,
                    Fault {
                        message: Some(error.to_string()),
                        ..code.into()
                    },
                );
            }
            // It may yet be stored: only the producer may ask again, and an idempotent one does so with the same sequence.
            Some(None) | None => {
                batch.into_iter().for_each(|batch| skipped.refused(batch));
                refuse(answer, ResponseError::RequestTimedOut.into());
            }
        }
    }
    if call.version >= 10 && !moved.is_empty() {
        name_leaders(call, response, &moved);
    }
}

/// KIP-951: who leads instead, so that the client need not ask.
fn name_leaders(call: &Call, response: &mut ProduceResponse, moved: &[(usize, usize, RangeId)]) {
    let state = call.view();
    let mut leaders = Leaders::new(call, &state);
    let mut named = false;
    for (topic, partition, range) in moved {
        if let Some((broker, epoch)) = leaders.of(*range) {
            response.responses[*topic].partition_responses[*partition].current_leader = LeaderIdAndEpoch::default()
                .with_leader_id(BrokerId(broker))
                .with_leader_epoch(epoch);
            named = true;
        }
    }
    if named {
        let endpoint = |e: &Endpoint| {
            NodeEndpoint::default()
                .with_node_id(BrokerId(e.broker))
                .with_host(StrBytes::from_string(e.host.clone()))
                .with_port(i32::from(e.port))
        };
        response.node_endpoints = leaders.brokers().listed().iter().map(endpoint).collect();
    }
}
