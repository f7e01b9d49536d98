//! What is asked.

use crate::session::Session;
use anyhow::Result;

mod batches;
mod bodies;
mod configs;
mod fetches;
mod groups;
mod metadata;
mod offsets;
mod positions;
mod produce;
mod producers;
mod protocol;
mod requests;
mod topics;

/// A name and the steps taken under it. Topics and groups of a scenario begin with its name, which no other's begins
/// with.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Letters, digits and underscores.
    pub name: &'static str,
    /// Takes the steps.
    pub run: fn(&mut Session) -> Result<()>,
}

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    [
        protocol::SCENARIOS,
        metadata::SCENARIOS,
        produce::SCENARIOS,
        batches::SCENARIOS,
        producers::SCENARIOS,
        fetches::SCENARIOS,
        positions::SCENARIOS,
        topics::SCENARIOS,
        configs::SCENARIOS,
        groups::SCENARIOS,
        offsets::SCENARIOS,
        bodies::SCENARIOS,
    ]
    .concat()
}

/// A table entry.
const fn scenario(name: &'static str, run: fn(&mut Session) -> Result<()>) -> Scenario {
    Scenario { name, run }
}
