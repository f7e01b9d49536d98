//! An offset that is read twice, anywhere, gives the same bytes.

use super::{Checked, check};
use std::collections::BTreeMap;

const NAME: &str = "offsets";

#[derive(Default)]
pub struct Offsets {
    /// What the batch that begins at an offset comes to.
    batches: BTreeMap<(u32, i64), (u64, u128)>,
}

impl Offsets {
    /// A batch was read through a node.
    pub fn read(&mut self, partition: u32, base: i64, sum: u64, node: u128) -> Checked {
        let (known, by) = *self.batches.entry((partition, base)).or_insert((sum, node));
        check(NAME, known == sum, || {
            format!("partition {partition}: the batch at {base} is another through node {node} than through node {by}")
        })
    }
}
