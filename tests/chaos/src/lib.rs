//! Chaos: a cluster of real processes under load, to whose members things are done.
//!
//! ```text
//!   run --> members (processes, namespaces, disks, clocks) <-- faults, drawn from a seed
//!       --> work (producers, a group, askers of each member) --> history --> check (pure)
//! ```
//!
//! What can be done depends on the machine. Everywhere: kill -9 and SIGSTOP. As root: ways between members that are cut, both
//! ways or one way, and slowed (`ip netns`, `tc tbf`; random loss and delays would need `netem` in the kernel), disks that are
//! full (tmpfs), and clocks that jump (libfaketime, `apt-get install libfaketime`).
//!
//! Everything is bounded, and ends by itself.

mod check;
#[cfg(test)]
mod check_test;
mod faults;
mod history;
mod member;
mod net;
mod run;
mod wire;
mod work;

pub use check::{Wrong, check};
pub use faults::{Fault, Schedule, Step, Tools};
pub use history::{Event, Recorder};
pub use net::possible as namespaces_are_possible;
pub use run::{Outcome, Plan, judge, run};
