//! What a seed makes happen: the store, who works on it, and what befalls it.
//!
//! Depends on nothing but the seed and the number of nodes. Times are milliseconds of the simulation.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// How the network is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weather {
    /// Least and most time that a piece takes, in milliseconds.
    pub delay: (u64, u64),
    /// How many pieces take up to twenty times the most.
    pub spikes: f64,
    /// How many calls are never answered.
    pub loss: f64,
    /// How many votes and hand-overs come twice.
    pub twice: f64,
}

impl Weather {
    /// As within a data centre.
    pub const CALM: Self = Self {
        delay: (1, 3),
        spikes: 0.0,
        loss: 0.0,
        twice: 0.0,
    };
}

/// What befalls the store for a time. Nodes are numbered from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Nodes of `side` don't reach the others, nor (`both`) the others them. With `reset` the connections break at once.
    Cut {
        /// One of the sides.
        side: Vec<usize>,
        /// In both directions.
        both: bool,
        /// Who is cut off notices at once.
        reset: bool,
    },
    /// The network is worse.
    Storm(Weather),
    /// A node's process ends; with the power, its disk loses what was not synced. It starts again at the end.
    Kill {
        /// The node.
        node: usize,
        /// The power goes.
        power: bool,
        /// Its peers don't notice at once.
        silent: bool,
    },
    /// The power of all nodes goes.
    Blackout,
    /// A node stands still.
    Pause {
        /// The node.
        node: usize,
    },
    /// A sync of a node's disk fails. The node stops by itself, and starts again at the end.
    DiskError {
        /// The node.
        node: usize,
        /// How many syncs go well before.
        after: u64,
    },
    /// A range's leader hands over.
    HandOver {
        /// Which of the store's ranges, counted round.
        range: usize,
        /// To whom.
        to: usize,
    },
}

/// A fault, and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// When it begins, counted from the end of the forming.
    pub at: u64,
    /// When it ends.
    pub until: u64,
    /// What it is.
    pub fault: Fault,
}

/// A simulation.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of partitions of the topic.
    pub partitions: u32,
    /// Number of idempotent producers; each writes to two partitions.
    pub producers: u32,
    /// Number of groups that commit offsets.
    pub groups: u32,
    /// How long faults befall it.
    pub length: u64,
    /// Between two checkpoints of a range.
    pub checkpoint: u64,
    /// Bytes of commands after which a checkpoint is taken.
    pub checkpoint_bytes: u64,
    /// Bytes of log kept for those who are behind.
    pub keep_bytes: u64,
    /// The longest sync of a log.
    pub slow_sync: u64,
    /// Pause of a producer between its windows, at most.
    pub pause: u64,
    /// In order of their beginnings.
    pub episodes: Vec<Episode>,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64, nodes: usize) -> Self {
        let mut random = StdRng::seed_from_u64(seed ^ 0x7e55_a21d_b000_0001);
        let r = &mut random;
        let length = r.random_range(5_000..10_000);
        let mut plan = Self {
            nodes,
            partitions: r.random_range(2..=4),
            producers: r.random_range(2..=3),
            groups: r.random_range(1..=2),
            length,
            checkpoint: r.random_range(300..4_000),
            checkpoint_bytes: 1 << r.random_range(12..16),
            keep_bytes: 1 << r.random_range(8..16),
            slow_sync: *pick(r, &[0, 2, 10, 40]),
            pause: *pick(r, &[20, 60, 200]),
            episodes: Vec::new(),
        };
        // Some seeds know few kinds of faults, so that each kind is also met alone.
        let kinds: Vec<u32> = {
            let mut all: Vec<u32> = (0..8).collect();
            all.shuffle(r);
            all.truncate(r.random_range(1..=8));
            all
        };
        let mut at = r.random_range(0..1_000);
        while at < length {
            let kind = *pick(r, &kinds);
            let fault = fault(r, kind, nodes);
            let lasts = match fault {
                Fault::HandOver { .. } => 1,
                Fault::Kill { .. } | Fault::Blackout | Fault::DiskError { .. } => r.random_range(50..4_000),
                _ => r.random_range(100..7_000),
            };
            plan.episodes.push(Episode {
                at,
                until: (at + lasts).min(length),
                fault,
            });
            at += r.random_range(100..2_500);
        }
        plan
    }
}

fn pick<'a, T>(random: &mut StdRng, of: &'a [T]) -> &'a T {
    &of[random.random_range(0..of.len())]
}

fn fault(r: &mut StdRng, kind: u32, nodes: usize) -> Fault {
    let node = r.random_range(0..nodes);
    match kind {
        0 | 1 => {
            let mut all: Vec<usize> = (0..nodes).collect();
            all.shuffle(r);
            all.truncate(r.random_range(1..nodes));
            Fault::Cut {
                side: all,
                both: kind == 0,
                reset: r.random_bool(0.3),
            }
        }
        2 => Fault::Storm(Weather {
            delay: *pick(r, &[(1, 20), (5, 60), (50, 200)]),
            spikes: *pick(r, &[0.0, 0.02, 0.1]),
            loss: *pick(r, &[0.0, 0.02, 0.1]),
            twice: *pick(r, &[0.0, 0.3]),
        }),
        3 | 4 => Fault::Kill {
            node,
            power: kind == 3,
            silent: r.random(),
        },
        5 if r.random_bool(0.5) => Fault::Blackout,
        5 => Fault::DiskError {
            node,
            after: r.random_range(0..30),
        },
        6 => Fault::Pause { node },
        _ => Fault::HandOver {
            range: r.random_range(0..8),
            to: node,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_plan() {
        for seed in 0..50 {
            let plan = Plan::new(seed, 3);
            assert_eq!(plan.episodes, Plan::new(seed, 3).episodes);
            assert!(plan.episodes.iter().all(|e| e.at < e.until && e.until <= plan.length));
        }
        assert_ne!(Plan::new(1, 3).episodes, Plan::new(2, 3).episodes);
    }

    #[test]
    fn every_kind_of_fault_comes_about() {
        let plans: Vec<_> = (0..100).flat_map(|seed| Plan::new(seed, 5).episodes).collect();
        let has = |kind: fn(&Fault) -> bool| plans.iter().any(|e| kind(&e.fault));
        assert!(has(|f| matches!(f, Fault::Cut { both: false, .. })));
        assert!(has(|f| matches!(f, Fault::Cut { both: true, .. })));
        assert!(has(|f| matches!(f, Fault::Storm(_))));
        assert!(has(|f| matches!(f, Fault::Kill { power: true, .. })));
        assert!(has(|f| matches!(f, Fault::Kill { power: false, .. })));
        assert!(has(|f| matches!(f, Fault::Blackout)));
        assert!(has(|f| matches!(f, Fault::Pause { .. })));
        assert!(has(|f| matches!(f, Fault::DiskError { .. })));
        assert!(has(|f| matches!(f, Fault::HandOver { .. })));
    }
}
