//! Who is a member of a range, how far each is, and handing over.

use super::host::RangeHost;
use super::{Raft, Types, Vote, to_raft};
use crate::ids::{NodeId, RangeId};
use crate::wal;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, Fatal, RaftError};
use openraft::impls::leader_id_std::LeaderId;
use openraft::raft::VoteRequest;
use openraft::vote::RaftVote;
use openraft::{ChangeMembers, EmptyNode, Instant, RaftState};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A follower that lacks more entries than this is not handed the lead.
const NEAR: u64 = 4096;

/// Why a change of members was not, or may not have been, made. Each variant names its outcome class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Rejected: this node has no replica of the range.
    #[error("range {0} does not run here")]
    Missing(RangeId),
    /// Rejected: another member leads, or nobody yet.
    #[error("this node does not lead range {range}")]
    NotLeader {
        /// The range.
        range: RangeId,
        /// Who leads, where known.
        leader: Option<NodeId>,
    },
    /// Rejected: another change is on its way.
    #[error("the members of the range are being changed")]
    Busy,
    /// Rejected: a voter must be a learner first.
    #[error("node {0} is no learner of the range")]
    NoLearner(NodeId),
    /// Rejected: the member is too far behind to lead.
    #[error("node {0} is too far behind")]
    Behind(NodeId),
    /// Invalid: the change makes no sense (no voter would be left).
    #[error("{0}")]
    Invalid(String),
    /// Unknown: leadership was lost, or the new leader was not heard of in time.
    #[error("the outcome is not known: {0}")]
    Unknown(&'static str),
    /// Fatal: the range no longer runs.
    #[error("the range no longer runs: {0}")]
    Fatal(String),
}

/// How far a range's members are, as its leader knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeProgress {
    /// Term in which this node leads.
    pub term: u64,
    /// Index of the leader's last entry; `None` where there is none.
    pub last: Option<u64>,
    /// Index up to which the leader's log is gone: a member that lacks anything before begins from a snapshot.
    pub purged: Option<u64>,
    /// Index up to which a majority is known to hold the log.
    pub committed: Option<u64>,
    /// All members, the leader too.
    pub members: BTreeMap<NodeId, MemberProgress>,
}

/// How far one member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberProgress {
    /// Whether it votes; a learner only holds a copy.
    pub voter: bool,
    /// Index up to which it is known to hold the log durably.
    pub matched: Option<u64>,
    /// Bytes of commands it lacks, as far as the leader still has them in its log. For one that begins from a snapshot it is
    /// not what remains to be fetched.
    pub lag_bytes: u64,
    /// How long ago it last answered; `None` where it has not since this node leads. Zero for the leader.
    pub silent_for: Option<Duration>,
}

impl RangeHost {
    fn raft(&self, range: RangeId) -> Result<Raft, ChangeError> {
        self.with_running(range, |running| running.raft.clone())
            .ok_or(ChangeError::Missing(range))
    }

    /// Makes a node a learner of a range this node leads: it gets a copy, and has no vote. It must have started the range
    /// ([`Start::Join`](super::Start)), or do so soon. Does nothing for a member. Returns once that is committed, which is
    /// long before the copy is complete.
    pub async fn add_learner(&self, range: RangeId, node: NodeId) -> Result<(), ChangeError> {
        let raft = self.raft(range)?;
        let done = raft.add_learner(node, EmptyNode::default(), false).await;
        done.map(drop).map_err(|error| refused(self.node(), range, error))
    }

    /// Makes `voters`, each of which must be a member already, the voters of a range this node leads. Who no longer votes
    /// stays as a learner. Returns once it is committed by the old and the new voters; where the leader is not among the new
    /// ones it then steps down. Safe to ask for again when the outcome is not known.
    pub async fn change_voters(&self, range: RangeId, voters: BTreeSet<NodeId>) -> Result<(), ChangeError> {
        let raft = self.raft(range)?;
        let done = raft.change_membership(voters, true).await;
        done.map(drop).map_err(|error| refused(self.node(), range, error))
    }

    /// Removes a learner from a range this node leads: it is sent nothing more. Does nothing for who is no member.
    pub async fn remove_learner(&self, range: RangeId, node: NodeId) -> Result<(), ChangeError> {
        let raft = self.raft(range)?;
        let gone = ChangeMembers::RemoveNodes(BTreeSet::from([node]));
        let done = raft.change_membership(gone, true).await;
        done.map(drop).map_err(|error| refused(self.node(), range, error))
    }

