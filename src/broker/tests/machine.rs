//! The machine over real logs and a real metadata store, in files that crash: what it answers, and that a restart from any
//! checkpoint folds the same entries to the same state.

use crate::broker::command::{Append, AppendItem, Command, Verdict, VerdictReader, not_understood, read_trimmed};
use crate::broker::machine::{MachineParts, PartitionMachine};
use crate::broker::metrics::Metrics;
use crate::broker::picture::Giver;
use crate::broker::wakeups::Wakeups;
use crate::broker::{Position, PositionChange, log_checkpoints};
use crate::log::{LogConfig, Logs, Piece};
use crate::record::{BatchBuilder, BatchHeader, NewRecord, TimestampType, restamp_time};
use bytes::Bytes;
use cluster::fs::{FileSystem, MemoryFs};
use cluster::ids::{NamespaceId, PartitionId, RangeId, TopicId};
use cluster::machine::{At, Bulk, Fetch, Machine, Payload};
use cluster::meta::MetaStore;
use futures::FutureExt;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio_util::sync::CancellationToken;

const RANGE: RangeId = RangeId(3);
const NAMESPACE: NamespaceId = NamespaceId(1);
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

pub(super) fn partition(topic: u64, index: u32) -> PartitionId {
    PartitionId {
        topic: TopicId(topic),
        index,
    }
}

pub(super) fn batch(producer: Option<(i64, i16, i32)>, count: usize) -> Bytes {
    let mut builder = BatchBuilder::new();
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.producer(id, epoch, sequence);
    }
    for n in 0..count {
        let value = format!("value {n}");
        builder
            .push(NewRecord {
                timestamp: 1000 + n as i64,
                value: Some(value.as_bytes()),
                ..NewRecord::default()
            })
            .unwrap();
    }
    builder.build().unwrap()
}

pub(super) fn append(append_ms: i64, batches: Vec<(PartitionId, Bytes)>) -> Payload {
    let items = batches.iter().map(|(partition, _)| AppendItem {
        partition: *partition,
        split: false,
    });
    let command = Command::Append(Append {
        append_ms,
        producer_expiry_ms: DAY_MS,
        items: items.collect(),
    });
    Payload {
        head: command.encode().into(),
        parts: batches.into_iter().map(|(_, bytes)| bytes).collect(),
    }
}

fn verdicts(answer: &[u8]) -> Vec<Verdict> {
    let mut reader = VerdictReader::new(answer).unwrap();
    let mut verdicts = Vec::new();
    while let Ok(verdict) = reader.next() {
        verdicts.push(verdict);
    }
    reader.finish().unwrap();
    verdicts
}

/// All batches that a partition holds.
pub(super) fn content(logs: &Logs, id: PartitionId) -> Vec<u8> {
    let log = logs.partition(id);
    let slice = log.read(log.log_start(), usize::MAX, true).unwrap();
    let mut content = Vec::new();
    for piece in slice.pieces {
        match piece {
            Piece::Memory(bytes) => content.extend_from_slice(&bytes),
            Piece::File { file, position, len } => {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, position).unwrap();
                content.extend_from_slice(&bytes);
            }
        }
    }
    content
}

/// A node with one range, its files in memory.
struct Node {
    files: MemoryFs,
    logs: Arc<Logs>,
    wakeups: Arc<Wakeups>,
    metrics: Arc<Metrics>,
    machine: PartitionMachine,
    stop: CancellationToken,
}

impl Node {
    fn open(files: MemoryFs) -> Self {
        let shared: Arc<dyn FileSystem> = Arc::new(files.clone());
        shared.create_dir(Path::new("/data")).unwrap();
        let meta = Arc::new(MetaStore::open(shared.clone(), Path::new("/data/meta")).unwrap());
        let config = LogConfig {
            dir: "/data/partitions".into(),
            segment_bytes: 2000,
            index_interval: 300,
            tail_bytes: 1 << 20,
        };
        let logs = Logs::open(shared, config, log_checkpoints(&meta).unwrap()).unwrap();
        let (wakeups, metrics) = (Arc::<Wakeups>::default(), Arc::<Metrics>::default());
        let stop = CancellationToken::new();
        let machine = PartitionMachine::open(MachineParts {
            range: RANGE,
            logs: logs.clone(),
            meta,
            wakeups: wakeups.clone(),
            metrics: metrics.clone(),
            stop: stop.clone(),
        })
        .unwrap();
        Self {
            files,
            logs,
            wakeups,
            metrics,
            machine,
            stop,
        }
    }

