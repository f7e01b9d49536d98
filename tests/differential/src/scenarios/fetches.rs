//! Fetch: what is handed out, what is refused, how long is waited; sessions.

use super::requests::*;
use super::{Scenario, scenario};
use crate::batch::Batch;
use crate::normal::Projection;
use crate::session::{MAIN, Session};
use anyhow::Result;
use kafka_protocol::messages::fetch_request::ForgottenTopic;
use kafka_protocol::messages::*;
use std::time::Duration;
use uuid::Uuid;

pub const SCENARIOS: &[Scenario] = &[
    scenario("fetch", versions),
    scenario("fetch_limits", limits),
    scenario("fetch_waits", waits),
    scenario("fetch_epochs", epochs),
    scenario("fetch_sessions", sessions),
    scenario("fetch_deleted", deleted),
];

/// A topic of three partitions: ten batches of three records in the first, one in the second, none in the third.
fn filled(s: &mut Session) -> Result<Topic> {
    let name = s.topic("t", 3)?;
    let topic = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    for round in 0..10 {
        let records = Batch::of(s.time() + round * 1_000, &["a", "b", "c"]).encode()?;
        s.quiet(9, &produce(&topic, 0, records))?;
    }
    let records = Batch::of(s.time(), &["only"]).encode()?;
    s.quiet(9, &produce(&topic, 1, records))?;
    Ok(topic)
}

fn versions(s: &mut Session) -> Result<()> {
    let topic = filled(s)?;
    let missing = Topic {
        name: s.name("missing"),
        id: Uuid::from_u128(3),
    };
    for version in 4..=17 {
        for (what, request) in [
            ("from the start", fetch(&topic, 0, 0)),
            ("from within a batch", fetch(&topic, 0, 4)),
            ("the last record", fetch(&topic, 0, 29)),
            ("the end", fetch(&topic, 0, 30)),
            ("beyond the end", fetch(&topic, 0, 31)),
            ("a negative offset", fetch(&topic, 0, -1)),
            ("an empty partition", fetch(&topic, 2, 0)),
            ("beyond an empty partition", fetch(&topic, 2, 1)),
            ("an unknown partition", fetch(&topic, 3, 0)),
            ("a negative partition", fetch(&topic, -1, 0)),
            ("an unknown topic", fetch(&missing, 0, 0)),
            (
                "all partitions and an unknown one",
                fetch_all(&topic, &[(0, 27), (1, 0), (2, 0), (3, 0)]),
            ),
            ("committed only", fetch(&topic, 0, 27).with_isolation_level(1)),
            ("an unknown isolation", fetch(&topic, 0, 27).with_isolation_level(2)),
            ("no partitions", fetch_all(&topic, &[])),
            ("no topics", fetch_all(&topic, &[]).with_topics(vec![])),
        ] {
            s.call(format!("v{version} {what}"), version, &request)?;
        }
        let mut twice = fetch(&topic, 0, 27);
        twice.topics.extend(fetch(&topic, 1, 0).topics);
        twice.topics.extend(fetch(&missing, 0, 0).topics);
        s.call(format!("v{version} a topic twice and an unknown one"), version, &twice)?;
        let same = fetch_all(&topic, &[(0, 27), (0, 0)]);
        s.call(format!("v{version} a partition twice"), version, &same)?;
    }
    for version in [13, 16] {
        let nil = Topic {
            name: topic.name.clone(),
            id: Uuid::nil(),
        };
        s.call(format!("v{version} the zero id"), version, &fetch(&nil, 0, 0))?;
    }
    for name in ["", "d.d.a b", "fetch_bare", "d.d.a.b", "nowhere.d.t"] {
        let topic = Topic {
            name: topic_name(name),
            id: Uuid::nil(),
        };
        s.call(format!("a topic named {name:?}"), 12, &fetch(&topic, 0, 0))?;
    }
    s.call("from a rack", 12, &fetch(&topic, 0, 27).with_rack_id(text("rack")))?;
    s.call(
        "for a cluster of another id",
        12,
        &fetch(&topic, 0, 27).with_cluster_id(Some(text("other"))),
    )?;
    Ok(())
}

fn limits(s: &mut Session) -> Result<()> {
    let topic = filled(s)?;
    let sized = |bytes: i32, partitions: &[(i32, i64)]| {
        let mut request = fetch_all(&topic, partitions);
        for partition in &mut request.topics[0].partitions {
            partition.partition_max_bytes = bytes;
        }
        request
    };
    let one = Batch::of(s.time(), &["a", "b", "c"]).encode()?.len() as i32;
    for version in [4, 11, 12, 15] {
        for bytes in [0, 1, one - 1, one, one + 1, 2 * one, 3 * one - 1, -1, i32::MAX] {
            s.call(
                format!("v{version} at most {bytes} of a partition"),
                version,
                &sized(bytes, &[(0, 0)]),
            )?;
            let total = fetch(&topic, 0, 0).with_max_bytes(bytes);
            s.call(format!("v{version} at most {bytes} in all"), version, &total)?;
            let both = fetch_all(&topic, &[(0, 0), (1, 0)]).with_max_bytes(bytes);
            s.call(format!("v{version} at most {bytes} of two partitions"), version, &both)?;
        }
    }
    let within = sized(one, &[(0, 5)]);
    s.call("one batch from within it", 12, &within)?;
    let name = s.topic("large", 2)?;
    let large = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    for partition in 0..2 {
        let records = Batch::of(s.time(), &[&"x".repeat(500_000)]).encode()?;
        s.quiet(9, &produce(&large, partition, records.clone()))?;
        s.quiet(9, &produce(&large, partition, records))?;
    }
    for (what, most) in [("less than one", 1_000), ("one", 600_000), ("three", 1_600_000)] {
        let request = fetch_all(&large, &[(0, 0), (1, 0)]).with_max_bytes(most);
        s.call(format!("large batches, room for {what}"), 12, &request)?;
    }
    Ok(())
}

