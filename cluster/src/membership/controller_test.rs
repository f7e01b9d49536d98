use super::super::bulletin::{Bulletin, RangeReport, ReplicaReport};
use super::super::steps::{Replica, Step, next_step};
use super::*;
use crate::catalog::{Acknowledge, Command, ReplicaSpec, Roles, Told};
use crate::ids::RangeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A store as its members see it: the catalog, and each range's members. Everybody hears everybody who is not away.
struct Cluster {
    state: State,
    ranges: BTreeMap<RangeId, (NodeId, BTreeMap<NodeId, bool>)>,
    /// Nodes that run and were met.
    nodes: BTreeSet<NodeId>,
    away: BTreeSet<NodeId>,
}

fn name(node: u128) -> String {
    format!("m{node}")
}

impl Cluster {
    fn of_one() -> Self {
        let mut state = State::default();
        state.apply(Command::JoinNode { node: NodeId(1) }).unwrap();
        Self {
            state,
            ranges: [(SYSTEM_RANGE, (NodeId(1), [(NodeId(1), true)].into()))].into(),
            nodes: [NodeId(1)].into(),
            away: BTreeSet::new(),
        }
    }

    fn with(members: u128) -> Self {
        let mut cluster = Self::of_one();
        cluster.namespace("n", None);
        (1..=members).for_each(|node| cluster.define(node));
        cluster.settle();
        cluster
    }

    fn apply(&mut self, command: Command) {
        self.state.apply(command).unwrap();
        for row in self.state.ranges() {
            if let [first, ..] = row.founders() {
                let voters = row.founders().iter().map(|node| (*node, true)).collect();
                self.ranges.entry(row.id).or_insert((*first, voters));
            }
        }
    }

    fn namespace(&mut self, name: &str, replication: Option<u8>) {
        self.apply(Command::DefineNamespace {
            name: name.into(),
            if_not_exists: false,
            replication,
            acknowledge: Acknowledge::Majority,
        });
    }

    fn define(&mut self, node: u128) {
        let spec = ReplicaSpec {
            name: name(node),
            at: format!("m{node}:1"),
            clients_at: None,
            http_at: None,
            kafka_at: None,
            node: Some(NodeId(node)),
            roles: None,
        };
        self.apply(Command::Member(MemberCommand::Define {
            spec,
            if_not_exists: false,
        }));
        self.nodes.insert(NodeId(node));
    }

    fn drop(&mut self, node: u128) {
        self.apply(Command::Member(MemberCommand::Drop { name: name(node) }));
    }

    fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        for node in self.nodes.difference(&self.away) {
            let led = self.ranges.iter().filter(|(_, (leader, _))| leader == node);
            let report = |members: &BTreeMap<NodeId, bool>| RangeReport {
                term: 1,
                members: members
                    .iter()
                    .map(|(node, voter)| {
                        let report = ReplicaReport {
                            voter: *voter,
                            heard: !self.away.contains(node),
                            ..ReplicaReport::default()
                        };
                        (*node, report)
                    })
                    .collect(),
            };
            let bulletin = Bulletin {
                told: Told {
                    kafka: Some((format!("k{}", node.0), 9092)),
                    serve: None,
                },
                led: led.map(|(range, (_, members))| (*range, report(members))).collect(),
            };
            seen.bulletins.insert(*node, Arc::new(bulletin));
            seen.live.insert(*node);
        }
        seen
    }

    /// One round of everybody's controllers; answers whether anything changed.
    fn round(&mut self) -> bool {
        let seen = self.seen();
        let commands = commands(&self.state, &seen);
        let mut changed = !commands.is_empty();
        for command in commands {
            self.apply(Command::Member(command));
        }
        for range in self.ranges.keys().copied().collect::<Vec<_>>() {
            let goal = match range {
                SYSTEM_RANGE => system_goal(&self.state, &self.nodes),
                _ => range_goal(&self.state, range).unwrap(),
            };
            let away = self.away.clone();
            let (leader, members) = self.ranges.get_mut(&range).unwrap();
            if away.contains(leader) {
                // The others elect one of them.
                let Some((next, _)) = members.iter().find(|(node, voter)| **voter && !away.contains(node)) else {
                    continue;
                };
                *leader = *next;
            }
            let replicas = members.iter().map(|(node, voter)| {
                let heard = !away.contains(node);
                let replica = Replica {
                    voter: *voter,
                    near: heard,
                    heard,
                };
                (*node, replica)
            });
            let Some(step) = next_step(*leader, &goal, &replicas.collect()) else {
                continue;
            };
            changed = true;
            match step {
                Step::AddLearner(node) => drop(members.insert(node, false)),
                Step::RemoveLearner(node) => drop(members.remove(&node)),
                Step::Voters(voters) => members
                    .iter_mut()
                    .for_each(|(node, voter)| *voter = voters.contains(node)),
                Step::Transfer(to) => *leader = to,
            }
        }
        changed
    }

    fn settle(&mut self) {
        let mut rounds = 0;
        while self.round() {
            rounds += 1;
            assert!(rounds < 200, "it never settles: {:?}", self.ranges);
        }
    }

    fn voters(&self, range: RangeId) -> Vec<u128> {
        let (_, members) = &self.ranges[&range];
        members
            .iter()
            .filter(|(_, voter)| **voter)
            .map(|(node, _)| node.0)
            .collect()
    }

    fn standing(&self, node: u128) -> Option<Standing> {
        self.state.replica(&name(node)).map(|member| member.standing)
    }
}

