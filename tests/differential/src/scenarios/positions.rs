//! Offsets in a log: ListOffsets, OffsetForLeaderEpoch, DeleteRecords.

use super::requests::*;
use super::{Scenario, scenario};
use crate::batch::{Batch, Codec};
use crate::session::Session;
use anyhow::Result;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::*;

pub const SCENARIOS: &[Scenario] = &[
    scenario("list_offsets", versions),
    scenario("list_offsets_times", times),
    scenario("leader_epochs", leader_epochs),
    scenario("delete_records", delete_records),
    scenario("delete_records_within", within),
];

/// Records at seconds 2, 4, 6, 8 in the first partition, none in the second.
fn stamped(s: &mut Session) -> Result<Topic> {
    let name = s.topic("t", 2)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    for second in [2, 4, 6, 8] {
        let records = Batch::of(s.time() + second * 1_000, &["x"]).encode()?;
        s.quiet(9, &produce(&topic, 0, records))?;
    }
    Ok(topic)
}

fn versions(s: &mut Session) -> Result<()> {
    let topic = stamped(s)?;
    let name = topic.name.clone();
    let base = s.time();
    let missing = s.name("missing");
    for version in 1..=10 {
        for (what, request) in [
            ("latest", list_offsets(&name, &[(0, -1)])),
            ("earliest", list_offsets(&name, &[(0, -2)])),
            ("of an empty partition", list_offsets(&name, &[(1, -1)])),
            ("earliest of an empty partition", list_offsets(&name, &[(1, -2)])),
            ("both partitions", list_offsets(&name, &[(0, -1), (1, -2)])),
            ("a time", list_offsets(&name, &[(0, base + 5_000)])),
            ("a time of an empty partition", list_offsets(&name, &[(1, base)])),
            ("an unknown partition", list_offsets(&name, &[(2, -1), (0, -1)])),
            ("a negative partition", list_offsets(&name, &[(-1, -1)])),
            ("an unknown topic", list_offsets(&missing, &[(0, -1)])),
            ("a partition twice", list_offsets(&name, &[(0, -1), (0, -2)])),
            ("of the greatest time", list_offsets(&name, &[(0, -3)])),
            ("the greatest time of an empty one", list_offsets(&name, &[(1, -3)])),
            ("the earliest kept here", list_offsets(&name, &[(0, -4)])),
            ("the latest kept elsewhere", list_offsets(&name, &[(0, -5)])),
            ("of time -6", list_offsets(&name, &[(0, -6)])),
            ("of time -7", list_offsets(&name, &[(0, -7)])),
            ("the lowest time", list_offsets(&name, &[(0, i64::MIN)])),
            ("no partitions", list_offsets(&name, &[])),
            ("no topics", list_offsets(&name, &[]).with_topics(vec![])),
        ] {
            s.call(format!("v{version} {what}"), version, &request)?;
        }
        if version >= 2 {
            let committed = list_offsets(&name, &[(0, -1), (1, -1)]).with_isolation_level(1);
            s.call(format!("v{version} committed only"), version, &committed)?;
        }
    }
    for name in ["", "d.d.a b", "list_bare", "d.d.a.b", "nowhere.d.t"] {
        s.call(
            format!("a topic named {name:?}"),
            7,
            &list_offsets(&topic_name(name), &[(0, -1)]),
        )?;
    }
    Ok(())
}

