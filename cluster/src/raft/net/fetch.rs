//! Fetching what snapshots leave out, from whichever member has it, at a bounded pace.

use super::{MAX_MESSAGE, Ways};
use crate::ids::{NodeId, RangeId};
use crate::machine::Fetch;
use crate::peer::proto::FetchRequest;
use crate::peer::proto::raft_client::RaftClient;
use crate::peer::{Class, PeerError};
use crate::threads;
use bytes::Bytes;
use parking_lot::Mutex;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A piece must be there in this time.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long to wait once no member had the piece: first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// CRC-32C of a piece.
pub(super) fn crc(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Bytes per second that a node fetches, all ranges together.
pub(crate) struct Pace {
    rate: u64,
    free: Mutex<Instant>,
}

impl Pace {
    pub fn new(rate: u64) -> Self {
        Self {
            rate: rate.max(1),
            free: Mutex::new(Instant::now()),
        }
    }

    /// When what follows these bytes may be asked for.
    fn after(&self, bytes: usize) -> Instant {
        let took = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        let mut free = self.free.lock();
        *free = (*free).max(Instant::now()) + took;
        *free
    }
}

/// Makes a range's fetchers.
#[derive(Clone)]
pub(crate) struct Fetchers {
    pub(super) range: RangeId,
    pub(super) ways: Option<Ways>,
    pub(super) pace: Arc<Pace>,
    pub(super) stop: CancellationToken,
}

impl Fetchers {
    /// One that asks `members`, to be used on a thread that may block. Within a tokio runtime.
    pub fn of(&self, mut members: Vec<NodeId>) -> Box<dyn Fetch> {
        let me = self.ways.as_ref().map(|ways| ways.peers.node());
        members.retain(|member| Some(*member) != me);
        Box::new(Fetcher {
            from: self.clone(),
            runtime: Handle::current(),
            members,
            at: 0,
            failed: 0,
        })
    }

    /// The range no longer waits for pieces.
    pub fn stopped(&self) -> bool {
        self.stop.is_cancelled()
    }
}

struct Fetcher {
    from: Fetchers,
    runtime: Handle,
    members: Vec<NodeId>,
    /// Who is asked next.
    at: usize,
    /// Members in a row that had nothing.
    failed: usize,
}

impl Fetcher {
    async fn ask(&self, node: NodeId, ask: Bytes) -> Result<Bytes, PeerError> {
        let ways = self.from.ways.as_ref().ok_or(PeerError::NoAddress(node))?;
        let channel = ways.peers.channel(node, Class::Bulk)?;
        let mut client = RaftClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        let request = FetchRequest {
            range: self.from.range.0,
            ask,
        };
        let answer = tokio::time::timeout(PATIENCE, client.fetch(request)).await;
        let answer = answer.map_err(|_| PeerError::Unreachable(format!("no answer in {PATIENCE:?}")))??;
        let answer = answer.into_inner();
        match crc(&answer.data) == answer.crc {
            true => Ok(answer.data),
            false => Err(PeerError::Answer("a piece was damaged on its way".into())),
        }
    }

    /// Unless the node stops first.
    fn wait<T>(&self, until: impl Future<Output = T>) -> io::Result<T> {
        let stop = self.from.stop.clone();
        threads::wait(&self.runtime, async {
            tokio::select! {
                done = until => Ok(done),
                () = stop.cancelled() => Err(io::Error::new(io::ErrorKind::Interrupted, "the node is stopping")),
            }
        })
    }

    /// Goes on to another member; after each round with a pause, longer each time.
    fn next_member(&mut self) -> io::Result<()> {
        let members = self.members.len().max(1);
        self.at = (self.at + 1) % members;
        self.failed += 1;
        if self.failed.is_multiple_of(members) {
            let rounds = u32::try_from(self.failed / members).unwrap_or(u32::MAX);
            self.wait(tokio::time::sleep(PAUSE.0.saturating_mul(rounds).min(PAUSE.1)))?;
        }
        Ok(())
    }
}

impl Fetch for Fetcher {
    fn fetch(&mut self, ask: Bytes) -> io::Result<Bytes> {
        loop {
            let Some(node) = self.members.get(self.at).copied() else {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the range has no other member"));
            };
            match self.wait(self.ask(node, ask.clone()))? {
                Ok(piece) => {
                    self.failed = 0;
                    let next = self.from.pace.after(piece.len());
                    self.wait(tokio::time::sleep_until(next))?;
                    return Ok(piece);
                }
                Err(error) => {
                    tracing::warn!(range = %self.from.range, %node, %error, "a piece could not be fetched");
                    self.next_member()?;
                }
            }
        }
    }

    fn refuse(&mut self, why: &io::Error) -> io::Result<()> {
        let node = self.members.get(self.at);
        tracing::warn!(range = %self.from.range, ?node, error = %why, "a piece is of no use");
        self.next_member()
    }
}
