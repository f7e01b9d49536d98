//! What is done to members, drawn from a seed: the same seed and tools give the same faults in the same order.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fmt;
use std::time::Duration;

/// What can be done here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// Ways between members can be cut and slowed.
    pub net: bool,
    /// Disks can be filled.
    pub disk: bool,
    /// Clocks can be set.
    pub clock: bool,
}

/// Something done to members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Fault {
    /// kill -9; started again when healed.
    Kill { member: usize },
    /// SIGSTOP, later SIGCONT.
    Pause { member: usize },
    /// Reached by nobody.
    Cut { member: usize },
    /// Nothing goes from one to the other.
    CutWay { from: usize, to: usize },
    /// So many kilobits a second.
    Slow { member: usize, kilobits: u32 },
    /// No space on its disk.
    Full { member: usize },
    /// Its clock is so many seconds off.
    Clock { member: usize, seconds: i64 },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill { member } => write!(f, "kill {member}"),
            Self::Pause { member } => write!(f, "pause {member}"),
            Self::Cut { member } => write!(f, "cut {member} off"),
            Self::CutWay { from, to } => write!(f, "cut the way from {from} to {to}"),
            Self::Slow { member, kilobits } => write!(f, "slow {member} to {kilobits} kbit/s"),
            Self::Full { member } => write!(f, "fill the disk of {member}"),
            Self::Clock { member, seconds } => write!(f, "set the clock of {member} {seconds:+} s"),
        }
    }
}

/// Faults that are there together for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done, each to another member where that matters.
    pub faults: Vec<Fault>,
    /// For how long.
    pub hold: Duration,
    /// How long nothing is done afterwards.
    pub quiet: Duration,
}

/// Steps without end.
pub struct Schedule {
    random: StdRng,
    members: usize,
    tools: Tools,
}

impl Schedule {
    /// Steps for so many members, at least two.
    pub fn new(seed: u64, members: usize, tools: Tools) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            members,
            tools,
        }
    }

    fn fault(&mut self, member: usize) -> Fault {
        let Tools { net, disk, clock } = self.tools;
        let kinds = [true, true, true, net, net, net, disk, clock];
        let kind = loop {
            let kind = self.random.random_range(0..kinds.len());
            if kinds[kind] {
                break kind;
            }
        };
        match kind {
            0 | 1 => Fault::Kill { member },
            2 => Fault::Pause { member },
            3 => Fault::Cut { member },
            4 => Fault::CutWay {
                from: member,
                to: (member + self.random.random_range(1..self.members)) % self.members,
            },
            5 => Fault::Slow {
                member,
                kilobits: self.random.random_range(500..8000),
            },
            6 => Fault::Full { member },
            _ => Fault::Clock {
                member,
                seconds: self.random.random_range(-3000..3000),
            },
        }
    }
}

impl Iterator for Schedule {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let first = self.random.random_range(0..self.members);
        let mut faults = vec![self.fault(first)];
        // Sometimes more than the store can bear: then nothing works for a while, and nothing may be lost.
        if self.random.random_bool(0.25) {
            let second = (first + self.random.random_range(1..self.members)) % self.members;
            faults.push(self.fault(second));
        }
        let millis = |random: &mut StdRng, range| Duration::from_millis(random.random_range(range));
        Some(Step {
            faults,
            hold: millis(&mut self.random, 100..6000),
            quiet: millis(&mut self.random, 200..4000),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_steps_and_all_sorts_of_faults() {
        let all = Tools {
            net: true,
            disk: true,
            clock: true,
        };
        let steps = |seed| Schedule::new(seed, 3, all).take(300).collect::<Vec<_>>();
        assert_eq!(steps(7), steps(7));
        assert_ne!(steps(7), steps(8));
        let faults: Vec<Fault> = steps(7).into_iter().flat_map(|step| step.faults).collect();
        let kinds: std::collections::HashSet<_> = faults.iter().map(std::mem::discriminant).collect();
        assert_eq!(kinds.len(), 7);
        let own = |fault: &Fault| matches!(fault, Fault::CutWay { from, to } if from == to);
        assert!(!faults.iter().any(own));
    }

    #[test]
    fn only_what_is_possible_is_done() {
        for step in Schedule::new(1, 3, Tools::default()).take(300) {
            let possible = |fault: &Fault| matches!(fault, Fault::Kill { .. } | Fault::Pause { .. });
            assert!(step.faults.iter().all(possible), "{step:?}");
        }
    }
}
