//! Consumer groups: the coordinator's answers in Kafka's terms. Here what members ask; committed offsets and what
//! administrators ask have files of their own.

mod admin;
mod offsets;

pub(crate) use admin::{delete_groups, describe_groups, list_groups, offset_delete};
pub(crate) use offsets::{offset_commit, offset_fetch};

use crate::auth::{Action, On};
use crate::groups::{
    Address, Join, JoinAnswer, Leaving, Membership, Protocol, Refusal, Sync, SyncAnswer, subscription,
};
use crate::kafka::access::Access;
use crate::kafka::call::Call;
use bytes::Bytes;
use cluster::ids::NamespaceId;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use std::sync::Arc;

/// What a refusal is called on the wire.
pub(crate) fn error(refusal: Refusal) -> ResponseError {
    match refusal {
        Refusal::UnknownMember => ResponseError::UnknownMemberId,
        Refusal::IllegalGeneration => ResponseError::IllegalGeneration,
        Refusal::RebalanceInProgress => ResponseError::RebalanceInProgress,
        Refusal::FencedInstance => ResponseError::FencedInstanceId,
        Refusal::MemberIdRequired => ResponseError::MemberIdRequired,
        Refusal::InconsistentProtocol => ResponseError::InconsistentGroupProtocol,
        Refusal::InvalidSessionTimeout => ResponseError::InvalidSessionTimeout,
        Refusal::InvalidGroupId => ResponseError::InvalidGroupId,
        Refusal::GroupFull => ResponseError::GroupMaxSizeReached,
        Refusal::UnknownGroup => ResponseError::GroupIdNotFound,
        Refusal::NonEmptyGroup => ResponseError::NonEmptyGroup,
        Refusal::NotCoordinator => ResponseError::NotCoordinator,
        Refusal::CoordinatorLoading => ResponseError::CoordinatorLoadInProgress,
        Refusal::CoordinatorNotAvailable => ResponseError::CoordinatorNotAvailable,
        Refusal::NotAuthorized => ResponseError::GroupAuthorizationFailed,
    }
}

pub(super) fn code<T>(result: &Result<T, Refusal>) -> i16 {
    result.as_ref().map_or_else(|refusal| error(*refusal).code(), |_| 0)
}

/// The group a request names, if the caller may do this with it. `topics` are names the request contains; those that the
/// caller may not read decide nothing.
pub(crate) fn address<'a>(
    call: &Call,
    access: &Access<'_>,
    action: Action,
    group: &str,
    topics: impl IntoIterator<Item = &'a str>,
) -> Result<Address, ResponseError> {
    if let Some(refusal) = call.refused {
        return Err(error(refusal));
    }
    let (state, names) = (access.state(), &call.shared.names);
    let scope = scope(call, access);
    let recorded = || state.group_namespace(group);
    let known = scope
        .or_else(recorded)
        .filter(|id| state.namespace_by_id(*id).is_some());
    let touched = match known {
        Some(_) => None,
        None => topics
            .into_iter()
            .filter_map(|name| names.topic(state, name).ok())
            .find(|topic| access.may(Action::Read, On::Topic(topic)))
            .map(|topic| topic.namespace),
    };
    access.group(action, group, known.or(touched))?;
    Ok(Address {
        group: Arc::from(group),
        scope,
        touched,
    })
}

/// The namespace of all groups of this caller: its user's own, or that of bare topic names, where they are read.
pub(crate) fn scope(call: &Call, access: &Access<'_>) -> Option<NamespaceId> {
    let bare = || {
        call.shared
            .names
            .bare(access.state())
            .map(|(namespace, _)| namespace.id)
    };
    access.scope().or_else(bare)
}

/// The group of a member that asks about nothing else.
fn own(call: &Call, group: &str) -> Result<Address, Refusal> {
    let state = call.view();
    let access = Access::new(call, &state);
    let refused = call.refused.unwrap_or(Refusal::NotAuthorized);
    address(call, &access, Action::Read, group, []).map_err(|_| refused)
}

/// Fails where the caller, who waited for this answer, has lost its right to it meanwhile. It stays in the group until its
/// session times out, as its heartbeats are refused, too.
fn still(call: &Call, group: &str, answered: Option<Refusal>) -> Result<(), Refusal> {
    match answered {
        Some(_) => Ok(()),
        None => own(call, group).map(drop),
    }
}

