//! Topics made, unmade, split further.

use super::requests::*;
use super::{Scenario, scenario};
use crate::normal::Projection;
use crate::session::Session;
use anyhow::Result;
use kafka_protocol::messages::create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::*;
use uuid::Uuid;

pub const SCENARIOS: &[Scenario] = &[
    scenario("create_topics", create),
    scenario("create_topics_names", names),
    scenario("create_topics_configs", configs),
    scenario("delete_topics", delete),
    scenario("create_partitions", partitions),
];

fn create(s: &mut Session) -> Result<()> {
    let broker = s.quiet(9, &metadata(&[]))?.brokers[0].node_id;
    for version in 2..=7 {
        let topic = |suffix: &str, partitions: i32, replicas: i16| {
            CreatableTopic::default()
                .with_name(topic_name(&format!("d.d.create_topics_v{version}_{suffix}")))
                .with_num_partitions(partitions)
                .with_replication_factor(replicas)
        };
        let ask = |topics: Vec<CreatableTopic>| {
            CreateTopicsRequest::default()
                .with_topics(topics)
                .with_timeout_ms(10_000)
        };
        let assigned = |suffix: &str, assignments: &[(i32, &[BrokerId])]| {
            let assignments = assignments
                .iter()
                .map(|(index, brokers)| {
                    CreatableReplicaAssignment::default()
                        .with_partition_index(*index)
                        .with_broker_ids(brokers.to_vec())
                })
                .collect();
            topic(suffix, -1, -1).with_assignments(assignments)
        };
        s.look(Projection::hide(&["configs"]));
        for (what, request) in [
            ("one partition", ask(vec![topic("one", 1, 1)])),
            ("three partitions", ask(vec![topic("three", 3, 1)])),
            ("no partitions", ask(vec![topic("zero", 0, 1)])),
            ("-1 partitions", ask(vec![topic("default", -1, 1)])),
            ("-2 partitions", ask(vec![topic("two_less", -2, 1)])),
            ("no replicas", ask(vec![topic("no_replicas", 1, 0)])),
            ("-1 replicas", ask(vec![topic("default_replicas", 1, -1)])),
            ("-2 replicas", ask(vec![topic("less_replicas", 1, -2)])),
            ("more replicas than nodes", ask(vec![topic("many_replicas", 1, 3)])),
            ("neither number", ask(vec![topic("neither", -1, -1)])),
            ("one that is there", ask(vec![topic("one", 1, 1)])),
            ("one that is there, with other numbers", ask(vec![topic("three", 0, 9)])),
            ("the same twice", ask(vec![topic("twice", 1, 1), topic("twice", 2, 1)])),
            (
                "good and bad",
                ask(vec![topic("good", 1, 1), topic("bad", 0, 1), topic("one", 1, 1)]),
            ),
            ("none", ask(vec![])),
            ("only to try", ask(vec![topic("tried", 2, 1)]).with_validate_only(true)),
            (
                "only to try, one that is there",
                ask(vec![topic("one", 2, 1)]).with_validate_only(true),
            ),
            (
                "a timeout of zero",
                ask(vec![topic("hurried", 1, 1)]).with_timeout_ms(0),
            ),
            (
                "assigned",
                ask(vec![assigned("assigned", &[(0, &[broker]), (1, &[broker])])]),
            ),
            (
                "assigned from partition 1",
                ask(vec![assigned("assigned_1", &[(1, &[broker])])]),
            ),
            (
                "assigned to nobody",
                ask(vec![assigned("assigned_nobody", &[(0, &[])])]),
            ),
            (
                "assigned to a stranger",
                ask(vec![assigned("assigned_stranger", &[(0, &[BrokerId(77)])])]),
            ),
            (
                "assigned and counted",
                ask(vec![
                    assigned("assigned_counted", &[(0, &[broker])]).with_num_partitions(1),
                ]),
            ),
        ] {
            if what == "a timeout of zero" {
                // Whether it is done in no time is a matter of time.
                s.look(Projection::hide(&[
                    "configs",
                    "error_code",
                    "error_message",
                    "topic_id",
                    "num_partitions",
                    "replication_factor",
                    "topic_config_error_code",
                ]));
            }
            s.call(format!("v{version} {what}"), version, &request)?;
            s.look(Projection::hide(&["configs"]));
            if what == "three partitions" {
                let one = topic_name(&format!("d.d.create_topics_v{version}_one"));
                let three = topic_name(&format!("d.d.create_topics_v{version}_three"));
                s.settle(&one, 1)?;
                s.settle(&three, 3)?;
                s.call(
                    format!("v{version} metadata of the first two"),
                    12,
                    &metadata(&[one, three]),
                )?;
            }
        }
    }
    Ok(())
}