    fn crash(self) -> Self {
        let files = self.files.clone();
        files.crash();
        drop(self);
        Self::open(files)
    }

    fn apply(&mut self, index: u64, term: u64, command: Payload) -> Bytes {
        let answer = self.machine.apply(At { index, term }, command);
        self.machine.applied();
        answer
    }

    fn append(&mut self, term: u64, batches: Vec<(PartitionId, Bytes)>) -> Vec<Verdict> {
        verdicts(&self.apply(1, term, append(5, batches)))
    }

    fn run(&mut self, command: &Command) -> Bytes {
        self.apply(1, 1, Payload::head(command.encode()))
    }

    fn checkpoint(&mut self, marker: &[u8]) -> std::io::Result<()> {
        self.machine.checkpoint(marker.to_vec())()
    }

    fn content(&self, id: PartitionId) -> Vec<u8> {
        content(&self.logs, id)
    }

    fn headers(&self, id: PartitionId) -> Vec<BatchHeader> {
        let content = self.content(id);
        let mut rest = &content[..];
        let mut headers = Vec::new();
        while !rest.is_empty() {
            let header = BatchHeader::parse(rest).unwrap();
            rest = &rest[header.batch_len() as usize..];
            headers.push(header);
        }
        headers
    }
}

fn node() -> Node {
    Node::open(MemoryFs::new(1))
}

fn stored(verdict: Verdict) -> (i64, bool) {
    match verdict {
        Verdict::Stored {
            base_offset, repeat, ..
        } => (base_offset, repeat),
        other => panic!("not stored: {other:?}"),
    }
}

#[test]
fn batches_are_given_offsets_and_the_term_and_stay_as_they_were_otherwise() {
    let mut node = node();
    let (a, b) = (partition(1, 0), partition(1, 1));
    let sent = batch(None, 3);
    let got = node.append(4, vec![(a, sent.clone()), (b, batch(None, 2)), (a, batch(None, 1))]);
    assert_eq!(
        got.into_iter().map(stored).collect::<Vec<_>>(),
        [(0, false), (0, false), (3, false)]
    );
    assert_eq!(stored(node.append(5, vec![(a, batch(None, 1))])[0]), (4, false));
    let headers: Vec<_> = node
        .headers(a)
        .iter()
        .map(|h| (h.base_offset, h.leader_epoch))
        .collect();
    assert_eq!(headers, [(0, 4), (3, 4), (4, 5)]);
    assert_eq!(node.content(a)[16..sent.len()], sent[16..]);
    assert_eq!(node.metrics.appended_records.load(Relaxed), 7);
    assert_eq!(node.metrics.appended_batches.load(Relaxed), 4);
}

#[test]
fn a_batch_with_a_new_header_is_stored_with_it() {
    let mut node = node();
    let id = partition(1, 0);
    let restamped = restamp_time(&batch(None, 3), TimestampType::LogAppendTime, 777).unwrap();
    let head = Command::Append(Append {
        append_ms: 777,
        producer_expiry_ms: DAY_MS,
        items: vec![AppendItem {
            partition: id,
            split: true,
        }],
    });
    let command = Payload {
        head: head.encode().into(),
        parts: Arc::from([Bytes::copy_from_slice(&restamped.head), restamped.rest.clone()]),
    };
    assert_eq!(stored(verdicts(&node.apply(1, 1, command))[0]), (0, false));
    assert_eq!(node.headers(id)[0].max_timestamp, 777);
    assert_eq!(node.content(id)[16..], restamped.to_bytes()[16..]);
}

#[test]
fn a_repeat_is_answered_and_not_stored() {
    let mut node = node();
    let id = partition(1, 0);
    let first = batch(Some((9, 0, 0)), 3);
    assert_eq!(stored(node.append(1, vec![(id, first.clone())])[0]), (0, false));
    let second = batch(Some((9, 0, 3)), 1);
    let got = node.append(1, vec![(id, second.clone()), (id, second), (id, first)]);
    assert_eq!(
        got.into_iter().map(stored).collect::<Vec<_>>(),
        [(3, false), (3, true), (0, true)]
    );
    let late = node.append(1, vec![(id, batch(Some((9, 0, 8)), 1))])[0];
    assert_eq!(late, Verdict::OutOfOrder { expected: 4, got: 8 });
    assert_eq!(
        stored(node.append(1, vec![(id, batch(Some((9, 1, 0)), 1))])[0]),
        (4, false)
    );
    let stale = node.append(1, vec![(id, batch(Some((9, 0, 4)), 1))])[0];
    assert_eq!(stale, Verdict::Fenced { current: 1, got: 0 });
    assert_eq!(node.logs.partition(id).log_end(), 5);
    assert_eq!(node.metrics.repeated_batches.load(Relaxed), 2);
}

