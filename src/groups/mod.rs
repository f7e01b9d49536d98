//! (in the making)

/// The consumer group coordinator.
pub struct Coordinator {}
