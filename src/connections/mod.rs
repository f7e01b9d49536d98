//! What front doors that keep connections open have in common: how many there may be, when one is given up, and what the
//! requests and answers of all of them hold of memory. It knows no protocol: a port is given one ([`Port::open`]).
//!
//! ```text
//!   Port: accepted -> Registry::enter (in all, per address, newcomers) -> Pulse: when it last moved
//!                          ^ reap, once a second: silent, stuck, not signed in        Counts: why it was closed
//!   bytes arrive -> Budget::arriving -> whole -> Budget::memory -> answer -> Budget::answers
//! ```

mod answers;
mod counts;
mod memory;
mod port;
mod pulse;
mod refusals;
mod registry;

pub use memory::Budget;

pub(crate) use answers::{Answers, Purse, Room, SMALL};
pub(crate) use counts::Reason;
pub(crate) use memory::{Held, Memory};
pub(crate) use port::{Port, Protocol, Rules};
pub(crate) use pulse::{Patience, Pulse, Tired};
pub(crate) use refusals::Refusals;
pub(crate) use registry::Most;
