//! Who leads a range, as openraft's metrics tell.

use super::Types;
use crate::ids::NodeId;
use crate::planted::{self, Bug};
use openraft::metrics::RaftServerMetrics;

/// Who leads, where known, and the term.
///
/// The metrics' vote is the last one that is on disk, their leader that of the vote that was taken last: while a vote is
/// being written the two are of different terms. Only a leader that the vote itself names leads in the vote's term.
pub(super) fn leader(metrics: &RaftServerMetrics<Types>) -> (Option<NodeId>, u64) {
    let vote = &metrics.vote;
    let elected = vote.committed || planted::has(Bug::LeadsUnelected);
    let named = elected.then_some(vote.leader_id.voted_for);
    let leader = match planted::has(Bug::LeadsUnelected) {
        true => named,
        false => metrics.current_leader.filter(|leader| named == Some(*leader)),
    };
    (leader, vote.leader_id.term)
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft::ServerState;
    use openraft::impls::leader_id_std::LeaderId;
    use openraft::vote::RaftVote;
    use std::sync::Arc;

    fn metrics(vote: (u64, u128, bool), leader: Option<u128>) -> RaftServerMetrics<Types> {
        let (term, node, committed) = vote;
        let id = LeaderId {
            term,
            voted_for: NodeId(node),
        };
        RaftServerMetrics {
            id: NodeId(2),
            vote: super::super::Vote::from_leader_id(id, committed),
            state: ServerState::Leader,
            current_leader: leader.map(NodeId),
            membership_config: Arc::default(),
            committed_membership_config: Arc::default(),
        }
    }

    /// Node 2 said that it led term 5, which node 1 had led, and that it might answer in it.
    #[test]
    fn a_leader_whose_vote_is_still_being_written_does_not_lead_in_the_term_before() {
        assert_eq!(leader(&metrics((5, 1, true), Some(2))), (None, 5));
        assert_eq!(leader(&metrics((6, 2, false), Some(2))), (None, 6));
        assert_eq!(leader(&metrics((6, 2, true), Some(2))), (Some(NodeId(2)), 6));
        assert_eq!(leader(&metrics((6, 2, true), None)), (None, 6));
    }
}
