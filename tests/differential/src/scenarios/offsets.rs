//! Committed offsets, and groups as an administrator sees them.

use super::requests::*;
use super::{Scenario, scenario};
use crate::normal::Projection;
use crate::session::Session;
use anyhow::Result;
use bytes::Bytes;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;

pub const SCENARIOS: &[Scenario] = &[
    scenario("offsets", commits),
    scenario("offsets_fetched", fetched),
    scenario("offsets_deleted", deleted),
    scenario("offsets_topic_gone", topic_gone),
    scenario("groups_described", described),
    scenario("groups_listed", listed),
    scenario("groups_deleted", groups_deleted),
];

fn commits(s: &mut Session) -> Result<()> {
    let topic = s.topic("t", 3)?;
    let missing = s.name("missing");
    for version in 2..=9 {
        let group = s.group(&format!("v{version}"));
        let with = |offset: i64, epoch: i32, metadata: Option<&str>| {
            let partition = OffsetCommitRequestPartition::default()
                .with_partition_index(0)
                .with_committed_offset(offset)
                .with_committed_leader_epoch(if version >= 6 { epoch } else { -1 })
                .with_committed_metadata(metadata.map(text));
            let topic = OffsetCommitRequestTopic::default()
                .with_name(topic.clone())
                .with_partitions(vec![partition]);
            OffsetCommitRequest::default()
                .with_group_id(group.clone().into())
                .with_generation_id_or_member_epoch(-1)
                .with_topics(vec![topic])
        };
        let long = "m".repeat(4_096);
        let longer = "m".repeat(4_097);
        let mut mixed = commit(&group, &topic, &[(0, 10), (9, 11), (2, 12)]);
        mixed.topics.extend(commit(&group, &missing, &[(0, 13)]).topics);
        let mut twice = commit(&group, &topic, &[(1, 20)]);
        twice.topics.extend(commit(&group, &topic, &[(1, 21)]).topics);
        for (what, request) in [
            ("an offset", commit(&group, &topic, &[(0, 5)])),
            ("a greater one", commit(&group, &topic, &[(0, 50)])),
            ("a smaller one", commit(&group, &topic, &[(0, 3)])),
            ("with an epoch", with(6, 4, Some("note"))),
            ("without metadata", with(7, -1, None)),
            ("with metadata of other scripts", with(8, 0, Some("né\u{1f600}"))),
            ("with 4096 bytes of metadata", with(9, 0, Some(&long))),
            ("with 4097 bytes of metadata", with(10, 0, Some(&longer))),
            ("an offset of -1", with(-1, 0, Some(""))),
            ("an offset of -2", with(-2, 0, Some(""))),
            ("the greatest offset", with(i64::MAX, i32::MAX, Some(""))),
            ("an epoch of -2", with(11, -2, Some(""))),
            ("good, unknown partition, unknown topic", mixed),
            ("a partition twice", twice),
            ("a negative partition", commit(&group, &topic, &[(-1, 1)])),
            ("no partitions", commit(&group, &topic, &[])),
            ("no topics", commit(&group, &topic, &[]).with_topics(vec![])),
            ("a generation of an unknown group", {
                commit(&s.group(&format!("none_{version}")), &topic, &[(0, 1)]).with_generation_id_or_member_epoch(3)
            }),
            ("no group", commit(&StrBytes::default(), &topic, &[(0, 1)])),
            ("a name that is none", commit(&group, &topic_name("d.d.a b"), &[(0, 1)])),
            ("a bare name", commit(&group, &topic_name("offsets_bare"), &[(0, 1)])),
        ] {
            let request = if version <= 4 {
                request.with_retention_time_ms(-1)
            } else {
                request
            };
            s.call(format!("v{version} {what}"), version, &request)?;
            let all = [(topic.clone(), vec![0, 1, 2])];
            if [
                "without metadata",
                "with an epoch",
                "with metadata of other scripts",
                "an offset of -1",
                "an offset of -2",
                "the greatest offset",
                "an epoch of -2",
                "a partition twice",
            ]
            .contains(&what)
            {
                s.call(
                    format!("v{version} fetched after {what}"),
                    7,
                    &offsets(&group, Some(&all), 7),
                )?;
            }
        }
        if version <= 4 {
            let kept = commit(&group, &topic, &[(0, 5)]).with_retention_time_ms(3_600_000);
            s.call(format!("v{version} to be kept for an hour"), version, &kept)?;
        }
        let all = [(topic.clone(), vec![0, 1, 2]), (missing.clone(), vec![0])];
        s.call(
            format!("v{version} fetched"),
            version,
            &offsets(&group, Some(&all), version),
        )?;
    }
    Ok(())
}

