//! The pool of data ranges: made for the first namespace of a replication factor, grown when members join, and dealt out.

use super::super::error::CatalogError;
use super::super::model::RangeRow;
use super::State;
use crate::ids::{NodeId, RangeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Each replication factor's pool is two ranges per member that holds data, within these bounds.
const RANGES: std::ops::RangeInclusive<u32> = 2..=16;
/// Most replicas of one range, also where a namespace wants one on every member: more make writes no safer in practice.
pub(super) const MAX_REPLICAS: u8 = 7;

impl State {
    /// How many replicas each range should have: what the most demanding namespace with anything in it wants, else what
    /// it was made for; at most as many as there are members that hold data.
    pub fn replicas_wanted(&self) -> BTreeMap<RangeId, usize> {
        let most = self.holders().count().clamp(1, usize::from(MAX_REPLICAS));
        let count = |replication: Option<u8>| replication.map_or(most, |n| usize::from(n).min(most));
        let mut wanted: BTreeMap<RangeId, usize> = BTreeMap::new();
        let mut want = |range: RangeId, replicas: usize| {
            let most = wanted.entry(range).or_insert(replicas);
            *most = replicas.max(*most);
        };
        let mut namespaces = BTreeMap::new();
        for namespace in self.namespaces() {
            namespaces.insert(namespace.id, count(namespace.replication));
            want(namespace.home, count(namespace.replication));
        }
        for topic in self.topics() {
            let replicas = namespaces.get(&topic.namespace).copied().unwrap_or(most);
            topic.partitions.iter().for_each(|range| want(*range, replicas));
        }
        for row in self.ranges() {
            wanted.entry(row.id).or_insert_with(|| count(row.replication));
        }
        wanted
    }

    /// One data range.
    pub fn range(&self, id: RangeId) -> Option<&Arc<RangeRow>> {
        self.ranges.get(&id)
    }

    /// Nodes that may hold data.
    pub(super) fn holders(&self) -> impl Iterator<Item = NodeId> {
        self.members()
            .filter(|member| member.holds_data())
            .filter_map(|member| member.node)
    }

    /// The range that a namespace of this factor gets as its home.
    pub(super) fn pick_home(&mut self, replication: Option<u8>) -> Result<RangeId, CatalogError> {
        self.grow_pool(replication);
        let home = self
            .pool(replication)
            .min_by_key(|r| (r.homes, r.partitions, r.id))
            .map(|r| r.id)
            .ok_or_else(|| CatalogError::InvalidValue("no member can hold a range".into()))?;
        self.change_range(home, |r| r.homes += 1);
        Ok(home)
    }

    fn pool(&self, replication: Option<u8>) -> impl Iterator<Item = &Arc<RangeRow>> {
        self.ranges().filter(move |row| row.replication == replication)
    }

    fn grow_pool(&mut self, replication: Option<u8>) {
        let mut holds: BTreeMap<NodeId, usize> = self.holders().map(|node| (node, 0)).collect();
        if holds.is_empty() {
            return;
        }
        for row in self.ranges() {
            for voter in &row.voters {
                holds.entry(*voter).and_modify(|count| *count += 1);
            }
        }
        let wanted = (2 * holds.len() as u32).clamp(*RANGES.start(), *RANGES.end());
        let most = holds.len().min(usize::from(MAX_REPLICAS));
        let replicas = replication.map_or(most, |n| usize::from(n).clamp(1, most));
        let there = self.pool(replication).count() as u32;
        for _ in there..wanted {
            let mut least: Vec<(usize, NodeId)> = holds.iter().map(|(node, count)| (*count, *node)).collect();
            least.sort_unstable();
            let mut voters: Vec<NodeId> = least.into_iter().take(replicas).map(|(_, node)| node).collect();
            voters.sort_unstable();
            for voter in &voters {
                holds.entry(*voter).and_modify(|count| *count += 1);
            }
            let id = RangeId(self.next.range);
            self.next.range += 1;
            self.ranges.insert(
                id,
                Arc::new(RangeRow {
                    id,
                    founders: voters.clone(),
                    voters,
                    moved: false,
                    leader: None,
                    replication,
                    partitions: 0,
                    homes: 0,
                }),
            );
        }
    }

    /// Deals new partitions over the pool of a factor, each to the range that has fewest.
    pub(super) fn deal(&mut self, replication: Option<u8>, partitions: &mut Vec<RangeId>, wanted: u32) {
        self.grow_pool(replication);
        let mut load: Vec<(u32, RangeId)> = self.pool(replication).map(|r| (r.partitions, r.id)).collect();
        while (partitions.len() as u32) < wanted {
            let Some(least) = load.iter_mut().min() else { return };
            least.0 += 1;
            partitions.push(least.1);
        }
        for (count, id) in load {
            self.change_range(id, |r| r.partitions = count);
        }
    }

    pub(super) fn change_range(&mut self, id: RangeId, change: impl FnOnce(&mut RangeRow)) {
        if let Some(row) = self.ranges.get_mut(&id) {
            change(Arc::make_mut(row));
        }
    }
}
