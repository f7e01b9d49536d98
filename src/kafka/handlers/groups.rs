//! Consumer groups: the coordinator's answers in Kafka's terms.

use crate::kafka::call::Call;
use kafka_protocol::messages::*;

pub(crate) async fn find_coordinator(call: &Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse {
    let _ = (call, request);
    todo!()
}

pub(crate) async fn join_group(call: &Call, request: JoinGroupRequest) -> JoinGroupResponse {
    let _ = (call, request);
    todo!()
}

pub(crate) async fn sync_group(call: &Call, request: SyncGroupRequest) -> SyncGroupResponse {
    let _ = (call, request);
    todo!()
}

pub(crate) async fn heartbeat(call: &Call, request: HeartbeatRequest) -> HeartbeatResponse {
    let _ = (call, request);
    todo!()
}

pub(crate) async fn leave_group(call: &Call, request: LeaveGroupRequest) -> LeaveGroupResponse {
    let _ = (call, request);
    todo!()
}

pub(crate) async fn offset_commit(call: &Call, request: OffsetCommitRequest) -> OffsetCommitResponse {
    let _ = (call, request);
    todo!()
}

pub(crate) async fn offset_fetch(call: &Call, request: OffsetFetchRequest) -> OffsetFetchResponse {
    let _ = (call, request);
    todo!()
}

pub(crate) async fn describe_groups(call: &Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse {
    let _ = (call, request);
    todo!()
}

pub(crate) async fn list_groups(call: &Call, request: ListGroupsRequest) -> ListGroupsResponse {
    let _ = (call, request);
    todo!()
}

pub(crate) async fn delete_groups(call: &Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse {
    let _ = (call, request);
    todo!()
}

pub(crate) async fn offset_delete(call: &Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse {
    let _ = (call, request);
    todo!()
}
