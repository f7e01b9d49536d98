//! Ranges of one voter over files that crash, and openraft's own suite over the store.

use super::store::Store;
use super::*;
use crate::fs::{Disk, FileSystem, MemoryFs};
use crate::ids::{NodeId, RangeId};
use crate::machine::{At, CheckpointJob, Fetch, Machine};
use crate::range::{ProposeError, Range};
use crate::wal::{Wal, WalConfig};
use futures::{Stream, StreamExt};
use openraft::alias::SnapshotOf;
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{EntryPayload, RaftSnapshotBuilder, Snapshot, StorageError};
use parking_lot::Mutex;
use std::io;
use std::path::Path;
use std::sync::Arc;

impl From<u64> for NodeId {
    fn from(n: u64) -> Self {
        Self(n.into())
    }
}

/// What a [`Journal`] has on its "disk".
#[derive(Default)]
pub(crate) struct Saved {
    marker: Option<Vec<u8>>,
    commands: Vec<Vec<u8>>,
    fail: bool,
    /// Snapshots of other members that were put to use.
    pub installed: usize,
}

/// A machine that keeps every command, in order. It answers with how many there are.
struct Journal {
    commands: Vec<Vec<u8>>,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    saved: Arc<Mutex<Saved>>,
}

#[derive(Clone, Default)]
pub(crate) struct Paper {
    pub seen: Arc<Mutex<Vec<Vec<u8>>>>,
    pub saved: Arc<Mutex<Saved>>,
}

impl Paper {
    /// Commands 0 to before `count` have been folded, each once, in order.
    fn check(&self, count: usize) {
        let seen = self.seen.lock();
        let wrong = seen.iter().enumerate().find(|(n, command)| **command != whole(*n));
        assert_eq!(wrong.map(|(n, command)| (n, &command[..8])), None);
        assert_eq!(seen.len(), count);
    }

    pub fn machine(&self) -> Box<dyn Machine> {
        let commands = self.saved.lock().commands.clone();
        *self.seen.lock() = commands.clone();
        Box::new(Journal {
            commands,
            seen: self.seen.clone(),
            saved: self.saved.clone(),
        })
    }
}

impl Machine for Journal {
    fn apply(&mut self, _at: At, command: Payload) -> Bytes {
        assert_ne!(&command.head[..], b"panic");
        let mut whole = command.head.to_vec();
        command.parts.iter().for_each(|part| whole.extend_from_slice(part));
        self.commands.push(whole);
        Bytes::from(self.commands.len().to_string())
    }

    fn applied(&mut self) {
        let mut seen = self.seen.lock();
        let known = seen.len();
        seen.extend_from_slice(&self.commands[known..]);
    }

    fn recovered(&self) -> Option<Vec<u8>> {
        self.saved.lock().marker.clone()
    }

    fn snapshot(&mut self) -> io::Result<Bytes> {
        Ok(serde_json::to_vec(&self.commands)?.into())
    }

    fn install(&mut self, snapshot: Bytes, marker: Vec<u8>, _fetch: Box<dyn Fetch>) -> io::Result<CheckpointJob> {
        self.commands = serde_json::from_slice(&snapshot)?;
        *self.seen.lock() = self.commands.clone();
        self.saved.lock().installed += 1;
        Ok(self.checkpoint(marker))
    }

    fn checkpoint(&mut self, marker: Vec<u8>) -> CheckpointJob {
        let (commands, saved) = (self.commands.clone(), self.saved.clone());
        Box::new(move || {
            let mut saved = saved.lock();
            if saved.fail {
                return Err(std::io::Error::other("no sync today"));
            }
            saved.marker = Some(marker);
            saved.commands = commands;
            Ok(())
        })
    }
}

fn how(round: usize) -> Start {
    match round {
        0 => Start::Bootstrap,
        _ => Start::Restart,
    }
}

pub(super) fn small() -> HostConfig {
    HostConfig {
        wal: WalConfig {
            segment_bytes: 64 << 10,
            cache_bytes: 16 << 10,
            headroom: 64 << 10,
            ..WalConfig::default()
        },
        checkpoint_bytes: 128 << 10,
        ..HostConfig::default()
    }
}

async fn open(files: &MemoryFs, config: HostConfig) -> RangeHost {
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
    RangeHost::open(files, Path::new("/wal"), NodeId(7), config)
        .await
        .unwrap()
}

fn command(n: usize) -> Payload {
    Payload {
        head: n.to_be_bytes().to_vec().into(),
        parts: Arc::from([Bytes::from(vec![n as u8; n % 300]), Bytes::from_static(b"tail")]),
    }
}

fn whole(n: usize) -> Vec<u8> {
    let Payload { head, parts } = command(n);
    [head.to_vec(), parts.concat()].concat()
}

