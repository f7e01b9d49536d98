//! A frame read as a connection reads it, up to where its handler would be called: for tests and fuzzing.

use super::dispatch::decode_body;
use super::guard::{Head, check, header_rest};
use super::reply::Refusal;
use super::table::Api;
use bytes::Bytes;
use kafka_protocol::messages::RequestKind;

/// A request as its handler would get it.
#[derive(Debug)]
pub struct DecodedFrame {
    /// The request kind.
    pub api: &'static Api,
    /// Its version.
    pub version: i16,
    /// Comes back in the answer.
    pub correlation: i32,
    /// Most bytes that the guard expects the decoded request to take beside its frame.
    pub memory: usize,
    /// The body.
    pub request: RequestKind,
}

/// Reads a frame (without its length).
///
/// # Errors
/// Why the connection would be closed.
pub fn decode_frame(frame: Bytes) -> Result<DecodedFrame, String> {
    read(frame).map_err(|refusal| refusal.to_string())
}

fn read(frame: Bytes) -> Result<DecodedFrame, Refusal> {
    let head = Head::read(&frame).ok_or(Refusal::NoHeader)?;
    let api = Api::of(head.key)
        .filter(|api| api.decodes(head.version))
        .ok_or(Refusal::NotServed {
            key: head.key,
            version: head.version,
        })?;
    let (_, body) = header_rest(api, head.version, &frame)?;
    let body = frame.slice(body..);
    let checked = check(api, head.version, &body)?;
    let body = body.slice(..checked.len);
    Ok(DecodedFrame {
        api,
        version: head.version,
        correlation: head.correlation,
        memory: checked.memory,
        request: decode_body(body, |body| RequestKind::decode(api.key, body, head.version))?,
    })
}
