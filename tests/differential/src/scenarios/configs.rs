//! Configs read and changed.

use super::requests::*;
use super::{Scenario, scenario};
use crate::session::Session;
use anyhow::Result;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::*;

pub const SCENARIOS: &[Scenario] = &[
    scenario("describe_configs", describe),
    scenario("describe_configs_broker", broker),
    scenario("alter_configs", alter),
    scenario("incremental_configs", incremental),
];

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// The configs of a topic that tools look at.
const KEYS: [&str; 8] = [
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "max.message.bytes",
    "message.timestamp.type",
    "compression.type",
    "min.insync.replicas",
    "segment.bytes",
];

fn wanted(kind: i8, name: &str, keys: Option<&[&str]>) -> DescribeConfigsResource {
    DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(keys.map(|keys| keys.iter().map(|key| text(key)).collect()))
}

fn describe(s: &mut Session) -> Result<()> {
    let plain = s.topic("plain", 1)?;
    let set = s.topic_with("set", 1, &[("retention.ms", "60000"), ("max.message.bytes", "5000")])?;
    let missing = s.name("missing");
    for version in 1..=4 {
        let ask = |resources: Vec<DescribeConfigsResource>| DescribeConfigsRequest::default().with_resources(resources);
        for (what, request) in [
            ("known keys", ask(vec![wanted(TOPIC, &plain, Some(&KEYS))])),
            ("keys that were set", ask(vec![wanted(TOPIC, &set, Some(&KEYS))])),
            (
                "with synonyms",
                ask(vec![wanted(TOPIC, &set, Some(&KEYS))]).with_include_synonyms(true),
            ),
            (
                "a known and an unknown key",
                ask(vec![wanted(TOPIC, &plain, Some(&["cleanup.policy", "nope"]))]),
            ),
            ("no keys", ask(vec![wanted(TOPIC, &plain, Some(&[]))])),
            ("an unknown topic", ask(vec![wanted(TOPIC, &missing, Some(&KEYS[..1]))])),
            (
                "two topics",
                ask(vec![
                    wanted(TOPIC, &plain, Some(&KEYS[..1])),
                    wanted(TOPIC, &missing, Some(&KEYS[..1])),
                    wanted(TOPIC, &set, Some(&KEYS[1..2])),
                ]),
            ),
            (
                "a topic twice",
                ask(vec![
                    wanted(TOPIC, &plain, Some(&KEYS[..1])),
                    wanted(TOPIC, &plain, Some(&KEYS[1..2])),
                ]),
            ),
            ("a bad name", ask(vec![wanted(TOPIC, "d.d.a b", None)])),
            ("an empty name", ask(vec![wanted(TOPIC, "", None)])),
            ("a bare name", ask(vec![wanted(TOPIC, "configs_bare", None)])),
            ("an unknown kind", ask(vec![wanted(77, "x", None)])),
            ("kind zero", ask(vec![wanted(0, "x", None)])),
            (
                "a group",
                ask(vec![wanted(32, "x", Some(&["consumer.session.timeout.ms"]))]),
            ),
            ("none", ask(vec![])),
        ] {
            s.call(format!("v{version} {what}"), version, &request)?;
        }
    }
    let all = DescribeConfigsRequest::default().with_resources(vec![wanted(TOPIC, &plain, None)]);
    s.call("all keys", 4, &all)?;
    s.look(crate::normal::Projection::hide(&["documentation"]));
    s.call("all keys with synonyms and documentation", 4, &{
        all.with_include_synonyms(true).with_include_documentation(true)
    })?;
    Ok(())
}

fn broker(s: &mut Session) -> Result<()> {
    let id = s.quiet(9, &metadata(&[]))?.brokers[0].node_id.0.to_string();
    let keys = [
        "num.partitions",
        "default.replication.factor",
        "message.max.bytes",
        "log.retention.ms",
        "log.retention.hours",
        "log.cleanup.policy",
        "min.insync.replicas",
        "offsets.retention.minutes",
        "group.min.session.timeout.ms",
        "group.max.session.timeout.ms",
        "delete.topic.enable",
        "compression.type",
        "log.message.timestamp.type",
    ];
    for version in 1..=4 {
        let ask =
            |name: &str| DescribeConfigsRequest::default().with_resources(vec![wanted(BROKER, name, Some(&keys))]);
        // The answer names the node as it was asked for.
        s.look(crate::normal::Projection::hide(&["resource_name"]));
        s.call(format!("v{version} this node"), version, &ask(&id))?;
        s.call(
            format!("v{version} this node with synonyms"),
            version,
            &ask(&id).with_include_synonyms(true),
        )?;
        s.call(format!("v{version} a stranger"), version, &ask("77"))?;
        s.call(format!("v{version} no number"), version, &ask("seven"))?;
        s.call(format!("v{version} every node"), version, &ask(""))?;
    }
    Ok(())
}