fn times(s: &mut Session) -> Result<()> {
    let topic = stamped(s)?;
    let base = s.time();
    for version in [1, 5, 7] {
        for second in 1..=9 {
            let request = list_offsets(&topic.name, &[(0, base + second * 1_000)]);
            s.call(format!("v{version} second {second}"), version, &request)?;
        }
    }
    for (what, time) in [
        ("just at a record", base + 4_000),
        ("just before one", base + 3_999),
        ("just behind one", base + 4_001),
        ("time zero", 0),
        ("the end of time", i64::MAX),
    ] {
        s.call(what, 7, &list_offsets(&topic.name, &[(0, time)]))?;
    }
    // Within batches, in each codec.
    for codec in Codec::ALL {
        let name = s.topic(&format!("{codec:?}"), 1)?;
        let topic = Topic {
            id: s.topic_id(&name)?,
            name,
        };
        for round in 0..3 {
            let mut batch = Batch::of(base + round * 10_000, &["a", "b", "c", "d"]).codec(codec);
            for (at, record) in batch.records.iter_mut().enumerate() {
                record.timestamp_delta = at as i64 * 1_000;
            }
            s.quiet(9, &produce(&topic, 0, batch.encode()?))?;
        }
        for time in [0, 1_500, 3_000, 3_500, 10_000, 12_001, 23_000, 23_001] {
            s.call(
                format!("{codec:?} at {time}"),
                7,
                &list_offsets(&topic.name, &[(0, base + time)]),
            )?;
        }
        s.call(
            format!("{codec:?} the greatest"),
            7,
            &list_offsets(&topic.name, &[(0, -3)]),
        )?;
    }
    // Times that don't grow with the offsets.
    let name = s.topic("unordered", 1)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    for second in [5, 1, 9, 3, 9, 2] {
        let mut batch = Batch::of(base + second * 1_000, &["a", "b", "c"]);
        batch.records[1].timestamp_delta = -500;
        batch.records[2].timestamp_delta = 300;
        s.quiet(9, &produce(&topic, 0, batch.encode()?))?;
    }
    for time in [
        0, 500, 1_000, 1_200, 2_000, 4_600, 5_000, 5_200, 5_301, 8_500, 9_000, 9_300, 9_301,
    ] {
        s.call(
            format!("unordered at {time}"),
            7,
            &list_offsets(&topic.name, &[(0, base + time)]),
        )?;
    }
    s.call("unordered, the greatest", 7, &list_offsets(&topic.name, &[(0, -3)]))?;
    Ok(())
}

fn leader_epochs(s: &mut Session) -> Result<()> {
    let topic = stamped(s)?;
    let known = s.quiet(9, &metadata(std::slice::from_ref(&topic.name)))?;
    let epoch = known.topics[0].partitions[0].leader_epoch;
    for version in 2..=4 {
        let ask = |name: &TopicName, wanted: &[(i32, i32, i32)]| {
            let partitions = wanted
                .iter()
                .map(|(partition, current, epoch)| {
                    OffsetForLeaderPartition::default()
                        .with_partition(*partition)
                        .with_current_leader_epoch(*current)
                        .with_leader_epoch(*epoch)
                })
                .collect();
            let topic = OffsetForLeaderTopic::default()
                .with_topic(name.clone())
                .with_partitions(partitions);
            let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
            if version >= 3 {
                request.with_replica_id((-1).into())
            } else {
                request
            }
        };
        let name = &topic.name;
        let missing = s.name("missing");
        for (what, request) in [
            ("the current epoch", ask(name, &[(0, epoch, epoch)])),
            ("the current epoch, unsaid", ask(name, &[(0, -1, epoch)])),
            (
                "of an empty partition",
                ask(name, &[(1, -1, known.topics[0].partitions[1].leader_epoch)]),
            ),
            ("a future epoch", ask(name, &[(0, epoch, epoch + 1)])),
            ("a far future epoch", ask(name, &[(0, -1, epoch + 1_000)])),
            ("epoch -1", ask(name, &[(0, -1, -1)])),
            ("epoch -2", ask(name, &[(0, -1, -2)])),
            ("a leader of the future", ask(name, &[(0, epoch + 1, epoch)])),
            ("an unknown partition", ask(name, &[(5, -1, epoch), (0, -1, epoch)])),
            ("an unknown topic", ask(&missing, &[(0, -1, 0)])),
            ("no partitions", ask(name, &[])),
        ] {
            s.call(format!("v{version} {what}"), version, &request)?;
        }
    }
    Ok(())
}

