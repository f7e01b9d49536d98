//! Beats: the signs of life of all ranges to one peer, on one stream.

use super::super::net::MAX_MESSAGE;
use crate::ids::NodeId;
use crate::peer::proto::raft_client::RaftClient;
use crate::peer::proto::{AppendRequest, AppendResponse, Beat, PulseRequest, PulseResponse};
use crate::peer::{Class, PeerError, Peers};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// Beats that wait to be sent to one peer.
const WAITING: usize = 1024;
/// Beats in one message.
const TOGETHER: usize = 64;
/// Messages that may be on their way to the connection.
const MESSAGES: usize = 16;
/// The stream must be open after this time.
const OPEN: Duration = Duration::from_secs(2);

type Answer = oneshot::Sender<Result<AppendResponse, PeerError>>;

struct Job {
    append: AppendRequest,
    answer: Answer,
}

/// The beats of this node's ranges.
pub(super) struct Pulses {
    peers: Peers,
    to: Mutex<HashMap<NodeId, mpsc::Sender<Job>>>,
}

impl Pulses {
    pub fn new(peers: Peers) -> Self {
        Self {
            peers,
            to: Mutex::default(),
        }
    }

    /// Sends one and waits for its answer; who no longer waits drops the future.
    pub async fn beat(&self, node: NodeId, append: AppendRequest) -> Result<AppendResponse, PeerError> {
        let (answer, answered) = oneshot::channel();
        let jobs = self.jobs(node);
        jobs.try_send(Job { append, answer })
            .map_err(|_| PeerError::Unreachable("too many beats wait".into()))?;
        answered
            .await
            .unwrap_or_else(|_| Err(PeerError::Unreachable("the node is stopping".into())))
    }

    fn jobs(&self, node: NodeId) -> mpsc::Sender<Job> {
        let mut to = self.to.lock();
        to.entry(node)
            .or_insert_with(|| {
                let (send, jobs) = mpsc::channel(WAITING);
                tokio::spawn(run(self.peers.clone(), node, jobs));
                send
            })
            .clone()
    }
}

/// Beats for one peer, until nobody can send any more.
async fn run(peers: Peers, node: NodeId, mut jobs: mpsc::Receiver<Job>) {
    let mut pulse = Pulse {
        waiting: HashMap::new(),
        next: 0,
        silent: false,
    };
    while let Some(first) = jobs.recv().await {
        let error = match open(&peers, node).await {
            Ok((out, answers)) => match pulse.beat_on(&peers, node, first, &mut jobs, out, answers).await {
                Some(error) => error,
                None => return,
            },
            Err(error) => {
                let _ = first.answer.send(Err(error.clone()));
                error
            }
        };
        if !pulse.silent {
            tracing::warn!(peer = %node, %error, "a peer does not answer");
        }
        pulse.silent = true;
        for (_, answer) in pulse.waiting.drain() {
            let _ = answer.send(Err(error.clone()));
        }
        while let Ok(job) = jobs.try_recv() {
            let _ = job.answer.send(Err(error.clone()));
        }
    }
}

type Stream = (mpsc::Sender<PulseRequest>, Streaming<PulseResponse>);

async fn open(peers: &Peers, node: NodeId) -> Result<Stream, PeerError> {
    let channel = peers.channel(node, Class::Urgent)?;
    let mut client = RaftClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
    let (out, requests) = mpsc::channel(MESSAGES);
    let open = client.pulse(ReceiverStream::new(requests));
    match tokio::time::timeout(OPEN, open).await {
        Ok(opened) => Ok((out, opened?.into_inner())),
        Err(_) => Err(PeerError::Unreachable(format!("no answer in {OPEN:?}"))),
    }
}

struct Pulse {
    waiting: HashMap<u64, Answer>,
    next: u64,
    /// The peer has not answered since the last failure.
    silent: bool,
}

impl Pulse {
    /// Until the stream breaks; `None` when nobody can send any more.
    async fn beat_on(
        &mut self,
        peers: &Peers,
        node: NodeId,
        first: Job,
        jobs: &mut mpsc::Receiver<Job>,
        out: mpsc::Sender<PulseRequest>,
        mut answers: Streaming<PulseResponse>,
    ) -> Option<PeerError> {
        self.send(first, jobs, &out);
        loop {
            tokio::select! {
                job = jobs.recv() => self.send(job?, jobs, &out),
                answer = answers.message() => match answer {
                    Ok(Some(PulseResponse { answers })) => {
                        if std::mem::take(&mut self.silent) {
                            tracing::info!(peer = %node, "a peer answers again");
                            peers.has_returned(node);
                        }
                        for answer in answers {
                            if let Some(to) = self.waiting.remove(&answer.number) {
                                let response = answer.response.ok_or_else(|| {
                                    PeerError::Unreachable("the range does not run there".into())
                                });
                                let _ = to.send(response);
                            }
                        }
                    }
                    Ok(None) => return Some(PeerError::Unreachable("the peer ended the stream".into())),
                    Err(status) => return Some(status.into()),
                },
            }
        }
    }

    /// Sends a beat, and those that wait behind it.
    fn send(&mut self, first: Job, jobs: &mut mpsc::Receiver<Job>, out: &mpsc::Sender<PulseRequest>) {
        let mut together = vec![first];
        while together.len() < TOGETHER
            && let Ok(job) = jobs.try_recv()
        {
            together.push(job);
        }
        if self.waiting.len() >= WAITING {
            self.waiting.retain(|_, answer| !answer.is_closed());
        }
        let mut beats = Vec::with_capacity(together.len());
        let mut answers = Vec::with_capacity(together.len());
        for Job { append, answer } in together {
            if answer.is_closed() {
                continue;
            }
            let number = self.next;
            self.next += 1;
            beats.push(Beat {
                number,
                append: Some(append),
            });
            answers.push((number, answer));
        }
        if beats.is_empty() {
            return;
        }
        match out.try_send(PulseRequest { beats }) {
            Ok(()) => self.waiting.extend(answers),
            // A peer that reads nothing; a beat that comes late is worth nothing either.
            Err(_) => {
                let error = PeerError::Unreachable("the peer does not keep up with beats".into());
                answers.into_iter().for_each(|(_, answer)| {
                    let _ = answer.send(Err(error.clone()));
                });
            }
        }
    }
}
