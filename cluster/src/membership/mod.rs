//! Who belongs to the store, what they hold, and how that comes about.
//!
//! ```text
//!   TessariQL --> catalog rows (members, ranges)          what is declared and wanted; every member has them
//!                     |            ^
//!                     |            | Place, Bind, Joined, Left      controller, placement: on the catalog's leader
//!                     v            |
//!   each range's leader: steps     +-- bulletins: what each member tells of itself and of what it leads
//!   (learner, voter, hand over), one change at a time
//! ```
//!
//! * [`placement`]: who should hold and lead each range.

// Until the loops that carry them out are there, tests are the only callers of some parts.
mod bulletin;
mod controller;
mod placement;
mod steps;

pub use bulletin::{Board, Bulletin, RangeReport, ReplicaReport, Seen};
pub use controller::{commands, range_goal, system_goal};
pub use placement::{Wanted, placement};
pub use steps::{Goal, Replica, Step, next_step};
