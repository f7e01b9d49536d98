//! From a checked frame to its handler.

use super::call::Call;
use super::handlers::groups;
use super::table::Api;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable};

/// Why a request is not answered; its connection is closed, as there is no answer the client could read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The body is not what its key and version say.
    #[error("the body cannot be read: {0}")]
    Body(String),
    /// The body ends before the frame does.
    #[error("{0} bytes are left over")]
    Trailing(usize),
    /// The response does not fit its version: ours to mend.
    #[error("the answer cannot be written: {0}")]
    Answer(String),
    /// Not in the table.
    #[error("the request is not served")]
    NotServed,
}

/// A body that the guard has passed.
pub(crate) fn decode<T: Decodable>(version: i16, mut body: Bytes) -> Result<T, Refusal> {
    let request = T::decode(&mut body, version).map_err(|e| Refusal::Body(e.to_string()))?;
    match body.len() {
        0 => Ok(request),
        left => Err(Refusal::Trailing(left)),
    }
}

/// The framed answer: length, header, body.
pub(crate) fn encode<T: Encodable>(
    api: &Api,
    version: i16,
    correlation: i32,
    response: &T,
) -> Result<BytesMut, Refusal> {
    let mut out = BytesMut::with_capacity(512);
    out.put_i32(0);
    ResponseHeader::default()
        .with_correlation_id(correlation)
        .encode(&mut out, api.response_header(version))
        .and_then(|()| response.encode(&mut out, version))
        .map_err(|e| Refusal::Answer(e.to_string()))?;
    let len = i32::try_from(out.len() - 4).map_err(|e| Refusal::Answer(e.to_string()))?;
    out[..4].copy_from_slice(&len.to_be_bytes());
    Ok(out)
}

/// Runs a request whose answer is encoded whole.
pub(crate) async fn run(call: &Call, api: &Api, correlation: i32, body: Bytes) -> Result<BytesMut, Refusal> {
    let version = call.version;
    // One arm a key: decode, answer, encode.
    macro_rules! answer {
        ($handler:path) => {
            encode(
                api,
                version,
                correlation,
                &Box::pin($handler(call, decode(version, body)?)).await,
            )
        };
    }
    match api.key {
        ApiKey::FindCoordinator => answer!(groups::find_coordinator),
        ApiKey::JoinGroup => answer!(groups::join_group),
        ApiKey::SyncGroup => answer!(groups::sync_group),
        ApiKey::Heartbeat => answer!(groups::heartbeat),
        ApiKey::LeaveGroup => answer!(groups::leave_group),
        ApiKey::OffsetCommit => answer!(groups::offset_commit),
        ApiKey::OffsetFetch => answer!(groups::offset_fetch),
        ApiKey::DescribeGroups => answer!(groups::describe_groups),
        ApiKey::ListGroups => answer!(groups::list_groups),
        ApiKey::DeleteGroups => answer!(groups::delete_groups),
        ApiKey::OffsetDelete => answer!(groups::offset_delete),
        _ => Err(Refusal::NotServed),
    }
}