#[test]
fn a_producer_survives_the_deletion_of_its_records() {
    let mut node = node();
    let id = partition(1, 0);
    node.append(1, vec![(id, batch(Some((9, 0, 0)), 3))]);
    let answer = node.run(&Command::TrimLogStart(vec![(id, 3), (partition(1, 5), 0)]));
    assert_eq!(read_trimmed(&answer, 2), Ok(vec![Some(3), Some(0)]));
    let late = node.append(1, vec![(id, batch(Some((9, 0, 8)), 1))])[0];
    assert_eq!(late, Verdict::OutOfOrder { expected: 3, got: 8 });
    // Nobody was forgotten: who is unknown never wrote, whatever the log holds.
    for id in [id, partition(1, 5)] {
        let unknown = node.append(1, vec![(id, batch(Some((10, 0, 17)), 1))])[0];
        assert_eq!(unknown, Verdict::OutOfOrder { expected: 0, got: 17 });
    }
}

#[test]
fn a_trim_goes_no_further_than_the_log_end() {
    let mut node = node();
    let id = partition(1, 0);
    node.append(1, vec![(id, batch(None, 3))]);
    let answer = node.run(&Command::TrimLogStart(vec![(id, 100)]));
    assert_eq!(read_trimmed(&answer, 1), Ok(vec![Some(3)]));
    let answer = node.run(&Command::TrimLogStart(vec![(id, 1)]));
    assert_eq!(read_trimmed(&answer, 1), Ok(vec![Some(3)]), "never back");
}

#[test]
fn a_dropped_topic_takes_nothing_ever_again() {
    let mut node = node();
    let (gone, kept) = (partition(1, 0), partition(2, 0));
    node.append(1, vec![(gone, batch(None, 3)), (kept, batch(None, 3))]);
    node.checkpoint(b"one").unwrap();
    node.run(&Command::DropTopic(TopicId(1)));
    let late = node.append(
        1,
        vec![
            (gone, batch(None, 1)),
            (partition(1, 9), batch(None, 1)),
            (kept, batch(None, 1)),
        ],
    );
    assert_eq!(late[..2], [Verdict::Gone, Verdict::Gone]);
    assert_eq!(stored(late[2]), (3, false));
    let answer = node.run(&Command::TrimLogStart(vec![(gone, 1)]));
    assert_eq!(read_trimmed(&answer, 1), Ok(vec![None]));
    node.checkpoint(b"two").unwrap();
    assert!(node.logs.get(gone).is_none(), "its files are given up");
    let mut node = node.crash();
    assert!(node.logs.get(gone).is_none());
    assert_eq!(node.append(1, vec![(gone, batch(None, 1))]), [Verdict::Gone]);
    assert_eq!(node.logs.partition(kept).log_end(), 4);
    assert_eq!(
        node.machine.view().topics.lock().iter().copied().collect::<Vec<_>>(),
        [TopicId(2)]
    );
}

#[test]
fn a_drop_that_is_not_checkpointed_can_be_replayed() {
    let mut node = node();
    let id = partition(1, 0);
    node.append(1, vec![(id, batch(None, 3))]);
    node.checkpoint(b"one").unwrap();
    node.append(1, vec![(id, batch(None, 2))]);
    node.run(&Command::DropTopic(TopicId(1)));
    let mut node = node.crash();
    assert_eq!(stored(node.append(1, vec![(id, batch(None, 2))])[0]), (3, false));
    node.run(&Command::DropTopic(TopicId(1)));
    assert_eq!(node.append(1, vec![(id, batch(None, 2))]), [Verdict::Gone]);
}