fn fetched(s: &mut Session) -> Result<()> {
    let topic = s.topic("t", 3)?;
    let other = s.topic("u", 1)?;
    let missing = s.name("missing");
    let group = s.group("g");
    let second = s.group("h");
    let nothing = s.group("nothing");
    s.call("commit", 7, &commit(&group, &topic, &[(0, 5), (2, 7)]))?;
    s.call("commit to another topic", 7, &commit(&group, &other, &[(0, 9)]))?;
    s.call("commit of another group", 7, &commit(&second, &topic, &[(1, 11)]))?;
    for version in 1..=9 {
        let one = [(topic.clone(), vec![0, 1, 2])];
        let strange = [
            (topic.clone(), vec![0, 9, -1]),
            (missing.clone(), vec![0]),
            (topic_name("a b"), vec![0]),
        ];
        let twice = [(topic.clone(), vec![0, 0])];
        let again = [(topic.clone(), vec![0]), (topic.clone(), vec![2])];
        for (what, request) in [
            ("one topic", offsets(&group, Some(&one), version)),
            (
                "unknown partitions and topics",
                offsets(&group, Some(&strange), version),
            ),
            ("a partition twice", offsets(&group, Some(&twice), version)),
            ("a topic twice", offsets(&group, Some(&again), version)),
            (
                "no partitions",
                offsets(&group, Some(&[(topic.clone(), vec![])]), version),
            ),
            ("no topics", offsets(&group, Some(&[]), version)),
            ("of an unknown group", offsets(&nothing, Some(&one), version)),
            ("without a group", offsets(&StrBytes::default(), Some(&one), version)),
        ] {
            s.call(format!("v{version} {what}"), version, &request)?;
        }
        if version >= 2 {
            s.call(format!("v{version} all"), version, &offsets(&group, None, version))?;
            s.call(
                format!("v{version} all of an unknown group"),
                version,
                &offsets(&nothing, None, version),
            )?;
        }
        if version >= 7 {
            let stable = offsets(&group, Some(&one), version).with_require_stable(true);
            s.call(format!("v{version} stable ones"), version, &stable)?;
        }
        if version >= 8 {
            let mut several = offsets(&group, Some(&one), version);
            several.groups.extend(offsets(&second, None, version).groups);
            several.groups.extend(offsets(&nothing, Some(&one), version).groups);
            s.call(format!("v{version} three groups"), version, &several)?;
            let mut same = offsets(&group, Some(&one), version);
            same.groups.extend(offsets(&group, None, version).groups);
            s.call(format!("v{version} a group twice"), version, &same)?;
            s.call(format!("v{version} no groups"), version, &OffsetFetchRequest::default())?;
        }
        if version >= 9 {
            for (what, member, epoch) in [
                ("a member", Some("m"), 3),
                ("an epoch alone", None, 3),
                ("a member alone", Some("m"), -1),
            ] {
                let topics = vec![
                    OffsetFetchRequestTopics::default()
                        .with_name(topic.clone())
                        .with_partition_indexes(vec![0]),
                ];
                let asked = OffsetFetchRequestGroup::default()
                    .with_group_id(group.clone().into())
                    .with_member_id(member.map(text))
                    .with_member_epoch(epoch)
                    .with_topics(Some(topics));
                s.call(
                    format!("v{version} as {what}"),
                    version,
                    &OffsetFetchRequest::default().with_groups(vec![asked]),
                )?;
            }
        }
    }
    Ok(())
}

fn delete(group: &StrBytes, topics: &[(&TopicName, &[i32])]) -> OffsetDeleteRequest {
    let topics = topics
        .iter()
        .map(|(name, partitions)| {
            let partitions = partitions
                .iter()
                .map(|index| OffsetDeleteRequestPartition::default().with_partition_index(*index))
                .collect();
            OffsetDeleteRequestTopic::default()
                .with_name((*name).clone())
                .with_partitions(partitions)
        })
        .collect();
    OffsetDeleteRequest::default()
        .with_group_id(group.clone().into())
        .with_topics(topics)
}

