//! One change at a time: how a range's members get from what they are to what they should be.
//!
//! ```text
//!   wanted voter:    no member -> learner -> (near the end of the log) -> voter
//!   unwanted voter:  (its successors vote) -> learner -> no member
//!   leader:          (not wanted, or another is preferred) -> hands over to a voter that is near
//! ```
//!
//! A step changes one voter. None is taken that would leave fewer living voters than a majority where there was one, so
//! that nothing stops meanwhile.

use crate::ids::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// A member that lacks no more entries than this may become a voter, or lead.
pub(super) const NEAR_ENTRIES: u64 = 1000;
/// And no more bytes than this.
pub(super) const NEAR_BYTES: u64 = 16 << 20;

/// What a range's members should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// Who should vote; never empty.
    pub voters: BTreeSet<NodeId>,
    /// Who else should hold a copy.
    pub learners: BTreeSet<NodeId>,
    /// Who should lead; one of the voters.
    pub leader: Option<NodeId>,
}

/// A member of a range as the range's leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Whether it votes.
    pub voter: bool,
    /// Whether it is near the end of the log.
    pub near: bool,
    /// Whether it was heard of lately.
    pub heard: bool,
}

/// A change the leader makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A node gets a copy.
    AddLearner(NodeId),
    /// These vote from now on; one more or one fewer than before.
    Voters(BTreeSet<NodeId>),
    /// A node loses its copy.
    RemoveLearner(NodeId),
    /// Another leads.
    Transfer(NodeId),
}

/// The next step that `me`, who leads, takes; `None` where all is as it should be, or somebody must be waited for.
pub fn next_step(me: NodeId, goal: &Goal, members: &BTreeMap<NodeId, Replica>) -> Option<Step> {
    let voters: BTreeSet<NodeId> = members.iter().filter(|(_, m)| m.voter).map(|(node, _)| *node).collect();
    let heard = |node: &NodeId| members.get(node).is_some_and(|m| m.heard);
    let ready = |node: &NodeId| members.get(node).is_some_and(|m| m.heard && m.near);

    if let Some(new) = goal
        .voters
        .union(&goal.learners)
        .find(|node| !members.contains_key(node))
    {
        return Some(Step::AddLearner(*new));
    }
    if let Some(new) = goal.voters.iter().find(|node| !voters.contains(node) && ready(node)) {
        let mut more = voters;
        more.insert(*new);
        return Some(Step::Voters(more));
    }
    if let Some(step) = demotion(me, goal, &voters, &heard, &ready) {
        return Some(step);
    }
    let idle = |(node, replica): &(&NodeId, &Replica)| {
        !replica.voter && !goal.voters.contains(node) && !goal.learners.contains(node)
    };
    if let Some((node, _)) = members.iter().find(idle) {
        return Some(Step::RemoveLearner(*node));
    }
    let leader = goal.leader.filter(|leader| *leader != me && voters.contains(leader))?;
    ready(&leader).then_some(Step::Transfer(leader))
}

fn demotion(
    me: NodeId,
    goal: &Goal,
    voters: &BTreeSet<NodeId>,
    heard: &impl Fn(&NodeId) -> bool,
    ready: &impl Fn(&NodeId) -> bool,
) -> Option<Step> {
    // The silent first: they are no use. This node last: it has to hand over before.
    let unwanted = voters.difference(&goal.voters);
    let gone = unwanted.min_by_key(|node| (**node == me, heard(node), **node))?;
    let mut fewer = voters.clone();
    fewer.remove(gone);
    // Those that should vote do, or as many as should.
    let replaced = goal.voters.is_subset(&fewer) || fewer.len() >= goal.voters.len();
    if !replaced || !goes_on(&fewer, heard) {
        return None;
    }
    if *gone != me {
        return Some(Step::Voters(fewer));
    }
    let preferred = goal.leader.filter(|leader| fewer.contains(leader) && ready(leader));
    let anybody = || {
        goal.voters
            .iter()
            .find(|node| fewer.contains(node) && ready(node))
            .copied()
    };
    preferred.or_else(anybody).map(Step::Transfer)
}

