//! What the clients said, and whether it can be: nothing lost, doubled or reordered.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a client says at one moment: see tests/clients/balanced.py.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Said {
    /// Microseconds since the epoch, by the one clock of this machine.
    pub at: u64,
    /// Partition, offset, number.
    pub acked: Vec<(i32, i64, u64)>,
    pub sent: Option<u64>,
    /// Partition, offset, value.
    pub read: Vec<(i32, i64, String)>,
    /// Partition, next offset.
    pub committed: Vec<(i32, i64)>,
    pub assigned: Vec<i32>,
    pub revoked: Vec<i32>,
    pub failed: Option<String>,
    pub left: bool,
}

/// Values of a partition, by offset.
pub type Log = BTreeMap<i32, Vec<String>>;

/// What all clients said.
#[derive(Default)]
pub struct History {
    said: BTreeMap<String, Vec<Said>>,
    // Counted as it comes: a long run says much.
    acked: BTreeMap<String, usize>,
    read: usize,
    ends: BTreeMap<i32, i64>,
}

impl History {
    pub fn add(&mut self, client: &str, said: Said) {
        *self.acked.entry(client.to_owned()).or_insert(0) += said.acked.len();
        self.read += said.read.len();
        for (partition, offset, _) in &said.read {
            let end = self.ends.entry(*partition).or_insert(0);
            *end = (offset + 1).max(*end);
        }
        self.said.entry(client.to_owned()).or_default().push(said);
    }

    /// Records that the client was told are stored.
    pub fn acked(&self, client: &str) -> usize {
        self.acked.get(client).copied().unwrap_or(0)
    }

    /// How many records the client sent, once it has ended producing.
    pub fn sent(&self, client: &str) -> Option<u64> {
        self.of(client).find_map(|said| said.sent)
    }

    /// Records read by anybody, those read again included.
    pub fn read(&self) -> usize {
        self.read
    }

    /// Next offset after the last that was read by anybody, by partition.
    pub fn ends(&self) -> &BTreeMap<i32, i64> {
        &self.ends
    }

    /// Longest time a client was told nothing of its records, in milliseconds.
    pub fn longest_silence(&self, client: &str) -> u64 {
        let told: Vec<u64> = self.of(client).filter(|s| !s.acked.is_empty()).map(|s| s.at).collect();
        let gaps = told.windows(2).map(|two| two[1].saturating_sub(two[0]) / 1000);
        gaps.max().unwrap_or(0)
    }

    fn of(&self, client: &str) -> impl Iterator<Item = &Said> {
        self.said.get(client).into_iter().flatten()
    }

    /// Compares what was said with what is stored.
    pub fn check(&self, log: &Log, partitions: i32) -> Result<(), String> {
        self.check_produced(log, partitions)?;
        self.check_acknowledged(log)?;
        self.check_consumed(log)
    }

    /// Each client's records are there, once each, in the order in which they were sent.
    fn check_produced(&self, log: &Log, partitions: i32) -> Result<(), String> {
        let mut next: BTreeMap<(&str, i32), u64> = BTreeMap::new();
        for (partition, values) in log {
            for (offset, value) in values.iter().enumerate() {
                let (client, number) = split(value)?;
                let expected = next.entry((client, *partition)).or_insert(*partition as u64);
                if number != *expected {
                    return Err(format!(
                        "{value} at {partition}/{offset} where {client}-{expected} belongs"
                    ));
                }
                *expected += partitions as u64;
            }
        }
        for client in self.said.keys() {
            let sent = self
                .sent(client)
                .ok_or_else(|| format!("{client} did not end producing"))?;
            for partition in 0..partitions {
                let first = partition as u64;
                let count = sent.saturating_sub(first).div_ceil(partitions as u64);
                let end = first + count * partitions as u64;
                let stored = *next.get(&(client.as_str(), partition)).unwrap_or(&first);
                if stored != end {
                    return Err(format!("{client}-{stored} is missing in partition {partition}"));
                }
            }
        }
        Ok(())
    }

