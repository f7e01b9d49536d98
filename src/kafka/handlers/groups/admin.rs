//! What administrators ask about groups.

use super::offsets::{exists, partition};
use super::{address, code, error, scope, string};
use crate::auth::{Action, On};
use crate::groups::{Address, Refusal, Subscribed};
use crate::kafka::access::Access;
use crate::kafka::call::Call;
use cluster::catalog::State;
use cluster::ids::{NamespaceId, TopicId};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use std::collections::HashSet;

/// All groups of the classic protocol are of this type (KIP-848).
const CLASSIC: &str = "classic";

pub(crate) async fn describe_groups(call: &Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse {
    let mut groups = Vec::with_capacity(request.groups.len());
    for id in request.groups {
        let state = call.view();
        let access = Access::new(call, &state);
        let address = match address(call, &access, Action::Read, &id, []) {
            Ok(address) => address,
            Err(error) => {
                let refused = DescribedGroup::default().with_error_code(error.code());
                groups.push(refused.with_group_id(id));
                continue;
            }
        };
        let hidden = !may_see(call, &access, &address).await;
        let described = call.shared.groups.describe(&address).await;
        let mut answer = DescribedGroup::default();
        match described {
            Ok(Some(_)) if hidden => {
                let refused = access.refused(Action::Read, &id, ResponseError::GroupAuthorizationFailed);
                answer = answer.with_error_code(refused.code());
            }
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
            answer = answer.with_authorized_operations(access.group_operations(coordinated(&state, &address)));
        }
        groups.push(answer.with_group_id(id));
    }
    DescribeGroupsResponse::default().with_groups(groups)
}

/// Whether the caller may describe every topic that the group's members read, as far as they exist: subscriptions and
/// assignments name them.
async fn may_see(call: &Call, access: &Access<'_>, address: &Address) -> bool {
    let Ok(Subscribed::To(topics)) = call.shared.groups.subscribed(address).await else {
        // No members, or none that name topics.
        return true;
    };
    let names = &call.shared.names;
    topics
        .iter()
        .filter_map(|name| names.topic(access.state(), name).ok())
        .all(|topic| access.may(Action::Describe, On::Topic(topic)))
}

/// The namespace of a group that was found.
fn coordinated(state: &State, address: &Address) -> Option<NamespaceId> {
    let recorded = || state.group_namespace(&address.group);
    address.scope.or_else(recorded).or(address.touched)
}

pub(crate) async fn list_groups(call: &Call, request: ListGroupsRequest) -> ListGroupsResponse {
    let state = call.view();
    let access = Access::new(call, &state);
    let scope = scope(call, &access);
    let listed = match call.shared.groups.list(scope).await {
        Ok(listed) => listed,
        Err(refusal) => return ListGroupsResponse::default().with_error_code(error(refusal).code()),
    };
    let wanted = |filter: &[StrBytes], value: &str| {
        filter.is_empty() || filter.iter().any(|f| f.as_str().eq_ignore_ascii_case(value))
    };
    let groups = listed
        .into_iter()
        .filter(|g| access.may_somewhere(Action::Read, g.namespace))
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
        let state = call.view();
        let access = Access::new(call, &state);
        let code = match address(call, &access, Action::Declare, &id, []) {
            Ok(address) => match may_delete(call, &access, &address).await {
                Ok(()) => code(&call.shared.groups.delete(&address).await),
                Err(error) => error.code(),
            },
            Err(error) => error.code(),
        };
        results.push(DeletableGroupResult::default().with_error_code(code).with_group_id(id));
    }
    DeleteGroupsResponse::default().with_results(results)
}

/// A group's positions go with it, so they must all lie where the caller may declare.
async fn may_delete(call: &Call, access: &Access<'_>, address: &Address) -> Result<(), ResponseError> {
    let state = access.state();
    let Some(namespace) = coordinated(state, address).and_then(|id| state.namespace_by_id(id)) else {
        return Ok(());
    };
    if access.may_throughout(Action::Declare, namespace) {
        return Ok(());
    }
    let positions = call.shared.groups.offsets(address).await.map_err(error)?;
    let all = positions
        .keys()
        .filter_map(|partition| state.topic_by_id(partition.topic))
        .all(|topic| access.may(Action::Declare, On::Topic(topic)));
    match all {
        true => Ok(()),
        false => Err(access.refused(Action::Declare, &address.group, ResponseError::GroupAuthorizationFailed)),
    }
}

pub(crate) async fn offset_delete(call: &Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse {
    let refused = |refusal: Refusal| OffsetDeleteResponse::default().with_error_code(error(refusal).code());
    let state = call.view();
    let access = Access::new(call, &state);
    let names = request.topics.iter().map(|t| t.name.as_str());
    let address = match address(call, &access, Action::Declare, &request.group_id, names) {
        Ok(address) => address,
        Err(error) => return OffsetDeleteResponse::default().with_error_code(error.code()),
    };
    if request.group_id.is_empty() {
        return refused(Refusal::InvalidGroupId);
    }
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
        .filter(|t| !t.partitions.is_empty() || !exists(&access, &t.name));
    let topics = asked.map(|topic| {
        let partitions = topic.partitions.iter().map(|p| {
            let error = match partition(&access, &topic.name, p.partition_index) {
                Err(error) => Some(error),
                Ok(id) if subscribed == Subscribed::ToAnything || read.contains(&id.topic) => {
                    Some(ResponseError::GroupSubscribedToTopic)
                }
                Ok(id) => {
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