fn alter(s: &mut Session) -> Result<()> {
    use kafka_protocol::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};
    for version in 0..=2 {
        let name = s.topic(&format!("v{version}"), 1)?;
        let missing = s.name("missing");
        let resource = |kind: i8, name: &str, configs: &[(&str, Option<&str>)]| {
            let configs = configs
                .iter()
                .map(|(name, value)| {
                    AlterableConfig::default()
                        .with_name(text(name))
                        .with_value(value.map(text))
                })
                .collect();
            AlterConfigsResource::default()
                .with_resource_type(kind)
                .with_resource_name(text(name))
                .with_configs(configs)
        };
        let ask = |resources: Vec<AlterConfigsResource>| AlterConfigsRequest::default().with_resources(resources);
        let set = |configs: &[(&str, Option<&str>)]| ask(vec![resource(TOPIC, &name, configs)]);
        for (what, request) in [
            (
                "only to try",
                set(&[("retention.ms", Some("9000"))]).with_validate_only(true),
            ),
            ("one", set(&[("retention.ms", Some("60000"))])),
            ("another: the first is gone", set(&[("retention.bytes", Some("70000"))])),
            (
                "two",
                set(&[("retention.ms", Some("80000")), ("max.message.bytes", Some("5000"))]),
            ),
            ("an unknown one", set(&[("no.such", Some("1"))])),
            ("a bad value", set(&[("retention.ms", Some("soon"))])),
            ("a value too small", set(&[("retention.ms", Some("-5"))])),
            ("a null value", set(&[("retention.ms", None)])),
            (
                "the same twice",
                set(&[("retention.ms", Some("1")), ("retention.ms", Some("2"))]),
            ),
            (
                "an unknown topic",
                ask(vec![resource(TOPIC, &missing, &[("retention.ms", Some("1"))])]),
            ),
            (
                "an unknown kind",
                ask(vec![resource(77, "x", &[("retention.ms", Some("1"))])]),
            ),
            (
                "a bad name",
                ask(vec![resource(TOPIC, "d.d.a b", &[("retention.ms", Some("1"))])]),
            ),
            ("none", ask(vec![])),
        ] {
            s.call(format!("v{version} {what}"), version, &request)?;
        }
        wait_for(s, &name, "max.message.bytes", Some("5000"))?;
        let keys = DescribeConfigsRequest::default().with_resources(vec![wanted(TOPIC, &name, Some(&KEYS))]);
        s.call(format!("v{version} what came of it"), 4, &keys)?;
        s.call(format!("v{version} nothing: all is gone"), version, &set(&[]))?;
        wait_for(s, &name, "retention.ms", None)?;
        s.call(format!("v{version} what is left"), 4, &keys)?;
        if version == 2 {
            let twice = ask(vec![
                resource(TOPIC, &name, &[("retention.ms", Some("1"))]),
                resource(TOPIC, &name, &[("retention.ms", Some("2"))]),
            ]);
            s.patience(std::time::Duration::from_secs(3));
            s.call(format!("v{version} a topic twice"), version, &twice)?;
        }
    }
    Ok(())
}

/// Waits until the broker has heard of a change: that the topic's own `key` is `value`, or that it has none.
fn wait_for(s: &mut Session, topic: &TopicName, key: &str, value: Option<&str>) -> Result<()> {
    const OF_THE_TOPIC: i8 = 1;
    let request = DescribeConfigsRequest::default().with_resources(vec![wanted(TOPIC, topic, Some(&[key]))]);
    let (key, value) = (text(key), value.map(text));
    s.until("a config is changed", |s| {
        let answer = s.quiet(4, &request)?;
        let mut all = answer.results.iter().flat_map(|result| &result.configs);
        let own = all.find(|config| config.name == key && config.config_source == OF_THE_TOPIC);
        Ok(own.and_then(|config| config.value.clone()) == value)
    })
}

