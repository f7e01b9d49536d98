//! The leader's end: takes what members carry here.

use super::{Forward, MAX_MESSAGE};
use crate::ids::{NodeId, RangeId};
use crate::machine::Payload;
use crate::peer::Caller;
use crate::peer::proto::forward_server::{Forward as ForwardRpc, ForwardServer};
use crate::peer::proto::propose_request::Message as Asked;
use crate::peer::proto::propose_response::Message as Told;
use crate::peer::proto::{self, AnswerPart, OpenLane, ProposeRequest, ProposeResponse, Question};
use crate::range::{Applied, ProposeError, Range};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

/// Commands of one lane that are proposed and not answered. Their bytes the range bounds.
const PROPOSED: usize = 8 << 10;

/// Answers what other members carry to this node.
pub(super) struct Service {
    forward: Forward,
}

impl Service {
    pub fn server(forward: Forward) -> ForwardServer<Self> {
        ForwardServer::new(Self { forward })
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }
}

fn caller<T>(request: &Request<T>) -> Result<NodeId, Status> {
    let caller = request.extensions().get::<Caller>();
    caller
        .map(|Caller(node)| *node)
        .ok_or_else(|| Status::internal("the gate was passed by"))
}

#[tonic::async_trait]
impl ForwardRpc for Service {
    type ProposeStream = BoxStream<'static, Result<ProposeResponse, Status>>;
    type AskStream = BoxStream<'static, Result<AnswerPart, Status>>;

    async fn propose(
        &self,
        request: Request<Streaming<ProposeRequest>>,
    ) -> Result<Response<Self::ProposeStream>, Status> {
        let from = caller(&request)?;
        Ok(Response::new(serve(self.forward.clone(), from, request.into_inner())))
    }

    async fn ask(&self, request: Request<Question>) -> Result<Response<Self::AskStream>, Status> {
        let from = caller(&request)?;
        Ok(Response::new(self.forward.answer(from, request.into_inner())?))
    }
}

/// The latest lane of each member and range.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<(NodeId, RangeId), Session>>);

struct Session {
    run: Bytes,
    number: u64,
    superseded: CancellationToken,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A lane that has come in.
struct Entered {
    /// A later lane has come in.
    superseded: CancellationToken,
    /// Held by the lane that may propose.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Sessions {
    /// `None` for a lane that a later one of the same run has overtaken.
    fn enter(&self, from: NodeId, open: &OpenLane) -> Option<Entered> {
        let mut sessions = self.0.lock();
        let superseded = CancellationToken::new();
        let mut turn = Arc::default();
        if let Some(last) = sessions.get(&(from, RangeId(open.range))) {
            if last.run == open.run && last.number >= open.number {
                return None;
            }
            last.superseded.cancel();
            turn = last.turn.clone();
        }
        let session = Session {
            // A copy: the message it is a slice of is let go.
            run: Bytes::copy_from_slice(&open.run),
            number: open.number,
            superseded: superseded.clone(),
            turn: turn.clone(),
        };
        sessions.insert((from, RangeId(open.range)), session);
        Some(Entered { superseded, turn })
    }
}

/// What the taking half tells the answering half, in the order of the commands.
enum Step {
    Proposed(BoxFuture<'static, Result<Applied, ProposeError>>),
    /// Not proposed.
    Refused(ProposeError),
    /// Nothing will be proposed any more.
    End,
}

/// Two halves: one takes commands and proposes them, one answers.
fn serve(
    forward: Forward,
    from: NodeId,
    input: Streaming<ProposeRequest>,
) -> BoxStream<'static, Result<ProposeResponse, Status>> {
    let (steps, proposed) = mpsc::channel(PROPOSED);
    let stop = CancellationToken::new();
    tokio::spawn(take(forward, from, input, steps, stop.clone()));
    let answering = Some((proposed, stop.drop_guard()));
    stream::unfold(answering, |answering| async move {
        let (mut proposed, stop) = answering?;
        let told = match proposed.recv().await {
            Some(Step::Proposed(answer)) => told(answer.await),
            Some(Step::Refused(error)) => told(Err(error)),
            Some(Step::End) => {
                let closed = Told::Closed(proto::Closed {});
                return Some((Ok(ProposeResponse { message: Some(closed) }), None));
            }
            None => return Some((Err(Status::aborted("the lane broke")), None)),
        };
        if matches!(told, Told::NotLeader(_) | Told::NoSpace(_)) {
            // What has been proposed behind it is answered; nothing more is proposed.
            stop.token().cancel();
        }
        Some((Ok(ProposeResponse { message: Some(told) }), Some((proposed, stop))))
    })
    .boxed()
}

fn told(outcome: Result<Applied, ProposeError>) -> Told {
    match outcome {
        Ok(Applied { index, answer }) => Told::Applied(proto::Applied { answer, index }),
        Err(ProposeError::NotLeader { leader, .. }) => Told::NotLeader(proto::NotLeader {
            leader: leader.map_or_else(Bytes::new, proto::node_bytes),
        }),
        Err(ProposeError::NoSpace) => Told::NoSpace(proto::NoSpace {}),
        Err(ProposeError::Unknown(_)) => Told::Unknown(proto::OutcomeUnknown {}),
        // Told before anything was proposed: this node is out, another may lead.
        Err(ProposeError::Fatal(_)) => Told::NotLeader(proto::NotLeader { leader: Bytes::new() }),
    }
}

/// Takes commands, in order, until one is refused, a later lane comes, or the caller ends.
async fn take(
    forward: Forward,
    from: NodeId,
    mut input: Streaming<ProposeRequest>,
    steps: mpsc::Sender<Step>,
    stop: CancellationToken,
) {
    let first = stop.run_until_cancelled(input.message()).await;
    let Some(Ok(Some(ProposeRequest {
        message: Some(Asked::Open(open)),
    }))) = first
    else {
        return;
    };
    if let Some(entered) = forward.inner.sessions.enter(from, &open) {
        let over = async {
            tokio::select! {
                () = entered.superseded.cancelled() => {}
                () = stop.cancelled() => {}
            }
        };
        let taking = async {
            // The lane before this one has proposed its last.
            let _turn = entered.turn.lock().await;
            while let Ok(Some(ProposeRequest {
                message: Some(Asked::Command(command)),
            })) = input.message().await
            {
                let Ok(step) = steps.reserve().await else { return };
                match forward.submit_here(RangeId(open.range), command).await {
                    Ok(answer) => step.send(Step::Proposed(answer)),
                    Err(error) => {
                        step.send(Step::Refused(error));
                        return;
                    }
                }
            }
        };
        // Dropped anywhere, it either has proposed a command and said so, or has not proposed it.
        tokio::select! {
            biased;
            () = over => {}
            () = taking => {}
        }
    }
    // Whoever waited may be gone.
    let _ = steps.send(Step::End).await;
}

impl Forward {
    async fn submit_here(
        &self,
        id: RangeId,
        command: proto::Command,
    ) -> Result<BoxFuture<'static, Result<Applied, ProposeError>>, ProposeError> {
        let command = Payload {
            head: command.head,
            parts: command.parts.into(),
        };
        let absent = ProposeError::NotLeader {
            range: id,
            leader: None,
        };
        let range: Range = self.inner.host.range(id).ok_or(absent)?;
        (self.inner.admit)(id, &command)?;
        Ok(range.submit_indexed(command).await?.boxed())
    }
}
