//! Questions: one room of a member asks the same room of another.
//!
//! ```text
//!   Forward::ask(node, door, question) --Ask--> the room behind the door --> parts of the answer, as it makes them
//! ```
//!
//! What a question means is between the rooms. The one that asks bounds the answer (it says in its question how much it can
//! take) and stops it by dropping the [`Reply`]; a part is not made before there is room for it on the connection.

use super::{Forward, MAX_MESSAGE};
use crate::ids::NodeId;
use crate::peer::proto::forward_client::ForwardClient;
use crate::peer::proto::{self, AnswerPart, Question};
use crate::peer::{Class, PeerError};
use arc_swap::ArcSwapOption;
use bytes::{Bytes, BytesMut};
use futures::stream::{BoxStream, Stream, StreamExt};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Status, Streaming};

/// A room that answers questions of other members. A question is never asked on: who can't answer says so in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// What the member's ranges hold.
    Reads,
    /// Requests of clients, whole.
    Requests,
}

/// The answering side of a door.
pub trait Answers: Send + Sync + 'static {
    /// Answers a question of `from`, a member of this store, in its own time but `within` that at most. Dropped when the
    /// asker no longer waits.
    fn answer(&self, from: NodeId, question: Bytes, within: Duration) -> BoxStream<'static, Result<Bytes, NoAnswer>>;
}

/// The room can't answer; the text is for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

/// Why there is no (whole) answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AskError {
    /// Rejected: the room surely was not asked.
    #[error("not asked: {0}")]
    NotAsked(String),
    /// Unknown: the room may have been asked, and may have done what it was asked for.
    #[error("no answer: {0}")]
    Unknown(String),
}

impl From<PeerError> for AskError {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::NoAddress(_) | PeerError::Address { .. } | PeerError::Refused(_) => {
                Self::NotAsked(error.to_string())
            }
            PeerError::Unreachable(_) | PeerError::Answer(_) => Self::Unknown(error.to_string()),
        }
    }
}

/// The rooms of this node that are open.
#[derive(Default)]
pub(super) struct Doors {
    reads: ArcSwapOption<Arc<dyn Answers>>,
    requests: ArcSwapOption<Arc<dyn Answers>>,
}

impl Doors {
    fn slot(&self, door: Door) -> &ArcSwapOption<Arc<dyn Answers>> {
        match door {
            Door::Reads => &self.reads,
            Door::Requests => &self.requests,
        }
    }
}

/// An answer on its way.
pub struct Reply {
    parts: Streaming<AnswerPart>,
    until: Pin<Box<tokio::time::Sleep>>,
    over: bool,
}

impl Reply {
    /// All parts as one. Gives up on an answer longer than `limit` bytes.
    pub async fn whole(mut self, limit: usize) -> Result<Bytes, AskError> {
        let mut first = Bytes::new();
        let mut all = BytesMut::new();
        while let Some(part) = self.next().await {
            let part = part?;
            if first.len() + all.len() + part.len() > limit {
                return Err(AskError::Unknown(format!("an answer longer than {limit} bytes")));
            }
            match (first.is_empty(), all.is_empty()) {
                (true, true) => first = part,
                (false, _) => {
                    all.extend_from_slice(&std::mem::take(&mut first));
                    all.extend_from_slice(&part);
                }
                (true, false) => all.extend_from_slice(&part),
            }
        }
        Ok(if all.is_empty() { first } else { all.freeze() })
    }
}

impl Stream for Reply {
    type Item = Result<Bytes, AskError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        let part = match self.parts.poll_next_unpin(cx) {
            Poll::Ready(Some(Ok(part))) => return Poll::Ready(Some(Ok(part.bytes))),
            Poll::Ready(Some(Err(status))) => Some(Err(AskError::Unknown(PeerError::from(status).to_string()))),
            Poll::Ready(None) => None,
            Poll::Pending => {
                std::task::ready!(self.until.as_mut().poll(cx));
                Some(Err(AskError::Unknown("no answer in time".into())))
            }
        };
        self.over = true;
        Poll::Ready(part)
    }
}

impl Forward {
    /// Opens a door of this node: questions of other members go to `room` from now on. Another room may take its place.
    pub fn open(&self, door: Door, room: Arc<dyn Answers>) {
        self.inner.doors.slot(door).store(Some(Arc::new(room)));
    }

    /// Asks the room behind `door` of a member, and waits for its answer no longer than `within`. Dropping the future or the
    /// reply tells the room to stop.
    pub async fn ask(&self, to: NodeId, door: Door, question: Bytes, within: Duration) -> Result<Reply, AskError> {
        let nobody = || AskError::NotAsked("this node reaches no other".into());
        let peers = self.inner.peers.as_ref().ok_or_else(nobody)?;
        let channel = peers.channel(to, Class::Forward)?;
        let until = Instant::now() + within;
        let mut client = ForwardClient::new(channel)
            .max_encoding_message_size(MAX_MESSAGE)
            .max_decoding_message_size(MAX_MESSAGE);
        let question = Question {
            door: match door {
                Door::Reads => proto::Door::Reads,
                Door::Requests => proto::Door::Requests,
            }
            .into(),
            body: question,
            within_ms: u32::try_from(within.as_millis()).unwrap_or(u32::MAX),
        };
        let parts = tokio::time::timeout_at(until, client.ask(question))
            .await
            .map_err(|_| AskError::Unknown("no answer in time".into()))?
            .map_err(|status| AskError::from(PeerError::from(status)))?
            .into_inner();
        Ok(Reply {
            parts,
            until: Box::pin(tokio::time::sleep_until(until)),
            over: false,
        })
    }

    /// Answers a question of another member.
    pub(super) fn answer(
        &self,
        from: NodeId,
        question: Question,
    ) -> Result<BoxStream<'static, Result<AnswerPart, Status>>, Status> {
        let door = match question.door() {
            proto::Door::Reads => Door::Reads,
            proto::Door::Requests => Door::Requests,
            proto::Door::None => return Err(Status::unimplemented("there is no such room")),
        };
        let room = self.inner.doors.slot(door).load_full();
        let room = room.ok_or_else(|| Status::failed_precondition(format!("{door:?}: nobody is in yet")))?;
        let within = Duration::from_millis(question.within_ms.into());
        let parts = room.answer(from, question.body, within);
        Ok(parts
            .map(|part| match part {
                Ok(bytes) => Ok(AnswerPart { bytes }),
                Err(NoAnswer(why)) => Err(Status::aborted(why)),
            })
            .boxed())
    }
}
