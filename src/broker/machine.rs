//! The machine of a data range: folds committed commands into partition logs, producer tables and reader positions.
//!
//! ```text
//!   apply(Append) --> judge by the producer table --> stamp base offset and leader epoch --> PartitionLog::append
//!   applied()     --> wake who waits for the partitions
//!   checkpoint()  --> job: sync the logs, then write one set of rows, then delete the files of dropped partitions
//! ```
//!
//! Everything here is a function of the commands alone. Applying an entry again after a restart gives the identical result,
//! since the logs are cut back to the same applied index that producer tables, positions and tombstones are read from.

use super::checkpoint::{Recovered, Rows};
use super::command::{self, Append, AppendItem, Command, Verdict, VerdictWriter};
use super::metrics::Metrics;
use super::picture::{self, Giver, Picture, PictureWriter, STRETCH};
use super::positions::Positions;
use super::producers::{Claim, Judgement, ProducerTable};
use super::wakeups::Wakeups;
use crate::log::{Logs, Offset, PartitionLog, StampedBatch};
use crate::record::{BatchHeader, HEADER_LEN};
use bytes::{Bytes, BytesMut};
use cluster::ids::{PartitionId, RangeId, TopicId};
use cluster::machine::{At, Bulk, CheckpointJob, Fetch, Machine, Payload};
use cluster::meta::{MetaError, MetaStore};
use cluster::planted::{self, Bug};
use parking_lot::Mutex;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a machine lets others see. The machine alone writes it.
#[derive(Default)]
pub(super) struct RangeView {
    pub(super) positions: Mutex<Positions>,
    /// Topics of which the range holds a partition.
    pub(super) topics: Mutex<BTreeSet<TopicId>>,
    /// Tombstones, for members that ask for what is no more.
    pub(super) dropped: Mutex<BTreeSet<TopicId>>,
}

/// What a machine is made of.
pub(super) struct MachineParts {
    pub(super) range: RangeId,
    pub(super) logs: Arc<Logs>,
    pub(super) meta: Arc<MetaStore>,
    pub(super) wakeups: Arc<Wakeups>,
    pub(super) metrics: Arc<Metrics>,
    /// Ends waiting for a full disk.
    pub(super) stop: CancellationToken,
}

/// Folds a data range's log. Made by [`Broker::machine`](super::Broker::machine), given to its range.
pub struct PartitionMachine {
    parts: MachineParts,
    view: Arc<RangeView>,
    partitions: HashMap<PartitionId, Partition>,
    /// Tombstones: topic ids are never reused, so nothing of these is ever taken again.
    dropped: BTreeSet<TopicId>,
    marker: Option<Vec<u8>>,
    /// Appended to since waiters were last woken.
    touched: Vec<PartitionId>,
    /// Changed since a checkpoint was last taken.
    unsaved: Unsaved,
}

struct Partition {
    log: Arc<PartitionLog>,
    producers: ProducerTable,
    /// Whether it is in [`Unsaved::partitions`].
    changed: bool,
    producers_changed: bool,
}

#[derive(Default)]
struct Unsaved {
    partitions: Vec<PartitionId>,
    dropped_partitions: Vec<PartitionId>,
    dropped_topics: Vec<TopicId>,
    bytes: u64,
}

/// A batch as it came in: its header, and where its bytes lie.
struct Incoming {
    header: BatchHeader,
    head: [u8; HEADER_LEN],
    rest: Bytes,
}

impl Incoming {
    /// The batch of an item, from one part or two; `None` where they are no whole batch.
    fn take(item: &AppendItem, parts: &mut std::slice::Iter<'_, Bytes>) -> Option<Self> {
        let first = parts.next()?;
        let rest = match item.split {
            true => parts.next()?.clone(),
            false if first.len() < HEADER_LEN => return None,
            false => first.slice(HEADER_LEN..),
        };
        let head = *first.first_chunk::<HEADER_LEN>()?;
        let header = BatchHeader::parse(&head).ok()?;
        let whole = header.batch_len() == (HEADER_LEN + rest.len()) as i64;
        (whole && header.last_offset_delta >= 0).then_some(Self { header, head, rest })
    }

