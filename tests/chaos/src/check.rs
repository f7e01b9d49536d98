//! Judges a history: pure, so that each rule can be shown to fail.
//!
//! * What was acknowledged is read, once, in order, by whatever member it is asked of; nothing else is.
//! * An offset holds one record for ever, whoever tells of it.
//! * A partition has one leader in an epoch.
//! * A group's position never goes back, and a commit that was accepted is never forgotten.
//! * Once nothing is done to the members any more, all of it works again.

use crate::history::{Event, Millis};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is wrong with a history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Wrong {
    /// The history doesn't say what there was.
    NoBeginning,
    /// A producer gave up, though nobody may.
    GaveUp { partition: i32, number: u64, why: String },
    /// A record was acknowledged twice.
    AcknowledgedTwice { partition: i32, number: u64 },
    /// Two records were told to be, or seen, at one offset.
    OffsetDiffers {
        partition: i32,
        offset: i64,
        numbers: [u64; 2],
    },
    /// An acknowledged record is not read.
    Lost { partition: i32, number: u64, offset: i64 },
    /// A record is read twice.
    Doubled { partition: i32, number: u64, offset: i64 },
    /// A record is read behind a later one.
    Reordered { partition: i32, number: u64, after: u64 },
    /// A record that nobody sent is read.
    NeverSent { partition: i32, number: u64, offset: i64 },
    /// A member does not show an offset below the end.
    Unread { via: u32, partition: i32, offset: i64 },
    /// Members tell of different ends.
    EndsDiffer { partition: i32, ends: Vec<i64> },
    /// A partition has two leaders in an epoch.
    TwoLeaders {
        partition: i32,
        epoch: i32,
        leaders: [i32; 2],
    },
    /// A position is told that lies before one that was told, or accepted, earlier.
    PositionBack {
        group: String,
        partition: i32,
        from: i64,
        to: i64,
        via: u32,
        asked: Millis,
    },
    /// Nothing of this sort happened after the faults had ended.
    Dead { what: String },
}

/// All that is wrong, in no order that means anything; at most this many of each sort, as one cause shows many times.
pub const MOST: usize = 10;

/// Judges a history.
pub fn check(history: &[Event]) -> Vec<Wrong> {
    let Some(scene) = Scene::of(history) else {
        return vec![Wrong::NoBeginning];
    };
    let mut wrong = Vec::new();
    for rule in [records, leaders, positions, liveness] {
        wrong.extend(rule(history, &scene));
    }
    let mut counts = HashMap::new();
    wrong.retain(|wrong: &Wrong| {
        let count: &mut usize = counts.entry(std::mem::discriminant(wrong)).or_default();
        *count += 1;
        *count <= MOST
    });
    wrong
}

struct Scene {
    members: Vec<u32>,
    partitions: i32,
    groups: Vec<String>,
}

impl Scene {
    fn of(history: &[Event]) -> Option<Self> {
        history.iter().find_map(|event| match event {
            Event::Began {
                members,
                partitions,
                groups,
            } => Some(Self {
                members: members.clone(),
                partitions: *partitions,
                groups: groups.clone(),
            }),
            _ => None,
        })
    }
}

/// What is known of a partition.
#[derive(Default)]
struct Partition {
    sent: u64,
    /// By number.
    acknowledged: BTreeMap<u64, i64>,
    /// By offset, whoever told of it.
    held: BTreeMap<i64, u64>,
    /// By offset, what was read.
    read: BTreeMap<i64, u64>,
    /// By member: what it showed.
    shown: BTreeMap<u32, BTreeSet<i64>>,
    ends: BTreeMap<u32, i64>,
}

impl Partition {
    fn hold(&mut self, partition: i32, offset: i64, number: u64, wrong: &mut Vec<Wrong>) {
        // librdkafka takes a record for stored, without knowing where, when one behind it is acknowledged.
        if offset < 0 {
            return;
        }
        let held = *self.held.entry(offset).or_insert(number);
        if held != number {
            wrong.push(Wrong::OffsetDiffers {
                partition,
                offset,
                numbers: [held, number],
            });
        }
    }
}

fn records(history: &[Event], scene: &Scene) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let mut partitions: BTreeMap<i32, Partition> = (0..scene.partitions).map(|p| (p, Partition::default())).collect();
    for event in history {
        match event {
            Event::Acknowledged {
                partition,
                number,
                offset,
                ..
            } => {
                let of = partitions.entry(*partition).or_default();
                if of.acknowledged.insert(*number, *offset).is_some() {
                    wrong.push(Wrong::AcknowledgedTwice {
                        partition: *partition,
                        number: *number,
                    });
                }
                of.hold(*partition, *offset, *number, &mut wrong);
            }
            Event::GaveUp {
                partition, number, why, ..
            } => wrong.push(Wrong::GaveUp {
                partition: *partition,
                number: *number,
                why: why.clone(),
            }),
            Event::Sent { partition, count } => partitions.entry(*partition).or_default().sent = *count,
            Event::Read {
                via,
                partition,
                first,
                numbers,
                ..
            } => {
                let of = partitions.entry(*partition).or_default();
                for (offset, number) in (*first..).zip(numbers) {
                    of.hold(*partition, offset, *number, &mut wrong);
                    of.read.entry(offset).or_insert(*number);
                    if let Some(via) = via {
                        of.shown.entry(*via).or_default().insert(offset);
                    }
                }
            }
            Event::End { via, partition, offset } => {
                partitions.entry(*partition).or_default().ends.insert(*via, *offset);
            }
            _ => {}
        }
    }
    for (partition, of) in &partitions {
        whole(*partition, of, scene, &mut wrong);
    }
    wrong
}