    /// Hands the lead of a range to another voter, and waits until this node no longer leads. Commands submitted meanwhile
    /// are refused (Rejected). [`ChangeError::Unknown`] where that takes longer than an election; this node then gives the lead
    /// up, and whoever stands next has it.
    pub async fn transfer_leader(&self, range: RangeId, to: NodeId) -> Result<(), ChangeError> {
        let (raft, mut leadership) = self
            .with_running(range, |running| (running.raft.clone(), running.range.leadership()))
            .ok_or(ChangeError::Missing(range))?;
        if to == self.node() {
            return Ok(());
        }
        let not_leader = ChangeError::NotLeader {
            range,
            leader: leadership.borrow().leader.filter(|leader| *leader != self.node()),
        };
        let progress = self.progress(range).ok_or(not_leader)?;
        let member = progress.members.get(&to).filter(|member| member.voter);
        let member = member.ok_or_else(|| ChangeError::Invalid(format!("node {to} is no voter of range {range}")))?;
        if progress.last.unwrap_or(0).saturating_sub(member.matched.unwrap_or(0)) > NEAR {
            return Err(ChangeError::Behind(to));
        }
        let fatal = |error: Fatal<Types>| ChangeError::Fatal(error.to_string());
        raft.trigger().transfer_leader(to).await.map_err(fatal)?;
        let patience = self.config().election.1;
        let me = self.node();
        let moved =
            leadership.wait_for(|now| now.term > progress.term && now.leader.is_some_and(|leader| leader != me));
        let moved = async { moved.await.map(drop) };
        match tokio::time::timeout(patience, moved).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(ChangeError::Fatal("it is stopping".into())),
            Err(_) => {
                resign(&raft, self.node(), progress.term, to).await.map_err(fatal)?;
                Err(ChangeError::Unknown("no new leader was heard of"))
            }
        }
    }

    /// How far the members of a range are; `None` where this node does not lead it.
    pub fn progress(&self, range: RangeId) -> Option<RangeProgress> {
        let (raft, group) = self.with_running(range, |running| (running.raft.clone(), running.group.clone()))?;
        let metrics = raft.metrics().borrow_watched().clone();
        let replication = metrics.replication?;
        let heard = metrics.heartbeat.unwrap_or_default();
        let config = &metrics.membership_config;
        let voters: BTreeSet<NodeId> = config.voter_ids().collect();
        let members = config.nodes().map(|(node, _)| {
            let here = *node == self.node();
            let matched = match here {
                true => metrics.last_log_index,
                false => replication.get(node).copied().flatten().map(|last| last.index),
            };
            let silent_for = match here {
                true => Some(Duration::ZERO),
                false => heard.get(node).copied().flatten().map(|at| at.into_inner().elapsed()),
            };
            let progress = MemberProgress {
                voter: voters.contains(node),
                matched,
                lag_bytes: group.bytes_from(matched.map_or(0, |index| index + 1)),
                silent_for,
            };
            (*node, progress)
        });
        Some(RangeProgress {
            term: metrics.current_term,
            last: metrics.last_log_index,
            purged: metrics.purged.map(|last| last.index),
            committed: metrics.cluster_committed.map(|last| last.index),
            members: members.collect(),
        })
    }

    /// The members of a range as this node's replica knows them: the voters, and the learners.
    pub fn members(&self, range: RangeId) -> Option<(BTreeSet<NodeId>, BTreeSet<NodeId>)> {
        let raft = self.with_running(range, |running| running.raft.clone())?;
        let config = raft.server_metrics().borrow_watched().membership_config.clone();
        let voters: BTreeSet<NodeId> = config.voter_ids().collect();
        let learners = config.nodes().map(|(node, _)| *node);
        let learners = learners.filter(|node| !voters.contains(node)).collect();
        Some((voters, learners))
    }
}

/// Gives up the lead of `term`. Once it was told to hand over, openraft's leader takes no commands, whether or not the other
/// one heard of it; without this it would lead, and refuse everything, until it is voted out by chance. It grants `heir` the
/// next term, asked or not: a vote that is lost, should the other never stand.
async fn resign(raft: &Raft, me: NodeId, term: u64, heir: NodeId) -> Result<(), Fatal<Types>> {
    let leads = move |state: &RaftState<Types>| {
        let leader = state.vote_ref().leader_id;
        (leader.term, leader.voted_for) == (term, me)
    };
    if !raft.with_raft_state(leads).await? {
        return Ok(());
    }
    tracing::warn!(%heir, term, "nobody took over the lead: it is given up");
    let next = LeaderId {
        term: term + 1,
        voted_for: heir,
    };
    // As one whose log lacks nothing: this node has the last word on its own vote.
    let last = to_raft(wal::LogId { term, index: u64::MAX });
    let mut vote = VoteRequest::new(Vote::from_leader_id(next, false), Some(last));
    vote.leadership_transfer = true;
    match raft.vote(vote).await {
        Ok(_) => Ok(()),
        Err(RaftError::Fatal(fatal)) => Err(fatal),
        Err(RaftError::APIError(never)) => match never {},
    }
}

fn refused(me: NodeId, range: RangeId, error: RaftError<Types, ClientWriteError<Types>>) -> ChangeError {
    let error = match error {
        RaftError::APIError(error) => error,
        RaftError::Fatal(fatal) => return ChangeError::Fatal(fatal.to_string()),
    };
    match error {
        ClientWriteError::ForwardToLeader(to) => ChangeError::NotLeader {
            range,
            leader: to.leader_id.filter(|leader| *leader != me),
        },
        ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_)) => ChangeError::Busy,
        ClientWriteError::ChangeMembershipError(ChangeMembershipError::LearnerNotFound(learner)) => {
            ChangeError::NoLearner(learner.node_id)
        }
        ClientWriteError::ChangeMembershipError(other) => ChangeError::Invalid(other.to_string()),
        ClientWriteError::LogEntryDiscarded(_) => ChangeError::Unknown("leadership was lost"),
        ClientWriteError::PreconditionFailed(other) => ChangeError::Invalid(other.to_string()),
    }
}
