//! Who should hold each range, and who should lead it: a function of the catalog and of who lives.
//!
//! Rules, in this order:
//!
//! 1. A range has as many voters as [`State::replicas_wanted`] says, where there are so many members that hold data.
//! 2. Who holds a range keeps it. Only members that leave or no longer hold data lose theirs, and members that hold more
//!    than their share give some to those that hold less. A member that is merely silent keeps what it has: it comes back.
//! 3. A new voter is a living member.
//! 4. A range is never left without a voter.
//! 5. Leaders are spread over voters that coordinate: an even share each, or as many as `LEADS` says. Who should lead goes
//!    on so; liveness plays no part, so that leadership comes back to a member that returns.

use crate::catalog::{Member, State};
use crate::ids::{NodeId, RangeId};
use std::collections::{BTreeMap, BTreeSet};

/// What is wanted of one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The range.
    pub range: RangeId,
    /// Who should hold it, in order.
    pub voters: Vec<NodeId>,
    /// Who should lead it; one of the voters.
    pub leader: Option<NodeId>,
}

/// What is wanted of every data range, given which nodes live.
pub fn placement(state: &State, live: &BTreeSet<NodeId>) -> Vec<Wanted> {
    let mut voters = Voters::new(state, live);
    voters.replace();
    voters.balance();
    let mut leaders = Leaders::new(state, &voters.of);
    leaders.choose();
    leaders.balance();
    let Leaders { of: mut leader, .. } = leaders;
    let wanted = voters.of.into_iter().map(|(range, voters)| Wanted {
        range,
        voters: voters.into_iter().collect(),
        leader: leader.remove(&range),
    });
    wanted.collect()
}

struct Voters<'a> {
    replicas: BTreeMap<RangeId, usize>,
    /// Members that may hold data, with the number of ranges they hold.
    holds: BTreeMap<NodeId, usize>,
    live: &'a BTreeSet<NodeId>,
    of: BTreeMap<RangeId, BTreeSet<NodeId>>,
}

impl<'a> Voters<'a> {
    fn new(state: &State, live: &'a BTreeSet<NodeId>) -> Self {
        let of: BTreeMap<RangeId, BTreeSet<NodeId>> = state
            .ranges()
            .map(|row| (row.id, row.voters.iter().copied().collect()))
            .collect();
        let holders = state.members().filter(|member| member.holds_data());
        let held = |node: NodeId| of.values().filter(|voters| voters.contains(&node)).count();
        Self {
            replicas: state.replicas_wanted(),
            holds: holders.filter_map(|m| m.node).map(|node| (node, held(node))).collect(),
            live,
            of,
        }
    }

    /// A living member that holds least and not this range.
    fn least(&self, voters: &BTreeSet<NodeId>) -> Option<NodeId> {
        let free = self
            .holds
            .iter()
            .filter(|(node, _)| self.live.contains(node) && !voters.contains(node));
        free.min_by_key(|(node, count)| (**count, **node))
            .map(|(node, _)| *node)
    }

    fn add(&mut self, range: RangeId, node: NodeId) {
        if self.of.entry(range).or_default().insert(node) {
            self.holds.entry(node).and_modify(|count| *count += 1);
        }
    }

    fn remove(&mut self, range: RangeId, node: NodeId) {
        if self.of.entry(range).or_default().remove(&node) {
            self.holds.entry(node).and_modify(|count| *count -= 1);
        }
    }

    /// Brings every range to its number of voters.
    fn replace(&mut self) {
        let ranges: Vec<RangeId> = self.of.keys().copied().collect();
        for range in ranges {
            let wanted = self.replicas.get(&range).copied().unwrap_or(1).max(1);
            loop {
                let voters = &self.of[&range];
                let stays = voters.iter().filter(|node| self.holds.contains_key(node)).count();
                if stays >= wanted {
                    break;
                }
                let Some(node) = self.least(voters) else { break };
                self.add(range, node);
            }
            let (stay, leave): (Vec<NodeId>, Vec<NodeId>) =
                self.of[&range].iter().partition(|node| self.holds.contains_key(node));
            if !stay.is_empty() {
                leave.into_iter().for_each(|node| self.remove(range, node));
            }
            while self.of[&range].len() > wanted {
                // The silent first, then who holds most.
                let give = |node: &&NodeId| (!self.live.contains(*node), self.holds.get(*node).copied(), **node);
                let Some(node) = self.of[&range].iter().max_by_key(give).copied() else {
                    break;
                };
                self.remove(range, node);
            }
        }
    }

