//! Ranges of several members over real sockets, whose ways to each other can be cut and whose disks crash.

use super::tests::{Paper, small};
use super::*;
use crate::forward::tests::Told;
use crate::forward::{Forward, ForwardParts};
use crate::fs::{FileSystem, MemoryFs};
use crate::ids::RangeId;
use crate::peer::tests::Authority;
use crate::peer::{PeerServer, Peers, Serving, Standing, Transport};
use crate::range::{ProposeError, Range};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use uuid::Uuid;

pub(crate) const RANGE: RangeId = RangeId(1);

/// What a way does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    /// Connections end, and new ones too.
    Cut,
    /// Who sends much is no longer read.
    Narrow,
}

/// A way from one member to another, through a relay.
pub(crate) struct Relay {
    address: SocketAddr,
    pub way: watch::Sender<Way>,
    target: watch::Sender<SocketAddr>,
}

impl Relay {
    async fn new() -> Self {
        // Of a size of its own, or the system makes it larger as it likes, and a narrow way holds all there is to send.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(128 << 10).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(64).unwrap();
        let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let relay = Self {
            address: listener.local_addr().unwrap(),
            way: watch::Sender::new(Way::Open),
            target: watch::Sender::new(nowhere),
        };
        let (way, target) = (relay.way.subscribe(), relay.target.subscribe());
        tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let (mut cut, way, target) = (way.clone(), way.clone(), *target.borrow());
                tokio::spawn(async move {
                    let carry = async {
                        let to = TcpStream::connect(target).await.ok()?;
                        from.set_nodelay(true).ok()?;
                        to.set_nodelay(true).ok()?;
                        let (from_read, from_write) = from.into_split();
                        let (to_read, to_write) = to.into_split();
                        tokio::select! {
                            () = carry(from_read, to_write, way.clone()) => {}
                            () = carry(to_read, from_write, way) => {}
                        }
                        Some(())
                    };
                    tokio::select! {
                        _ = carry => {}
                        _ = cut.wait_for(|way| *way == Way::Cut) => {}
                    }
                });
            }
        });
        relay
    }
}

async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut way: watch::Receiver<Way>,
) {
    const MUCH: usize = 128 << 10;
    let mut buf = vec![0; 16 << 10];
    let mut carried = 0;
    loop {
        if *way.borrow_and_update() == Way::Narrow && carried > MUCH {
            let _ = way.wait_for(|way| *way != Way::Narrow).await;
        }
        match from.read(&mut buf).await {
            Ok(n) if n > 0 && to.write_all(&buf[..n]).await.is_ok() => carried += n,
            _ => return,
        }
    }
}

pub(crate) struct Member {
    paper: Paper,
    files: MemoryFs,
    addresses: watch::Sender<Arc<BTreeMap<NodeId, String>>>,
    pub running: Option<Alive>,
}

pub(crate) struct Alive {
    pub host: RangeHost,
    pub range: Range,
    pub forward: Forward,
    _serving: Serving,
}

/// Members 1 to n.
pub(crate) struct Cluster {
    config: HostConfig,
    authority: Option<Authority>,
    store: Uuid,
    pub members: BTreeMap<NodeId, Member>,
    pub relays: BTreeMap<(NodeId, NodeId), Relay>,
    /// Number of the next command.
    next: u64,
    acknowledged: Vec<u64>,
}

pub(crate) fn config() -> HostConfig {
    HostConfig {
        checkpoint_interval: Duration::from_secs(1),
        // Machines that run tests are busy.
        election: (Duration::from_millis(600), Duration::from_millis(1200)),
        ..small()
    }
}

pub(crate) fn numbers(paper: &Paper) -> Vec<u64> {
    let number = |command: &Vec<u8>| u64::from_be_bytes(command[..8].try_into().unwrap());
    paper.seen.lock().iter().map(number).collect()
}

/// Waits for what must come; a test that hangs ends here.
pub(crate) async fn until(what: &str, mut check: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(90), async {
        while !check() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "waited in vain until {what}");
}