/// Submits in order and waits for all.
async fn propose(range: &Range, numbers: std::ops::Range<usize>) {
    let mut answers = std::collections::VecDeque::new();
    for n in numbers {
        answers.push_back((n, range.submit(command(n)).await.unwrap()));
        if answers.len() > 200 {
            let (n, answer) = answers.pop_front().unwrap();
            assert_eq!(answer.await.unwrap(), (n + 1).to_string());
        }
    }
    for (n, answer) in answers {
        assert_eq!(answer.await.unwrap(), (n + 1).to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_proposed_is_there_after_each_restart() {
    let files = MemoryFs::new(1);
    let paper = Paper::default();
    let mut terms = Vec::new();
    for round in 0..4 {
        let host = open(&files, small()).await;
        let range = host.start(RangeId(3), paper.machine(), how(round)).await.unwrap();
        let leadership = *range.leadership().borrow();
        assert!(leadership.here && leadership.leader == Some(NodeId(7)));
        terms.push(leadership.term);
        range.read_barrier().await.unwrap();
        paper.check(round * 2500);
        propose(&range, round * 2500..(round + 1) * 2500).await;
        assert!(host.fatal().borrow().is_none());
        if round % 2 == 0 {
            host.shutdown().await;
        } else {
            files.crash();
        }
    }
    assert!(terms.is_sorted_by(|a, b| a < b), "{terms:?}");
    assert!(paper.saved.lock().marker.is_some(), "checkpoints must have been taken");
    assert!(
        files.used() < 64 * (64 << 10),
        "the log must have been purged: {}",
        files.used()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_on_a_real_disk_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let paper = Paper::default();
    for round in 0..2 {
        let host = RangeHost::open(Arc::new(Disk), dir.path(), NodeId(1), HostConfig::default())
            .await
            .unwrap();
        let range = host.start(RangeId(1), paper.machine(), how(round)).await.unwrap();
        propose(&range, round * 5000..(round + 1) * 5000).await;
        assert_eq!(paper.seen.lock().len(), (round + 1) * 5000);
        host.shutdown().await;
        let late = range.propose(command(0)).await;
        assert!(late.is_err(), "{late:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_ranges_share_the_log() {
    let files = MemoryFs::new(2);
    let papers: Vec<Paper> = (0..5).map(|_| Paper::default()).collect();
    for round in 0..3 {
        let host = open(&files, small()).await;
        let mut ranges = Vec::new();
        for (n, paper) in papers.iter().enumerate() {
            ranges.push(
                host.start(RangeId(n as u32), paper.machine(), how(round))
                    .await
                    .unwrap(),
            );
        }
        let work = ranges
            .iter()
            .map(|range| propose(range, round * 500..(round + 1) * 500));
        futures::future::join_all(work).await;
        files.crash();
    }
    for paper in papers {
        paper.check(1500);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_nobody_made_is_not_started() {
    let files = MemoryFs::new(3);
    let host = open(&files, small()).await;
    let refused = host.start(RangeId(1), Paper::default().machine(), Start::Restart).await;
    assert!(matches!(refused, Err(HostError::Missing(RangeId(1)))));
    host.start(RangeId(1), Paper::default().machine(), Start::Bootstrap)
        .await
        .unwrap();
    let twin = host
        .start(RangeId(1), Paper::default().machine(), Start::Bootstrap)
        .await;
    assert!(matches!(twin, Err(HostError::Running(RangeId(1)))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_that_starts_while_its_node_stops_does_not_write_on() {
    for pause in 0..24 {
        let files = MemoryFs::new(pause);
        let host = open(&files, small()).await;
        let started = async {
            let mut outcomes = Vec::new();
            for id in 1..8 {
                outcomes.push(
                    host.start(RangeId(id), Paper::default().machine(), Start::Bootstrap)
                        .await,
                );
            }
            outcomes
        };
        let stopped = async {
            for _ in 0..pause {
                tokio::task::yield_now().await;
            }
            host.shutdown().await;
            // As the next to open them would find them.
            files.used()
        };
        let (outcomes, used) = tokio::join!(started, stopped);
        let refused = |outcome: &Result<_, HostError>| matches!(outcome, Err(HostError::Stopping(_)));
        let first = outcomes
            .iter()
            .position(refused)
            .expect("stopped before all had started");
        assert!(outcomes[..first].iter().all(Result::is_ok));
        assert!(outcomes[first..].iter().all(refused));
        assert!(host.fatal().borrow().is_none(), "{:?}", *host.fatal().borrow());
        assert_eq!(files.used(), used);
        let host = open(&files, small()).await;
        for id in 1..8 {
            let range = host
                .start(RangeId(id), Paper::default().machine(), Start::Bootstrap)
                .await;
            range.unwrap().propose(command(0)).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_ends_all_writes() {
    let files = MemoryFs::new(4);
    let mut config = small();
    // No segment is made ahead, whose sync might be the one that fails.
    config.wal.spare_segments = 0;
    let host = open(&files, config).await;
    let one = host
        .start(RangeId(1), Paper::default().machine(), Start::Bootstrap)
        .await
        .unwrap();
    let two = host
        .start(RangeId(2), Paper::default().machine(), Start::Bootstrap)
        .await
        .unwrap();
    files.fail_sync(0);
    let lost = one.propose(command(0)).await;
    assert!(
        matches!(lost, Err(ProposeError::Unknown(_) | ProposeError::Fatal(_))),
        "{lost:?}"
    );
    let mut fatal = host.fatal();
    assert!(fatal.wait_for(Option::is_some).await.unwrap().is_some());
    assert!(matches!(two.propose(command(0)).await, Err(ProposeError::Fatal(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_machine_ends_all_writes() {
    let files = MemoryFs::new(5);
    let host = open(&files, small()).await;
    let range = host
        .start(RangeId(1), Paper::default().machine(), Start::Bootstrap)
        .await
        .unwrap();
    let answer = range.propose(Payload::head(&b"panic"[..])).await;
    assert!(
        matches!(answer, Err(ProposeError::Unknown(_) | ProposeError::Fatal(_))),
        "{answer:?}"
    );
    let why = host.fatal().wait_for(Option::is_some).await.unwrap().clone();
    assert!(why.unwrap().contains("panicked"));
    assert!(matches!(range.propose(command(0)).await, Err(ProposeError::Fatal(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_checkpoint_ends_all_writes() {
    let files = MemoryFs::new(6);
    let paper = Paper::default();
    paper.saved.lock().fail = true;
    let host = open(&files, small()).await;
    let range = host.start(RangeId(1), paper.machine(), Start::Bootstrap).await.unwrap();
    let big = Payload {
        head: Bytes::new(),
        parts: Arc::from([Bytes::from(vec![1; 256 << 10])]),
    };
    range.propose(big).await.unwrap();
    let why = host.fatal().wait_for(Option::is_some).await.unwrap().clone();
    assert!(why.unwrap().contains("checkpoint"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_and_recovers() {
    let files = MemoryFs::new(7);
    let paper = Paper::default();
    let host = open(&files, small()).await;
    let range = host.start(RangeId(1), paper.machine(), Start::Bootstrap).await.unwrap();
    files.set_capacity(files.used() + (600 << 10));
    // Somebody else takes the space.
    let hog = files.create(Path::new("/hog")).unwrap();
    hog.set_len(560 << 10).unwrap();
    let mut accepted = 0;
    let refused = loop {
        match range.propose(command(accepted)).await {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 100_000);
    };
    assert_eq!(refused, ProposeError::NoSpace);
    hog.set_len(0).unwrap();
    let mut tries = tokio::time::interval(std::time::Duration::from_millis(20));
    while let Err(error) = range.propose(command(accepted)).await {
        assert_eq!(error, ProposeError::NoSpace);
        tries.tick().await;
    }
    paper.check(accepted + 1);
    assert!(host.fatal().borrow().is_none());
}

/// A state machine that folds nothing, and takes any snapshot: what is tested beside it is the store.
#[derive(Clone, Default)]
struct Blind(Arc<Mutex<Sight>>);

#[derive(Default)]
struct Sight {
    applied: Option<LogId>,
    membership: StoredMembership,
    snapshot: Option<SnapshotMeta>,
}

impl RaftSnapshotBuilder<Types> for Blind {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, Bytes>> {
        let mut sight = self.0.lock();
        let meta = SnapshotMeta {
            last_log_id: sight.applied,
            last_membership: sight.membership.clone(),
        };
        sight.snapshot = Some(meta.clone());
        Ok(Snapshot {
            meta,
            snapshot: Bytes::new(),
        })
    }
}

impl RaftStateMachine<Types> for Blind {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let sight = self.0.lock();
        Ok((sight.applied, sight.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some(item) = entries.next().await {
            let (entry, _) = item?;
            let mut sight = self.0.lock();
            sight.applied = Some(entry.log_id);
            if let EntryPayload::Membership(membership) = entry.payload {
                sight.membership = StoredMembership::new(Some(entry.log_id), membership);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, _snapshot: Bytes) -> io::Result<()> {
        *self.0.lock() = Sight {
            applied: meta.last_log_id,
            membership: meta.last_membership.clone(),
            snapshot: Some(meta.clone()),
        };
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types, Bytes>>> {
        Ok(self.0.lock().snapshot.clone().map(|meta| Snapshot {
            meta,
            snapshot: Bytes::new(),
        }))
    }
}

struct Builder;

impl StoreBuilder<Types, Store, Blind, (tempfile::TempDir, Wal)> for Builder {
    async fn build(&self) -> Result<((tempfile::TempDir, Wal), Store, Blind), StorageError<Types>> {
        let dir = tempfile::tempdir().unwrap();
        let wal = Wal::open(Arc::new(Disk), dir.path(), small().wal).unwrap();
        let store = Store::new(wal.group(RangeId(1)), Arc::default());
        Ok(((dir, wal), store, Blind::default()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openraft_accepts_the_store() {
    Suite::test_all(Builder).await.unwrap();
}