fn delete(name: &TopicName, wanted: &[(i32, i64)]) -> DeleteRecordsRequest {
    let partitions = wanted
        .iter()
        .map(|(index, offset)| {
            DeleteRecordsPartition::default()
                .with_partition_index(*index)
                .with_offset(*offset)
        })
        .collect();
    let topic = DeleteRecordsTopic::default()
        .with_name(name.clone())
        .with_partitions(partitions);
    DeleteRecordsRequest::default()
        .with_timeout_ms(5_000)
        .with_topics(vec![topic])
}

fn delete_records(s: &mut Session) -> Result<()> {
    for version in 0..=2 {
        let name = s.topic(&format!("v{version}"), 2)?;
        let topic = Topic {
            id: s.topic_id(&name)?,
            name: name.clone(),
        };
        for _ in 0..4 {
            let records = Batch::of(s.time(), &["a", "b", "c"]).encode()?;
            s.quiet(9, &produce(&topic, 0, records))?;
        }
        for (what, request) in [
            ("up to 3", delete(&name, &[(0, 3)])),
            ("up to 3 again", delete(&name, &[(0, 3)])),
            ("up to 1, below the start", delete(&name, &[(0, 1)])),
            ("up to 0", delete(&name, &[(0, 0)])),
            ("up to 13, beyond the end", delete(&name, &[(0, 13)])),
            ("up to -2", delete(&name, &[(0, -2)])),
            ("of an empty partition", delete(&name, &[(1, 0)])),
            ("of an empty partition, all", delete(&name, &[(1, -1)])),
            ("of an unknown partition", delete(&name, &[(2, 0), (0, 6)])),
            ("of an unknown topic", delete(&s.name("missing"), &[(0, 0)])),
            ("none", delete(&name, &[])),
        ] {
            s.call(format!("v{version} {what}"), version, &request)?;
            if what.starts_with("up to") {
                let step = format!("v{version} {what}: the bounds");
                s.call(format!("{step}, latest"), 7, &list_offsets(&name, &[(0, -1)]))?;
                s.call(format!("{step}, earliest"), 7, &list_offsets(&name, &[(0, -2)]))?;
            }
        }
        s.call(format!("v{version} fetch from the start"), 12, &fetch(&topic, 0, 0))?;
        s.call(format!("v{version} fetch from what is left"), 12, &fetch(&topic, 0, 6))?;
        s.call(format!("v{version} all"), version, &delete(&name, &[(0, -1)]))?;
        s.call(format!("v{version} all again"), version, &delete(&name, &[(0, -1)]))?;
        s.call(
            format!("v{version} earliest after all"),
            7,
            &list_offsets(&name, &[(0, -2)]),
        )?;
        s.call(format!("v{version} fetch the end"), 12, &fetch(&topic, 0, 12))?;
        let records = Batch::of(s.time(), &["later"]).encode()?;
        s.call(format!("v{version} produce after all"), 9, &produce(&topic, 0, records))?;
        s.call(format!("v{version} fetch after all"), 12, &fetch(&topic, 0, 12))?;
    }
    Ok(())
}

/// A new start within a batch: the batch is still handed out whole.
fn within(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 1)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name: name.clone(),
    };
    let base = s.time();
    for round in 0..3 {
        let records = Batch::of(base + round * 1_000, &["a", "b", "c", "d"]).encode()?;
        s.quiet(9, &produce(&topic, 0, records))?;
    }
    s.call("up to 2", 2, &delete(&name, &[(0, 2)]))?;
    s.call("fetch from 1", 12, &fetch(&topic, 0, 1))?;
    s.call("fetch from 2", 12, &fetch(&topic, 0, 2))?;
    s.call(
        "the first at or after the first time",
        7,
        &list_offsets(&name, &[(0, base)]),
    )?;
    s.call(
        "the first at or after the time of 3",
        7,
        &list_offsets(&name, &[(0, base + 3)]),
    )?;
    s.call("up to 5", 2, &delete(&name, &[(0, 5)]))?;
    s.call(
        "the first at or after the first time again",
        7,
        &list_offsets(&name, &[(0, base)]),
    )?;
    s.call("fetch from 5", 12, &fetch(&topic, 0, 5))?;
    Ok(())
}