    /// Where a client was told its record is, there it is; and it was told of each.
    fn check_acknowledged(&self, log: &Log) -> Result<(), String> {
        for client in self.said.keys() {
            let mut told = BTreeSet::new();
            for (partition, offset, number) in self.of(client).flat_map(|said| &said.acked) {
                if !told.insert(number) {
                    return Err(format!("{client}-{number} was acknowledged twice"));
                }
                if *offset < 0 {
                    // librdkafka: the answer got lost, and one behind it told that this was stored. Where, nobody knows.
                    continue;
                }
                let stored = stored(log, *partition, *offset);
                if stored != Some(&format!("{client}-{number}")) {
                    return Err(format!(
                        "{client}-{number} was acknowledged at {partition}/{offset}, where {stored:?} is"
                    ));
                }
            }
            let sent = self.sent(client).unwrap_or(0);
            if told.len() as u64 != sent {
                return Err(format!("{client} sent {sent} and was told of {}", told.len()));
            }
        }
        Ok(())
    }

    /// Whoever gets a partition begins where it was committed to, never behind what nobody read; then reads each record, once, as it is
    /// stored; and in the end all were read.
    fn check_consumed(&self, log: &Log) -> Result<(), String> {
        let mut all: Vec<(&str, &Said)> = self
            .said
            .iter()
            .flat_map(|(client, said)| said.iter().map(move |said| (client.as_str(), said)))
            .collect();
        // Stable: what one client said stays in order.
        all.sort_by_key(|(_, said)| said.at);
        let mut committed: BTreeMap<i32, i64> = BTreeMap::new();
        let mut furthest: BTreeMap<i32, i64> = BTreeMap::new();
        // Where each reads on; nothing before the first record.
        let mut owned: BTreeMap<(&str, i32), Option<i64>> = BTreeMap::new();
        for (client, said) in all {
            for partition in &said.assigned {
                owned.insert((client, *partition), None);
            }
            for (partition, offset, value) in &said.read {
                let at = format!("{client} at {partition}/{offset}");
                let Some(next) = owned.get_mut(&(client, *partition)) else {
                    return Err(format!("{at}: reads a partition that it was not given"));
                };
                let end = furthest.entry(*partition).or_insert(0);
                match *next {
                    Some(next) if next != *offset => return Err(format!("{at}: reads on, not at {next}")),
                    Some(_) => {}
                    None => {
                        let known = *committed.get(partition).unwrap_or(&0);
                        if *offset < known {
                            return Err(format!("{at}: begins again before {known}, which was committed"));
                        }
                        if *offset > *end {
                            return Err(format!("{at}: passes over what follows {end}"));
                        }
                    }
                }
                if stored(log, *partition, *offset) != Some(value) {
                    return Err(format!("{at}: {value} is not what is stored"));
                }
                *next = Some(offset + 1);
                *end = (offset + 1).max(*end);
            }
            for (partition, next) in &said.committed {
                committed.insert(*partition, *next);
            }
            for partition in &said.revoked {
                owned.remove(&(client, *partition));
            }
        }
        for (partition, values) in log {
            let end = *furthest.get(partition).unwrap_or(&0);
            if end != values.len() as i64 {
                return Err(format!(
                    "partition {partition} was read up to {end} of {}",
                    values.len()
                ));
            }
        }
        Ok(())
    }
}

fn stored(log: &Log, partition: i32, offset: i64) -> Option<&String> {
    log.get(&partition)?.get(usize::try_from(offset).ok()?)
}

fn split(value: &str) -> Result<(&str, u64), String> {
    value
        .split_once('-')
        .and_then(|(client, number)| Some((client, number.parse().ok()?)))
        .ok_or_else(|| format!("{value} is nobody's"))
}

