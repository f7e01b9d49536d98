//! Replicas of a partition hold the same bytes, as far as both hold any.

use super::{Checked, check};
use std::collections::BTreeMap;

const NAME: &str = "replicas";

#[derive(Default)]
pub struct Replicas {
    /// What the batch at an offset comes to, and on which node.
    batches: BTreeMap<(u32, i64), (u64, u128)>,
}

impl Replicas {
    /// A node holds a batch.
    pub fn hold(&mut self, partition: u32, base: i64, sum: u64, node: u128) -> Checked {
        let (known, by) = *self.batches.entry((partition, base)).or_insert((sum, node));
        check(NAME, known == sum, || {
            format!("partition {partition}: the batch at {base} is another on node {node} than on node {by}")
        })
    }

    /// Everything has healed and settled: where each replica ends.
    pub fn end(&self, partition: u32, ends: &BTreeMap<u128, (i64, i64)>) -> Checked {
        let mut all = ends.values();
        let first = all.next();
        check(NAME, all.all(|end| Some(end) == first), || {
            format!("partition {partition}: log starts and ends are {ends:?}")
        })
    }
}
