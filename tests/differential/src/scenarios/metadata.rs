//! Who leads what: Metadata, DescribeCluster, FindCoordinator, and the small cluster questions.

use super::requests::*;
use super::{Scenario, scenario};
use crate::normal::Projection;
use crate::session::Session;
use anyhow::Result;
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::*;
use uuid::Uuid;

pub const SCENARIOS: &[Scenario] = &[
    scenario("metadata", metadata_versions),
    scenario("metadata_by_id", by_id),
    scenario("describe_cluster", describe_cluster),
    scenario("find_coordinator", find_coordinator),
    scenario("log_dirs", log_dirs),
    scenario("reassignments", reassignments),
    scenario("acls", acls),
];

fn metadata_versions(s: &mut Session) -> Result<()> {
    let one = s.topic("one", 1)?;
    let three = s.topic("three", 3)?;
    let missing = s.name("missing");
    for version in 0..=13 {
        let ask = |names: &[TopicName]| {
            let request = metadata(names);
            if version < 4 {
                request.with_allow_auto_topic_creation(true)
            } else {
                request
            }
        };
        s.call(
            format!("v{version} two topics"),
            version,
            &ask(&[three.clone(), one.clone()]),
        )?;
        s.call(
            format!("v{version} a known and an unknown one"),
            version,
            &ask(&[one.clone(), missing.clone()]),
        )?;
        s.call(
            format!("v{version} one twice"),
            version,
            &ask(&[one.clone(), one.clone()]),
        )?;
        let long = format!("d.d.{}", "x".repeat(250));
        for (what, name) in [
            ("empty", ""),
            ("with a space", "d.d.a b"),
            ("dots alone", ".."),
            ("too long", &long),
            ("with a slash", "d.d.a/b"),
            ("of another namespace", "nowhere.d.t"),
            ("of another database", "d.nowhere.t"),
            ("bare", "metadata_bare"),
            ("of two parts", "d.metadata_two"),
            ("of four parts", "d.d.metadata.four"),
            ("with a dash", "d.d.metadata-dash"),
        ] {
            if version == 1 || version == 9 || version == 12 {
                s.call(format!("v{version} a name {what}"), version, &ask(&[topic_name(name)]))?;
            }
        }
        s.look(Projection::own());
        let all = if version == 0 {
            ask(&[])
        } else {
            ask(&[]).with_topics(None)
        };
        s.call(format!("v{version} all topics"), version, &all)?;
        s.look(Projection::default());
        if version > 0 {
            s.call(format!("v{version} no topics"), version, &ask(&[]))?;
        }
        if version >= 4 {
            let create = ask(std::slice::from_ref(&missing)).with_allow_auto_topic_creation(true);
            s.call(format!("v{version} an unknown one to be created"), version, &create)?;
        }
        if version >= 8 {
            let mut operations = ask(std::slice::from_ref(&one)).with_include_topic_authorized_operations(true);
            operations.include_cluster_authorized_operations = version <= 10;
            s.call(format!("v{version} with operations"), version, &operations)?;
        }
    }
    Ok(())
}

fn by_id(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 2)?;
    let id = s.topic_id(&name)?;
    let other = s.topic("u", 1)?;
    for version in 10..=13 {
        let ask = |topics: Vec<(Uuid, Option<TopicName>)>| {
            let topics = topics
                .into_iter()
                .map(|(id, name)| MetadataRequestTopic::default().with_topic_id(id).with_name(name))
                .collect();
            MetadataRequest::default()
                .with_topics(Some(topics))
                .with_allow_auto_topic_creation(false)
        };
        if version >= 12 {
            s.call(format!("v{version} by id"), version, &ask(vec![(id, None)]))?;
            s.call(
                format!("v{version} an unknown id"),
                version,
                &ask(vec![(Uuid::from_u128(9), None)]),
            )?;
            s.call(
                format!("v{version} two ids"),
                version,
                &ask(vec![(Uuid::from_u128(9), None), (id, None)]),
            )?;
            s.call(
                format!("v{version} an id and another's name"),
                version,
                &ask(vec![(id, Some(other.clone()))]),
            )?;
        }
        s.call(
            format!("v{version} id and name"),
            version,
            &ask(vec![(id, Some(name.clone()))]),
        )?;
        if version >= 12 {
            s.call(
                format!("v{version} neither id nor name"),
                version,
                &ask(vec![(Uuid::nil(), None)]),
            )?;
        }
    }
    Ok(())
}

fn describe_cluster(s: &mut Session) -> Result<()> {
    for version in 0..=2 {
        let plain = DescribeClusterRequest::default();
        s.call(format!("v{version}"), version, &plain)?;
        let operations = plain.clone().with_include_cluster_authorized_operations(true);
        s.call(format!("v{version} with operations"), version, &operations)?;
        if version >= 1 {
            s.call(
                format!("v{version} controllers"),
                version,
                &plain.clone().with_endpoint_type(2),
            )?;
            s.call(
                format!("v{version} an unknown endpoint"),
                version,
                &plain.clone().with_endpoint_type(9),
            )?;
        }
        if version >= 2 {
            s.call(
                format!("v{version} fenced"),
                version,
                &plain.with_include_fenced_brokers(true),
            )?;
        }
    }
    Ok(())
}