#[test]
fn what_is_no_batch_is_refused_and_harms_nothing() {
    let mut node = node();
    let id = partition(1, 0);
    let good = batch(None, 3);
    let mut other_magic = good.to_vec();
    other_magic[16] = 1;
    let longer = [&good[..], b"x"].concat();
    for bad in [
        good.slice(..60),
        good.slice(..good.len() - 1),
        other_magic.into(),
        longer.into(),
        Bytes::new(),
    ] {
        assert_eq!(node.append(1, vec![(id, bad)]), [Verdict::Unreadable]);
    }
    let mut command = append(5, vec![(id, good.clone()), (id, good.clone())]);
    command.parts = Arc::from([good]);
    let got = verdicts(&node.apply(1, 1, command));
    assert_eq!(stored(got[0]), (0, false));
    assert_eq!(got[1], Verdict::Unreadable, "a part is missing");
    for head in [&b""[..], &[1], &[1, 2, 0, 0], &[77, 1]] {
        assert_eq!(node.apply(1, 1, Payload::head(head)), not_understood());
    }
    assert_eq!(node.logs.partition(id).log_end(), 3);
}

#[test]
fn a_refused_batch_leaves_no_partition_behind() {
    let mut node = node();
    let id = partition(1, 0);
    let refused = node.append(1, vec![(id, batch(Some((9, 0, 4)), 1))])[0];
    assert_eq!(refused, Verdict::OutOfOrder { expected: 0, got: 4 });
    assert!(node.logs.get(id).is_none());
    assert!(node.machine.view().topics.lock().is_empty());
}

#[test]
fn waiters_are_woken_once_a_run() {
    let mut node = node();
    let (id, other) = (partition(1, 0), partition(1, 1));
    let mut waiting = node.wakeups.subscribe(&[id]);
    let mut idle = node.wakeups.subscribe(&[other]);
    node.machine
        .apply(At { index: 1, term: 1 }, append(5, vec![(id, batch(None, 1))]));
    assert!(waiting.changed().now_or_never().is_none(), "not before the run ends");
    node.machine
        .apply(At { index: 2, term: 1 }, append(5, vec![(id, batch(None, 1))]));
    node.machine.applied();
    assert!(waiting.changed().now_or_never().is_some());
    assert!(waiting.changed().now_or_never().is_none());
    assert!(idle.changed().now_or_never().is_none());
}

