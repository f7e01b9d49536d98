//! From a request to its handler.

use super::call::Call;
use super::carry;
use super::guard;
use super::handlers::{acls, admin_topics, api_versions, cluster_info, configs, fetch, groups, list_offsets, metadata};
use super::handlers::{produce, producer_ids, sasl};
use super::reply::{Answer, Refusal, encode};
use super::sign_in::Admission;
use super::table::Api;
use crate::connections::Held;
use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, FutureExt};
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::{Decodable, Encodable};
use std::future::Future;

/// Decoded requests below this size are not worth a permit of their own.
pub(super) const SMALL: usize = 64 << 10;

/// How far a request has come.
pub(crate) enum Done {
    /// Its answer is there.
    Answered(Answer),
    /// Its place among the connection's produces is fixed; the answer comes later.
    Submitted(BoxFuture<'static, Answer>),
}

/// A body that the guard has passed.
pub(super) fn decode<T: Decodable>(version: i16, body: Bytes) -> Result<T, Refusal> {
    decode_body(body, |body| T::decode(body, version))
}

/// Calls the codec; it takes the whole body.
pub(crate) fn decode_body<T, E: std::fmt::Display>(
    mut body: Bytes,
    codec: impl FnOnce(&mut Bytes) -> Result<T, E>,
) -> Result<T, Refusal> {
    let request = codec(&mut body).map_err(|e| Refusal::Body(e.to_string()))?;
    debug_assert!(body.is_empty(), "guard and codec disagree on a body's end");
    Ok(request)
}

/// ApiVersions in a version that is not known (KIP-511).
pub(crate) fn unsupported_api_versions(api: &Api, correlation: i32) -> Result<BytesMut, Refusal> {
    encode(api, 0, correlation, &api_versions::unsupported())
}

/// A token of SASL that came without a request.
pub(crate) async fn bare_token(call: Call, token: Bytes) -> Result<Answer, Refusal> {
    // Whoever was here before and signs in again must still be there.
    call.stands()?;
    Box::pin(sasl::token(&call, token)).await
}

/// Asks whether the connection may send this now, checks, decodes and runs a request.
pub(crate) async fn execute(mut call: Call, body: Bytes, held: &mut Held) -> Result<Done, Refusal> {
    let admission = call.admit()?;
    match admission {
        Admission::Run(who) => call.who = who,
        Admission::Handshake => {
            let body = checked(&call, &body)?;
            let request = decode(call.version, body)?;
            return sasl::handshake(&call, &request).map(Done::Answered);
        }
        Admission::Authenticate => {
            let body = checked(&call, &body)?;
            let request = decode(call.version, body)?;
            return Box::pin(sasl::authenticate(&call, request)).await.map(Done::Answered);
        }
        Admission::IllegalState | Admission::IllegalStateAndClose => {
            return sasl::illegal_state(&call, &admission).map(Done::Answered);
        }
    }
    let checked = guard::check(call.api, call.version, &body)?;
    let body = body.slice(..checked.len);
    if checked.memory > SMALL {
        call.shared.memory.grow(held, checked.memory).await;
    }
    match call.api.key {
        ApiKey::Produce => {
            let request = decode(call.version, body)?;
            produce::submit(call, request).await.map(Done::Submitted)
        }
        ApiKey::Fetch => {
            let request = decode(call.version, body)?;
            Box::pin(fetch::fetch(&call, request)).await.map(Done::Answered)
        }
        _ => Box::pin(run(&call, body)).await.map(Answer::Whole).map(Done::Answered),
    }
}

/// The body, if the guard lets it pass; for requests of a few fields.
fn checked(call: &Call, body: &Bytes) -> Result<Bytes, Refusal> {
    let checked = guard::check(call.api, call.version, body)?;
    Ok(body.slice(..checked.len))
}

/// Decodes, answers, encodes.
async fn answer<'a, Q, R, F>(
    call: &'a Call,
    body: Bytes,
    handler: impl FnOnce(&'a Call, Q) -> F,
) -> Result<BytesMut, Refusal>
where
    Q: Decodable,
    R: Encodable,
    F: Future<Output = R>,
{
    let request = decode(call.version, body)?;
    let response = Box::pin(handler(call, request)).await;
    encode(call.api, call.version, call.correlation, &response)
}

/// Answers what another member carried here: requests about groups, nothing else.
pub(super) async fn carried(call: &Call, body: Bytes) -> Result<BytesMut, Refusal> {
    match call.api.key {
        ApiKey::OffsetCommit
        | ApiKey::OffsetFetch
        | ApiKey::JoinGroup
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::SyncGroup
        | ApiKey::DescribeGroups
        | ApiKey::ListGroups
        | ApiKey::DeleteGroups
        | ApiKey::OffsetDelete => Box::pin(run(call, body)).await,
        key => Err(Refusal::NotServed {
            key: key as i16,
            version: call.version,
        }),
    }
}

/// Requests whose answer is encoded whole.
async fn run(call: &Call, body: Bytes) -> Result<BytesMut, Refusal> {
    match call.api.key {
        ApiKey::ListOffsets => answer(call, body, list_offsets::list_offsets).await,
        // Null is all topics from version 1 on; the codec takes it in version 0 too, Kafka does not.
        ApiKey::Metadata if call.version == 0 && body.first().is_some_and(|b| b & 0x80 != 0) => {
            Err(Refusal::Body("a null list of topics in version 0".to_owned()))
        }
        ApiKey::Metadata => answer(call, body, metadata::metadata).await,
        ApiKey::OffsetCommit => {
            carry::answer(call, body, |call, asked| groups::offset_commit(call, asked).boxed()).await
        }
        ApiKey::OffsetFetch => carry::answer(call, body, |call, asked| groups::offset_fetch(call, asked).boxed()).await,
        ApiKey::FindCoordinator => answer(call, body, groups::find_coordinator).await,
        ApiKey::JoinGroup => carry::answer(call, body, |call, asked| groups::join_group(call, asked).boxed()).await,
        ApiKey::Heartbeat => carry::answer(call, body, |call, asked| groups::heartbeat(call, asked).boxed()).await,
        ApiKey::LeaveGroup => carry::answer(call, body, |call, asked| groups::leave_group(call, asked).boxed()).await,
        ApiKey::SyncGroup => carry::answer(call, body, |call, asked| groups::sync_group(call, asked).boxed()).await,
        ApiKey::DescribeGroups => {
            carry::answer(call, body, |call, asked| groups::describe_groups(call, asked).boxed()).await
        }
        ApiKey::ListGroups => carry::list(call, body).await,
        ApiKey::ApiVersions => answer(call, body, api_versions::api_versions).await,
        ApiKey::CreateTopics => answer(call, body, admin_topics::create_topics).await,
        ApiKey::DeleteTopics => answer(call, body, admin_topics::delete_topics).await,
        ApiKey::DeleteRecords => answer(call, body, admin_topics::delete_records).await,
        ApiKey::InitProducerId => answer(call, body, producer_ids::init_producer_id).await,
        ApiKey::OffsetForLeaderEpoch => answer(call, body, list_offsets::offset_for_leader_epoch).await,
        ApiKey::DescribeAcls => answer(call, body, acls::describe_acls).await,
        ApiKey::DescribeConfigs => answer(call, body, configs::describe_configs).await,
        ApiKey::AlterConfigs => answer(call, body, configs::alter_configs).await,
        ApiKey::DescribeLogDirs => answer(call, body, cluster_info::describe_log_dirs).await,
        ApiKey::CreatePartitions => answer(call, body, admin_topics::create_partitions).await,
        ApiKey::DeleteGroups => {
            carry::answer(call, body, |call, asked| groups::delete_groups(call, asked).boxed()).await
        }
        ApiKey::IncrementalAlterConfigs => answer(call, body, configs::incremental_alter_configs).await,
        ApiKey::ListPartitionReassignments => answer(call, body, cluster_info::list_partition_reassignments).await,
        ApiKey::OffsetDelete => {
            carry::answer(call, body, |call, asked| groups::offset_delete(call, asked).boxed()).await
        }
        ApiKey::DescribeCluster => answer(call, body, cluster_info::describe_cluster).await,
        key => Err(Refusal::NotServed {
            key: key as i16,
            version: call.version,
        }),
    }
}