fn find_coordinator(s: &mut Session) -> Result<()> {
    let group = s.group("g");
    for version in 0..=6 {
        if version < 4 {
            let ask = |key: &str| FindCoordinatorRequest::default().with_key(text(key));
            s.call(format!("v{version} a group"), version, &ask(&group))?;
            s.call(format!("v{version} an empty group"), version, &ask(""))?;
            if version >= 1 {
                s.call(
                    format!("v{version} an unknown kind"),
                    version,
                    &ask(&group).with_key_type(7),
                )?;
                s.call(
                    format!("v{version} a transaction"),
                    version,
                    &ask("tx").with_key_type(1),
                )?;
            }
        } else {
            let ask = |keys: &[&str]| {
                FindCoordinatorRequest::default().with_coordinator_keys(keys.iter().map(|key| text(key)).collect())
            };
            s.call(format!("v{version} a group"), version, &ask(&[&group]))?;
            s.call(
                format!("v{version} three groups"),
                version,
                &ask(&["find_a", "find_b", "find_c"]),
            )?;
            s.call(format!("v{version} a group twice"), version, &ask(&[&group, &group]))?;
            s.call(format!("v{version} an empty group"), version, &ask(&["", &group]))?;
            s.call(format!("v{version} none"), version, &ask(&[]))?;
            s.call(
                format!("v{version} an unknown kind"),
                version,
                &ask(&[&group]).with_key_type(7),
            )?;
            s.call(
                format!("v{version} a transaction"),
                version,
                &ask(&["tx"]).with_key_type(1),
            )?;
            s.call(
                format!("v{version} a share group"),
                version,
                &ask(&["g:AAAAAAAAAAAAAAAAAAAAAA:0"]).with_key_type(2),
            )?;
        }
    }
    Ok(())
}

fn log_dirs(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 2)?;
    let topic = Topic {
        name: name.clone(),
        id: s.topic_id(&name)?,
    };
    let records = crate::batch::Batch::of(s.time(), &["one", "two"]).encode()?;
    s.call("produce", 7, &produce(&topic, 1, records))?;
    s.look(Projection::own());
    for version in 1..=4 {
        let ask = |topics: &[(&TopicName, &[i32])]| {
            let topics = topics
                .iter()
                .map(|(name, partitions)| {
                    DescribableLogDirTopic::default()
                        .with_topic((*name).clone())
                        .with_partitions(partitions.to_vec())
                })
                .collect();
            DescribeLogDirsRequest::default().with_topics(Some(topics))
        };
        s.call(format!("v{version} one topic"), version, &ask(&[(&name, &[0, 1])]))?;
        s.call(format!("v{version} one partition"), version, &ask(&[(&name, &[1])]))?;
        s.call(
            format!("v{version} an unknown one"),
            version,
            &ask(&[(&s.name("missing"), &[0]), (&name, &[7])]),
        )?;
        s.call(format!("v{version} none"), version, &ask(&[]))?;
        s.call(
            format!("v{version} all"),
            version,
            &DescribeLogDirsRequest::default().with_topics(None),
        )?;
    }
    Ok(())
}

fn reassignments(s: &mut Session) -> Result<()> {
    let name = s.topic("t", 1)?;
    let ask = |topics| {
        ListPartitionReassignmentsRequest::default()
            .with_timeout_ms(1_000)
            .with_topics(topics)
    };
    let topic = |name: &TopicName| {
        ListPartitionReassignmentsTopics::default()
            .with_name(name.clone())
            .with_partition_indexes(vec![0])
    };
    s.call("all", 0, &ask(None))?;
    s.call("none", 0, &ask(Some(vec![])))?;
    s.call("one", 0, &ask(Some(vec![topic(&name)])))?;
    s.call("an unknown one", 0, &ask(Some(vec![topic(&s.name("missing"))])))?;
    Ok(())
}

fn acls(s: &mut Session) -> Result<()> {
    for version in 1..=3 {
        let all = DescribeAclsRequest::default()
            .with_resource_type_filter(1)
            .with_resource_name_filter(None)
            .with_pattern_type_filter(1)
            .with_principal_filter(None)
            .with_host_filter(None)
            .with_operation(1)
            .with_permission_type(1);
        s.call(format!("v{version} all"), version, &all)?;
        let one = all
            .clone()
            .with_resource_type_filter(2)
            .with_resource_name_filter(Some(text("d.d.t")));
        s.call(
            format!("v{version} a topic's"),
            version,
            &one.with_pattern_type_filter(3),
        )?;
    }
    Ok(())
}
