//! Snapshots on their way: a head, then the bytes in pieces, checked when whole.

use super::super::{SnapshotMeta, StoredMembership, Types, Vote};
use super::fetch::crc;
use super::{convert, garbled, unreachable};
use crate::ids::RangeId;
use crate::peer::proto::raft_client::RaftClient;
use crate::peer::proto::{SnapshotHead, SnapshotPart, snapshot_part::Part};
use crate::peer::{PeerChannel, PeerError};
use bytes::{Bytes, BytesMut};
use openraft::Snapshot;
use openraft::alias::SnapshotOf;
use openraft::errors::StreamingError;
use openraft::raft::SnapshotResponse;
use tonic::{Status, Streaming};

/// Bytes of one piece.
const PIECE: usize = 256 << 10;
/// The longest snapshot: positions and folds, no data.
const MAX_SNAPSHOT: u64 = 1 << 30;

/// Sends a snapshot and waits until the follower has it in use, or refuses.
pub(super) async fn send(
    mut client: RaftClient<PeerChannel>,
    range: RangeId,
    vote: Vote,
    snapshot: SnapshotOf<Types, Bytes>,
) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
    let Snapshot { meta, snapshot } = snapshot;
    let membership = serde_json::to_vec(&meta.last_membership).map_err(|error| garbled(&error))?;
    let head = SnapshotHead {
        range: range.0,
        vote: Some(convert::vote_to(&vote)),
        last: convert::log_id_to(meta.last_log_id),
        membership: membership.into(),
        size: snapshot.len() as u64,
        crc: crc(&snapshot),
    };
    let pieces = (0..snapshot.len())
        .step_by(PIECE)
        .map(move |at| Part::Data(snapshot.slice(at..(at + PIECE).min(snapshot.len()))));
    let parts = std::iter::once(Part::Head(head)).chain(pieces);
    let parts = parts.map(|part| SnapshotPart { part: Some(part) });
    let answer = client.snapshot(futures::stream::iter(parts)).await;
    let answer = answer.map_err(|status| unreachable(&PeerError::from(status)))?;
    let vote = convert::vote_from(answer.into_inner().vote).map_err(|status| garbled(&status))?;
    Ok(SnapshotResponse::new(vote))
}

/// A snapshot as it came in, whole.
pub(super) struct Received {
    pub range: RangeId,
    pub vote: Vote,
    pub snapshot: SnapshotOf<Types, Bytes>,
}

/// Takes a snapshot. Memory is taken for what came, not for what was announced.
pub(super) async fn receive(mut parts: Streaming<SnapshotPart>) -> Result<Received, Status> {
    let Some(SnapshotPart {
        part: Some(Part::Head(head)),
    }) = parts.message().await?
    else {
        return Err(Status::invalid_argument("a snapshot begins with its head"));
    };
    if head.size > MAX_SNAPSHOT {
        return Err(Status::invalid_argument(format!("a snapshot of {} bytes", head.size)));
    }
    let mut data = BytesMut::new();
    while let Some(part) = parts.message().await? {
        let Some(Part::Data(piece)) = part.part else {
            return Err(Status::invalid_argument("a snapshot has one head"));
        };
        if (data.len() + piece.len()) as u64 > head.size {
            return Err(Status::invalid_argument("a snapshot longer than it was said to be"));
        }
        data.extend_from_slice(&piece);
    }
    if data.len() as u64 != head.size || crc(&data) != head.crc {
        return Err(Status::data_loss("the snapshot was damaged on its way"));
    }
    let last_membership: StoredMembership =
        serde_json::from_slice(&head.membership).map_err(|error| Status::invalid_argument(error.to_string()))?;
    Ok(Received {
        range: RangeId(head.range),
        vote: convert::vote_from(head.vote)?,
        snapshot: Snapshot {
            meta: SnapshotMeta {
                last_log_id: convert::log_id_from(head.last),
                last_membership,
            },
            snapshot: data.freeze(),
        },
    })
}