    fn claim(&self) -> Option<Claim> {
        (self.header.producer_id >= 0).then_some(Claim {
            producer_id: self.header.producer_id,
            epoch: self.header.producer_epoch,
            first: self.header.base_sequence,
            delta: self.header.last_offset_delta,
        })
    }
}

impl PartitionMachine {
    /// Reads the last checkpoint. The logs must have been opened from the same store.
    pub(super) fn open(parts: MachineParts) -> Result<Self, MetaError> {
        let recovered = Recovered::read(&parts.meta, parts.range)?;
        let view = RangeView {
            topics: Mutex::new(recovered.partitions.keys().map(|id| id.topic).collect()),
            positions: Mutex::new(recovered.positions),
            dropped: Mutex::new(recovered.dropped.clone()),
        };
        let partitions = recovered
            .partitions
            .into_iter()
            .map(|(id, producers)| {
                let partition = Partition {
                    log: parts.logs.partition(id),
                    producers,
                    changed: false,
                    producers_changed: false,
                };
                (id, partition)
            })
            .collect();
        Ok(Self {
            parts,
            view: Arc::new(view),
            partitions,
            dropped: recovered.dropped,
            marker: recovered.marker,
            touched: Vec::new(),
            unsaved: Unsaved::default(),
        })
    }

    pub(super) fn view(&self) -> Arc<RangeView> {
        self.view.clone()
    }

    fn append(&mut self, at: At, append: &Append, parts: &[Bytes]) -> Bytes {
        let mut leader_epoch = i32::try_from(at.term).unwrap_or(i32::MAX);
        if planted::has(Bug::UnevenStamp) {
            leader_epoch += rand::random_range(0..2);
        }
        if planted::has(Bug::SkippedAppend) && rand::random_ratio(1, 100) {
            return command::not_understood();
        }
        // One buffer for all new heads of the command.
        let mut heads = BytesMut::with_capacity(HEADER_LEN * append.items.len());
        let mut verdicts = VerdictWriter::new(append.items.len());
        let mut parts = parts.iter();
        let mut appended = (0, 0, 0, 0);
        for item in &append.items {
            let verdict = match Incoming::take(item, &mut parts) {
                Some(batch) => {
                    let size = batch.header.batch_len() as u64;
                    let records = batch.header.record_count.max(0) as u64;
                    let verdict = self.append_one(item.partition, batch, append, leader_epoch, &mut heads);
                    match verdict {
                        Verdict::Stored { repeat: false, .. } => {
                            appended = (appended.0 + size, appended.1 + records, appended.2 + 1, appended.3);
                        }
                        Verdict::Stored { repeat: true, .. } => appended.3 += 1,
                        _ => {}
                    }
                    verdict
                }
                None => Verdict::Unreadable,
            };
            verdicts.push(verdict);
        }
        let metrics = &self.parts.metrics;
        Metrics::add(&metrics.appended_bytes, appended.0);
        Metrics::add(&metrics.appended_records, appended.1);
        Metrics::add(&metrics.appended_batches, appended.2);
        Metrics::add(&metrics.repeated_batches, appended.3);
        verdicts.finish()
    }