fn waits(s: &mut Session) -> Result<()> {
    let topic = filled(s)?;
    let waiting =
        |offset: i64, wait: i32, least: i32| fetch(&topic, 0, offset).with_max_wait_ms(wait).with_min_bytes(least);
    for version in [4, 11, 12] {
        s.call(format!("v{version} enough is there"), version, &waiting(0, 5_000, 1))?;
        s.call(format!("v{version} nothing comes"), version, &waiting(30, 100, 1))?;
        s.call(
            format!("v{version} too little is there"),
            version,
            &waiting(27, 100, 100_000),
        )?;
        s.call(format!("v{version} a wait below zero"), version, &waiting(30, -1, 1))?;
        s.call(format!("v{version} at least nothing"), version, &waiting(30, 5_000, 0))?;
        s.call(
            format!("v{version} at least less than nothing"),
            version,
            &waiting(30, 5_000, -3),
        )?;
        s.call(
            format!("v{version} out of range does not wait"),
            version,
            &waiting(99, 5_000, 1),
        )?;
        let mixed = fetch_all(&topic, &[(2, 0), (9, 0)])
            .with_max_wait_ms(100)
            .with_min_bytes(1);
        s.call(
            format!("v{version} an unknown partition beside an empty one"),
            version,
            &mixed,
        )?;
    }
    // Woken by a produce, long before its wait ends.
    s.patience(Duration::from_secs(20));
    for (round, version) in [4_i16, 11, 12, 13, 17].into_iter().enumerate() {
        let waiting = fetch(&topic, 2, round as i64)
            .with_max_wait_ms(30_000)
            .with_min_bytes(1);
        s.send_on(MAIN, format!("v{version} woken by a produce"), version, &waiting)?;
        let records = Batch::of(s.time(), &["wake"]).encode()?;
        s.call_on(
            "producer",
            format!("v{version} the produce that wakes it"),
            9,
            &produce(&topic, 2, records),
        )?;
        s.receive_on::<FetchRequest>(MAIN)?;
    }
    let waiting = fetch_all(&topic, &[(0, 30), (1, 1), (2, 5)])
        .with_max_wait_ms(30_000)
        .with_min_bytes(1);
    s.send_on(MAIN, "three partitions, woken by one", 12, &waiting)?;
    let records = Batch::of(s.time(), &["wake"]).encode()?;
    s.call_on(
        "producer",
        "the produce for one of three",
        9,
        &produce(&topic, 1, records),
    )?;
    s.receive_on::<FetchRequest>(MAIN)?;
    Ok(())
}

/// The leader epoch a consumer believes in.
fn epochs(s: &mut Session) -> Result<()> {
    let topic = filled(s)?;
    let known = s.quiet(9, &metadata(std::slice::from_ref(&topic.name)))?;
    let epoch = known.topics[0].partitions[0].leader_epoch;
    for version in [9, 11, 12, 13, 17] {
        let with = |current: i32, last: i32| {
            let mut request = fetch(&topic, 0, 27);
            request.topics[0].partitions[0].current_leader_epoch = current;
            request.topics[0].partitions[0].last_fetched_epoch = if version >= 12 { last } else { -1 };
            request
        };
        s.call(format!("v{version} the current epoch"), version, &with(epoch, -1))?;
        s.call(format!("v{version} no epoch"), version, &with(-1, -1))?;
        s.call(format!("v{version} a future epoch"), version, &with(epoch + 5, -1))?;
        if version >= 12 {
            s.call(
                format!("v{version} the last fetched epoch"),
                version,
                &with(epoch, epoch),
            )?;
            s.call(
                format!("v{version} a last fetched epoch of the future"),
                version,
                &with(epoch, epoch + 7),
            )?;
        }
        let mut offsets = list_offsets(&topic.name, &[(0, -1)]);
        offsets.topics[0].partitions[0].current_leader_epoch = epoch;
        s.call(
            format!("v{version} list offsets, the current epoch"),
            version.min(10),
            &offsets,
        )?;
        offsets.topics[0].partitions[0].current_leader_epoch = epoch + 5;
        s.call(
            format!("v{version} list offsets, a future epoch"),
            version.min(10),
            &offsets,
        )?;
    }
    Ok(())
}