#[test]
fn three_rows_make_three_voters_of_everything() {
    let cluster = Cluster::with(3);
    for range in cluster.ranges.keys() {
        assert_eq!(cluster.voters(*range), [1, 2, 3], "range {range}");
    }
    assert!((1..=3).all(|node| cluster.standing(node) == Some(Standing::Joined)));
    let leaders: BTreeSet<NodeId> = cluster.ranges.iter().skip(1).map(|(_, (leader, _))| *leader).collect();
    assert_eq!(leaders.len(), 2, "two ranges, two leaders");
    let told = cluster.state.replica("m2").unwrap().kafka_address().cloned();
    assert_eq!(told, Some(("k2".into(), 9092)));
}

#[test]
fn a_row_alone_changes_nothing_until_its_node_was_met() {
    let mut cluster = Cluster::with(1);
    cluster.define(2);
    cluster.nodes.remove(&NodeId(2));
    cluster.settle();
    assert_eq!(cluster.voters(SYSTEM_RANGE), [1]);
    assert_eq!(cluster.standing(2), Some(Standing::Declared));
}

#[test]
fn a_dropped_member_is_emptied_and_then_goes() {
    let mut cluster = Cluster::with(3);
    cluster.drop(1);
    cluster.settle();
    assert_eq!(cluster.standing(1), None);
    assert!(cluster.state.is_banned(NodeId(1)));
    for range in cluster.ranges.keys() {
        assert_eq!(cluster.voters(*range), [2, 3], "range {range}");
    }
}

#[test]
fn a_member_that_is_dead_can_be_dropped_too() {
    let mut cluster = Cluster::with(3);
    cluster.away.insert(NodeId(3));
    cluster.drop(3);
    cluster.settle();
    assert_eq!(cluster.standing(3), None);
    assert_eq!(cluster.voters(SYSTEM_RANGE), [1, 2]);
}

#[test]
fn two_members_of_which_one_is_dead_are_not_made_one() {
    let mut cluster = Cluster::with(2);
    cluster.away.insert(NodeId(2));
    cluster.settle();
    assert_eq!(cluster.voters(SYSTEM_RANGE), [1, 2]);
}

#[test]
fn who_stops_coordinating_keeps_copies_and_leads_nothing() {
    let mut cluster = Cluster::with(3);
    let roles = Roles {
        coordinating: false,
        ..Roles::ALL
    };
    cluster.apply(Command::Member(MemberCommand::NodeRoles { node: NodeId(1), roles }));
    cluster.settle();
    assert_eq!(cluster.voters(SYSTEM_RANGE), [2, 3]);
    assert_eq!(cluster.ranges[&SYSTEM_RANGE].1.get(&NodeId(1)), Some(&false));
    for (range, (leader, members)) in &cluster.ranges {
        assert_ne!(*leader, NodeId(1), "range {range}");
        assert!(members.contains_key(&NodeId(1)));
    }
}

#[test]
fn leadership_comes_back_to_a_member_that_returns() {
    let mut cluster = Cluster::with(3);
    let leaders = |cluster: &Cluster| -> Vec<NodeId> {
        let data = cluster.ranges.iter().filter(|(range, _)| **range != SYSTEM_RANGE);
        data.map(|(_, (leader, _))| *leader).collect()
    };
    let before = leaders(&cluster);
    cluster.away.insert(before[0]);
    cluster.settle();
    assert_ne!(leaders(&cluster), before);
    cluster.away.clear();
    cluster.settle();
    assert_eq!(leaders(&cluster), before);
}
