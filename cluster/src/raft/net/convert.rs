//! openraft's messages as those of `proto/`, and back. Payload bytes are passed by reference both ways.

use super::super::store::{decode, encode};
use super::super::{LogId, Types, Vote, from_raft, to_raft};
use crate::ids::RangeId;
use crate::machine::Payload;
use crate::peer::proto::{self, append_response::Outcome, entry::Body};
use crate::wal;
use openraft::impls::leader_id_std::LeaderId;
use openraft::raft::{AppendEntriesRequest, StreamAppendError, StreamAppendResult, VoteRequest, VoteResponse};
use openraft::vote::RaftVote;
use std::io;
use tonic::Status;

fn missing(what: &'static str) -> Status {
    Status::invalid_argument(format!("{what} is missing"))
}

pub(super) fn log_id_to(id: Option<LogId>) -> Option<proto::LogId> {
    id.map(|id| {
        let wal::LogId { term, index } = from_raft(id);
        proto::LogId { term, index }
    })
}

pub(super) fn log_id_from(id: Option<proto::LogId>) -> Option<LogId> {
    id.map(|proto::LogId { term, index }| to_raft(wal::LogId { term, index }))
}

pub(super) fn vote_to(vote: &Vote) -> proto::Ballot {
    proto::Ballot {
        term: vote.leader_id.term,
        node: proto::node_bytes(vote.leader_id.voted_for),
        committed: vote.committed,
    }
}

pub(super) fn vote_from(ballot: Option<proto::Ballot>) -> Result<Vote, Status> {
    let ballot = ballot.ok_or_else(|| missing("the vote"))?;
    let leader = LeaderId {
        term: ballot.term,
        voted_for: proto::node_id(&ballot.node)?,
    };
    Ok(Vote::from_leader_id(leader, ballot.committed))
}

pub(super) fn append_to(range: RangeId, request: AppendEntriesRequest<Types>) -> io::Result<proto::AppendRequest> {
    let entry = |entry| {
        let wal::Entry { id, body } = encode(entry)?;
        let body = match body {
            wal::Body::Blank => Body::Blank(proto::Blank {}),
            wal::Body::Normal(payload) => Body::Command(proto::Command {
                head: payload.head,
                parts: payload.parts.to_vec(),
            }),
            wal::Body::Membership(json) => Body::Membership(json),
        };
        let wal::LogId { term, index } = id;
        Ok(proto::Entry {
            id: Some(proto::LogId { term, index }),
            body: Some(body),
        })
    };
    Ok(proto::AppendRequest {
        range: range.0,
        vote: Some(vote_to(&request.vote)),
        prev: log_id_to(request.prev_log_id),
        entries: request.entries.into_iter().map(entry).collect::<io::Result<_>>()?,
        committed: log_id_to(request.leader_commit),
    })
}

pub(super) fn append_from(request: proto::AppendRequest) -> Result<AppendEntriesRequest<Types>, Status> {
    let entry = |entry: proto::Entry| {
        let body = match entry.body.ok_or_else(|| missing("an entry's body"))? {
            Body::Blank(_) => wal::Body::Blank,
            Body::Command(proto::Command { head, parts }) => wal::Body::Normal(Payload {
                head,
                parts: parts.into(),
            }),
            Body::Membership(json) => wal::Body::Membership(json),
        };
        let proto::LogId { term, index } = entry.id.ok_or_else(|| missing("an entry's id"))?;
        let id = wal::LogId { term, index };
        decode(wal::Entry { id, body }).map_err(|error| Status::invalid_argument(error.to_string()))
    };
    let entries: Vec<_> = request.entries.into_iter().map(entry).collect::<Result<_, _>>()?;
    let prev = log_id_from(request.prev);
    // openraft takes it for granted that entries follow each other.
    let first = prev.map_or(0, |prev| prev.index + 1);
    if !entries
        .iter()
        .map(|entry| entry.log_id.index)
        .eq(first..first + entries.len() as u64)
    {
        return Err(Status::invalid_argument("entries must follow each other"));
    }
    Ok(AppendEntriesRequest {
        vote: vote_from(request.vote)?,
        prev_log_id: prev,
        entries,
        leader_commit: log_id_from(request.committed),
    })
}

pub(super) fn appended_to(result: StreamAppendResult<Types>) -> proto::AppendResponse {
    let outcome = match result {
        Ok(last) => Outcome::Matched(proto::Matched { last: log_id_to(last) }),
        Err(StreamAppendError::Conflict(id)) => {
            let wal::LogId { term, index } = from_raft(id);
            Outcome::Conflict(proto::LogId { term, index })
        }
        Err(StreamAppendError::HigherVote(vote)) => Outcome::Higher(vote_to(&vote)),
    };
    proto::AppendResponse { outcome: Some(outcome) }
}

pub(super) fn appended_from(response: proto::AppendResponse) -> Result<StreamAppendResult<Types>, Status> {
    Ok(match response.outcome.ok_or_else(|| missing("the outcome"))? {
        Outcome::Matched(proto::Matched { last }) => Ok(log_id_from(last)),
        Outcome::Conflict(proto::LogId { term, index }) => {
            Err(StreamAppendError::Conflict(to_raft(wal::LogId { term, index })))
        }
        Outcome::Higher(ballot) => Err(StreamAppendError::HigherVote(vote_from(Some(ballot))?)),
    })
}

pub(super) fn vote_request_to(range: RangeId, request: &VoteRequest<Types>) -> proto::VoteRequest {
    proto::VoteRequest {
        range: range.0,
        vote: Some(vote_to(&request.vote)),
        last: log_id_to(request.last_log_id),
        transfer: request.leadership_transfer,
    }
}

pub(super) fn vote_request_from(request: proto::VoteRequest) -> Result<VoteRequest<Types>, Status> {
    Ok(VoteRequest {
        vote: vote_from(request.vote)?,
        last_log_id: log_id_from(request.last),
        leadership_transfer: request.transfer,
    })
}

pub(super) fn vote_response_to(response: &VoteResponse<Types>) -> proto::VoteResponse {
    proto::VoteResponse {
        vote: Some(vote_to(&response.vote)),
        granted: response.vote_granted,
        last: log_id_to(response.last_log_id),
    }
}

pub(super) fn vote_response_from(response: proto::VoteResponse) -> Result<VoteResponse<Types>, Status> {
    Ok(VoteResponse {
        vote: vote_from(response.vote)?,
        vote_granted: response.granted,
        last_log_id: log_id_from(response.last),
    })
}
