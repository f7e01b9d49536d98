//! When a leader's process has ended: its followers need not wait out the time in which it might only be slow.
//!
//! ```text
//!   connection breaks --> nobody listens at the address any more --> RangeHost::member_ended, at each follower
//!       --> the leader's lease is over here --> pre-vote, in turn --> a quorum has seen the same --> election
//! ```
//!
//! Nothing rests on the leader really being gone. Who has seen it end only no longer refuses its vote to others, and asks for
//! theirs: a leader that lives, and that a quorum hears, goes on leading in its term.

use super::Raft;
use super::host::RangeHost;
use crate::ids::{NodeId, RangeId};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::TransferLeaderRequest;
use std::time::Duration;

/// Time between the turns of two followers, so that they don't take each other's votes.
const TURN: Duration = Duration::from_millis(80);
/// Others see the end a little later, or earlier.
const FIRST: Duration = Duration::from_millis(10);
/// Turns of a follower. After that, it waits as for a leader that is silent.
const TURNS: u32 = 4;

/// Who is to stand when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    /// Place of this node among those who may stand.
    place: u32,
    /// How many they are.
    among: u32,
}

impl Order {
    /// `None` where this node does not vote. Each range begins with another member, so that the leads are spread.
    fn of(range: RangeId, voters: impl Iterator<Item = NodeId>, ended: NodeId, me: NodeId) -> Option<Self> {
        let mut heirs: Vec<NodeId> = voters.filter(|voter| *voter != ended).collect();
        heirs.sort_unstable();
        heirs.dedup();
        let at = heirs.iter().position(|heir| *heir == me)? as u32;
        let among = heirs.len() as u32;
        Some(Self {
            place: (at + range.0 % among) % among,
            among,
        })
    }

    /// How long to wait before a turn.
    fn pause(self, turn: u32) -> Duration {
        match turn {
            0 => FIRST + TURN * self.place,
            _ => TURN * self.among,
        }
    }
}

impl RangeHost {
    /// Says that a member's process was seen to end. Ranges that it led soon have another leader, if a quorum has seen the
    /// same. Returns when that is so, or is given up.
    pub async fn member_ended(&self, ended: NodeId) {
        let me = self.node();
        let successions = self.all_running().into_iter().map(|(range, raft)| async move {
            if let Err(fatal) = succeed(range, raft, ended, me).await {
                tracing::debug!(%range, %fatal, "a range stopped while its leader was replaced");
            }
        });
        futures::future::join_all(successions).await;
    }
}

async fn succeed(
    range: RangeId,
    raft: Raft,
    ended: NodeId,
    me: NodeId,
) -> Result<(), openraft::errors::Fatal<super::Types>> {
    let metrics = raft.server_metrics();
    let (vote, order) = {
        let now = metrics.borrow_watched();
        if now.current_leader != Some(ended) {
            return Ok(());
        }
        let voters = now.membership_config.voter_ids();
        (now.vote, Order::of(range, voters, ended, me))
    };
    let Some(order) = order else { return Ok(()) };
    tracing::info!(%range, leader = %ended, "the leader's process has ended");
    // As if it had handed over, to nobody in particular: its lease is over here. Learned by a later beat, it holds again.
    let _ = raft
        .handle_transfer_leader(TransferLeaderRequest::new(vote, ended, None))
        .await?;
    for turn in 0..TURNS {
        tokio::time::sleep(order.pause(turn)).await;
        // Somebody stands, or leads.
        if metrics.borrow_watched().vote != vote {
            return Ok(());
        }
        raft.trigger().elect(true).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::HostConfig;
    use super::super::many_tests::{Cluster, RANGE, config};
    use super::*;
    use crate::machine::Payload;

    /// Whose followers would wait for minutes.
    async fn patient() -> Cluster {
        let election = (Duration::from_secs(100), Duration::from_secs(200));
        Cluster::formed(3, HostConfig { election, ..config() }, None).await
    }

    async fn takes(cluster: &Cluster, id: u128) {
        let range = cluster.host(id).range(RANGE).unwrap();
        let number = 7u64.to_be_bytes().to_vec();
        range.propose(Payload::head(number)).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_leader_whose_process_ended_is_not_waited_for() {
        for _ in 0..5 {
            let mut cluster = patient().await;
            takes(&cluster, 1).await;
            cluster.kill(1).await;
            let (two, three) = (cluster.host(2).clone(), cluster.host(3).clone());
            tokio::join!(two.member_ended(NodeId(1)), three.member_ended(NodeId(1)));
            // On a busy machine both may have stood at once, and neither be elected: nobody stands again for minutes.
            if let Ok((leader, term)) = tokio::time::timeout(Duration::from_secs(10), cluster.led()).await {
                assert!(leader != 1 && term > 1, "{leader} in {term}");
                takes(&cluster, leader).await;
                return;
            }
        }
        panic!("the leader is waited for");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_leader_that_one_follower_takes_for_dead_goes_on() {
        let cluster = patient().await;
        let led = cluster.led().await;
        cluster.host(2).member_ended(NodeId(1)).await;
        takes(&cluster, 1).await;
        assert_eq!(cluster.led().await, led);
    }

    #[test]
    fn followers_stand_one_after_the_other_and_not_always_the_same_first() {
        let voters = || [5, 3, 9].map(NodeId).into_iter();
        let place = |range, me| Order::of(RangeId(range), voters(), NodeId(3), NodeId(me));
        for range in 0..4 {
            let pauses: Vec<_> = [5, 9].map(|me| place(range, me).unwrap().pause(0)).into();
            assert_ne!(pauses[0], pauses[1], "range {range}");
        }
        assert_ne!(place(0, 5).unwrap().place, place(1, 5).unwrap().place);
        assert_eq!(place(0, 3), None, "who has ended");
        assert_eq!(place(0, 4), None, "who has no vote");
        let turns = |me| {
            let order = place(0, me).unwrap();
            (0..TURNS)
                .scan(Duration::ZERO, |at, turn| {
                    *at += order.pause(turn);
                    Some(*at)
                })
                .collect::<Vec<_>>()
        };
        assert!(turns(5).iter().all(|at| !turns(9).contains(at)));
    }
}