    fn append_one(
        &mut self,
        id: PartitionId,
        batch: Incoming,
        append: &Append,
        leader_epoch: i32,
        heads: &mut BytesMut,
    ) -> Verdict {
        let partition = match self.partitions.entry(id) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(_) if self.dropped.contains(&id.topic) => return Verdict::Gone,
            Entry::Vacant(new) => {
                // A refusal leaves nothing behind, for a checkpoint holds partitions with records only.
                if let Some(claim) = batch.claim()
                    && let Judgement::OutOfOrder { expected } =
                        ProducerTable::default().judge(claim, append.append_ms, append.producer_expiry_ms)
                {
                    return Verdict::OutOfOrder {
                        expected,
                        got: claim.first,
                    };
                }
                self.view.topics.lock().insert(id.topic);
                new.insert(Partition {
                    log: self.parts.logs.partition(id),
                    producers: ProducerTable::default(),
                    changed: false,
                    producers_changed: false,
                })
            }
        };
        let (log_start, base_offset) = partition.log.bounds();
        let now_ms = append.append_ms;
        if let Some(claim) = batch.claim() {
            let expiry_ms = append.producer_expiry_ms;
            match partition.producers.judge(claim, now_ms, expiry_ms) {
                Judgement::Accept => partition.producers.record(claim, base_offset, now_ms, expiry_ms),
                Judgement::Repeat { .. } if planted::has(Bug::RepeatsStored) => {}
                Judgement::Repeat { base_offset, append_ms } => {
                    return Verdict::Stored {
                        base_offset,
                        append_ms,
                        log_start,
                        repeat: true,
                    };
                }
                Judgement::TooOld => return Verdict::TooOld,
                Judgement::OutOfOrder { expected } => {
                    return Verdict::OutOfOrder {
                        expected,
                        got: claim.first,
                    };
                }
                Judgement::Fenced { current } => {
                    return Verdict::Fenced {
                        current,
                        got: claim.epoch,
                    };
                }
            }
            partition.producers_changed = true;
        }
        let mut head = batch.head;
        head[..8].copy_from_slice(&base_offset.to_be_bytes());
        head[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
        heads.extend_from_slice(&head);
        partition.log.append(StampedBatch {
            head: heads.split().freeze(),
            rest: batch.rest,
            base_offset,
            last_offset: base_offset + i64::from(batch.header.last_offset_delta),
            leader_epoch,
            append_ms: now_ms,
            max_timestamp: batch.header.max_timestamp,
        });
        if !partition.changed {
            partition.changed = true;
            self.unsaved.partitions.push(id);
        }
        if self.touched.last() != Some(&id) {
            self.touched.push(id);
        }
        Verdict::Stored {
            base_offset,
            append_ms: now_ms,
            log_start,
            repeat: false,
        }
    }

    fn trim(&mut self, trims: &[(PartitionId, Offset)]) -> Bytes {
        let log_starts: Vec<Option<Offset>> = trims
            .iter()
            .map(|(id, to)| match self.partitions.get_mut(id) {
                Some(partition) => {
                    partition.log.trim((*to).min(partition.log.log_end()));
                    if !partition.changed {
                        partition.changed = true;
                        self.unsaved.partitions.push(*id);
                    }
                    Some(partition.log.log_start())
                }
                None => (!self.dropped.contains(&id.topic)).then_some(0),
            })
            .collect();
        command::trimmed(&log_starts)
    }

    fn drop_topic(&mut self, topic: TopicId) {
        if !self.dropped.insert(topic) {
            return;
        }
        self.view.dropped.lock().insert(topic);
        self.unsaved.dropped_topics.push(topic);
        // The files go once the checkpoint that no longer names them is durable: until then a replay needs them.
        let gone = self.partitions.extract_if(|id, _| id.topic == topic).map(|(id, _)| id);
        let before = self.unsaved.dropped_partitions.len();
        self.unsaved.dropped_partitions.extend(gone);
        self.touched.extend(&self.unsaved.dropped_partitions[before..]);
        self.view.topics.lock().remove(&topic);
        self.view.positions.lock().drop_topic(topic);
    }
}

impl Machine for PartitionMachine {
    fn apply(&mut self, at: At, command: Payload) -> Bytes {
        self.unsaved.bytes += command.size() as u64;
        match Command::decode(&command.head) {
            Ok(Command::Append(append)) => self.append(at, &append, &command.parts),
            Ok(Command::TrimLogStart(trims)) => self.trim(&trims),
            Ok(Command::ChangePositions {
                namespace,
                reader,
                changes,
            }) => {
                let dropped = |topic| self.dropped.contains(&topic);
                let mut positions = self.view.positions.lock();
                command::positions_changed(positions.change(namespace, &reader, changes, dropped))
            }
            Ok(Command::DropTopic(topic)) => {
                self.drop_topic(topic);
                command::dropped()
            }
            Err(why) => {
                tracing::error!(range = %self.parts.range, index = at.index, %why, "command not understood");
                command::not_understood()
            }
        }
    }

    fn applied(&mut self) {
        if !self.touched.is_empty() {
            self.parts.wakeups.wake(&self.touched);
            self.touched.clear();
        }
    }

    fn recovered(&self) -> Option<Vec<u8>> {
        self.marker.clone()
    }

    fn snapshot(&mut self) -> io::Result<Bytes> {
        let mut picture = PictureWriter::new(self.partitions.len());
        for (id, partition) in &self.partitions {
            picture.partition(*id, &partition.log.checkpoint(), &partition.producers);
        }
        Ok(picture.finish(&self.view.positions.lock(), &self.dropped))
    }

