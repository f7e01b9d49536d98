//! Commands and questions that come to members that don't lead, over real sockets.

use super::ledger::{Ledger, Left};
use super::*;
use crate::raft::many_tests::{Cluster, RANGE, Way as Relayed, config, numbers, until};
use crate::raft::{HostConfig, Start};
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// What a member knows by its own ranges.
pub(crate) struct Told {
    host: RangeHost,
    version: watch::Sender<u64>,
}

impl Told {
    pub fn by(host: &RangeHost) -> Self {
        let version = watch::Sender::new(0);
        let (mut known, told) = (host.feed().watch(), version.clone());
        tokio::spawn(async move {
            while known.changed().await.is_ok() {
                told.send_modify(|version| *version += 1);
            }
        });
        Self {
            host: host.clone(),
            version,
        }
    }
}

impl Leaders for Told {
    fn leader(&self, range: RangeId) -> Option<Leader> {
        let now = *self.host.range(range)?.leadership().borrow();
        now.leader.map(|node| Leader {
            node,
            epoch: now.term,
            here: now.here,
        })
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}

fn command(number: u64, bulk: usize) -> Payload {
    Payload {
        head: number.to_be_bytes().to_vec().into(),
        parts: Arc::from([Bytes::from(vec![number as u8; bulk])]),
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

fn forward(cluster: &Cluster, id: u128) -> Forward {
    cluster.members[&NodeId(id)].running.as_ref().unwrap().forward.clone()
}

fn handing_over(cluster: &Cluster, leader: u128, to: u128) -> impl Future<Output = ()> + use<> {
    let host = cluster.host(leader).clone();
    async move {
        // It may lead no more, or the other not be near.
        let _ = host.transfer_leader(RANGE, NodeId(to)).await;
    }
}

/// What became of one command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Applied,
    Rejected,
    Unknown,
}

fn fate(outcome: Result<Applied, ProposeError>) -> Fate {
    match outcome {
        Ok(_) => Fate::Applied,
        Err(ProposeError::NotLeader { .. } | ProposeError::NoSpace) => Fate::Rejected,
        Err(ProposeError::Unknown(_)) => Fate::Unknown,
        Err(ProposeError::Fatal(why)) => panic!("{why}"),
    }
}

/// A command that was sent.
struct Sent {
    number: u64,
    /// Those sent before it that had no answer yet once it was in its place.
    ahead: Vec<u64>,
    answer: Answer,
    fate: Option<Fate>,
}

impl Sent {
    fn look(&mut self) -> bool {
        if self.fate.is_none() {
            self.fate = (&mut self.answer).now_or_never().map(fate);
        }
        self.fate.is_some()
    }
}

/// A client that sends numbers to one member, several on their way, each once. Tells of every number what became of it, and
/// which were ahead of it.
async fn client(forward: Forward, first: u64, bulk: usize, stop: CancellationToken) -> BTreeMap<u64, (Fate, Vec<u64>)> {
    let mut fates = BTreeMap::new();
    let mut on_their_way = VecDeque::<Sent>::new();
    let mut number = first;
    while !stop.is_cancelled() || !on_their_way.is_empty() {
        tokio::task::yield_now().await;
        if on_their_way.len() < 8 && !stop.is_cancelled() {
            let submitted = forward.submit(RANGE, command(number, bulk), soon()).await;
            let answer = submitted.unwrap_or_else(|error| std::future::ready(Err(error)).boxed());
            let open = on_their_way
                .iter_mut()
                .filter_map(|sent| (!sent.look()).then_some(sent.number));
            let ahead = open.collect();
            on_their_way.push_back(Sent {
                number,
                ahead,
                answer,
                fate: None,
            });
            number += 1;
        } else if let Some(sent) = on_their_way.pop_front() {
            let fate = match sent.fate {
                Some(fate) => fate,
                None => fate(sent.answer.await),
            };
            fates.insert(sent.number, (fate, sent.ahead));
        }
    }
    fates
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_overtakes_another_while_leaders_change() {
    let mut cluster = Cluster::formed(3, config(), None).await;
    let stop = CancellationToken::new();
    let clients: Vec<_> = (0..6u64)
        .map(|n| {
            let member = u128::from(n % 3) + 1;
            let forward = forward(&cluster, member);
            (n, tokio::spawn(client(forward, n << 32, 500, stop.clone())))
        })
        .collect();
    let mut applied = 0;
    for round in 0..8u128 {
        let paper = cluster.paper(1).clone();
        until("commands are applied", || numbers(&paper).len() >= applied + 200).await;
        applied = numbers(&paper).len();
        let (leader, _) = cluster.led().await;
        let to = (leader + round % 2) % 3 + 1;
        match round {
            3 => {
                cluster.around(leader, Relayed::Cut);
                until("another leads", || {
                    cluster.leader().is_some_and(|(now, _)| now != leader)
                })
                .await;
                cluster.around(leader, Relayed::Open);
            }
            _ => handing_over(&cluster, leader, to).await,
        }
    }
    stop.cancel();
    let mut fates = BTreeMap::new();
    for (n, client) in clients {
        let ended = tokio::time::timeout(Duration::from_secs(60), client).await;
        fates.insert(n, ended.expect("every command is answered").unwrap());
    }
    // All that may come has come: a later command is applied everywhere.
    let (one, long) = (forward(&cluster, 1), soon() + Duration::from_secs(60));
    one.propose(RANGE, command(7 << 32, 0), long).await.unwrap();
    until("all hold all", || {
        (1..=3).all(|id| numbers(cluster.paper(id)).contains(&(7 << 32)))
    })
    .await;
    let log = numbers(cluster.paper(1));
    let mut carried = 0;
    for (n, fates) in &fates {
        let mine: Vec<u64> = log.iter().copied().filter(|number| number >> 32 == *n).collect();
        assert!(mine.is_sorted_by(|a, b| a < b), "client {n}: out of order, or twice");
        for (number, (fate, ahead)) in fates {
            let held = mine.binary_search(number).is_ok();
            match fate {
                Fate::Applied => assert!(held, "{number:x} is lost"),
                Fate::Rejected => assert!(!held, "{number:x} was rejected, and is there"),
                Fate::Unknown => {}
            }
            let overtaken: Vec<_> = ahead
                .iter()
                .filter(|number| fates[number].0 == Fate::Rejected)
                .collect();
            assert!(
                !held || overtaken.is_empty(),
                "{number:x} overtook {overtaken:x?}, rejected"
            );
            carried += usize::from(held);
        }
    }
    assert!(carried > 1000);
    cluster.kill(1).await;
}

/// Elections don't happen by themselves.
fn still() -> HostConfig {
    HostConfig {
        election: (Duration::from_secs(100), Duration::from_secs(200)),
        ..config()
    }
}

fn cut_replication(cluster: &Cluster, leader: u128, way: Relayed) {
    for ((from, _), relay) in &cluster.relays {
        if from.0 == leader {
            relay.way.send_replace(way);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_does_not_answer_is_sent_no_more_than_a_lane_holds() {
    let cluster = Cluster::formed(3, still(), None).await;
    let forward = forward(&cluster, 2);
    forward.propose(RANGE, command(0, 10), soon()).await.unwrap();
    cut_replication(&cluster, 1, Relayed::Cut);
    const BULK: usize = 1 << 20;
    let mut answers = Vec::new();
    for number in 1..100u64 {
        let submitted = forward.submit(RANGE, command(number, BULK), soon());
        match tokio::time::timeout(Duration::from_secs(1), submitted).await {
            Ok(answer) => answers.push(answer.unwrap()),
            Err(_) => break,
        }
    }
    assert!(!answers.is_empty());
    assert!(answers.len() * BULK <= LANE_BYTES, "{} are on their way", answers.len());
    assert!(forward.is_busy(RANGE));
    cut_replication(&cluster, 1, Relayed::Open);
    let mut last = 0;
    for answer in answers {
        let index = answer.await.unwrap().index;
        assert!(index > last);
        last = index;
    }
    // One larger than the lane goes alone.
    forward
        .propose(RANGE, command(100, 2 * LANE_BYTES), soon())
        .await
        .unwrap();
    assert!(!forward.is_busy(RANGE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_that_breaks_leaves_open_what_was_sent_and_rejects_the_rest() {
    let cluster = Cluster::formed(3, still(), None).await;
    let forward = forward(&cluster, 2);
    forward.propose(RANGE, command(0, 10), soon()).await.unwrap();
    cut_replication(&cluster, 1, Relayed::Cut);
    // The leader's end is no longer read: what fits on the way is sent, and some is not.
    let way = &cluster.relays[&(NodeId(2), NodeId(1))].way;
    way.send_replace(Relayed::Narrow);
    let mut answers = Vec::new();
    for number in 1..16u64 {
        answers.push(forward.submit(RANGE, command(number, 1 << 20), soon()).await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    way.send_replace(Relayed::Cut);
    let mut fates = Vec::new();
    for answer in answers {
        fates.push(fate(answer.await));
    }
    let sent = fates.iter().take_while(|fate| **fate == Fate::Unknown).count();
    assert!(fates[sent..].iter().all(|fate| *fate == Fate::Rejected), "{fates:?}");
    assert!((1..15).contains(&sent), "{fates:?}");
    // Nothing is sent again by itself; what is submitted now goes behind all that may yet come.
    way.send_replace(Relayed::Open);
    cut_replication(&cluster, 1, Relayed::Open);
    forward.propose(RANGE, command(100, 0), soon()).await.unwrap();
    let log = numbers(cluster.paper(1));
    assert!(log.is_sorted_by(|a, b| a < b), "{log:?}");
    assert!(
        log.iter().all(|number| *number <= sent as u64 || *number == 100),
        "{log:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_lane_ends_the_one_before() {
    let cluster = Cluster::formed(3, still(), None).await;
    let peers = forward(&cluster, 2).inner.peers.clone().unwrap();
    let leaders = forward(&cluster, 2).inner.leaders.clone();
    let stop = CancellationToken::new();
    let run = uuid::Uuid::new_v4();
    let lane = |number| Lane::start(RANGE, NodeId(1), peers.clone(), leaders.clone(), (run, number), &stop);
    let old = lane(4);
    let answer = old.submit(command(0, 0)).await.unwrap().await;
    assert_eq!(fate(answer), Fate::Applied);
    let new = lane(5);
    assert_eq!(fate(new.submit(command(1, 0)).await.unwrap().await), Fate::Applied);
    match old.submit(command(2, 0)).await {
        Ok(answer) => assert_eq!(fate(answer.await), Fate::Rejected),
        Err(back) => assert_eq!(back, command(2, 0)),
    }
    let older = lane(3);
    let answer = older.submit(command(3, 0)).await.unwrap().await;
    assert_eq!(fate(answer), Fate::Rejected);
    assert_eq!(fate(new.submit(command(4, 0)).await.unwrap().await), Fate::Applied);
    assert_eq!(numbers(cluster.paper(1)), [0, 1, 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_finds_the_leader_once_there_is_one() {
    let mut cluster = Cluster::formed(3, config(), None).await;
    let (leader, _) = cluster.led().await;
    let other = leader % 3 + 1;
    let forward = forward(&cluster, other);
    forward.propose(RANGE, command(0, 0), soon()).await.unwrap();
    cluster.kill(leader).await;
    let long = Instant::now() + Duration::from_secs(60);
    // The way to the killed one may break with the command on it; then only its client may send it again.
    let outcome = forward.propose(RANGE, command(1, 0), long).await;
    assert!(matches!(fate(outcome), Fate::Applied | Fate::Unknown));
    forward.propose(RANGE, command(2, 0), long).await.unwrap();
    cluster.start(leader, Start::Restart).await;
    until("it is applied", || numbers(cluster.paper(other)).contains(&2)).await;
    let log = numbers(cluster.paper(other));
    assert!(log == [0, 1, 2] || log == [0, 2], "{log:?}");
}

/// Answers with what it was asked, twice; or never.
struct Echo {
    stopped: Arc<watch::Sender<bool>>,
}

impl Answers for Echo {
    fn answer(&self, from: NodeId, question: Bytes, _within: Duration) -> BoxStream<'static, Result<Bytes, NoAnswer>> {
        match &question[..] {
            b"never" => {
                let stopped = Stopped(self.stopped.clone());
                stream::pending().map(move |part| (part, &stopped).0).boxed()
            }
            b"no" => stream::iter([Ok(Bytes::from_static(b"half")), Err(NoAnswer("no".into()))]).boxed(),
            _ => stream::iter([Ok(question), Ok(Bytes::from(from.0.to_string()))]).boxed(),
        }
    }
}

struct Stopped(Arc<watch::Sender<bool>>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_room_asks_the_same_room_of_another_member() {
    let cluster = Cluster::formed(3, still(), None).await;
    let (one, two) = (forward(&cluster, 1), forward(&cluster, 2));
    let ask = |door, question: &'static [u8]| {
        let two = two.clone();
        async move {
            let reply = two.ask(NodeId(1), door, Bytes::from_static(question), Duration::from_secs(10));
            reply.await?.whole(1000).await
        }
    };
    let closed = ask(Door::Reads, b"hello").await;
    assert!(matches!(closed, Err(AskError::NotAsked(_))), "{closed:?}");
    let stopped = Arc::new(watch::Sender::new(false));
    one.open(
        Door::Reads,
        Arc::new(Echo {
            stopped: stopped.clone(),
        }),
    );
    assert_eq!(ask(Door::Reads, b"hello").await.unwrap(), "hello2");
    assert!(matches!(
        ask(Door::Requests, b"hello").await,
        Err(AskError::NotAsked(_))
    ));
    let half = ask(Door::Reads, b"no").await;
    assert!(
        matches!(&half, Err(AskError::Unknown(why)) if why.contains("no")),
        "{half:?}"
    );
    let long = Bytes::from(vec![b'x'; 2000]);
    let reply = two
        .ask(NodeId(1), Door::Reads, long, Duration::from_secs(10))
        .await
        .unwrap();
    assert!(reply.whole(1000).await.is_err());

    let never = two.ask(
        NodeId(1),
        Door::Reads,
        Bytes::from_static(b"never"),
        Duration::from_secs(100),
    );
    let never = never.await.unwrap();
    assert!(!*stopped.borrow());
    drop(never);
    let seen = tokio::time::timeout(Duration::from_secs(30), async {
        let _ = stopped.subscribe().wait_for(|stopped| *stopped).await;
    });
    seen.await.expect("the room stops when nobody waits for it");
    let late = two.ask(
        NodeId(1),
        Door::Reads,
        Bytes::from_static(b"never"),
        Duration::from_millis(50),
    );
    if let Ok(reply) = late.await {
        assert!(matches!(reply.whole(10).await, Err(AskError::Unknown(_))));
    }
    let nowhere = two
        .ask(NodeId(9), Door::Reads, Bytes::new(), Duration::from_secs(1))
        .await;
    assert!(matches!(nowhere.map(drop), Err(AskError::NotAsked(_))));
}

#[derive(Clone, Debug)]
enum Act {
    Push,
    Send,
    Answer,
    Close,
}

proptest! {
    /// Whatever happens in whatever order: sent in the order pushed, answered in the order sent, everything pushed is
    /// answered or left, once.
    #[test]
    fn a_ledger_keeps_order_and_loses_nothing(acts in proptest::collection::vec(
        prop_oneof![4 => Just(Act::Push), 4 => Just(Act::Send), 3 => Just(Act::Answer), 1 => Just(Act::Close)],
        0..80,
    )) {
        let mut ledger = Ledger::default();
        let (mut pushed, mut sent, mut ended) = (0u64, 0u64, Vec::new());
        for act in acts.into_iter().chain([Act::Close]) {
            match act {
                Act::Push => match ledger.push(command(pushed, 0), pushed) {
                    Ok(()) => pushed += 1,
                    Err((back, waiter)) => {
                        prop_assert!(ledger.is_closed());
                        prop_assert_eq!((back, waiter), (command(pushed, 0), pushed));
                    }
                },
                Act::Send => if let Some(next) = ledger.send() {
                    prop_assert_eq!(next, command(sent, 0));
                    sent += 1;
                },
                Act::Answer => if let Some(waiter) = ledger.answered() {
                    prop_assert!(waiter < sent);
                    ended.push(waiter);
                },
                Act::Close => {
                    let Left { sent: unanswered, waiting } = ledger.close();
                    prop_assert!(waiting.iter().all(|(_, waiter)| *waiter >= sent));
                    ended.extend(unanswered);
                    ended.extend(waiting.into_iter().map(|(_, waiter)| waiter));
                    prop_assert!(!ledger.is_busy());
                }
            }
            prop_assert_eq!(ledger.is_busy(), (ended.len() as u64) < pushed);
        }
        prop_assert_eq!(ended, (0..pushed).collect::<Vec<_>>());
    }
}