#[test]
fn a_checkpoint_waits_while_the_disk_is_full_unless_the_node_stops() {
    let mut node = node();
    let id = partition(1, 0);
    node.append(1, vec![(id, batch(Some((9, 0, 0)), 3))]);
    node.run(&set(1, 0, 2));
    // All that the logs need is written, so that only the metadata store finds no room, for a marker this large.
    node.logs.sync_job(vec![id])().unwrap();
    node.files.set_capacity(node.files.used());
    let job = node.machine.checkpoint(vec![0; 8 << 20]);
    let waiting = std::thread::spawn(job);
    node.files.set_capacity(u64::MAX);
    waiting.join().unwrap().unwrap();
    node.run(&set(1, 0, 3));
    node.files.set_capacity(node.files.used());
    node.stop.cancel();
    let full = node.checkpoint(&vec![1; 32 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let mut node = node.crash();
    assert_eq!(node.machine.recovered(), Some(vec![0; 8 << 20]));
    assert_eq!(
        stored(node.append(1, vec![(id, batch(Some((9, 0, 0)), 3))])[0]),
        (0, true)
    );
    assert_eq!(node.machine.view().positions.lock().of(NAMESPACE, "r")[0].1.offset, 2);
}

fn set(topic: u64, index: u32, offset: i64) -> Command {
    Command::ChangePositions {
        namespace: NAMESPACE,
        reader: "r".into(),
        changes: vec![PositionChange::Set(
            partition(topic, index),
            Position {
                offset,
                leader_epoch: 1,
                metadata: String::new(),
                commit_ms: 1,
            },
        )],
    }
}

/// Something that happens to a range.
#[derive(Clone, Debug)]
enum Step {
    /// Batches of (topic, partition, producer, how far from the next sequence, records).
    Append(Vec<(u64, u32, i64, i32, usize)>),
    Trim(u64, u32, i64),
    Set(u64, u32, i64),
    Drop(u64),
    /// A day and more passes.
    Idle,
    Term,
    Checkpoint,
    /// The power goes at a sync of a checkpoint.
    CrashAtSync(u64),
    Crash,
    /// The node, as of its last checkpoint or with all it held lost, begins anew from what the other one holds.
    Fill {
        lost: bool,
    },
    /// The same, and the power goes at a sync meanwhile.
    CrashInFill(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let topic = 1..4u64;
    let item = (
        topic.clone(),
        0..2u32,
        -1..3i64,
        prop_oneof![4 => Just(0), 2 => -6..6i32],
        1..4usize,
    );
    prop_oneof![
        10 => vec(item, 1..5).prop_map(Step::Append),
        2 => (topic.clone(), 0..2u32, 0..40i64).prop_map(|(t, i, to)| Step::Trim(t, i, to)),
        2 => (topic.clone(), 0..2u32, 0..40i64).prop_map(|(t, i, to)| Step::Set(t, i, to)),
        1 => topic.prop_map(Step::Drop),
        1 => Just(Step::Idle),
        1 => Just(Step::Term),
        2 => Just(Step::Checkpoint),
        2 => (0..8u64).prop_map(Step::CrashAtSync),
        2 => Just(Step::Crash),
        2 => any::<bool>().prop_map(|lost| Step::Fill { lost }),
        1 => (0..8u64).prop_map(Step::CrashInFill),
    ]
}

/// Gets pieces from another node; every third is damaged on the way.
struct Damaged {
    from: Giver,
    count: usize,
    refused: usize,
}

impl Fetch for Damaged {
    fn fetch(&mut self, ask: Bytes) -> std::io::Result<Bytes> {
        let piece = self.from.read(&ask)?;
        self.count += 1;
        if self.count.is_multiple_of(3) {
            let mut piece = piece.to_vec();
            *piece.last_mut().unwrap() ^= 1;
            return Ok(piece.into());
        }
        Ok(piece)
    }

    fn refuse(&mut self, _why: &std::io::Error) -> std::io::Result<()> {
        assert_eq!(self.count % 3, 0, "a good piece was refused");
        self.refused += 1;
        Ok(())
    }
}

impl Drop for Damaged {
    fn drop(&mut self) {
        assert_eq!(self.refused, self.count / 3, "a bad piece was taken");
    }
}

/// An answer without its log starts, which a trim may have moved by the time of a replay.
fn comparable(answer: &[u8]) -> String {
    if VerdictReader::new(answer).is_err() {
        return format!("{:?}", &answer[..1]);
    }
    let mut verdicts = verdicts(answer);
    for verdict in &mut verdicts {
        if let Verdict::Stored { log_start, .. } = verdict {
            *log_start = 0;
        }
    }
    format!("{verdicts:?}")
}

/// A node that crashes beside one that never does.
struct Pair {
    node: Option<Node>,
    steady: Node,
    /// All entries so far: (term, command, what it was answered).
    entries: Vec<(u64, Payload, String)>,
    sequences: BTreeMap<(PartitionId, i64), i32>,
    term: u64,
    now_ms: i64,
}

impl Pair {
    fn node(&mut self) -> &mut Node {
        self.node.as_mut().unwrap()
    }

    fn apply(&mut self, command: Payload) -> Bytes {
        let (index, term) = (self.entries.len() as u64 + 1, self.term);
        let answer = self.steady.apply(index, term, command.clone());
        let again = self.node().apply(index, term, command.clone());
        assert_eq!(comparable(&again), comparable(&answer));
        self.entries.push((term, command, comparable(&answer)));
        answer
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append(items) => {
                let mut batches = Vec::new();
                for (topic, index, producer, off, count) in items {
                    let id = partition(topic, index);
                    let next = *self.sequences.entry((id, producer)).or_default();
                    let claim = (producer >= 0).then_some((producer, 0, (next + off).max(0)));
                    batches.push((id, producer, batch(claim, count)));
                }
                self.now_ms += 1;
                let plain = batches.iter().map(|(id, _, b)| (*id, b.clone())).collect();
                let answer = self.apply(append(self.now_ms, plain));
                for ((id, producer, bytes), verdict) in batches.into_iter().zip(verdicts(&answer)) {
                    if let Verdict::Stored { repeat: false, .. } = verdict {
                        let header = BatchHeader::parse(&bytes).unwrap();
                        self.sequences
                            .insert((id, producer), header.base_sequence + header.record_count);
                    }
                }
            }
            Step::Trim(topic, index, to) => {
                let command = Command::TrimLogStart(vec![(partition(topic, index), to)]);
                self.apply(Payload::head(command.encode()));
            }
            Step::Set(topic, index, to) => {
                self.apply(Payload::head(set(topic, index, to).encode()));
            }
            Step::Drop(topic) => {
                self.apply(Payload::head(Command::DropTopic(TopicId(topic)).encode()));
            }
            Step::Idle => self.now_ms += DAY_MS + 1,
            Step::Term => self.term += 1,
            Step::Checkpoint => {
                let marker = self.entries.len().to_string();
                self.node().checkpoint(marker.as_bytes()).unwrap();
            }
            Step::CrashAtSync(n) => {
                let marker = self.entries.len().to_string();
                let node = self.node();
                node.files.power_off_at_sync(n);
                let done = node.checkpoint(marker.as_bytes());
                assert!(done.is_ok() || node.files.is_off());
                self.crash();
            }
            Step::Crash => self.crash(),
            Step::Fill { lost } => {
                let node = self.node.take().unwrap();
                let node = if lost {
                    Node::open(MemoryFs::new(7))
                } else {
                    node.crash()
                };
                self.node = Some(node);
                self.fill().unwrap();
                self.compare();
            }
            Step::CrashInFill(n) => {
                let node = self.node.take().unwrap().crash();
                node.files.power_off_at_sync(n);
                let files = node.files.clone();
                self.node = Some(node);
                let done = self.fill();
                assert!(done.is_ok() || files.is_off());
                self.crash();
            }
        }
    }

    fn fill(&mut self) -> std::io::Result<()> {
        let from = Giver {
            logs: self.steady.logs.clone(),
            view: self.steady.machine.view(),
            stretch: 700,
        };
        let fetch = Damaged {
            from,
            count: 0,
            refused: 0,
        };
        let snapshot = self.steady.machine.snapshot()?;
        let marker = self.entries.len().to_string().into_bytes();
        let node = self.node();
        let job = node.machine.install(snapshot, marker, Box::new(fetch))?;
        job()?;
        node.machine.applied();
        Ok(())
    }

    fn crash(&mut self) {
        let mut node = self.node.take().unwrap().crash();
        let marker = node.machine.recovered();
        let applied: usize = marker.map_or(0, |m| String::from_utf8(m).unwrap().parse().unwrap());
        assert!(applied <= self.entries.len());
        for (at, (term, command, answer)) in self.entries.iter().enumerate().skip(applied) {
            let again = node.apply(at as u64 + 1, *term, command.clone());
            assert_eq!(
                comparable(&again),
                *answer,
                "entry {at} of {} from {applied}",
                self.entries.len()
            );
        }
        self.node = Some(node);
        self.compare();
    }

    fn compare(&mut self) {
        let node = self.node.as_ref().unwrap();
        for id in (1..4).flat_map(|t| (0..2).map(move |i| partition(t, i))) {
            let (ours, theirs) = (node.logs.get(id), self.steady.logs.get(id));
            let held = |n: &Node| n.machine.view().topics.lock().contains(&id.topic);
            assert_eq!(held(node), held(&self.steady));
            if held(node) {
                let bounds = |log: &Option<Arc<crate::log::PartitionLog>>| log.as_ref().map_or((0, 0), |l| l.bounds());
                assert_eq!(bounds(&ours), bounds(&theirs), "{id}");
                assert_eq!(node.content(id), self.steady.content(id), "{id}");
            }
        }
        let positions = |n: &Node| n.machine.view().positions.lock().of(NAMESPACE, "r");
        assert_eq!(positions(node), positions(&self.steady));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_restart_folds_the_same_entries_to_the_same_state(seed in any::<u64>(), steps in vec(step(), 1..40)) {
        let mut pair = Pair {
            node: Some(Node::open(MemoryFs::new(seed))),
            steady: node(),
            entries: Vec::new(),
            sequences: BTreeMap::new(),
            term: 1,
            now_ms: 1_000_000,
        };
        for step in steps {
            pair.step(step);
        }
        pair.crash();
        // Every producer is known alike: each next batch is judged alike.
        for id in (1..4).flat_map(|t| (0..2).map(move |i| partition(t, i))) {
            for producer in 0..3 {
                let sequence = pair.sequences.get(&(id, producer)).copied().unwrap_or(0);
                for off in [9, 0, 0, -3] {
                    let bytes = batch(Some((producer, 0, (sequence + off).max(0))), 1);
                    pair.apply(append(pair.now_ms, vec![(id, bytes)]));
                }
            }
        }
    }
}
