//! A store that has healed works again within bounded time, through every node.

/// Name of the invariant.
pub const NAME: &str = "liveness";
/// Milliseconds in which nodes become members and a topic can be written to.
pub const FORMING: u64 = 30_000;
/// Milliseconds in which, once everything has healed, every producer is acknowledged all it sent, every partition takes
/// records through every node, and all replicas hold the same.
pub const HEALING: u64 = 30_000;
