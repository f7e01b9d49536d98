//! What people are told of the members.

use super::bulletin::Seen;
use crate::catalog::{Member, Standing, State};
use crate::ids::{BrokerId, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a member is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It is declared, and was not taken in yet; why not, where something stands in the way.
    Joining(Option<String>),
    /// It copies what it lacks: bytes left, as far as its leaders can tell.
    CatchingUp(u64),
    /// It has a vote on the catalog.
    Voting,
    /// It holds the catalog without a vote: it is not `coordinating`.
    Following,
    /// Nothing was heard of it lately.
    Unreachable,
    /// It gives up what it holds or leads, as its roles no longer allow it or as it was dropped.
    Draining,
}

/// A member as people see it.
#[derive(Clone, Debug)]
pub struct Overview {
    /// Its row.
    pub member: Arc<Member>,
    /// What it is doing.
    pub state: MemberState,
    /// The most entries it lacks of any range.
    pub lag: u64,
    /// Data ranges, and the catalog, that it leads.
    pub leading: usize,
}

pub(super) fn overview(state: &State, me: NodeId, seen: &Seen, troubles: &BTreeMap<BrokerId, String>) -> Vec<Overview> {
    let lone = state.members().nth(1).is_none();
    let tell = |member: &Arc<Member>| {
        let (lag, bytes) = member.node.map_or((0, 0), |node| seen.lag(node));
        Overview {
            member: member.clone(),
            state: match lone && member.node == Some(me) {
                true => MemberState::Voting,
                false => doing(state, member, me, seen, bytes, troubles.get(&member.broker)),
            },
            lag,
            leading: member.node.map_or(0, |node| seen.led(node)),
        }
    };
    state.members().map(tell).collect()
}

fn doing(state: &State, member: &Member, me: NodeId, seen: &Seen, bytes: u64, trouble: Option<&String>) -> MemberState {
    let Some(node) = member.node else {
        return MemberState::Joining(trouble.cloned());
    };
    let report = seen.catalog(node);
    if member.standing == Standing::Leaving {
        return MemberState::Draining;
    }
    if member.standing == Standing::Declared && report.is_none() {
        return MemberState::Joining(trouble.cloned());
    }
    if node != me && !seen.live.contains(&node) {
        return MemberState::Unreachable;
    }
    let holds = state.ranges().any(|row| row.voters.contains(&node));
    let voter = report.is_some_and(|report| report.voter);
    let drains = (!member.roles.serving && holds) || (!member.coordinates() && (voter || seen.led(node) > 0));
    if drains {
        return MemberState::Draining;
    }
    if !seen.near(node) {
        return MemberState::CatchingUp(bytes);
    }
    match voter {
        true => MemberState::Voting,
        // About to get its vote.
        false if member.coordinates() => MemberState::CatchingUp(bytes),
        false => MemberState::Following,
    }
}

#[cfg(test)]
mod tests {
    use super::super::bulletin::{Bulletin, RangeReport, ReplicaReport};
    use super::*;
    use crate::catalog::{Command, MemberCommand, ReplicaSpec, Roles};
    use crate::ids::SYSTEM_RANGE;

    fn store() -> State {
        let mut state = State::default();
        state.apply(Command::JoinNode { node: NodeId(1) }).unwrap();
        for (node, name) in [(1, "one"), (2, "two")] {
            let spec = ReplicaSpec {
                name: name.into(),
                at: format!("{name}:1"),
                clients_at: None,
                http_at: None,
                kafka_at: None,
                node: Some(NodeId(node)),
                roles: None,
            };
            let define = MemberCommand::Define {
                spec,
                if_not_exists: false,
            };
            state.apply(Command::Member(define)).unwrap();
        }
        state
    }

    fn change(state: &mut State, command: MemberCommand) {
        state.apply(Command::Member(command)).unwrap();
    }

    /// Member 1 leads the catalog and tells this of member 2; `tells`: 2 itself is heard.
    fn seen(two: Option<ReplicaReport>, tells: bool) -> Seen {
        let one = ReplicaReport {
            voter: true,
            heard: true,
            ..ReplicaReport::default()
        };
        let mut report = RangeReport {
            term: 1,
            members: [(NodeId(1), one)].into(),
        };
        report.members.extend(two.map(|two| (NodeId(2), two)));
        let bulletin = Bulletin {
            led: [(SYSTEM_RANGE, report)].into(),
            ..Bulletin::default()
        };
        let mut seen = Seen::default();
        seen.bulletins.insert(NodeId(1), Arc::new(bulletin));
        seen.live.insert(NodeId(1));
        if tells {
            seen.bulletins.insert(NodeId(2), Arc::default());
            seen.live.insert(NodeId(2));
        }
        seen
    }

    fn two(state: &State, seen: &Seen) -> MemberState {
        let members = overview(state, NodeId(1), seen, &BTreeMap::new());
        members[1].state.clone()
    }

    #[test]
    fn a_member_is_told_from_joining_to_gone() {
        let mut state = store();
        assert_eq!(two(&state, &seen(None, false)), MemberState::Joining(None));
        let mut report = ReplicaReport {
            lag_entries: 1 << 20,
            lag_bytes: 5000,
            heard: true,
            voter: false,
        };
        assert_eq!(two(&state, &seen(Some(report), true)), MemberState::CatchingUp(5000));
        change(&mut state, MemberCommand::Joined { node: NodeId(2) });
        report = ReplicaReport {
            voter: true,
            heard: true,
            ..ReplicaReport::default()
        };
        assert_eq!(two(&state, &seen(Some(report), true)), MemberState::Voting);
        assert_eq!(two(&state, &seen(Some(report), false)), MemberState::Unreachable);
        let roles = Roles {
            coordinating: false,
            ..Roles::ALL
        };
        change(&mut state, MemberCommand::NodeRoles { node: NodeId(2), roles });
        assert_eq!(two(&state, &seen(Some(report), true)), MemberState::Draining);
        report.voter = false;
        assert_eq!(two(&state, &seen(Some(report), true)), MemberState::Following);
        change(&mut state, MemberCommand::Drop { name: "two".into() });
        assert_eq!(two(&state, &seen(Some(report), true)), MemberState::Draining);
    }

    #[test]
    fn what_stands_in_the_way_is_told() {
        let troubles = [(BrokerId(2), "nobody is there".to_owned())].into();
        let members = overview(&store(), NodeId(1), &seen(None, false), &troubles);
        assert_eq!(members[1].state, MemberState::Joining(Some("nobody is there".into())));
        assert_eq!(members[0].state, MemberState::Voting);
    }
}
