//! What must hold, one file each. Each is shown to fail by a bug that is put in on purpose (`planted`).

mod acknowledged;
mod catalog;
mod leaders;
mod liveness;
mod offsets;
mod positions;
mod replicas;
mod watermarks;

pub use liveness::{FORMING, HEALING, NAME as LIVENESS};

use crate::history::Violation;

/// All of them.
#[derive(Default)]
pub struct Invariants {
    pub acknowledged: acknowledged::Acknowledged,
    pub catalog: catalog::Catalogs,
    pub leaders: leaders::Leaders,
    pub offsets: offsets::Offsets,
    pub positions: positions::Positions,
    pub replicas: replicas::Replicas,
    pub watermarks: watermarks::Watermarks,
}

type Checked = Result<(), Violation>;

/// `Err` where the condition does not hold.
fn check(invariant: &'static str, holds: bool, what: impl FnOnce() -> String) -> Checked {
    match holds {
        true => Ok(()),
        false => Err(Violation {
            invariant,
            what: what(),
        }),
    }
}