/// Whether a majority of `voters` lives.
fn goes_on(voters: &BTreeSet<NodeId>, heard: impl Fn(&NodeId) -> bool) -> bool {
    voters.iter().filter(|node| heard(node)).count() * 2 > voters.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes(nodes: impl IntoIterator<Item = u128>) -> BTreeSet<NodeId> {
        nodes.into_iter().map(NodeId).collect()
    }

    fn replica(voter: bool, near: bool, heard: bool) -> Replica {
        Replica { voter, near, heard }
    }

    /// A range led by 1; carries steps out.
    struct Sim {
        me: NodeId,
        members: BTreeMap<NodeId, Replica>,
    }

    impl Sim {
        fn of(voters: impl IntoIterator<Item = u128>) -> Self {
            let voters = voters.into_iter().map(|node| (NodeId(node), replica(true, true, true)));
            Self {
                me: NodeId(1),
                members: voters.collect(),
            }
        }

        fn voters(&self) -> BTreeSet<NodeId> {
            self.members.iter().filter(|(_, m)| m.voter).map(|(n, _)| *n).collect()
        }

        fn take(&mut self, step: &Step) {
            match step {
                Step::AddLearner(node) => {
                    self.members.insert(*node, replica(false, false, true));
                }
                Step::Voters(voters) => {
                    for (node, member) in &mut self.members {
                        member.voter = voters.contains(node);
                    }
                }
                Step::RemoveLearner(node) => {
                    self.members.remove(node);
                }
                Step::Transfer(to) => self.me = *to,
            }
        }

        /// All learners catch up.
        fn catch_up(&mut self) {
            self.members.values_mut().for_each(|m| m.near |= m.heard);
        }

        fn run(&mut self, goal: &Goal) -> Vec<Step> {
            let mut steps = Vec::new();
            while let Some(step) = next_step(self.me, goal, &self.members) {
                self.take(&step);
                self.catch_up();
                steps.push(step);
                assert!(steps.len() < 100, "no end: {steps:?}");
            }
            steps
        }
    }

    fn goal(voters: impl IntoIterator<Item = u128>, leader: u128) -> Goal {
        Goal {
            voters: nodes(voters),
            learners: BTreeSet::new(),
            leader: Some(NodeId(leader)),
        }
    }

    #[test]
    fn one_becomes_three_and_hands_over() {
        let mut sim = Sim::of([1]);
        let steps = sim.run(&goal([1, 2, 3], 2));
        let expected = [
            Step::AddLearner(NodeId(2)),
            Step::AddLearner(NodeId(3)),
            Step::Voters(nodes([1, 2])),
            Step::Voters(nodes([1, 2, 3])),
            Step::Transfer(NodeId(2)),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn a_learner_far_behind_is_waited_for() {
        let mut sim = Sim::of([1]);
        sim.take(&Step::AddLearner(NodeId(2)));
        assert_eq!(next_step(sim.me, &goal([1, 2], 1), &sim.members), None);
        sim.catch_up();
        assert_eq!(
            next_step(sim.me, &goal([1, 2], 1), &sim.members),
            Some(Step::Voters(nodes([1, 2])))
        );
    }

    #[test]
    fn who_leaves_hands_over_before_it_stops_voting() {
        let mut sim = Sim::of([1, 2, 3]);
        let steps = sim.run(&goal([2, 3], 3));
        let expected = [
            Step::Transfer(NodeId(3)),
            Step::Voters(nodes([2, 3])),
            Step::RemoveLearner(NodeId(1)),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn a_dead_voter_is_replaced_after_its_successor_votes() {
        let mut sim = Sim::of([1, 2, 3]);
        sim.members.insert(NodeId(3), replica(true, false, false));
        let steps = sim.run(&goal([1, 2, 4], 1));
        let expected = [
            Step::AddLearner(NodeId(4)),
            Step::Voters(nodes([1, 2, 3, 4])),
            Step::Voters(nodes([1, 2, 4])),
            Step::RemoveLearner(NodeId(3)),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn nobody_hands_over_to_one_that_is_silent() {
        let mut sim = Sim::of([1, 2]);
        sim.members.insert(NodeId(2), replica(true, true, false));
        assert_eq!(next_step(sim.me, &goal([1, 2], 2), &sim.members), None);
        assert_eq!(next_step(sim.me, &goal([2], 2), &sim.members), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn a_range_gets_where_it_should_and_never_loses_its_majority(
            voters in proptest::collection::btree_set(1..7u128, 1..6),
            wanted in proptest::collection::btree_set(1..7u128, 1..6),
            learners in proptest::collection::btree_set(1..7u128, 0..3),
            away in proptest::collection::btree_set(1..7u128, 0..3),
            pick in any::<proptest::sample::Index>(),
        ) {
            let living = voters.iter().find(|v| !away.contains(v)).copied();
            let leader = living.unwrap_or_else(|| *voters.first().unwrap());
            // Who leads is not away.
            let silent: Vec<u128> = away.into_iter().filter(|node| *node != leader).collect();
            let mut sim = Sim::of(voters);
            sim.me = NodeId(leader);
            for node in &silent {
                if let Some(member) = sim.members.get_mut(&NodeId(*node)) {
                    member.heard = false;
                }
            }
            let preferred = wanted.iter().nth(pick.index(wanted.len())).copied();
            let goal = Goal {
                voters: nodes(wanted),
                learners: nodes(learners),
                leader: preferred.map(NodeId),
            };
            let mut steps = 0;
            while let Some(step) = next_step(sim.me, &goal, &sim.members) {
                let before = sim.voters();
                let live = |sim: &Sim| goes_on(&sim.voters(), |n| sim.members.get(n).is_some_and(|m| m.heard));
                let went_on = live(&sim);
                sim.take(&step);
                // A node that is away stays away, also as a learner.
                for node in &silent {
                    if let Some(member) = sim.members.get_mut(&NodeId(*node)) {
                        member.heard = false;
                    }
                }
                prop_assert!(sim.voters().symmetric_difference(&before).count() <= 1, "{step:?}");
                prop_assert!(!went_on || live(&sim), "{step:?} stops the range");
                prop_assert!(sim.voters().contains(&sim.me), "{step:?} leaves a leader without a vote");
                sim.catch_up();
                steps += 1;
                prop_assert!(steps < 100);
            }
            // Once all are back, it gets there.
            sim.members.values_mut().for_each(|m| m.heard = true);
            sim.catch_up();
            sim.run(&goal);
            prop_assert_eq!(sim.voters(), goal.voters.clone());
            prop_assert_eq!(Some(sim.me), goal.leader);
            let members: BTreeSet<NodeId> = sim.members.keys().copied().collect();
            prop_assert_eq!(members, goal.voters.union(&goal.learners).copied().collect());
        }
    }
}