/// Text of a request, copied: a slice would keep the whole frame in memory as long as the group lives.
fn text(text: &StrBytes) -> Arc<str> {
    Arc::from(text.as_str())
}

fn instance(instance: &Option<StrBytes>) -> Option<Arc<str>> {
    instance.as_ref().map(text)
}

/// Bytes of a request, copied, as [`text`] is.
fn copied(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// Text of an answer.
pub(super) fn string(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Which node coordinates what. Transactions are refused, so that a transactional producer fails at once.
pub(crate) async fn find_coordinator(call: &Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse {
    const GROUP: i8 = 0;
    const TRANSACTION: i8 = 1;
    const SHARE: i8 = 2;
    let state = call.view();
    let access = Access::new(call, &state);
    let brokers = call.brokers(&state);
    let find = |key: &StrBytes| {
        match request.key_type {
            GROUP => {}
            TRANSACTION => return Err(ResponseError::TransactionalIdAuthorizationFailed),
            _ => return Err(ResponseError::InvalidRequest),
        }
        let address = address(call, &access, Action::Read, key, [])?;
        let (home, node) = call.shared.groups.coordinator_of(&address).map_err(error)?;
        brokers
            .shown(&state, node, home)
            .ok_or(ResponseError::CoordinatorNotAvailable)
    };
    if call.version >= 4 {
        let coordinators = request
            .coordinator_keys
            .iter()
            .map(|key| {
                let answer = Coordinator::default().with_key(key.clone());
                match find(key) {
                    Ok(e) => answer
                        .with_node_id(BrokerId(e.broker))
                        .with_host(string(&e.host))
                        .with_port(i32::from(e.port))
                        .with_error_message(Some(StrBytes::default())),
                    Err(error) => answer
                        .with_node_id(BrokerId(-1))
                        .with_port(-1)
                        .with_error_code(error.code())
                        .with_error_message(Some(match request.key_type {
                            GROUP..=SHARE => StrBytes::default(),
                            _ => string(&error.to_string()),
                        })),
                }
            })
            .collect();
        return FindCoordinatorResponse::default().with_coordinators(coordinators);
    }
    let answer = FindCoordinatorResponse::default();
    match find(&request.key) {
        Ok(e) => answer
            .with_node_id(BrokerId(e.broker))
            .with_host(string(&e.host))
            .with_port(i32::from(e.port))
            .with_error_message(Some(StrBytes::from_static_str("NONE"))),
        Err(error) => answer
            .with_node_id(BrokerId(-1))
            .with_port(-1)
            .with_error_code(error.code())
            .with_error_message(Some(string(&error.to_string()))),
    }
}

pub(crate) async fn join_group(call: &Call, request: JoinGroupRequest) -> JoinGroupResponse {
    let millis = |ms: i32| u32::try_from(ms).unwrap_or(0);
    let session_timeout = millis(request.session_timeout_ms);
    let client_id = call.client_id.clone().unwrap_or_default();
    let instance = instance(&request.group_instance_id);
    let prefix = instance.as_deref().unwrap_or(&client_id);
    let join = Join {
        member_id: text(&request.member_id),
        fresh_id: Arc::from(format!("{prefix}-{}", uuid::Uuid::new_v4())),
        instance: instance.clone(),
        client_id: text(&client_id),
        client_host: Arc::from(call.client_host()),
        session_timeout,
        rebalance_timeout: match call.version {
            0 => session_timeout,
            _ => millis(request.rebalance_timeout_ms),
        },
        protocol_type: text(&request.protocol_type),
        protocols: request
            .protocols
            .iter()
            .map(|p| Protocol {
                name: text(&p.name),
                metadata: copied(&p.metadata),
            })
            .collect(),
        requires_known_id: call.version >= 4,
        can_skip_assignment: call.version >= 9,
    };
    let address = {
        let state = call.view();
        let access = Access::new(call, &state);
        let subscribed = (&*join.protocol_type == subscription::CONSUMER)
            .then(|| join.protocols.iter().find_map(|p| subscription::topics(&p.metadata)))
            .flatten()
            .unwrap_or_default();
        let subscribed = subscribed.iter().map(String::as_str);
        address(call, &access, Action::Read, &request.group_id, subscribed)
    };
    drop(request);
    let member = join.member_id.clone();
    let answer = match address {
        Ok(address) => {
            let answer = call.shared.groups.join(&address, join).await;
            match still(call, &address.group, answer.error) {
                Ok(()) => answer,
                Err(refusal) => JoinAnswer::refused(refusal, member),
            }
        }
        Err(_) => JoinAnswer::refused(call.refused.unwrap_or(Refusal::NotAuthorized), member),
    };
    let protocol = match (&answer.protocol, call.version) {
        (None, ..=6) => Some(StrBytes::default()),
        (protocol, _) => protocol.as_deref().map(string),
    };
    let members = answer.members.iter().map(|m| {
        JoinGroupResponseMember::default()
            .with_member_id(string(&m.id))
            .with_group_instance_id(m.instance.as_deref().map(string))
            .with_metadata(m.metadata.clone())
    });
    JoinGroupResponse::default()
        .with_error_code(answer.error.map_or(0, |refusal| error(refusal).code()))
        .with_generation_id(answer.generation)
        .with_protocol_type(answer.protocol_type.as_deref().map(string))
        .with_protocol_name(protocol)
        .with_leader(string(&answer.leader))
        .with_skip_assignment(answer.skip_assignment)
        .with_member_id(string(&answer.member_id))
        .with_members(members.collect())
}

pub(crate) async fn sync_group(call: &Call, request: SyncGroupRequest) -> SyncGroupResponse {
    if call.version >= 5 && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return SyncGroupResponse::default().with_error_code(ResponseError::InconsistentGroupProtocol.code());
    }
    let address = own(call, &request.group_id);
    let sync = Sync {
        who: Membership {
            member_id: text(&request.member_id),
            instance: instance(&request.group_instance_id),
            generation: request.generation_id,
        },
        protocol_type: request.protocol_type.as_ref().map(text),
        protocol: request.protocol_name.as_ref().map(text),
        assignments: request
            .assignments
            .iter()
            .map(|a| (text(&a.member_id), copied(&a.assignment)))
            .collect(),
    };
    drop(request);
    let answer = match address {
        Ok(address) => {
            let answer = call.shared.groups.sync(&address, sync).await;
            match still(call, &address.group, answer.error) {
                Ok(()) => answer,
                Err(refusal) => SyncAnswer::refused(refusal),
            }
        }
        Err(refusal) => SyncAnswer::refused(refusal),
    };
    SyncGroupResponse::default()
        .with_error_code(answer.error.map_or(0, |refusal| error(refusal).code()))
        .with_protocol_type(answer.protocol_type.as_deref().map(string))
        .with_protocol_name(answer.protocol.as_deref().map(string))
        .with_assignment(answer.assignment)
}

pub(crate) async fn heartbeat(call: &Call, request: HeartbeatRequest) -> HeartbeatResponse {
    let who = Membership {
        member_id: text(&request.member_id),
        instance: instance(&request.group_instance_id),
        generation: request.generation_id,
    };
    let answer = match own(call, &request.group_id) {
        Ok(address) => call.shared.groups.heartbeat(&address, &who).await,
        Err(refusal) => Err(refusal),
    };
    HeartbeatResponse::default().with_error_code(code(&answer))
}

pub(crate) async fn leave_group(call: &Call, request: LeaveGroupRequest) -> LeaveGroupResponse {
    let leaving: Vec<Leaving> = if call.version >= 3 {
        let members = request.members.iter();
        members
            .map(|m| Leaving {
                member_id: text(&m.member_id),
                instance: instance(&m.group_instance_id),
            })
            .collect()
    } else {
        vec![Leaving {
            member_id: text(&request.member_id),
            instance: None,
        }]
    };
    let results = match own(call, &request.group_id) {
        Ok(address) => call.shared.groups.leave(&address, &leaving).await,
        Err(refusal) => Err(refusal),
    };
    let results = match results {
        Ok(results) => results,
        Err(refusal) => return LeaveGroupResponse::default().with_error_code(error(refusal).code()),
    };
    if call.version < 3 {
        let first = results.first().map_or(0, code);
        return LeaveGroupResponse::default().with_error_code(first);
    }
    let members = request.members.into_iter().zip(&results).map(|(member, result)| {
        MemberResponse::default()
            .with_member_id(member.member_id)
            .with_group_instance_id(member.group_instance_id)
            .with_error_code(code(result))
    });
    LeaveGroupResponse::default().with_members(members.collect())
}

#[cfg(test)]
pub(super) mod tests;
