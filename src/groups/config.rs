//! What the coordinator can be told.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Bounds and times of all groups.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// How long the first member of an empty group waits for others (`group.initial.rebalance.delay.ms`). Default 0, as in
    /// the configuration Kafka ships: a lone consumer starts at once, and further ones cost one rebalance each.
    pub initial_rebalance_delay: Duration,
    /// Session timeouts accepted (`group.min.session.timeout.ms`, `group.max.session.timeout.ms`). Default 6 s to 30 min.
    pub session_timeout: RangeInclusive<Duration>,
    /// How long a new member's first JoinGroup may wait before the member is given up. Default 5 min.
    pub new_member_timeout: Duration,
    /// Most members of one group (`group.max.size`). Default 10,000.
    pub max_members: usize,
    /// Most groups in memory. Default 100,000.
    pub max_groups: usize,
    /// Most bytes of members' metadata and assignments over all groups, about. Default 256 MiB.
    pub max_bytes: usize,
    /// Most bytes of metadata with a committed offset (`offset.metadata.max.bytes`). Default 4096.
    pub max_offset_metadata: usize,
    /// How long an empty group stays in memory; without offsets it is forgotten for good after that. Default 10 min.
    pub forget_empty: Duration,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            initial_rebalance_delay: Duration::ZERO,
            session_timeout: Duration::from_secs(6)..=Duration::from_secs(30 * 60),
            new_member_timeout: Duration::from_secs(5 * 60),
            max_members: 10_000,
            max_groups: 100_000,
            max_bytes: 256 << 20,
            max_offset_metadata: 4096,
            forget_empty: Duration::from_secs(10 * 60),
        }
    }
}