/// Looks at a partition when all is known of it.
fn whole(partition: i32, of: &Partition, scene: &Scene, wrong: &mut Vec<Wrong>) {
    let mut seen = HashMap::new();
    let mut latest = None;
    for (offset, number) in &of.read {
        let (offset, number) = (*offset, *number);
        if number >= of.sent {
            wrong.push(Wrong::NeverSent {
                partition,
                number,
                offset,
            });
        }
        match latest {
            _ if seen.insert(number, offset).is_some() => wrong.push(Wrong::Doubled {
                partition,
                number,
                offset,
            }),
            Some(after) if after > number => wrong.push(Wrong::Reordered {
                partition,
                number,
                after,
            }),
            _ => latest = Some(number),
        }
    }
    let lost = of.acknowledged.iter().filter(|(number, _)| !seen.contains_key(number));
    wrong.extend(lost.map(|(number, offset)| Wrong::Lost {
        partition,
        number: *number,
        offset: *offset,
    }));
    let ends: BTreeSet<i64> = of.ends.values().copied().collect();
    if ends.len() > 1 {
        wrong.push(Wrong::EndsDiffer {
            partition,
            ends: ends.iter().copied().collect(),
        });
    }
    for via in &scene.members {
        let Some(end) = of.ends.get(via) else {
            wrong.push(Wrong::Dead {
                what: format!("member {via} does not tell where partition {partition} ends"),
            });
            continue;
        };
        let empty = BTreeSet::new();
        let shown = of.shown.get(via).unwrap_or(&empty);
        let unread = (0..*end).filter(|offset| !shown.contains(offset));
        wrong.extend(unread.map(|offset| Wrong::Unread {
            via: *via,
            partition,
            offset,
        }));
    }
}

fn leaders(history: &[Event], _: &Scene) -> Vec<Wrong> {
    let mut leaders = HashMap::new();
    let mut wrong = BTreeSet::new();
    for event in history {
        if let Event::Led {
            partition,
            epoch,
            leader,
            ..
        } = event
        {
            let first = *leaders.entry((*partition, *epoch)).or_insert(*leader);
            if first != *leader {
                wrong.insert(Wrong::TwoLeaders {
                    partition: *partition,
                    epoch: *epoch,
                    leaders: [first, *leader],
                });
            }
        }
    }
    wrong.into_iter().collect()
}

fn positions(history: &[Event], _: &Scene) -> Vec<Wrong> {
    // By group and partition: what was known when, to those who asked later.
    let mut known: HashMap<(&str, i32), Vec<(Millis, i64)>> = HashMap::new();
    for event in history {
        if let Event::Committed {
            at,
            group,
            partition,
            offset,
        }
        | Event::Position {
            at,
            group,
            partition,
            offset,
            ..
        } = event
        {
            known.entry((group, *partition)).or_default().push((*at, *offset));
        }
    }
    for known in known.values_mut() {
        known.sort_unstable();
        let mut most = i64::MIN;
        for (_, offset) in known {
            most = most.max(*offset);
            *offset = most;
        }
    }
    let back = history.iter().filter_map(|event| match event {
        Event::Position {
            asked,
            via,
            group,
            partition,
            offset,
            ..
        } => {
            let known = known.get(&(group.as_str(), *partition))?;
            // Strictly before: times are rounded.
            let before = known.partition_point(|(at, _)| at < asked);
            let (_, from) = known.get(before.checked_sub(1)?)?;
            (from > offset).then(|| Wrong::PositionBack {
                group: group.clone(),
                partition: *partition,
                from: *from,
                to: *offset,
                via: *via,
                asked: *asked,
            })
        }
        _ => None,
    });
    back.collect()
}

fn liveness(history: &[Event], scene: &Scene) -> Vec<Wrong> {
    let healed = history.iter().rev().find_map(|event| match event {
        Event::Healed { at } => Some(*at),
        _ => None,
    });
    let Some(healed) = healed else {
        return vec![Wrong::Dead {
            what: "the faults never ended".into(),
        }];
    };
    let mut wanted = BTreeSet::new();
    for partition in 0..scene.partitions {
        wanted.insert(format!("nothing is acknowledged in partition {partition}"));
        for via in &scene.members {
            wanted.insert(format!("member {via} knows no leader of partition {partition}"));
        }
        for group in &scene.groups {
            wanted.insert(format!(
                "group {group} does not come to the end of partition {partition}"
            ));
        }
    }
    let ends: HashMap<i32, i64> = history
        .iter()
        .filter_map(|event| match event {
            Event::End { partition, offset, .. } => Some((*partition, *offset)),
            _ => None,
        })
        .collect();
    for event in history {
        match event {
            Event::Acknowledged { at, partition, .. } if *at > healed => {
                wanted.remove(&format!("nothing is acknowledged in partition {partition}"));
            }
            Event::Led { at, via, partition, .. } if *at > healed => {
                wanted.remove(&format!("member {via} knows no leader of partition {partition}"));
            }
            Event::Position {
                at,
                group,
                partition,
                offset,
                ..
            } if *at > healed && ends.get(partition) == Some(offset) => {
                wanted.remove(&format!(
                    "group {group} does not come to the end of partition {partition}"
                ));
            }
            _ => {}
        }
    }
    wanted.into_iter().map(|what| Wrong::Dead { what }).collect()
}
