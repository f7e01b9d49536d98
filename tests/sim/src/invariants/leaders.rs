//! A (range, term), and so a (partition, epoch), has one leader for ever.

use super::{Checked, check};
use cluster::ids::{NodeId, RangeId};
use std::collections::BTreeMap;

const NAME: &str = "leaders";

#[derive(Default)]
pub struct Leaders {
    of: BTreeMap<(RangeId, u64), (NodeId, NodeId)>,
}

impl Leaders {
    /// `teller` says that `leader` leads.
    pub fn tell(&mut self, teller: NodeId, range: RangeId, term: u64, leader: NodeId) -> Checked {
        let (known, first) = *self.of.entry((range, term)).or_insert((leader, teller));
        check(NAME, known == leader, || {
            format!(
                "range {range} term {term}: node {} leads by node {}, node {} by node {}",
                known.0, first.0, leader.0, teller.0
            )
        })
    }
}