fn incremental(s: &mut Session) -> Result<()> {
    use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
    const SET: i8 = 0;
    const DELETE: i8 = 1;
    const APPEND: i8 = 2;
    const SUBTRACT: i8 = 3;
    for version in 0..=1 {
        let name = s.topic(&format!("v{version}"), 1)?;
        let missing = s.name("missing");
        let resource = |kind: i8, name: &str, configs: &[(&str, i8, Option<&str>)]| {
            let configs = configs
                .iter()
                .map(|(name, operation, value)| {
                    AlterableConfig::default()
                        .with_name(text(name))
                        .with_config_operation(*operation)
                        .with_value(value.map(text))
                })
                .collect();
            AlterConfigsResource::default()
                .with_resource_type(kind)
                .with_resource_name(text(name))
                .with_configs(configs)
        };
        let ask =
            |resources: Vec<AlterConfigsResource>| IncrementalAlterConfigsRequest::default().with_resources(resources);
        let one = |configs: &[(&str, i8, Option<&str>)]| ask(vec![resource(TOPIC, &name, configs)]);
        for (what, request) in [
            (
                "only to try",
                one(&[("retention.ms", SET, Some("9000"))]).with_validate_only(true),
            ),
            ("set one", one(&[("retention.ms", SET, Some("60000"))])),
            ("set another", one(&[("retention.bytes", SET, Some("70000"))])),
            (
                "set and delete",
                one(&[
                    ("max.message.bytes", SET, Some("5000")),
                    ("retention.bytes", DELETE, None),
                ]),
            ),
            ("delete one that is not set", one(&[("retention.bytes", DELETE, None)])),
            ("delete an unknown one", one(&[("no.such", DELETE, None)])),
            ("set an unknown one", one(&[("no.such", SET, Some("1"))])),
            ("set null", one(&[("retention.ms", SET, None)])),
            ("set a bad value", one(&[("retention.ms", SET, Some("soon"))])),
            ("set a value too small", one(&[("retention.ms", SET, Some("-5"))])),
            ("append to no list", one(&[("retention.ms", APPEND, Some("1"))])),
            ("subtract from no list", one(&[("retention.ms", SUBTRACT, Some("1"))])),
            (
                "append to a list what is there",
                one(&[("cleanup.policy", APPEND, Some("delete"))]),
            ),
            (
                "subtract from a list what is not there",
                one(&[("cleanup.policy", SUBTRACT, Some("compact"))]),
            ),
            ("append null", one(&[("cleanup.policy", APPEND, None)])),
            (
                "append an unknown policy",
                one(&[("cleanup.policy", APPEND, Some("burn"))]),
            ),
            ("an unknown operation", one(&[("retention.ms", 9, Some("1"))])),
            (
                "the same twice",
                one(&[("retention.ms", SET, Some("1")), ("retention.ms", SET, Some("2"))]),
            ),
            (
                "an unknown topic",
                ask(vec![resource(TOPIC, &missing, &[("retention.ms", SET, Some("1"))])]),
            ),
            (
                "a good and an unknown topic",
                ask(vec![
                    resource(TOPIC, &name, &[("retention.ms", SET, Some("61000"))]),
                    resource(TOPIC, &missing, &[("retention.ms", SET, Some("1"))]),
                ]),
            ),
            (
                "a topic twice",
                ask(vec![
                    resource(TOPIC, &name, &[("retention.ms", SET, Some("1"))]),
                    resource(TOPIC, &name, &[("retention.ms", SET, Some("2"))]),
                ]),
            ),
            (
                "a good one beside a bad one",
                one(&[("retention.ms", SET, Some("5")), ("max.message.bytes", SET, Some("x"))]),
            ),
            (
                "an unknown kind",
                ask(vec![resource(77, "x", &[("retention.ms", SET, Some("1"))])]),
            ),
            (
                "a bad name",
                ask(vec![resource(TOPIC, "d.d.a b", &[("retention.ms", SET, Some("1"))])]),
            ),
            ("no configs", one(&[])),
            ("none", ask(vec![])),
        ] {
            s.call(format!("v{version} {what}"), version, &request)?;
        }
        wait_for(s, &name, "retention.ms", Some("61000"))?;
        let keys = DescribeConfigsRequest::default().with_resources(vec![wanted(TOPIC, &name, Some(&KEYS))]);
        s.call(format!("v{version} what came of it"), 4, &keys)?;
    }
    Ok(())
}
