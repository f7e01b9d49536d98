//! A data range of several members over real sockets: one that lacks more than the log holds is filled from the others.

use super::machine::{append, batch, partition};
use crate::broker::command::Command;
use crate::broker::log_checkpoints;
use crate::broker::machine::{MachineParts, PartitionMachine};
use crate::log::{LogConfig, Logs};
use cluster::fs::{FileSystem, MemoryFs};
use cluster::ids::{NodeId, PartitionId, RangeId};
use cluster::machine::Payload;
use cluster::meta::MetaStore;
use cluster::peer::{PeerServer, Peers, Serving, Standing, Transport};
use cluster::raft::{ChangeError, HostConfig, RangeHost, Start};
use cluster::range::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const RANGE: RangeId = RangeId(1);

type Addresses = watch::Sender<Arc<BTreeMap<NodeId, String>>>;

struct Member {
    host: RangeHost,
    range: Range,
    logs: Arc<Logs>,
    files: MemoryFs,
    _serving: Serving,
}

async fn member(id: u128, files: MemoryFs, how: Start, addresses: &Addresses, store: Uuid) -> Member {
    let id = NodeId(id);
    let shared: Arc<dyn FileSystem> = Arc::new(files.clone());
    shared.create_dir(Path::new("/data")).unwrap();
    let meta = Arc::new(MetaStore::open(shared.clone(), Path::new("/data/meta")).unwrap());
    let config = LogConfig {
        dir: "/data/partitions".into(),
        segment_bytes: 200_000,
        index_interval: 300,
        tail_bytes: 1 << 20,
    };
    let logs = Logs::open(shared.clone(), config, log_checkpoints(&meta).unwrap()).unwrap();
    let standing = watch::Sender::new(Standing {
        store: Some(store),
        ..Standing::default()
    });
    let peers = Peers::new(id, Transport::Plain, standing.subscribe(), addresses.subscribe());
    let config = HostConfig {
        checkpoint_bytes: 256 << 10,
        checkpoint_interval: Duration::from_millis(500),
        keep_bytes: 0,
        election: (Duration::from_millis(600), Duration::from_millis(1200)),
        ..HostConfig::default()
    };
    let host = RangeHost::open_among(shared, Path::new("/data/wal"), id, config, Some(peers))
        .await
        .unwrap();
    let machine = PartitionMachine::open(MachineParts {
        range: RANGE,
        logs: logs.clone(),
        meta,
        wakeups: Arc::default(),
        metrics: Arc::default(),
        stop: CancellationToken::new(),
    })
    .unwrap();
    let range = host.start(RANGE, Box::new(machine), how).await.unwrap();
    let server = host.serve(PeerServer::new(id, standing.subscribe(), host.feed()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let _serving = server.serve(listener, &Transport::Plain).unwrap();
    addresses.send_modify(|addresses| {
        Arc::make_mut(addresses).insert(id, address);
    });
    Member {
        host,
        range,
        logs,
        files,
        _serving,
    }
}

impl Member {
    /// All that the partition holds.
    fn content(&self, id: PartitionId) -> Vec<u8> {
        super::machine::content(&self.logs, id)
    }

    async fn stop(self) -> MemoryFs {
        self.host.shutdown().await;
        self.logs.close();
        self.files
    }
}

async fn until(what: &str, mut check: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(90), async {
        while !check() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "waited in vain until {what}");
}

fn partitions() -> impl Iterator<Item = PartitionId> {
    (0..4).map(|index| partition(1, index))
}

/// Some 40 KiB for each partition.
async fn write(range: &Range, rounds: usize) {
    for _ in 0..rounds {
        let batches = partitions().map(|id| (id, batch(None, 400))).collect();
        range.propose(append(1, batches)).await.unwrap();
    }
}

/// Hands the lead over, again where a busy machine was too slow for it.
async fn hand_over(from: &Member, (to, node): (&Member, NodeId)) {
    let handed = async {
        while !to.range.leadership().borrow().here {
            match from.host.transfer_leader(RANGE, node).await {
                Ok(()) | Err(ChangeError::Unknown(_) | ChangeError::NotLeader { .. } | ChangeError::Behind(_)) => {}
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let handed = tokio::time::timeout(Duration::from_secs(90), handed).await;
    assert!(handed.is_ok(), "the lead was not handed over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_lacks_more_than_the_log_holds_is_filled_and_can_lead() {
    let (addresses, store) = (Addresses::default(), Uuid::new_v4());
    let one = member(1, MemoryFs::new(1), Start::Bootstrap, &addresses, store).await;
    write(&one.range, 30).await;
    let trims = vec![(partition(1, 0), 5000), (partition(1, 1), 700)];
    let trim = Command::TrimLogStart(trims).encode();
    one.range.propose(Payload::head(trim)).await.unwrap();

    let purged = |member: &Member, index: u64| {
        let progress = member.host.progress(RANGE);
        progress.is_some_and(|progress| progress.purged.is_some_and(|purged| purged > index))
    };
    until("the log is gone", || purged(&one, 20)).await;

    // One that never held anything.
    let two = member(2, MemoryFs::new(2), Start::Join, &addresses, store).await;
    one.host.add_learner(RANGE, NodeId(2)).await.unwrap();
    write(&one.range, 2).await;
    let same = |a: &Member, b: &Member| {
        partitions().all(|id| {
            let bounds = |member: &Member| member.logs.partition(id).bounds();
            bounds(a) == bounds(b) && a.content(id) == b.content(id)
        })
    };
    until("the learner holds the same", || same(&one, &two)).await;
    let both: BTreeSet<NodeId> = [1, 2].map(NodeId).into();
    one.host.change_voters(RANGE, both).await.unwrap();

    // The voter goes and misses more than the log keeps: with two voters nothing is committed meanwhile, so it must be a
    // learner for that.
    one.host.change_voters(RANGE, [NodeId(1)].into()).await.unwrap();
    let files = two.stop().await;
    write(&one.range, 30).await;
    let drop = Command::TrimLogStart(vec![(partition(1, 2), 1000)]).encode();
    one.range.propose(Payload::head(drop)).await.unwrap();
    until("the log of meanwhile is gone", || purged(&one, 55)).await;
    let two = member(2, files, Start::Restart, &addresses, store).await;
    write(&one.range, 1).await;
    until("the learner is level again", || same(&one, &two)).await;

    // What it was filled with survives, and it can lead.
    let both: BTreeSet<NodeId> = [1, 2].map(NodeId).into();
    one.host.change_voters(RANGE, both).await.unwrap();
    let files = two.stop().await;
    files.crash();
    let two = member(2, files, Start::Restart, &addresses, store).await;
    until("it may be handed the lead", || {
        let progress = one.host.progress(RANGE);
        progress.is_some_and(|progress| progress.members[&NodeId(2)].lag_bytes == 0)
    })
    .await;
    hand_over(&one, (&two, NodeId(2))).await;
    write(&two.range, 1).await;
    until("both hold the same", || same(&one, &two)).await;
    let ends: Vec<_> = partitions().map(|id| two.logs.partition(id).log_end()).collect();
    assert_eq!(ends, [64 * 400; 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_away_does_not_keep_another_from_being_filled() {
    let (addresses, store) = (Addresses::default(), Uuid::new_v4());
    let leader = member(5, MemoryFs::new(5), Start::Bootstrap, &addresses, store).await;
    // Asked first, by its number: one that never comes, one that comes without the range's data.
    for id in [1, 2] {
        leader.host.add_learner(RANGE, NodeId(id)).await.unwrap();
    }
    let empty = member(2, MemoryFs::new(2), Start::Join, &addresses, Uuid::new_v4()).await;
    write(&leader.range, 30).await;
    until("the log is gone", || {
        let progress = leader.host.progress(RANGE);
        progress.is_some_and(|progress| progress.purged.is_some_and(|purged| purged > 20))
    })
    .await;
    let new = member(9, MemoryFs::new(9), Start::Join, &addresses, store).await;
    leader.host.add_learner(RANGE, NodeId(9)).await.unwrap();
    until("the new one holds the same", || {
        partitions().all(|id| new.content(id) == leader.content(id) && new.logs.partition(id).log_end() > 0)
    })
    .await;
    assert!(partitions().all(|id| empty.logs.partition(id).log_end() == 0));
}
