//! A group's committed offset never goes back once it was acknowledged.

use super::{Checked, check};
use std::collections::BTreeMap;

const NAME: &str = "positions";

#[derive(Default)]
pub struct Positions {
    /// By group: acknowledged, and the largest that was tried.
    groups: BTreeMap<u32, (i64, i64)>,
}

impl Positions {
    /// Acknowledged so far.
    pub fn acknowledged(&self, group: u32) -> i64 {
        self.groups.get(&group).map_or(0, |(acknowledged, _)| *acknowledged)
    }

    /// A commit is tried.
    pub fn tried(&mut self, group: u32, offset: i64) {
        let known = self.groups.entry(group).or_default();
        known.1 = offset.max(known.1);
    }

    /// It is acknowledged.
    pub fn acknowledge(&mut self, group: u32, offset: i64) {
        let known = self.groups.entry(group).or_default();
        known.0 = offset.max(known.0);
    }

    /// A look that began when `before` was acknowledged found this.
    pub fn read(&mut self, group: u32, before: i64, offset: i64) -> Checked {
        let tried = self.groups.get(&group).map_or(0, |(_, tried)| *tried);
        check(NAME, (before..=tried).contains(&offset), || {
            format!("group {group} is at {offset}; {before} was acknowledged before, {tried} tried")
        })?;
        // What was read once is as good as acknowledged.
        self.acknowledge(group, offset);
        Ok(())
    }
}