fn names(s: &mut Session) -> Result<()> {
    let long = format!("d.d.{}", "x".repeat(245));
    let too_long = format!("d.d.{}", "x".repeat(246));
    for version in [2, 5, 7] {
        for (what, name) in [
            ("empty", String::new()),
            ("with a space", "d.d.a b".to_owned()),
            ("dots alone", "..".to_owned()),
            ("one dot", ".".to_owned()),
            ("with a slash", "d.d.a/b".to_owned()),
            ("of letters of other scripts", "d.d.é".to_owned()),
            ("of 249 bytes", long.clone()),
            ("of 250 bytes", too_long.clone()),
            ("of one part", format!("names_bare_{version}")),
            ("of two parts", format!("d.names_{version}")),
            ("of four parts", format!("d.d.names.{version}")),
            ("with an empty part", format!("d..names_{version}")),
            ("with a dash", format!("d.d.names-{version}")),
            ("beginning with a digit", format!("d.d.{version}names")),
            ("of an unknown namespace", format!("nowhere.d.names_{version}")),
            ("of an unknown database", format!("d.nowhere.names_{version}")),
            ("beginning with underscores", format!("d.d.__names_{version}")),
            ("in upper case", format!("d.d.NAMES_{version}")),
            ("that is a keyword", format!("d.d.topic{version}")),
        ] {
            s.look(Projection::hide(&["configs"]));
            s.call(
                format!("v{version} a name {what}"),
                version,
                &create_topic(&topic_name(&name), 1),
            )?;
        }
    }
    Ok(())
}

fn configs(s: &mut Session) -> Result<()> {
    for version in [2, 5, 7] {
        let mut count = 0;
        for (what, configs) in [
            ("retention.ms", &[("retention.ms", Some("60000"))][..]),
            ("retention.ms -1", &[("retention.ms", Some("-1"))]),
            ("retention.ms -2", &[("retention.ms", Some("-2"))]),
            ("retention.ms text", &[("retention.ms", Some("soon"))]),
            ("retention.ms empty", &[("retention.ms", Some(""))]),
            ("retention.ms null", &[("retention.ms", None)]),
            ("retention.bytes", &[("retention.bytes", Some("1000000"))]),
            ("retention.bytes -1", &[("retention.bytes", Some("-1"))]),
            ("max.message.bytes", &[("max.message.bytes", Some("1000"))]),
            ("max.message.bytes 0", &[("max.message.bytes", Some("0"))]),
            ("max.message.bytes -1", &[("max.message.bytes", Some("-1"))]),
            ("cleanup.policy delete", &[("cleanup.policy", Some("delete"))]),
            ("cleanup.policy compact", &[("cleanup.policy", Some("compact"))]),
            ("cleanup.policy both", &[("cleanup.policy", Some("compact,delete"))]),
            ("cleanup.policy unknown", &[("cleanup.policy", Some("burn"))]),
            (
                "message.timestamp.type create",
                &[("message.timestamp.type", Some("CreateTime"))],
            ),
            (
                "message.timestamp.type append",
                &[("message.timestamp.type", Some("LogAppendTime"))],
            ),
            (
                "message.timestamp.type unknown",
                &[("message.timestamp.type", Some("Never"))],
            ),
            ("min.insync.replicas", &[("min.insync.replicas", Some("1"))]),
            ("segment.bytes", &[("segment.bytes", Some("1048576"))]),
            ("compression.type", &[("compression.type", Some("producer"))]),
            ("an unknown one", &[("no.such.config", Some("1"))]),
            ("an unknown one, null", &[("no.such.config", None)]),
            ("an empty name", &[("", Some("1"))]),
            (
                "the same twice",
                &[("retention.ms", Some("1000")), ("retention.ms", Some("2000"))],
            ),
            (
                "a good and a bad one",
                &[("retention.ms", Some("1000")), ("retention.bytes", Some("x"))],
            ),
            (
                "three",
                &[
                    ("retention.ms", Some("1000")),
                    ("retention.bytes", Some("2000")),
                    ("max.message.bytes", Some("3000")),
                ],
            ),
        ] {
            let configs: Vec<CreatableTopicConfig> = configs
                .iter()
                .map(|(name, value)| {
                    CreatableTopicConfig::default()
                        .with_name(text(name))
                        .with_value(value.map(text))
                })
                .collect();
            count += 1;
            let topic = CreatableTopic::default()
                .with_name(topic_name(&format!("d.d.create_topics_configs_v{version}_{count}")))
                .with_num_partitions(1)
                .with_replication_factor(1)
                .with_configs(configs);
            let request = CreateTopicsRequest::default()
                .with_topics(vec![topic])
                .with_timeout_ms(10_000);
            // The full list of configs is compared once.
            s.look(if what == "three" && version == 7 {
                Projection::default()
            } else {
                Projection::hide(&["configs"])
            });
            s.call(format!("v{version} {what}"), version, &request)?;
        }
    }
    Ok(())
}

