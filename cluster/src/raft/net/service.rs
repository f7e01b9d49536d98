//! What peers ask of this node's ranges.

use super::super::{Raft, Types};
use super::fetch::crc;
use super::{MAX_MESSAGE, Replicas, convert, snapshot};
use crate::ids::RangeId;
use crate::peer::Caller;
use crate::peer::proto::raft_server::{Raft as RaftRpc, RaftServer};
use crate::peer::proto::{self, BeatAnswer, PulseResponse};
use futures::stream::{self, BoxStream, Stream};
use futures::{StreamExt, TryStreamExt};
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest};
use std::future::ready;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status, Streaming};

/// Beats answered at a time, per peer.
const BEATS: usize = 256;
/// Pieces of bulk data read from the disk at a time.
const PIECES: usize = 4;

/// Answers for the ranges of this node.
pub(crate) struct Service {
    replicas: Arc<dyn Replicas>,
    /// Pieces read at a time.
    turns: Semaphore,
}

impl Service {
    pub fn server(replicas: Arc<dyn Replicas>) -> RaftServer<Self> {
        let turns = Semaphore::new(PIECES);
        RaftServer::new(Self { replicas, turns })
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    fn replica(&self, range: u32) -> Result<Raft, Status> {
        find(&*self.replicas, range)
    }
}

fn find(replicas: &dyn Replicas, range: u32) -> Result<Raft, Status> {
    let missing = || Status::not_found(format!("range {range} does not run here"));
    replicas.replica(RangeId(range)).ok_or_else(missing)
}

fn stopped(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

/// Requests of one session, up to the first that is not as it should be.
fn requests(
    first: proto::AppendRequest,
    rest: Streaming<proto::AppendRequest>,
) -> impl Stream<Item = AppendEntriesRequest<Types>> + Send + 'static {
    let range = first.range;
    stream::once(ready(Ok(first)))
        .chain(rest)
        .map(move |request| {
            let request = request?;
            match request.range == range {
                true => convert::append_from(request),
                false => Err(Status::invalid_argument("a session is of one range")),
            }
        })
        .scan((), move |(), request| {
            ready(match request {
                Ok(request) => Some(request),
                Err(status) => {
                    // The end of a session looks the same as a broken connection; both are told of at the other end.
                    tracing::debug!(range, %status, "a replication session ends");
                    None
                }
            })
        })
}

#[tonic::async_trait]
impl RaftRpc for Service {
    type AppendStreamStream = BoxStream<'static, Result<proto::AppendResponse, Status>>;
    type PulseStream = BoxStream<'static, Result<PulseResponse, Status>>;

    async fn append_stream(
        &self,
        request: Request<Streaming<proto::AppendRequest>>,
    ) -> Result<Response<Self::AppendStreamStream>, Status> {
        let replicas = self.replicas.clone();
        let mut input = request.into_inner();
        // The caller waits for this answer before it sends its first request.
        let answers = stream::once(async move {
            let Some(first) = input.message().await? else {
                return Ok(stream::empty().boxed());
            };
            let raft = find(&*replicas, first.range)?;
            let answers = raft.stream_append(requests(first, input));
            let answers = answers.map(|answer| answer.map(convert::appended_to).map_err(stopped));
            Ok::<_, Status>(answers.boxed())
        });
        Ok(Response::new(answers.try_flatten().boxed()))
    }

    async fn pulse(
        &self,
        request: Request<Streaming<proto::PulseRequest>>,
    ) -> Result<Response<Self::PulseStream>, Status> {
        let replicas = self.replicas.clone();
        let answers = request
            .into_inner()
            .map_ok(|request| stream::iter(request.beats).map(Ok::<_, Status>))
            .try_flatten()
            .map(move |beat| {
                let replicas = replicas.clone();
                async move {
                    let proto::Beat { number, append } = beat?;
                    let answer = async {
                        let append = append.ok_or_else(|| Status::invalid_argument("an empty beat"))?;
                        let raft = find(&*replicas, append.range)?;
                        let append = convert::append_from(append)?;
                        let prev = append.prev_log_id;
                        let answer = raft.append_entries(append).await.map_err(stopped)?;
                        Ok::<_, Status>(convert::appended_to(answer.into_stream_result(prev, prev)))
                    };
                    Ok::<_, Status>(BeatAnswer {
                        number,
                        response: answer.await.ok(),
                    })
                }
            })
            .buffer_unordered(BEATS)
            .ready_chunks(BEATS)
            .map(|answers| {
                let answers = answers.into_iter().collect::<Result<_, Status>>()?;
                Ok(PulseResponse { answers })
            });
        Ok(Response::new(answers.boxed()))
    }

    async fn vote(&self, request: Request<proto::VoteRequest>) -> Result<Response<proto::VoteResponse>, Status> {
        let request = request.into_inner();
        let raft = self.replica(request.range)?;
        let answer = raft.vote(convert::vote_request_from(request)?).await.map_err(stopped)?;
        Ok(Response::new(convert::vote_response_to(&answer)))
    }

    async fn pre_vote(&self, request: Request<proto::VoteRequest>) -> Result<Response<proto::VoteResponse>, Status> {
        let request = request.into_inner();
        let raft = self.replica(request.range)?;
        let answer = raft
            .pre_vote(convert::vote_request_from(request)?)
            .await
            .map_err(stopped)?;
        Ok(Response::new(convert::vote_response_to(&answer)))
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<proto::SnapshotPart>>,
    ) -> Result<Response<proto::SnapshotResponse>, Status> {
        let from = request.extensions().get::<Caller>().map(|Caller(node)| *node);
        let snapshot::Received { range, vote, snapshot } = snapshot::receive(request.into_inner()).await?;
        tracing::info!(%range, ?from, bytes = snapshot.snapshot.len(), "a snapshot came");
        let raft = self.replica(range.0)?;
        let answer = raft.install_full_snapshot(vote, snapshot).await.map_err(stopped)?;
        Ok(Response::new(proto::SnapshotResponse {
            vote: Some(convert::vote_to(&answer.vote)),
        }))
    }

    async fn fetch(&self, request: Request<proto::FetchRequest>) -> Result<Response<proto::FetchReply>, Status> {
        let proto::FetchRequest { range, ask } = request.into_inner();
        let missing = || Status::not_found(format!("range {range} has nothing to give here"));
        let bulk = self.replicas.bulk(RangeId(range)).ok_or_else(missing)?;
        let _turn = self.turns.acquire().await.map_err(stopped)?;
        let read = crate::threads::blocking(move || bulk.read(&ask));
        let data = read.await.map_err(stopped)?.map_err(stopped)?;
        let crc = crc(&data);
        Ok(Response::new(proto::FetchReply { data, crc }))
    }

    async fn transfer_leader(
        &self,
        request: Request<proto::TransferRequest>,
    ) -> Result<Response<proto::TransferResponse>, Status> {
        let request = request.into_inner();
        let raft = self.replica(request.range)?;
        let transfer = TransferLeaderRequest::new(
            convert::vote_from(request.from)?,
            proto::node_id(&request.to)?,
            convert::log_id_from(request.last),
        );
        let answer = raft.handle_transfer_leader(transfer).await.map_err(stopped)?;
        Ok(Response::new(proto::TransferResponse {
            refused: answer.err().map(|refused| refused.to_string()).unwrap_or_default(),
        }))
    }
}