/// Two clients, two partitions, all well.
fn sound() -> (History, Log) {
    let values = |all: &[&str]| all.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
    let log = Log::from([(0, values(&["a-0", "b-0", "a-2"])), (1, values(&["b-1", "a-1", "a-3"]))]);
    let mut history = History::default();
    let read = |partition: i32, from: usize, to: usize| {
        (from..to)
            .map(|at| (partition, at as i64, log[&partition][at].clone()))
            .collect()
    };
    let mut at = 0;
    let mut say = |client: &str, said: Said| {
        at += 1;
        history.add(client, Said { at, ..said });
    };
    let acked = |acked: &[(i32, i64, u64)]| Said {
        acked: acked.to_vec(),
        ..Said::default()
    };
    say("a", acked(&[(0, 0, 0), (1, 1, 1), (0, 2, 2), (1, 2, 3)]));
    say("b", acked(&[(0, 1, 0), (1, 0, 1)]));
    say(
        "a",
        Said {
            sent: Some(4),
            assigned: vec![0, 1],
            ..Said::default()
        },
    );
    say(
        "b",
        Said {
            sent: Some(2),
            ..Said::default()
        },
    );
    say(
        "a",
        Said {
            read: read(0, 0, 2),
            committed: vec![(0, 1)],
            ..Said::default()
        },
    );
    say(
        "a",
        Said {
            revoked: vec![0],
            ..Said::default()
        },
    );
    say(
        "b",
        Said {
            assigned: vec![0],
            ..Said::default()
        },
    );
    // One that was read, but not committed, is read again.
    say(
        "b",
        Said {
            read: read(0, 1, 3),
            ..Said::default()
        },
    );
    say(
        "a",
        Said {
            read: read(1, 0, 3),
            ..Said::default()
        },
    );
    (history, log)
}

fn wrong(what: impl FnOnce(&mut History, &mut Log)) -> String {
    let (mut history, mut log) = sound();
    what(&mut history, &mut log);
    history.check(&log, 2).expect_err("it is wrong")
}

#[test]
fn a_sound_history_is_accepted() {
    let (history, log) = sound();
    assert_eq!(history.check(&log, 2), Ok(()));
}

#[test]
fn what_is_lost_doubled_reordered_or_passed_over_is_found() {
    let said = |history: &mut History, client: &str, at: usize, change: &dyn Fn(&mut Said)| {
        change(&mut history.said.get_mut(client).expect("a client")[at]);
    };
    for (expected, error) in [
        (
            "a-2 is missing",
            wrong(|_, log| drop(log.get_mut(&0).expect("it").pop())),
        ),
        (
            "where b-2 belongs",
            wrong(|_, log| log.get_mut(&0).expect("it")[2] = "b-0".into()),
        ),
        (
            "where a-1 belongs",
            wrong(|_, log| log.get_mut(&1).expect("it").swap(1, 2)),
        ),
        (
            "acknowledged at",
            wrong(|history, _| said(history, "a", 0, &|s| s.acked[0].1 = 1)),
        ),
        (
            "acknowledged twice",
            wrong(|history, _| said(history, "a", 0, &|s| s.acked.push((0, 0, 0)))),
        ),
        (
            "was told of 3",
            wrong(|history, _| said(history, "a", 0, &|s| s.acked.truncate(3))),
        ),
        (
            "begins again before 2",
            wrong(|history, _| said(history, "a", 2, &|s| s.committed[0].1 = 2)),
        ),
        (
            "passes over",
            wrong(|history, _| said(history, "a", 2, &|s| drop(s.read.drain(..)))),
        ),
        (
            "not at 2",
            wrong(|history, _| said(history, "b", 3, &|s| s.read[1].1 = 1)),
        ),
        (
            "not what is stored",
            wrong(|history, _| said(history, "b", 3, &|s| s.read[1].2 = "a-9".into())),
        ),
        (
            "not given",
            wrong(|history, _| said(history, "b", 2, &|s| s.assigned.clear())),
        ),
        (
            "was read up to 2 of 3",
            wrong(|history, _| said(history, "a", 4, &|s| drop(s.read.pop()))),
        ),
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
}
