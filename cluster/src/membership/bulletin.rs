//! What members tell each other of themselves, and what is known of all of them from it.

use crate::catalog::Told;
use crate::ids::{NodeId, RangeId, SYSTEM_RANGE};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A member that told nothing for this long is silent.
pub(super) const SILENT: Duration = Duration::from_secs(3);
/// Time between two bulletins of a member.
pub(super) const EVERY: Duration = Duration::from_millis(500);

/// How far a member of a range is, as the range's leader tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaReport {
    /// Whether it votes.
    pub voter: bool,
    /// Entries it lacks.
    pub lag_entries: u64,
    /// Bytes it lacks, as far as the leader can tell.
    pub lag_bytes: u64,
    /// Whether the leader hears it.
    pub heard: bool,
}

impl ReplicaReport {
    /// Whether it may become a voter, or lead.
    pub fn near(&self) -> bool {
        self.lag_entries <= super::steps::NEAR_ENTRIES && self.lag_bytes <= super::steps::NEAR_BYTES
    }
}

/// A range as its leader tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeReport {
    /// The leader's term.
    pub term: u64,
    /// All members, the leader too.
    pub members: BTreeMap<NodeId, ReplicaReport>,
}

/// What a member tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bulletin {
    /// Where it is reached.
    pub told: Told,
    /// The ranges it leads.
    pub led: BTreeMap<RangeId, RangeReport>,
}

/// The last bulletin of each member, and when it came.
type LastTold = BTreeMap<NodeId, (Arc<Bulletin>, Instant)>;

/// What is known of the members. Cheap to clone; all clones are the same.
#[derive(Clone, Default)]
pub struct Board {
    told: Arc<Mutex<LastTold>>,
}

/// The board at one moment.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The last bulletin of every member that told one.
    pub bulletins: BTreeMap<NodeId, Arc<Bulletin>>,
    /// Those that told one lately.
    pub live: BTreeSet<NodeId>,
}

impl Board {
    /// `node` told this.
    pub fn put(&self, node: NodeId, bulletin: Bulletin) {
        self.told.lock().insert(node, (Arc::new(bulletin), Instant::now()));
    }

    /// Forgets who is no member any more.
    pub fn retain(&self, members: impl Fn(NodeId) -> bool) {
        self.told.lock().retain(|node, _| members(*node));
    }

    /// What is known now.
    pub fn seen(&self) -> Seen {
        let told = self.told.lock();
        let lately = |at: &Instant| at.elapsed() < SILENT;
        Seen {
            bulletins: told
                .iter()
                .map(|(node, (bulletin, _))| (*node, bulletin.clone()))
                .collect(),
            live: told
                .iter()
                .filter(|(_, (_, at))| lately(at))
                .map(|(node, _)| *node)
                .collect(),
        }
    }
}

impl Seen {
    /// What the leader of the latest term known tells of a range, if it told lately.
    pub fn range(&self, range: RangeId) -> Option<&RangeReport> {
        let live = self.bulletins.iter().filter(|(node, _)| self.live.contains(node));
        live.filter_map(|(_, bulletin)| bulletin.led.get(&range))
            .max_by_key(|report| report.term)
    }

    /// How far a node is with the catalog.
    pub fn catalog(&self, node: NodeId) -> Option<&ReplicaReport> {
        self.range(SYSTEM_RANGE)?.members.get(&node)
    }

    /// Ranges that a node leads, as far as is known.
    pub fn led(&self, node: NodeId) -> usize {
        let bulletin = self.bulletins.get(&node).filter(|_| self.live.contains(&node));
        let newest = |(range, report): &(&RangeId, &RangeReport)| {
            self.range(**range).is_some_and(|newest| newest.term == report.term)
        };
        bulletin.map_or(0, |bulletin| bulletin.led.iter().filter(newest).count())
    }

    /// Whether a node is near the end of every range it holds, as far as is known.
    pub fn near(&self, node: NodeId) -> bool {
        let mut reports = self.bulletins.values().flat_map(|bulletin| bulletin.led.keys());
        reports.all(|range| {
            let report = self.range(*range).and_then(|report| report.members.get(&node));
            report.is_none_or(ReplicaReport::near)
        })
    }

    /// The most that a node lacks of any range it holds: entries, and bytes in all.
    pub fn lag(&self, node: NodeId) -> (u64, u64) {
        let ranges: BTreeSet<RangeId> = self.bulletins.values().flat_map(|b| b.led.keys().copied()).collect();
        let reports = ranges.iter().filter_map(|range| self.range(*range)?.members.get(&node));
        reports.fold((0, 0), |(entries, bytes), report| {
            (entries.max(report.lag_entries), bytes + report.lag_bytes)
        })
    }
}
