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
//! * [`Membership`]: the loops that carry it out, and what people are told.
//! * [`Identity`]: what peers are told of this node, and where they are.
//! * [`placement`]: who should hold and lead each range.

mod adoption;
mod bulletin;
mod controller;
mod identity;
mod listen;
mod overview;
mod placement;
mod rest;
mod run;
mod service;
mod steps;

pub use identity::{Addresses, Identity, is_occupied};
pub use overview::{MemberState, Overview};
pub use run::{Membership, MembershipParts, Running, Store};