    /// Moves replicas from members that hold more than their share to living ones that hold less, as few as will do.
    fn balance(&mut self) {
        while let Some((range, from, to)) = self.uneven() {
            self.remove(range, from);
            self.add(range, to);
        }
    }

    fn uneven(&self) -> Option<(RangeId, NodeId, NodeId)> {
        let mut to: Vec<(usize, NodeId)> = self
            .holds
            .iter()
            .filter(|(node, _)| self.live.contains(node))
            .map(|(node, count)| (*count, *node))
            .collect();
        to.sort_unstable();
        for (least, to) in to {
            let giver = |range: &BTreeSet<NodeId>| {
                let givers = range.iter().filter_map(|node| Some((*self.holds.get(node)?, *node)));
                givers.max().filter(|(most, _)| *most > least + 1)
            };
            // The last made first: it has least in it.
            let found = self
                .of
                .iter()
                .rev()
                .filter(|(_, voters)| !voters.contains(&to))
                .filter_map(|(range, voters)| giver(voters).map(|(most, from)| (most, *range, from)))
                .max_by_key(|(most, range, _)| (*most, *range));
            if let Some((_, range, from)) = found {
                return Some((range, from, to));
            }
        }
        None
    }
}

struct Leaders {
    /// Who may lead each range.
    may: BTreeMap<RangeId, Vec<NodeId>>,
    leads: BTreeMap<NodeId, Option<u32>>,
    counts: BTreeMap<NodeId, u32>,
    of: BTreeMap<RangeId, NodeId>,
}

impl Leaders {
    fn new(state: &State, voters: &BTreeMap<RangeId, BTreeSet<NodeId>>) -> Self {
        let member = |node: &NodeId| state.member(*node);
        let coordinates = |node: &&NodeId| member(node).is_some_and(|m: &std::sync::Arc<Member>| m.coordinates());
        let may: BTreeMap<RangeId, Vec<NodeId>> = voters
            .iter()
            .map(|(range, voters)| (*range, voters.iter().filter(coordinates).copied().collect()))
            .collect();
        let mut leaders = Self {
            may,
            leads: state.members().filter_map(|m| Some((m.node?, m.leads))).collect(),
            counts: BTreeMap::new(),
            of: BTreeMap::new(),
        };
        for row in state.ranges() {
            let stays = |node: &NodeId| leaders.may.get(&row.id).is_some_and(|may| may.contains(node));
            if let Some(leader) = row.leader.filter(stays) {
                leaders.lead(row.id, leader);
            }
        }
        leaders
    }

    fn lead(&mut self, range: RangeId, node: NodeId) {
        if let Some(before) = self.of.insert(range, node) {
            self.counts.entry(before).and_modify(|count| *count -= 1);
        }
        *self.counts.entry(node).or_default() += 1;
    }

    /// How much worse it is to lead one more than `count`. What `LEADS` says goes before an even share.
    fn cost(&self, node: NodeId, count: u32) -> i64 {
        match self.leads.get(&node).copied().flatten() {
            Some(leads) if count < leads => -1_000_000,
            Some(_) => 1_000_000,
            None => i64::from(count),
        }
    }

    fn count(&self, node: NodeId) -> u32 {
        self.counts.get(&node).copied().unwrap_or(0)
    }

    /// Gives every range without one a leader, where anybody may lead it.
    fn choose(&mut self) {
        let without: Vec<RangeId> = self.may.keys().filter(|r| !self.of.contains_key(r)).copied().collect();
        for range in without {
            let may = &self.may[&range];
            if let Some(node) = may
                .iter()
                .min_by_key(|n| (self.cost(**n, self.count(**n)), **n))
                .copied()
            {
                self.lead(range, node);
            }
        }
    }

    /// Each step makes the whole better, so there is an end.
    fn balance(&mut self) {
        while let Some((range, to)) = self.better() {
            self.lead(range, to);
        }
    }

    fn better(&self) -> Option<(RangeId, NodeId)> {
        self.of.iter().find_map(|(range, leader)| {
            let saved = self.cost(*leader, self.count(*leader) - 1);
            let to = self.may[range]
                .iter()
                .map(|node| (self.cost(*node, self.count(*node)), *node))
                .filter(|(cost, node)| node != leader && *cost < saved)
                .min()?;
            Some((*range, to.1))
        })
    }
}

#[cfg(test)]
#[path = "placement_test.rs"]
mod tests;