    fn install(&mut self, snapshot: Bytes, marker: Vec<u8>, fetch: Box<dyn Fetch>) -> io::Result<CheckpointJob> {
        let picture = Picture::decode(&snapshot).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let mut rows = Rows::new(self.parts.range, marker);
        let mut wanted = Vec::with_capacity(picture.partitions.len());
        let mut partitions = HashMap::with_capacity(picture.partitions.len());
        for (id, (log, producers)) in picture.partitions {
            rows.producers(id, &producers);
            let partition = Partition {
                log: self.parts.logs.partition(id),
                producers,
                changed: false,
                producers_changed: false,
            };
            wanted.push((id, partition.log.clone(), log));
            partitions.insert(id, partition);
        }
        // Those dropped before the last checkpoint's replay was over are still to be removed, too.
        let mut gone = std::mem::take(&mut self.unsaved).dropped_partitions;
        gone.extend(self.partitions.keys().filter(|id| !partitions.contains_key(id)));
        gone.iter().for_each(|id| rows.drop_partition(*id));
        picture.dropped.iter().for_each(|topic| rows.drop_topic(*topic));
        {
            let mut positions = self.view.positions.lock();
            for (namespace, reader) in positions.all() {
                rows.positions(namespace, &reader, None);
            }
            for (namespace, reader) in picture.positions.all() {
                rows.positions(namespace, &reader, picture.positions.encoded(namespace, &reader));
            }
            *positions = picture.positions;
        }
        *self.view.topics.lock() = partitions.keys().map(|id| id.topic).collect();
        *self.view.dropped.lock() = picture.dropped.clone();
        self.touched = partitions.keys().copied().collect();
        self.partitions = partitions;
        self.dropped = picture.dropped;
        let (logs, meta, stop) = (
            self.parts.logs.clone(),
            self.parts.meta.clone(),
            self.parts.stop.clone(),
        );
        Ok(Box::new(move || {
            let mut fetch = fetch;
            for (id, log, wanted) in &wanted {
                picture::fill(*id, log, wanted, &mut *fetch)?;
            }
            wanted.iter().for_each(|(id, log, _)| rows.log(*id, &log.checkpoint()));
            logs.sync_job(wanted.iter().map(|(id, ..)| *id).collect())()?;
            rows.write(&meta, &stop)?;
            gone.iter().for_each(|id| logs.drop_partition(*id));
            Ok(())
        }))
    }

    fn bulk(&self) -> Option<Arc<dyn Bulk>> {
        Some(Arc::new(Giver {
            logs: self.parts.logs.clone(),
            view: self.view.clone(),
            stretch: STRETCH,
        }))
    }

    fn checkpoint(&mut self, marker: Vec<u8>) -> CheckpointJob {
        let taken = std::mem::take(&mut self.unsaved);
        let mut rows = Rows::new(self.parts.range, marker);
        let mut sync = Vec::with_capacity(taken.partitions.len());
        for id in &taken.partitions {
            // A partition dropped since it changed is among the dropped ones.
            if let Some(partition) = self.partitions.get_mut(id) {
                rows.log(*id, &partition.log.checkpoint());
                if std::mem::take(&mut partition.producers_changed) {
                    rows.producers(*id, &partition.producers);
                }
                partition.changed = false;
                sync.push(*id);
            }
        }
        taken.dropped_partitions.iter().for_each(|id| rows.drop_partition(*id));
        taken.dropped_topics.iter().for_each(|topic| rows.drop_topic(*topic));
        {
            let mut positions = self.view.positions.lock();
            let unsaved = planted::has(Bug::UnsavedPositions);
            for (namespace, reader) in positions.take_changed().into_iter().filter(|_| !unsaved) {
                rows.positions(namespace, &reader, positions.encoded(namespace, &reader));
            }
        }
        let logs = self.parts.logs.clone();
        let meta = self.parts.meta.clone();
        let stop = self.parts.stop.clone();
        let sync = logs.sync_job(sync);
        Box::new(move || {
            sync()?;
            rows.write(&meta, &stop)?;
            taken.dropped_partitions.iter().for_each(|id| logs.drop_partition(*id));
            Ok(())
        })
    }

    fn dirty_bytes(&self) -> u64 {
        self.unsaved.bytes
    }
}
