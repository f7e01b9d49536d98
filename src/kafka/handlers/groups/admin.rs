//! What administrators ask about groups.

use super::offsets::{exists, partition};
use super::{address, code, error, scope, string};
use crate::groups::{Refusal, Subscribed};
use crate::kafka::call::Call;
use cluster::ids::TopicId;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use std::collections::HashSet;

/// READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: all that can be done to a group (KIP-430).
const ALL_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;
/// All groups of the classic protocol are of this type (KIP-848).
const CLASSIC: &str = "classic";

pub(crate) async fn describe_groups(call: &Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse {
    let mut groups = Vec::with_capacity(request.groups.len());
    for id in request.groups {
        let address = address(call, &call.view(), &id, []);
        let described = call.shared.groups.describe(&address).await;
        let mut answer = DescribedGroup::default();
        match described {
            Ok(Some(group)) => {
                let members = group.members.into_iter().map(|m| {
                    DescribedGroupMember::default()
                        .with_member_id(string(&m.id))
                        .with_group_instance_id(m.instance.as_deref().map(string))
                        .with_client_id(string(&m.client_id))
                        .with_client_host(string(&m.client_host))
                        .with_member_metadata(m.metadata)
                        .with_member_assignment(m.assignment)
                });
                answer = answer
                    .with_group_state(StrBytes::from_static_str(group.state.name()))
                    .with_protocol_type(string(&group.protocol_type))
                    .with_protocol_data(string(&group.protocol))
                    .with_members(members.collect());
            }
            Ok(None) => {
                answer = answer.with_group_state(StrBytes::from_static_str("Dead"));
                if call.version >= 6 {
                    let message = format!("Group {} not found.", id.as_str());
                    answer = answer
                        .with_error_code(ResponseError::GroupIdNotFound.code())
                        .with_error_message(Some(StrBytes::from_string(message)));
                }
            }
            Err(refusal) => answer = answer.with_error_code(error(refusal).code()),
        }
        if call.version >= 3 && request.include_authorized_operations && answer.error_code == 0 {
            answer = answer.with_authorized_operations(ALL_OPERATIONS);
        }
        groups.push(answer.with_group_id(id));
    }
    DescribeGroupsResponse::default().with_groups(groups)
}

pub(crate) async fn list_groups(call: &Call, request: ListGroupsRequest) -> ListGroupsResponse {
    let scope = scope(call, &call.view());
    let listed = match call.shared.groups.list(scope).await {
        Ok(listed) => listed,
        Err(refusal) => return ListGroupsResponse::default().with_error_code(error(refusal).code()),
    };
    let wanted = |filter: &[StrBytes], value: &str| {
        filter.is_empty() || filter.iter().any(|f| f.as_str().eq_ignore_ascii_case(value))
    };
    let groups = listed
        .into_iter()
        .filter(|g| wanted(&request.states_filter, g.state.name()) && wanted(&request.types_filter, CLASSIC))
        .map(|g| {
            ListedGroup::default()
                .with_group_id(GroupId(string(&g.group)))
                .with_protocol_type(string(&g.protocol_type))
                .with_group_state(StrBytes::from_static_str(g.state.name()))
                .with_group_type(StrBytes::from_static_str(CLASSIC))
        });
    ListGroupsResponse::default().with_groups(groups.collect())
}

pub(crate) async fn delete_groups(call: &Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse {
    let mut results = Vec::with_capacity(request.groups_names.len());
    let mut seen = HashSet::new();
    for id in request.groups_names {
        if !seen.insert(id.clone()) {
            continue;
        }
        let address = address(call, &call.view(), &id, []);
        let deleted = call.shared.groups.delete(&address).await;
        let result = DeletableGroupResult::default().with_error_code(code(&deleted));
        results.push(result.with_group_id(id));
    }
    DeleteGroupsResponse::default().with_results(results)
}

pub(crate) async fn offset_delete(call: &Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse {
    let refused = |refusal: Refusal| OffsetDeleteResponse::default().with_error_code(error(refusal).code());
    if request.group_id.is_empty() {
        return refused(Refusal::InvalidGroupId);
    }
    let state = call.view();
    let names = request.topics.iter().map(|t| t.name.as_str());
    let address = address(call, &state, &request.group_id, names);
    let subscribed = match call.shared.groups.subscribed(&address).await {
        Ok(subscribed) => subscribed,
        Err(refusal) => return refused(refusal),
    };
    // Members may name a topic by another of its names.
    let read: HashSet<TopicId> = match &subscribed {
        Subscribed::To(names) => names
            .iter()
            .filter_map(|name| call.shared.names.topic(&state, name).ok())
            .map(|topic| topic.id)
            .collect(),
        Subscribed::ToNothing | Subscribed::ToAnything => HashSet::new(),
    };
    let mut deleted = Vec::new();
    let asked = request
        .topics
        .into_iter()
        .filter(|t| !t.partitions.is_empty() || !exists(call, &state, &t.name));
    let topics = asked.map(|topic| {
        let partitions = topic.partitions.iter().map(|p| {
            let error = match partition(call, &state, &topic.name, p.partition_index) {
                None => Some(ResponseError::UnknownTopicOrPartition),
                Some(id) if subscribed == Subscribed::ToAnything || read.contains(&id.topic) => {
                    Some(ResponseError::GroupSubscribedToTopic)
                }
                Some(id) => {
                    deleted.push(id);
                    None
                }
            };
            OffsetDeleteResponsePartition::default()
                .with_partition_index(p.partition_index)
                .with_error_code(error.map_or(0, |e| e.code()))
        });
        OffsetDeleteResponseTopic::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    let topics = topics.collect();
    match call.shared.groups.delete_offsets(&address, deleted).await {
        Ok(()) => OffsetDeleteResponse::default().with_topics(topics),
        Err(refusal) => refused(refusal),
    }
}