fn deleted(s: &mut Session) -> Result<()> {
    let topic = s.topic("t", 3)?;
    let other = s.topic("u", 1)?;
    let missing = s.name("missing");
    let group = s.group("g");
    s.call("commit", 7, &commit(&group, &topic, &[(0, 5), (1, 6), (2, 7)]))?;
    s.call("commit to another topic", 7, &commit(&group, &other, &[(0, 9)]))?;
    s.call("one", 0, &delete(&group, &[(&topic, &[0])]))?;
    s.call("one again", 0, &delete(&group, &[(&topic, &[0])]))?;
    s.call(
        "unknown ones",
        0,
        &delete(&group, &[(&topic, &[9, 1]), (&missing, &[0])]),
    )?;
    s.call("no partitions", 0, &delete(&group, &[(&topic, &[])]))?;
    s.call("no topics", 0, &delete(&group, &[]))?;
    s.call(
        "of an unknown group",
        0,
        &delete(&s.group("nothing"), &[(&topic, &[0])]),
    )?;
    s.call(
        "of an empty group id",
        0,
        &delete(&StrBytes::default(), &[(&topic, &[0])]),
    )?;
    s.call("what is left", 7, &offsets(&group, None, 7))?;
    // A live member that subscribes to the first topic.
    let metadata = subscription(&[&topic], b"");
    let asked = s.call(
        "join",
        5,
        &join_with(&group, &StrBytes::default(), &[("range", &metadata)]),
    )?;
    let joined = s.call(
        "join with the id given",
        5,
        &join_with(&group, &asked.member_id, &[("range", &metadata)]),
    )?;
    s.call(
        "sync",
        5,
        &sync(
            &group,
            &joined.member_id,
            joined.generation_id,
            &[(&joined.member_id, b"a")],
        ),
    )?;
    s.call(
        "of a live group, both topics",
        0,
        &delete(&group, &[(&topic, &[2]), (&other, &[0])]),
    )?;
    s.call("what is left then", 7, &offsets(&group, None, 7))?;
    s.call("leave", 3, &leave(&group, &joined.member_id, 3))?;
    s.call("after leaving", 0, &delete(&group, &[(&topic, &[2])]))?;
    s.call("what is left in the end", 7, &offsets(&group, None, 7))?;
    let describe = DescribeGroupsRequest::default().with_groups(vec![group.into()]);
    s.call("described in the end", 5, &describe)?;
    Ok(())
}

/// A topic's offsets go with it.
fn topic_gone(s: &mut Session) -> Result<()> {
    let topic = s.topic("t", 1)?;
    let group = s.group("g");
    s.call("commit", 7, &commit(&group, &topic, &[(0, 5)]))?;
    let delete = DeleteTopicsRequest::default()
        .with_topic_names(vec![topic.clone()])
        .with_timeout_ms(5_000);
    s.call("delete the topic", 5, &delete)?;
    s.settle(&topic, 0)?;
    s.until("the offset is gone", |s| {
        let left = s.quiet(7, &offsets(&group, Some(&[(topic.clone(), vec![0])]), 7))?;
        Ok(left.topics.iter().all(|topic| {
            topic
                .partitions
                .iter()
                .all(|partition| partition.committed_offset == -1)
        }))
    })?;
    s.call(
        "fetched by name",
        7,
        &offsets(&group, Some(&[(topic.clone(), vec![0])]), 7),
    )?;
    s.call("all of them", 7, &offsets(&group, None, 7))?;
    s.call("commit to the topic deleted", 7, &commit(&group, &topic, &[(0, 6)]))?;
    let again = s.topic("t", 1)?;
    s.call(
        "fetched when the topic is made anew",
        7,
        &offsets(&group, Some(&[(again.clone(), vec![0])]), 7),
    )?;
    s.call("commit to the topic made anew", 7, &commit(&group, &again, &[(0, 1)]))?;
    s.call("fetched in the end", 7, &offsets(&group, Some(&[(again, vec![0])]), 7))?;
    Ok(())
}

fn described(s: &mut Session) -> Result<()> {
    let topic = s.topic("t", 1)?;
    let (offsets_only, live, nothing) = (s.group("offsets"), s.group("live"), s.group("nothing"));
    s.call("commit", 7, &commit(&offsets_only, &topic, &[(0, 5)]))?;
    let everything = Bytes::from((0..=255).collect::<Vec<u8>>());
    let asked = s.call("join", 5, &join(&live, &StrBytes::default(), &everything))?;
    let joined = s.call("join with the id given", 5, &join(&live, &asked.member_id, &everything))?;
    s.call(
        "sync",
        5,
        &sync(
            &live,
            &joined.member_id,
            joined.generation_id,
            &[(&joined.member_id, &everything)],
        ),
    )?;
    for version in 0..=6 {
        let ask = |groups: &[&StrBytes]| {
            DescribeGroupsRequest::default().with_groups(groups.iter().map(|group| (*group).clone().into()).collect())
        };
        s.call(format!("v{version} with offsets only"), version, &ask(&[&offsets_only]))?;
        s.call(format!("v{version} live"), version, &ask(&[&live]))?;
        s.call(format!("v{version} unknown"), version, &ask(&[&nothing]))?;
        s.call(
            format!("v{version} three"),
            version,
            &ask(&[&live, &nothing, &offsets_only]),
        )?;
        s.call(format!("v{version} one twice"), version, &ask(&[&live, &live]))?;
        s.call(
            format!("v{version} an empty id"),
            version,
            &ask(&[&StrBytes::default()]),
        )?;
        s.call(format!("v{version} none"), version, &ask(&[]))?;
        if version >= 3 {
            let operations = ask(&[&live]).with_include_authorized_operations(true);
            s.call(format!("v{version} with operations"), version, &operations)?;
        }
    }
    s.call("leave", 3, &leave(&live, &joined.member_id, 3))?;
    Ok(())
}

