//! Catalogs that have applied as much are the same.

use super::{Checked, check};
use cluster::catalog::State;
use std::collections::BTreeMap;
use std::sync::Arc;

const NAME: &str = "catalog";

#[derive(Default)]
pub struct Catalogs {
    /// By version: the number of declarations that were applied.
    states: BTreeMap<u64, (Arc<State>, u128)>,
    /// What each node showed last.
    last: BTreeMap<u128, Arc<State>>,
}

impl Catalogs {
    /// A node shows its catalog.
    pub fn show(&mut self, node: u128, state: &Arc<State>) -> Checked {
        let last = self.last.insert(node, state.clone());
        if last.is_some_and(|last| Arc::ptr_eq(&last, state)) {
            return Ok(());
        }
        let (known, by) = self
            .states
            .entry(state.version())
            .or_insert_with(|| (state.clone(), node));
        check(NAME, known == state, || {
            format!(
                "version {} is another on node {node} than on node {by}",
                state.version()
            )
        })
    }
}
