//! What tools ask about the store: DescribeCluster (60), DescribeLogDirs (35), ListPartitionReassignments (46).

use crate::auth::Action;
use crate::kafka::access::Access;
use crate::kafka::call::Call;
use crate::kafka::errors;
use crate::kafka::partitions::{self, Leaders};
use cluster::catalog::Topic;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{
    BrokerId, DescribeClusterRequest, DescribeClusterResponse, DescribeLogDirsRequest, DescribeLogDirsResponse,
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

/// KIP-919: brokers, or controllers. Ours are one.
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(crate) async fn describe_cluster(call: &Call, request: DescribeClusterRequest) -> DescribeClusterResponse {
    if call.version >= 1 && request.endpoint_type != BROKERS {
        let error = match request.endpoint_type {
            CONTROLLERS => ResponseError::MismatchedEndpointType,
            _ => ResponseError::UnsupportedEndpointType,
        };
        return DescribeClusterResponse::default()
            .with_error_code(error.code())
            .with_error_message(Some(StrBytes::from_static_str("this is a broker's port")));
    }
    let state = call.view();
    let mut leaders = Leaders::new(call, &state);
    let controller = leaders.controller();
    let response = DescribeClusterResponse::default()
        .with_cluster_id(StrBytes::from_string(call.shared.config.cluster_id.clone()))
        .with_controller_id(BrokerId(controller))
        .with_brokers(
            leaders
                .brokers()
                .listed()
                .iter()
                .map(|e| {
                    DescribeClusterBroker::default()
                        .with_broker_id(BrokerId(e.broker))
                        .with_host(StrBytes::from_string(e.host.clone()))
                        .with_port(i32::from(e.port))
                })
                .collect(),
        );
    match request.include_cluster_authorized_operations {
        true => {
            let operations = Access::new(call, &state).cluster_operations();
            response.with_cluster_authorized_operations(operations)
        }
        false => response,
    }
}

/// One folder, with the replicas this member holds, led here or not: who adds up what all members tell counts each replica
/// once, as in Kafka. Topics that are not there are left out.
pub(crate) async fn describe_log_dirs(call: &Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse {
    let state = call.view();
    let access = Access::new(call, &state);
    if let Err(error) = access.cluster(Action::Describe) {
        let refused = DescribeLogDirsResponse::default();
        // Before version 3 there is no room for it: such a client sees no folder.
        return match call.version {
            3.. => refused.with_error_code(error.code()),
            _ => refused,
        };
    }
    let describe = |topic: &Topic, name: TopicName, asked: Option<Vec<i32>>| {
        let all = asked.unwrap_or_else(|| (0..topic.partitions.len() as i32).collect());
        let partitions = all.into_iter().filter_map(|partition| {
            let index = partitions::index(topic, partition).ok()?;
            let size = call.broker().replica_size(topic, index)?;
            Some(
                DescribeLogDirsPartition::default()
                    .with_partition_index(partition)
                    .with_partition_size(i64::try_from(size).unwrap_or(i64::MAX)),
            )
        });
        DescribeLogDirsTopic::default()
            .with_name(name)
            .with_partitions(partitions.collect())
    };
    let topics: Vec<DescribeLogDirsTopic> = match request.topics {
        None => state
            .topics()
            .map(|t| describe(t, TopicName(StrBytes::from_string(t.full_name())), None))
            .collect(),
        Some(asked) => asked
            .into_iter()
            .filter_map(|asked| {
                let topic = call.shared.names.topic(&state, &asked.topic).ok()?;
                Some(describe(topic, asked.topic, Some(asked.partitions)))
            })
            .collect(),
    };
    DescribeLogDirsResponse::default().with_results(vec![
        DescribeLogDirsResult::default()
            .with_log_dir(StrBytes::from_string(call.shared.config.log_dir.clone()))
            .with_topics(topics.into_iter().filter(|t| !t.partitions.is_empty()).collect()),
    ])
}

/// Nothing is ever under way in Kafka's sense.
pub(crate) async fn list_partition_reassignments(
    call: &Call,
    _request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let state = call.view();
    let response = ListPartitionReassignmentsResponse::default();
    match Access::new(call, &state).cluster(Action::Describe) {
        Ok(()) => response.with_error_message(None),
        Err(error) => response
            .with_error_code(error.code())
            .with_error_message(Some(StrBytes::from_string(errors::sentence(error)))),
    }
}