fn delete(s: &mut Session) -> Result<()> {
    for version in 1..=6 {
        let one = s.topic(&format!("v{version}_one"), 1)?;
        let two = s.topic(&format!("v{version}_two"), 2)?;
        let three = s.topic(&format!("v{version}_three"), 1)?;
        let missing = s.name("missing");
        let ask = |names: &[&TopicName]| {
            let request = DeleteTopicsRequest::default().with_timeout_ms(10_000);
            if version < 6 {
                return request.with_topic_names(names.iter().map(|name| (*name).clone()).collect());
            }
            let topics = names
                .iter()
                .map(|name| DeleteTopicState::default().with_name(Some((*name).clone())))
                .collect();
            request.with_topics(topics)
        };
        s.call(format!("v{version} one"), version, &ask(&[&one]))?;
        s.settle(&one, 0)?;
        s.call(format!("v{version} one again"), version, &ask(&[&one]))?;
        s.call(
            format!("v{version} one and an unknown one"),
            version,
            &ask(&[&two, &missing]),
        )?;
        s.settle(&two, 0)?;
        s.call(format!("v{version} the same twice"), version, &ask(&[&three, &three]))?;
        s.call(format!("v{version} none"), version, &ask(&[]))?;
        for name in ["", "d.d.a b", "delete_bare", "nowhere.d.t"] {
            s.call(
                format!("v{version} a name {name:?}"),
                version,
                &ask(&[&topic_name(name)]),
            )?;
        }
        if version == 6 {
            let four = s.topic("by_id", 1)?;
            let id = s.topic_id(&four)?;
            let by = |id: Uuid, name: Option<&TopicName>| {
                let topic = DeleteTopicState::default().with_topic_id(id).with_name(name.cloned());
                DeleteTopicsRequest::default()
                    .with_timeout_ms(10_000)
                    .with_topics(vec![topic])
            };
            s.call("v6 an unknown id", 6, &by(Uuid::from_u128(4), None))?;
            s.call("v6 id and name", 6, &by(id, Some(&four)))?;
            s.call("v6 neither", 6, &by(Uuid::nil(), None))?;
            s.call("v6 by id", 6, &by(id, None))?;
            s.settle(&four, 0)?;
            s.call("v6 by id again", 6, &by(id, None))?;
        }
    }
    let again = s.topic("v1_one", 2)?;
    s.call("one made anew", 12, &metadata(&[again]))?;
    Ok(())
}

fn partitions(s: &mut Session) -> Result<()> {
    let broker = s.quiet(9, &metadata(&[]))?.brokers[0].node_id;
    for version in 0..=3 {
        let name = s.topic(&format!("v{version}"), 2)?;
        let missing = s.name("missing");
        let topic = |name: &TopicName, count: i32| {
            CreatePartitionsTopic::default()
                .with_name(name.clone())
                .with_count(count)
                .with_assignments(None)
        };
        let assigned = |count: i32, brokers: &[&[BrokerId]]| {
            let assignments = brokers
                .iter()
                .map(|brokers| CreatePartitionsAssignment::default().with_broker_ids(brokers.to_vec()))
                .collect();
            topic(&name, count).with_assignments(Some(assignments))
        };
        let ask = |topics: Vec<CreatePartitionsTopic>| {
            CreatePartitionsRequest::default()
                .with_topics(topics)
                .with_timeout_ms(10_000)
        };
        for (what, request) in [
            ("only to try", ask(vec![topic(&name, 4)]).with_validate_only(true)),
            ("the same number", ask(vec![topic(&name, 2)])),
            ("fewer", ask(vec![topic(&name, 1)])),
            ("none", ask(vec![topic(&name, 0)])),
            ("less than none", ask(vec![topic(&name, -1)])),
            ("of an unknown topic", ask(vec![topic(&missing, 3)])),
            ("the same topic twice", ask(vec![topic(&name, 3), topic(&name, 4)])),
            ("of no topic", ask(vec![])),
            ("assigned, too few", ask(vec![assigned(4, &[&[broker]])])),
            ("assigned to nobody", ask(vec![assigned(3, &[&[]])])),
            ("assigned to a stranger", ask(vec![assigned(3, &[&[BrokerId(77)]])])),
            ("assigned", ask(vec![assigned(3, &[&[broker]])])),
        ] {
            s.call(format!("v{version} {what}"), version, &request)?;
        }
        s.settle(&name, 3)?;
        let both = ask(vec![topic(&name, 5), topic(&missing, 5)]);
        s.call(format!("v{version} two more, and of an unknown topic"), version, &both)?;
        s.settle(&name, 5)?;
        s.call(
            format!("v{version} metadata"),
            12,
            &metadata(std::slice::from_ref(&name)),
        )?;
        let topic = Topic {
            id: s.topic_id(&name)?,
            name: name.clone(),
        };
        let records = crate::batch::Batch::of(s.time(), &["a"]).encode()?;
        s.call(
            format!("v{version} produce to the last"),
            9,
            &produce(&topic, 4, records),
        )?;
        s.call(
            format!("v{version} fetch from all"),
            12,
            &fetch_all(&topic, &[(0, 0), (2, 0), (3, 0), (4, 0), (5, 0)]),
        )?;
    }
    for name in ["", "d.d.a b", "partitions_bare", "nowhere.d.t"] {
        let topic = CreatePartitionsTopic::default()
            .with_name(topic_name(name))
            .with_count(3)
            .with_assignments(None);
        let request = CreatePartitionsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(10_000);
        s.call(format!("a topic named {name:?}"), 3, &request)?;
    }
    Ok(())
}