fn sessions(s: &mut Session) -> Result<()> {
    let topic = filled(s)?;
    let time = s.time();
    for version in [7, 11, 12, 13, 17] {
        let request = |id: i32, epoch: i32, partitions: &[(i32, i64)]| {
            let request = if partitions.is_empty() {
                fetch_all(&topic, &[]).with_topics(vec![])
            } else {
                fetch_all(&topic, partitions)
            };
            request.with_session_id(id).with_session_epoch(epoch)
        };
        s.call(format!("v{version} no session"), version, &request(0, -1, &[(0, 27)]))?;
        let id = s
            .call(
                format!("v{version} a new session"),
                version,
                &request(0, 0, &[(0, 27), (1, 0), (2, 0)]),
            )?
            .session_id;
        s.call(
            format!("v{version} epoch 1, all moved on"),
            version,
            &request(id, 1, &[(0, 30), (1, 1)]),
        )?;
        s.call(
            format!("v{version} epoch 2, nothing new"),
            version,
            &request(id, 2, &[]),
        )?;
        s.call(format!("v{version} epoch 2 again"), version, &request(id, 2, &[]))?;
        s.call(format!("v{version} epoch 3"), version, &request(id, 3, &[]))?;
        let records = Batch::of(time, &["new"]).encode()?;
        let grown = s.call(format!("v{version} a produce between"), 9, &produce(&topic, 2, records))?;
        let at = grown
            .responses
            .first()
            .and_then(|t| t.partition_responses.first())
            .map_or(0, |p| p.base_offset);
        s.call(
            format!("v{version} epoch 4, one has grown"),
            version,
            &request(id, 4, &[(2, at)]),
        )?;
        let mut forget = request(id, 5, &[]);
        forget.forgotten_topics_data = vec![
            ForgottenTopic::default()
                .with_topic(topic.name.clone())
                .with_topic_id(topic.id)
                .with_partitions(vec![2]),
        ];
        s.call(format!("v{version} epoch 5, one forgotten"), version, &forget)?;
        s.call(
            format!("v{version} epoch 6, one out of range"),
            version,
            &request(id, 6, &[(0, 999)]),
        )?;
        s.call(
            format!("v{version} epoch 7, still out of range"),
            version,
            &request(id, 7, &[]),
        )?;
        s.call(
            format!("v{version} epoch 8, back in range"),
            version,
            &request(id, 8, &[(0, 30)]),
        )?;
        s.call(format!("v{version} epoch 20, too far"), version, &request(id, 20, &[]))?;
        s.call(
            format!("v{version} an unknown session"),
            version,
            &request(123_456_789, 4, &[(0, 27)]),
        )?;
        s.call(
            format!("v{version} an unknown session closed"),
            version,
            &request(123_456_789, -1, &[]),
        )?;
        s.call(
            format!("v{version} the session closed"),
            version,
            &request(id, -1, &[(0, 27)]),
        )?;
        s.call(
            format!("v{version} the session after that"),
            version,
            &request(id, 9, &[]),
        )?;
        let unknown = s.call(
            format!("v{version} a new one with an unknown partition"),
            version,
            &request(0, 0, &[(1, 1), (8, 0)]),
        )?;
        s.call(
            format!("v{version} it goes on"),
            version,
            &request(unknown.session_id, 1, &[]),
        )?;
        s.call(
            format!("v{version} a session epoch of -2"),
            version,
            &request(unknown.session_id, -2, &[]),
        )?;
        s.call(
            format!("v{version} a new one with nothing"),
            version,
            &request(0, 0, &[]),
        )?;
    }
    s.look(Projection::default());
    Ok(())
}

/// A fetch that waits on a topic which goes away, and one from a topic made anew.
fn deleted(s: &mut Session) -> Result<()> {
    let topic = filled(s)?;
    let delete = DeleteTopicsRequest::default()
        .with_topic_names(vec![topic.name.clone()])
        .with_timeout_ms(5_000);
    s.call("delete the topic", 5, &delete)?;
    s.settle(&topic.name, 0)?;
    for version in [11, 12, 13] {
        s.call(
            format!("v{version} from a topic deleted"),
            version,
            &fetch(&topic, 0, 0),
        )?;
    }
    let name = s.topic("t", 1)?;
    let anew = Topic {
        id: s.topic_id(&name)?,
        name,
    };
    for version in [11, 12, 13] {
        s.call(
            format!("v{version} from the topic made anew"),
            version,
            &fetch(&anew, 0, 0),
        )?;
        s.call(format!("v{version} from its old offset"), version, &fetch(&anew, 0, 30))?;
    }
    s.call("v13 by its old id", 13, &fetch(&topic, 0, 0))?;
    s.call("its end", 7, &list_offsets(&anew.name, &[(0, -1), (1, -1)]))?;
    let records = Batch::of(s.time(), &["first"]).encode()?;
    s.call("produce by its old id", 13, &produce(&topic, 0, records.clone()))?;
    s.call("produce by its new id", 13, &produce(&anew, 0, records))?;
    Ok(())
}