fn listed(s: &mut Session) -> Result<()> {
    let topic = s.topic("t", 1)?;
    let (offsets_only, live, empty) = (s.group("offsets"), s.group("live"), s.group("empty"));
    s.call("commit", 7, &commit(&offsets_only, &topic, &[(0, 5)]))?;
    let mut members = Vec::new();
    for group in [&live, &empty] {
        let asked = s.call(format!("join {group:?}"), 5, &join(group, &StrBytes::default(), b"m"))?;
        let joined = s.call(
            format!("join {group:?} with the id given"),
            5,
            &join(group, &asked.member_id, b"m"),
        )?;
        let member = joined.member_id.clone();
        s.call(
            format!("sync {group:?}"),
            5,
            &sync(group, &member, joined.generation_id, &[(&member, b"a")]),
        )?;
        members.push(member);
    }
    s.call("leave", 3, &leave(&empty, &members[1], 3))?;
    s.look(Projection::own());
    for version in 0..=5 {
        let all = ListGroupsRequest::default();
        s.call(format!("v{version} all"), version, &all)?;
        if version >= 4 {
            for states in [
                &["Stable"][..],
                &["Empty"],
                &["stable", "EMPTY"],
                &["Dead"],
                &["Nonsense"],
                &["Nonsense", "Stable"],
                &[""],
            ] {
                let request = all
                    .clone()
                    .with_states_filter(states.iter().map(|state| text(state)).collect());
                s.call(format!("v{version} states {states:?}"), version, &request)?;
            }
        }
        if version >= 5 {
            for types in [
                &["classic"][..],
                &["Classic"],
                &["consumer"],
                &["nonsense"],
                &["consumer", "classic"],
                &[""],
            ] {
                let request = all
                    .clone()
                    .with_types_filter(types.iter().map(|kind| text(kind)).collect());
                s.call(format!("v{version} types {types:?}"), version, &request)?;
            }
            let both = all
                .with_types_filter(vec![text("classic")])
                .with_states_filter(vec![text("Stable")]);
            s.call(format!("v{version} stable classic ones"), version, &both)?;
        }
    }
    s.call("leave live", 3, &leave(&live, &members[0], 3))?;
    Ok(())
}

fn groups_deleted(s: &mut Session) -> Result<()> {
    let topic = s.topic("t", 1)?;
    for version in 0..=2 {
        let (empty, live, nothing) = (
            s.group(&format!("empty_{version}")),
            s.group(&format!("live_{version}")),
            s.group("nothing"),
        );
        s.call(format!("v{version} commit"), 7, &commit(&empty, &topic, &[(0, 5)]))?;
        let asked = s.call(format!("v{version} join"), 5, &join(&live, &StrBytes::default(), b"m"))?;
        let joined = s.call(
            format!("v{version} join with the id given"),
            5,
            &join(&live, &asked.member_id, b"m"),
        )?;
        let member = joined.member_id.clone();
        s.call(
            format!("v{version} sync"),
            5,
            &sync(&live, &member, joined.generation_id, &[(&member, b"a")]),
        )?;
        let ask = |groups: &[&StrBytes]| {
            DeleteGroupsRequest::default()
                .with_groups_names(groups.iter().map(|group| (*group).clone().into()).collect())
        };
        s.call(format!("v{version} a live one"), version, &ask(&[&live]))?;
        s.call(format!("v{version} an unknown one"), version, &ask(&[&nothing]))?;
        s.call(
            format!("v{version} an empty id"),
            version,
            &ask(&[&StrBytes::default()]),
        )?;
        s.call(format!("v{version} none"), version, &ask(&[]))?;
        s.call(
            format!("v{version} an empty, a live and an unknown one"),
            version,
            &ask(&[&empty, &live, &nothing]),
        )?;
        s.call(format!("v{version} it again"), version, &ask(&[&empty]))?;
        s.call(
            format!("v{version} its offsets"),
            7,
            &offsets(&empty, Some(&[(topic.clone(), vec![0])]), 7),
        )?;
        let describe = DescribeGroupsRequest::default().with_groups(vec![empty.clone().into()]);
        s.call(format!("v{version} described"), 5, &describe)?;
        s.call(
            format!("v{version} the live one beats"),
            3,
            &heartbeat(&live, &member, joined.generation_id),
        )?;
        s.call(format!("v{version} the live one leaves"), 3, &leave(&live, &member, 3))?;
        s.call(format!("v{version} the one left"), version, &ask(&[&live]))?;
        s.call(format!("v{version} one twice"), version, &ask(&[&empty, &empty]))?;
    }
    Ok(())
}