impl Cluster {
    async fn new(count: u128, config: HostConfig, authority: Option<Authority>) -> Self {
        let ids: Vec<NodeId> = (1..=count).map(NodeId).collect();
        let mut relays = BTreeMap::new();
        for from in &ids {
            for to in ids.iter().filter(|to| *to != from) {
                relays.insert((*from, *to), Relay::new().await);
            }
        }
        let member = |id: NodeId| Member {
            paper: Paper::default(),
            files: MemoryFs::new(id.0 as u64),
            addresses: watch::Sender::new(Arc::new(
                relays
                    .iter()
                    .filter(|((from, _), _)| *from == id)
                    .map(|((_, to), relay)| (*to, relay.address.to_string()))
                    .collect(),
            )),
            running: None,
        };
        let members = ids.iter().map(|id| (*id, member(*id))).collect();
        Self {
            config,
            authority,
            store: Uuid::new_v4(),
            members,
            relays,
            next: 0,
            acknowledged: Vec::new(),
        }
    }

    /// Members 1 to `count`, all voters.
    pub async fn formed(count: u128, config: HostConfig, authority: Option<Authority>) -> Self {
        let mut cluster = Self::new(count, config, authority).await;
        cluster.start(1, Start::Bootstrap).await;
        for id in 2..=count {
            cluster.start(id, Start::Join).await;
            cluster.host(1).add_learner(RANGE, NodeId(id)).await.unwrap();
        }
        let voters = (1..=count).map(NodeId).collect();
        // On a busy machine the leader may not have been answered for a while, and refuses then.
        let voters: BTreeSet<NodeId> = voters;
        let formed = tokio::time::timeout(Duration::from_secs(60), async {
            while let Err(error) = cluster.host(1).change_voters(RANGE, voters.clone()).await {
                assert!(
                    matches!(error, ChangeError::NotLeader { .. } | ChangeError::Busy),
                    "{error}"
                );
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        assert!(formed.await.is_ok(), "the voters were not changed");
        cluster
    }

    pub async fn start(&mut self, id: u128, how: Start) {
        let id = NodeId(id);
        let transport = self.authority.as_ref().map_or(Transport::Plain, Authority::credentials);
        let standing = watch::Sender::new(Standing {
            store: Some(self.store),
            ..Standing::default()
        });
        let member = self.members.get_mut(&id).unwrap();
        let peers = Peers::new(
            id,
            transport.clone(),
            standing.subscribe(),
            member.addresses.subscribe(),
        );
        let files: Arc<dyn FileSystem> = Arc::new(member.files.clone());
        let host = RangeHost::open_among(files, Path::new("/wal"), id, self.config.clone(), Some(peers.clone()))
            .await
            .unwrap();
        let range = host.start(RANGE, member.paper.machine(), how).await.unwrap();
        let forward = Forward::new(ForwardParts {
            node: id,
            host: host.clone(),
            leaders: Arc::new(Told::by(&host)),
            peers: Some(peers),
            admit: Arc::new(|_, _| Ok(())),
        });
        let server = host.serve(PeerServer::new(id, standing.subscribe(), host.feed()));
        let server = forward.serve(server);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _serving = server.serve(listener, &transport).unwrap();
        member.running = Some(Alive {
            host,
            range,
            forward,
            _serving,
        });
        for ((_, to), relay) in &self.relays {
            if *to == id {
                relay.target.send_replace(address);
            }
        }
    }

    /// Ends a member at once; what it had not synced is lost.
    pub async fn kill(&mut self, id: u128) {
        let member = self.members.get_mut(&NodeId(id)).unwrap();
        let alive = member.running.take().unwrap();
        member.files.crash();
        alive.host.shutdown().await;
    }

    pub fn host(&self, id: u128) -> &RangeHost {
        &self.members[&NodeId(id)].running.as_ref().unwrap().host
    }

    pub fn paper(&self, id: u128) -> &Paper {
        &self.members[&NodeId(id)].paper
    }

    /// Sets all ways to and from a member.
    pub fn around(&self, id: u128, way: Way) {
        for ((from, to), relay) in &self.relays {
            if from.0 == id || to.0 == id {
                relay.way.send_replace(way);
            }
        }
    }

    pub fn alive(&self) -> impl Iterator<Item = (u128, &Alive)> {
        let members = self.members.iter();
        members.filter_map(|(id, member)| Some((id.0, member.running.as_ref()?)))
    }

    /// A member that says it leads, in the latest term.
    pub fn leader(&self) -> Option<(u128, u64)> {
        let leaders = self.alive().filter_map(|(id, alive)| {
            let leadership = *alive.range.leadership().borrow();
            leadership.here.then_some((leadership.term, id))
        });
        leaders.max().map(|(term, id)| (id, term))
    }

    pub async fn led(&self) -> (u128, u64) {
        until("there is a leader", || self.leader().is_some()).await;
        self.leader().unwrap()
    }

    /// Proposes until so many are acknowledged, each a number never used before, wherever it is that leads. `Err` of what was
    /// refused for good.
    async fn write(&mut self, count: usize, bulk: usize) {
        let goal = self.acknowledged.len() + count;
        let wait = tokio::time::timeout(Duration::from_secs(120), async {
            while self.acknowledged.len() < goal {
                let (id, _) = self.led().await;
                let number = self.next;
                self.next += 1;
                let range = self.members[&NodeId(id)].running.as_ref().unwrap().range.clone();
                let command = Payload {
                    head: number.to_be_bytes().to_vec().into(),
                    parts: Arc::from([Bytes::from(vec![number as u8; bulk])]),
                };
                match tokio::time::timeout(Duration::from_secs(5), range.propose(command)).await {
                    Ok(Ok(_)) => self.acknowledged.push(number),
                    Ok(Err(ProposeError::Fatal(why))) => panic!("member {id}: {why}"),
                    Ok(Err(_)) | Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        });
        assert!(wait.await.is_ok(), "writes stand still");
    }

    /// Writes a little at a time until who leads, which is not `other`, no longer has the log up to `index`. A purge that Raft put off is
    /// made up for at a later checkpoint.
    async fn dropped(&mut self, other: u128, index: u64) {
        let wait = tokio::time::timeout(Duration::from_secs(120), async {
            loop {
                self.write(1, 10).await;
                let gone = |host: &RangeHost| {
                    let purged = host.with_running(RANGE, |running| running.group.state().purged);
                    purged.flatten().is_some_and(|purged| purged.index > index)
                };
                let (leader, _) = self.led().await;
                if leader != other && gone(self.host(leader)) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        assert!(wait.await.is_ok(), "the log up to {index} stays");
    }

    /// All that run hold the same, and in it all that was acknowledged, once and in order.
    pub async fn agree(&self) {
        let last = *self.acknowledged.last().unwrap();
        for (id, _) in self.alive() {
            let paper = self.paper(id);
            until(&format!("member {id} has it all"), || {
                numbers(paper).last() >= Some(&last)
            })
            .await;
        }
        let mut held = self.alive().map(|(id, _)| numbers(self.paper(id)));
        let first = held.next().unwrap();
        assert!(first.is_sorted_by(|a, b| a < b), "doubled or out of order");
        let there: BTreeSet<u64> = first.iter().copied().collect();
        let lost: Vec<_> = self.acknowledged.iter().filter(|n| !there.contains(n)).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        for other in held {
            assert_eq!(first, other);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_form_from_one_over_tls_and_hold_the_same() {
    let mut cluster = Cluster::new(3, config(), Some(Authority::new())).await;
    cluster.start(1, Start::Bootstrap).await;
    cluster.write(50, 100).await;
    for id in [2, 3] {
        cluster.start(id, Start::Join).await;
        let early = cluster.host(1).change_voters(RANGE, [1, id].map(NodeId).into()).await;
        assert_eq!(early, Err(ChangeError::NoLearner(NodeId(id))));
        cluster.host(1).add_learner(RANGE, NodeId(id)).await.unwrap();
    }
    let voters: BTreeSet<NodeId> = [1, 2, 3].map(NodeId).into();
    cluster.host(1).change_voters(RANGE, voters.clone()).await.unwrap();
    assert_eq!(cluster.host(1).members(RANGE), Some((voters, BTreeSet::new())));
    cluster.write(50, 100).await;
    cluster.agree().await;
    until("all are known to be level", || {
        let progress = cluster.host(1).progress(RANGE).unwrap();
        progress.members.len() == 3
            && progress
                .members
                .values()
                .all(|member| member.voter && member.lag_bytes == 0)
    })
    .await;
    assert_eq!(cluster.host(2).progress(RANGE), None);
    let elsewhere = cluster.host(2).add_learner(RANGE, NodeId(3)).await;
    let leader = Some(NodeId(1));
    assert_eq!(elsewhere, Err(ChangeError::NotLeader { range: RANGE, leader }));

    // One leaves again.
    cluster
        .host(1)
        .change_voters(RANGE, [1, 2].map(NodeId).into())
        .await
        .unwrap();
    cluster.host(1).remove_learner(RANGE, NodeId(3)).await.unwrap();
    cluster.host(3).forget(RANGE).await.unwrap();
    assert!(cluster.host(3).known().is_empty());
    cluster.write(10, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost() {
    let mut cluster = Cluster::formed(3, config(), None).await;
    let mut terms = BTreeMap::new();
    for _ in 0..2 {
        cluster.write(20, 2000).await;
        let (leader, term) = cluster.led().await;
        assert_eq!(*terms.entry(term).or_insert(leader), leader, "one leader a term");
        cluster.kill(leader).await;
        cluster.write(20, 2000).await;
        let (next, term) = cluster.led().await;
        assert_eq!(*terms.entry(term).or_insert(next), next, "one leader a term");
        assert_ne!(leader, next);
        cluster.start(leader, Start::Restart).await;
        cluster.write(20, 10).await;
        cluster.agree().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_was_down_catches_up_from_the_log() {
    let mut cluster = Cluster::formed(3, config(), None).await;
    cluster.write(10, 10).await;
    let (leader, _) = cluster.led().await;
    let follower = leader % 3 + 1;
    cluster.kill(follower).await;
    // Several checkpoints' worth.
    cluster.write(60, 8000).await;
    cluster.start(follower, Start::Restart).await;
    cluster.agree().await;
    assert_eq!(cluster.paper(follower).saved.lock().installed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_further_behind_than_the_log_begins_from_a_snapshot() {
    let config = HostConfig {
        keep_bytes: 64 << 10,
        ..config()
    };
    let mut cluster = Cluster::formed(3, config, None).await;
    cluster.write(10, 10).await;
    let (leader, _) = cluster.led().await;
    let follower = leader % 3 + 1;
    cluster.kill(follower).await;
    cluster.write(60, 8000).await;
    cluster.dropped(follower, 50).await;
    cluster.start(follower, Start::Restart).await;
    cluster.agree().await;
    assert!(cluster.paper(follower).saved.lock().installed > 0);
    // What came by the snapshot is there after a crash, too.
    cluster.write(10, 10).await;
    cluster.kill(follower).await;
    cluster.start(follower, Start::Restart).await;
    cluster.write(10, 10).await;
    cluster.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_gets_back_the_log_that_was_kept_for_who_is_behind() {
    let mut cluster = Cluster::formed(3, config(), None).await;
    cluster.write(10, 10).await;
    let (leader, _) = cluster.led().await;
    let follower = leader % 3 + 1;
    cluster.kill(follower).await;
    // Kept for the follower, as little as it is. Then the others have no room for more.
    cluster.write(60, 8000).await;
    for (_, member) in cluster.members.iter().filter(|(id, _)| id.0 != follower) {
        member.files.set_capacity(member.files.used() + (16 << 10));
    }
    cluster.write(20, 8000).await;
    cluster.dropped(follower, 50).await;
    cluster.start(follower, Start::Restart).await;
    cluster.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_cut_off_acknowledges_nothing_and_follows_when_it_is_back() {
    let mut cluster = Cluster::formed(3, config(), None).await;
    cluster.write(50, 100).await;
    let (old, term) = cluster.led().await;
    cluster.around(old, Way::Cut);
    let range = cluster.members[&NodeId(old)].running.as_ref().unwrap().range.clone();
    let orphan = tokio::spawn(async move { range.propose(Payload::head(u64::MAX.to_be_bytes().to_vec())).await });
    until("another leads", || cluster.leader().is_some_and(|(_, now)| now > term)).await;
    cluster.write(50, 100).await;
    cluster.around(old, Way::Open);
    let orphan = orphan.await.unwrap();
    assert!(
        matches!(orphan, Err(ProposeError::Unknown(_) | ProposeError::NotLeader { .. })),
        "{orphan:?}"
    );
    cluster.write(10, 10).await;
    cluster.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lead_is_handed_over_and_back() {
    let mut cluster = Cluster::formed(3, config(), None).await;
    cluster.write(50, 100).await;
    let (mut leader, _) = cluster.led().await;
    for _ in 0..3 {
        let to = leader % 3 + 1;
        let handed = async {
            // Again where a busy machine was too slow for it.
            while leader != to {
                let told = cluster.host(leader).transfer_leader(RANGE, NodeId(to)).await;
                assert!(
                    !matches!(told, Err(ChangeError::Invalid(_) | ChangeError::Fatal(_))),
                    "{told:?}"
                );
                (leader, _) = cluster.led().await;
            }
        };
        let handed = tokio::time::timeout(Duration::from_secs(90), handed).await;
        assert!(handed.is_ok(), "the lead was not handed over");
        cluster.write(20, 100).await;
    }
    cluster.agree().await;
    let stranger = cluster.host(leader).transfer_leader(RANGE, NodeId(9)).await;
    assert!(matches!(stranger, Err(ChangeError::Invalid(_))), "{stranger:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_that_nobody_hears_of_does_not_stop_writes_for_good() {
    let mut cluster = Cluster::formed(3, config(), None).await;
    cluster.write(10, 10).await;
    let (leader, _) = cluster.led().await;
    let heir = leader % 3 + 1;
    // Close enough, and then it can't be reached: a leader that was told to hand over takes no commands any more.
    cluster.around(heir, Way::Cut);
    let told = cluster.host(leader).transfer_leader(RANGE, NodeId(heir)).await;
    assert!(matches!(told, Err(ChangeError::Unknown(_))), "{told:?}");
    cluster.write(10, 10).await;
    cluster.around(heir, Way::Open);
    cluster.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_takes_no_bulk_still_hears_the_leader() {
    let config = HostConfig {
        election: (Duration::from_millis(1000), Duration::from_millis(2000)),
        ..config()
    };
    let mut cluster = Cluster::formed(3, config, None).await;
    cluster.write(10, 10).await;
    let (leader, term) = cluster.led().await;
    let slow = leader % 3 + 1;
    let way = cluster.relays[&(NodeId(leader), NodeId(slow))].way.clone();
    way.send_replace(Way::Narrow);
    cluster.write(60, 200 << 10).await;
    let host = cluster.host(leader);
    let member = |host: &RangeHost| host.progress(RANGE).unwrap().members[&NodeId(slow)];
    assert!(member(host).lag_bytes > 1 << 20, "{:?}", member(host));
    // Longer than a follower waits that hears nothing.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let seen = *cluster.members[&NodeId(slow)]
        .running
        .as_ref()
        .unwrap()
        .range
        .leadership()
        .borrow();
    assert_eq!((seen.leader, seen.term), (Some(NodeId(leader)), term));
    assert_eq!(cluster.led().await, (leader, term));
    assert!(member(host).silent_for.is_some());
    way.send_replace(Way::Open);
    cluster.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_can_not_keep_up_does_not_make_the_log_grow_for_ever() {
    let config = HostConfig {
        log_span: 64 << 10,
        keep_bytes: 64 << 10,
        ..config()
    };
    let mut cluster = Cluster::formed(3, config, None).await;
    cluster.write(10, 10).await;
    let (leader, _) = cluster.led().await;
    let slow = leader % 3 + 1;
    let ways = cluster.relays.iter().filter(|((_, to), _)| to.0 == slow);
    let ways: Vec<_> = ways.map(|(_, relay)| relay.way.clone()).collect();
    ways.iter().for_each(|way| {
        way.send_replace(Way::Narrow);
    });
    cluster.write(40, 20_000).await;
    cluster.dropped(slow, 40).await;
    ways.iter().for_each(|way| {
        way.send_replace(Way::Open);
    });
    cluster.agree().await;
    assert!(cluster.paper(slow).saved.lock().installed > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_another_store_is_given_nothing() {
    let mut cluster = Cluster::new(2, config(), None).await;
    cluster.start(1, Start::Bootstrap).await;
    cluster.write(10, 10).await;
    let store = std::mem::replace(&mut cluster.store, Uuid::new_v4());
    cluster.start(2, Start::Join).await;
    cluster.host(1).add_learner(RANGE, NodeId(2)).await.unwrap();
    cluster.write(10, 10).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(numbers(cluster.paper(2)).is_empty());
    assert_eq!(
        cluster.host(1).progress(RANGE).unwrap().members[&NodeId(2)].matched,
        None
    );
    // Nor does one that runs without a store's say.
    cluster.kill(2).await;
    cluster.store = store;
    cluster.start(2, Start::Join).await;
    cluster.agree().await;
}
