//! Bodies that are none: for each key and version, an honest body cut short, made longer, or replaced by noise.

use super::requests::*;
use super::{Scenario, scenario};
use crate::batch::Batch;
use crate::normal::Projection;
use crate::session::Session;
use anyhow::Result;
use bytes::BytesMut;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Request, StrBytes};
use std::fmt::Debug;
use std::ops::RangeInclusive;
use uuid::Uuid;

pub const SCENARIOS: &[Scenario] = &[
    scenario("bodies_of_logs", logs),
    scenario("bodies_of_groups", groups),
    scenario("bodies_of_topics", topics),
    scenario("bodies_of_configs", configs),
    scenario("bodies_of_clusters", clusters),
];

/// Sends broken bodies of one key at each of `versions`.
fn broken<R>(s: &mut Session, key: &str, versions: RangeInclusive<i16>, honest: impl Fn(i16) -> R) -> Result<()>
where
    R: Request,
    R::Response: Debug + Default,
{
    for version in versions {
        let mut body = BytesMut::new();
        honest(version).encode(&mut body, version)?;
        s.call_body::<R>(format!("{key} v{version} honest"), version, &body)?;
        s.call_body::<R>(
            format!("{key} v{version} cut by one byte"),
            version,
            &body[..body.len().saturating_sub(1)],
        )?;
        s.call_body::<R>(
            format!("{key} v{version} cut in half"),
            version,
            &body[..body.len() / 2],
        )?;
        s.call_body::<R>(
            format!("{key} v{version} bytes behind it"),
            version,
            &[&body[..], b"more"].concat(),
        )?;
        s.call_body::<R>(format!("{key} v{version} nothing"), version, b"")?;
        s.call_body::<R>(
            format!("{key} v{version} the greatest counts"),
            version,
            &b"\x7f\xff\xff\xff".repeat(8),
        )?;
        s.call_body::<R>(format!("{key} v{version} ones"), version, &[0xff; 40])?;
    }
    Ok(())
}

fn logs(s: &mut Session) -> Result<()> {
    let topic = Topic {
        name: s.name("missing"),
        id: Uuid::from_u128(77),
    };
    let name = topic.name.clone();
    let records = Batch::of(s.time(), &["a"]).encode()?;
    broken(s, "produce", 3..=13, |_| produce(&topic, 0, records.clone()))?;
    broken(s, "fetch", 4..=17, |_| fetch(&topic, 0, 0))?;
    broken(s, "list offsets", 1..=10, |_| list_offsets(&name, &[(0, -1)]))?;
    broken(s, "leader epoch", 2..=4, |_| {
        let partition = OffsetForLeaderPartition::default().with_leader_epoch(0);
        let topic = OffsetForLeaderTopic::default()
            .with_topic(name.clone())
            .with_partitions(vec![partition]);
        OffsetForLeaderEpochRequest::default().with_topics(vec![topic])
    })?;
    broken(s, "delete records", 0..=2, |_| {
        let partition = DeleteRecordsPartition::default();
        let topic = DeleteRecordsTopic::default()
            .with_name(name.clone())
            .with_partitions(vec![partition]);
        DeleteRecordsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(1_000)
    })?;
    broken(s, "producer id", 0..=5, |_| init_producer())
}

fn groups(s: &mut Session) -> Result<()> {
    let group = s.group("g");
    let nobody = text("nobody");
    let name = s.name("missing");
    s.look(Projection::own());
    broken(s, "find coordinator", 0..=6, |version| {
        let request = FindCoordinatorRequest::default();
        if version < 4 {
            request.with_key(group.clone())
        } else {
            request.with_coordinator_keys(vec![group.clone()])
        }
    })?;
    broken(s, "join", 0..=9, |_| join(&group, &nobody, b"m"))?;
    broken(s, "sync", 0..=5, |version| {
        for_version(sync(&group, &nobody, 1, &[]), version)
    })?;
    broken(s, "heartbeat", 0..=4, |_| heartbeat(&group, &nobody, 1))?;
    broken(s, "leave", 0..=5, |version| leave(&group, &nobody, version))?;
    broken(s, "commit", 2..=9, |_| commit(&group, &name, &[(0, 1)]))?;
    broken(s, "offsets", 1..=9, |version| {
        offsets(&group, Some(&[(name.clone(), vec![0])]), version)
    })?;
    broken(s, "describe groups", 0..=6, |_| {
        DescribeGroupsRequest::default().with_groups(vec![group.clone().into()])
    })?;
    broken(s, "list groups", 0..=5, |_| ListGroupsRequest::default())?;
    broken(s, "delete groups", 0..=2, |_| {
        DeleteGroupsRequest::default().with_groups_names(vec![group.clone().into()])
    })?;
    broken(s, "offset delete", 0..=0, |_| {
        OffsetDeleteRequest::default().with_group_id(group.clone().into())
    })
}

fn topics(s: &mut Session) -> Result<()> {
    let name = s.name("missing");
    s.look(Projection::own());
    broken(s, "metadata", 0..=13, |version| {
        metadata(std::slice::from_ref(&name)).with_allow_auto_topic_creation(version < 4)
    })?;
    s.look(Projection::hide(&["configs"]));
    broken(s, "create topics", 2..=7, |version| {
        create_topic(&topic_name(&format!("d.d.bodies_of_topics_{version}")), 1).with_validate_only(true)
    })?;
    broken(s, "delete topics", 1..=6, |version| {
        let request = DeleteTopicsRequest::default().with_timeout_ms(1_000);
        if version < 6 {
            request.with_topic_names(vec![name.clone()])
        } else {
            request.with_topics(vec![DeleteTopicState::default().with_name(Some(name.clone()))])
        }
    })?;
    broken(s, "create partitions", 0..=3, |_| {
        let topic = CreatePartitionsTopic::default()
            .with_name(name.clone())
            .with_count(3)
            .with_assignments(None);
        CreatePartitionsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(1_000)
    })
}

fn configs(s: &mut Session) -> Result<()> {
    let name: StrBytes = s.name("missing").0;
    broken(s, "describe configs", 1..=4, |_| {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(name.clone());
        DescribeConfigsRequest::default().with_resources(vec![resource])
    })?;
    broken(s, "alter configs", 0..=2, |_| {
        let resource = alter_configs_request::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(name.clone());
        AlterConfigsRequest::default().with_resources(vec![resource])
    })?;
    broken(s, "incremental configs", 0..=1, |_| {
        let resource = incremental_alter_configs_request::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(name.clone());
        IncrementalAlterConfigsRequest::default().with_resources(vec![resource])
    })
}

fn clusters(s: &mut Session) -> Result<()> {
    s.look(Projection {
        own_only: true,
        hidden: vec!["api_keys", "supported_features", "finalized_features"],
    });
    broken(s, "api versions", 0..=4, |version| {
        let request = ApiVersionsRequest::default();
        if version < 3 {
            request
        } else {
            request
                .with_client_software_name(text("x"))
                .with_client_software_version(text("1"))
        }
    })?;
    broken(s, "describe cluster", 0..=2, |_| DescribeClusterRequest::default())?;
    broken(s, "log dirs", 1..=4, |_| {
        DescribeLogDirsRequest::default().with_topics(Some(vec![]))
    })?;
    broken(s, "reassignments", 0..=0, |_| {
        ListPartitionReassignmentsRequest::default().with_timeout_ms(1_000)
    })?;
    broken(s, "acls", 1..=3, |_| {
        DescribeAclsRequest::default()
            .with_resource_type_filter(1)
            .with_pattern_type_filter(1)
            .with_operation(1)
            .with_permission_type(1)
    })
}
