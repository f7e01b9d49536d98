//! Appending: batches of a call are grouped by range, one command each; a range's commands are submitted in call order.

use super::command::{AppendItem, AppendWriter, Verdict, VerdictReader};
use super::encoding::Malformed;
use super::metrics::Metrics;
use super::{AppendBatch, AppendError, Appended, Broker, now_ms};
use crate::record::{TimestampType, restamp_time};
use bytes::Bytes;
use cluster::ids::RangeId;
use cluster::machine::Payload;
use cluster::range::ProposeError;
use smallvec::SmallVec;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::OwnedSemaphorePermit;

type Answer = Result<Appended, AppendError>;

/// The batches of one call that go to one range.
struct Group {
    range: RangeId,
    head: AppendWriter,
    parts: Vec<Bytes>,
    members: Vec<Member>,
}

/// A batch of the call.
#[derive(Clone, Copy)]
struct Member {
    /// Its place in the call.
    index: u32,
    log_append_time: bool,
}

impl Broker {
    /// Submits batches. When this returns, their order against later calls of the same caller is fixed (the caller
    /// awaits it before submitting more); the returned future resolves once they are durable and applied, one answer a
    /// batch, in the order given. Waits while too many bytes are in flight. A range that is just starting is waited for,
    /// briefly.
    ///
    /// Dropping the returned future drops the answers only: what was submitted goes on (and the range bounds what is
    /// submitted to it).
    pub async fn append(&self, batches: Vec<AppendBatch>) -> impl Future<Output = Vec<Answer>> + Send + use<> {
        let count = batches.len();
        let in_flight = self.take_in_flight(batches.iter().map(|b| b.bytes.len()).sum()).await;
        let mut answers: Vec<Option<Answer>> = vec![None; count];
        let mut pending = SmallVec::<[_; 2]>::new();
        for group in self.group(batches) {
            let command = Payload {
                head: group.head.finish().into(),
                parts: group.parts.into(),
            };
            match self.submit(group.range, command).await {
                Ok(answer) => pending.push((group.members, answer)),
                Err(error) => refuse(&mut answers, &group.members, &error),
            }
        }
        async move {
            for (members, answer) in pending {
                match answer.await {
                    Ok(answer) => {
                        if read_answers(&answer, &members, &mut answers).is_err() {
                            let error = ProposeError::Unknown("the range's answer cannot be read");
                            refuse(&mut answers, &members, &error);
                        }
                    }
                    Err(error) => refuse(&mut answers, &members, &error),
                }
            }
            drop(in_flight);
            let unanswered = || Err(ProposeError::Unknown("no answer").into());
            answers.into_iter().map(|a| a.unwrap_or_else(unanswered)).collect()
        }
    }

    fn group(&self, batches: Vec<AppendBatch>) -> SmallVec<[Group; 2]> {
        let append_ms = now_ms();
        let expiry_ms = i64::try_from(self.config.producer_expiry.as_millis()).unwrap_or(i64::MAX);
        let count = batches.len();
        let mut groups = SmallVec::<[Group; 2]>::new();
        for (index, batch) in batches.into_iter().enumerate() {
            let at = match groups.iter().position(|g| g.range == batch.range) {
                Some(at) => at,
                None => {
                    groups.push(Group {
                        range: batch.range,
                        head: AppendWriter::new(append_ms, expiry_ms, count),
                        parts: Vec::with_capacity(count),
                        members: Vec::with_capacity(count),
                    });
                    groups.len() - 1
                }
            };
            let group = &mut groups[at];
            let restamped = match batch.log_append_time {
                true => restamp_time(&batch.bytes, TimestampType::LogAppendTime, append_ms).ok(),
                false => None,
            };
            group.head.push(AppendItem {
                partition: batch.partition,
                split: restamped.is_some(),
            });
            match restamped {
                Some(restamped) => {
                    group.parts.push(Bytes::copy_from_slice(&restamped.head));
                    group.parts.push(restamped.rest);
                }
                None => group.parts.push(batch.bytes),
            }
            group.members.push(Member {
                index: index as u32,
                log_append_time: batch.log_append_time,
            });
        }
        groups
    }

    async fn take_in_flight(&self, bytes: usize) -> InFlight {
        // At least one, so that whoever waits for room waits behind those who came before; at most all there is, so that
        // a call larger than the budget goes alone.
        let permits = bytes.clamp(1, self.config.in_flight_bytes) as u32;
        // The semaphore is never closed.
        let permit = self.budget.clone().acquire_many_owned(permits).await.ok();
        self.metrics.in_flight_bytes.fetch_add(bytes as u64, Relaxed);
        InFlight {
            metrics: self.metrics.clone(),
            bytes: bytes as u64,
            _permit: permit,
        }
    }
}

/// Bytes submitted and not yet answered.
struct InFlight {
    metrics: Arc<Metrics>,
    bytes: u64,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.in_flight_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

fn refuse(answers: &mut [Option<Answer>], members: &[Member], error: &ProposeError) {
    for member in members {
        answers[member.index as usize] = Some(Err(error.clone().into()));
    }
}

fn read_answers(answer: &[u8], members: &[Member], answers: &mut [Option<Answer>]) -> Result<(), Malformed> {
    let mut verdicts = VerdictReader::new(answer)?;
    for member in members {
        answers[member.index as usize] = Some(match verdicts.next()? {
            Verdict::Stored {
                base_offset,
                append_ms,
                log_start,
                repeat: _,
            } => Ok(Appended {
                base_offset,
                log_append_time: if member.log_append_time { append_ms } else { -1 },
                log_start,
            }),
            Verdict::OutOfOrder { expected, got } => Err(AppendError::OutOfOrderSequence { expected, got }),
            Verdict::Fenced { current, got } => Err(AppendError::InvalidProducerEpoch { current, got }),
            Verdict::TooOld => Err(AppendError::DuplicateSequence),
            Verdict::Gone => Err(AppendError::Gone),
            Verdict::Unreadable => return Err(Malformed("a batch that the range cannot read")),
        });
    }
    verdicts.finish()
}
