//! The types of `proto/tessaridb/peer/v1`, and how the identities in them are read and written.
#![allow(missing_docs, clippy::large_enum_variant, clippy::doc_markdown)]

use crate::ids::NodeId;
use bytes::Bytes;
use tonic::Status;

tonic::include_proto!("tessaridb.peer.v1");

/// Bytes of a node id.
pub(crate) fn node_bytes(node: NodeId) -> Bytes {
    Bytes::copy_from_slice(&node.0.to_be_bytes())
}

/// A node id from its 16 bytes.
pub(crate) fn node_id(bytes: &[u8]) -> Result<NodeId, Status> {
    let bytes: [u8; 16] = bytes
        .try_into()
        .map_err(|_| Status::invalid_argument("a node id has 16 bytes"))?;
    Ok(NodeId(u128::from_be_bytes(bytes)))
}
