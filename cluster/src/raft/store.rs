//! A group of the write-ahead log as openraft's log storage.

use super::{Entry, LogId, Types, Vote, from_raft, to_raft};
use crate::wal::{self, Body, Group, WalError};
use futures::stream::{self, Stream};
use openraft::alias::VoteOf;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::vote::RaftVote;
use openraft::{EntryPayload, LogState, OptionalSend, RaftLogReader};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot;

/// Payload bytes of one read when a range of the log is streamed or replicated.
const STEP: usize = 1 << 20;

/// Log storage and log reader of one range.
#[derive(Clone)]
pub(crate) struct Store {
    group: Group,
    /// Whether nobody else votes: then nothing is to be done while an entry is written. Others are sent it meanwhile.
    alone: Arc<AtomicBool>,
}

impl Store {
    pub fn new(group: Group, alone: Arc<AtomicBool>) -> Self {
        Self { group, alone }
    }
}

fn corrupt(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

pub(super) fn encode(entry: Entry) -> io::Result<wal::Entry> {
    let body = match entry.payload {
        EntryPayload::Blank => Body::Blank,
        EntryPayload::Normal(payload) => Body::Normal(payload),
        EntryPayload::Membership(membership) => Body::Membership(serde_json::to_vec(&membership)?.into()),
    };
    Ok(wal::Entry {
        id: from_raft(entry.log_id),
        body,
    })
}

pub(super) fn decode(entry: wal::Entry) -> io::Result<Entry> {
    let payload = match entry.body {
        Body::Blank => EntryPayload::Blank,
        Body::Normal(payload) => EntryPayload::Normal(payload),
        Body::Membership(bytes) => EntryPayload::Membership(serde_json::from_slice(&bytes).map_err(corrupt)?),
    };
    Ok(Entry {
        log_id: to_raft(entry.id),
        payload,
    })
}

fn bounds(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let from = match range.start_bound() {
        Bound::Included(n) => *n,
        Bound::Excluded(n) => n.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(n) => n.saturating_add(1),
        Bound::Excluded(n) => *n,
        Bound::Unbounded => u64::MAX,
    };
    (from, to)
}

/// Reads a step; where the disk is needed, on a thread that may block.
async fn read(group: &Group, from: u64, to: u64, limit: usize) -> io::Result<Vec<Entry>> {
    let entries = if group.is_cached(from) {
        group.read(from, to, limit)?
    } else {
        let group = group.clone();
        crate::threads::blocking(move || group.read(from, to, limit))
            .await
            .map_err(io::Error::other)??
    };
    entries.into_iter().map(decode).collect()
}

impl RaftLogReader<Types> for Store {
    async fn entries_stream<RB>(&mut self, range: RB) -> impl Stream<Item = io::Result<Entry>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let (from, to) = bounds(&range);
        let group = self.group.clone();
        stream::unfold((from, VecDeque::new()), move |(mut next, mut ahead)| {
            let group = group.clone();
            async move {
                if ahead.is_empty() && next < to {
                    match read(&group, next, to, STEP).await {
                        Ok(entries) => {
                            next = entries.last().map_or(to, |entry| entry.log_id.index + 1);
                            ahead = entries.into();
                        }
                        Err(error) => return Some((Err(error), (to, ahead))),
                    }
                }
                let entry = ahead.pop_front()?;
                Some((Ok(entry), (next, ahead)))
            }
        })
    }

    async fn try_get_log_entries<RB>(&mut self, range: RB) -> io::Result<Vec<Entry>>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let (from, to) = bounds(&range);
        read(&self.group, from, to, usize::MAX).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        read(&self.group, start, end, STEP).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        let vote = self.group.state().vote;
        Ok(vote.map(|vote| {
            let leader = openraft::impls::leader_id_std::LeaderId {
                term: vote.term,
                voted_for: vote.node,
            };
            Vote::from_leader_id(leader, vote.committed)
        }))
    }

    async fn get_key_log_ids(&mut self, range: RangeInclusive<LogId>) -> io::Result<Vec<LogId>> {
        let ends = self.group.term_ends(range.start().index, range.end().index);
        Ok(ends.into_iter().map(to_raft).collect())
    }
}

impl RaftLogStorage<Types> for Store {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let state = self.group.state();
        Ok(LogState {
            last_purged_log_id: state.purged.map(to_raft),
            last_log_id: state.last.map(to_raft),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<Types>) -> io::Result<()> {
        let (done, durable) = oneshot::channel();
        let vote = wal::Vote {
            term: vote.leader_id.term,
            node: vote.leader_id.voted_for,
            committed: vote.committed,
        };
        self.group.save_vote(
            vote,
            Box::new(move |result| {
                let _ = done.send(result);
            }),
        );
        durable.await.unwrap_or(Err(WalError::Closed))?;
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        self.group.save_committed(committed.map(from_raft));
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.group.state().committed.map(to_raft))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().map(encode).collect::<io::Result<Vec<_>>>()?;
        let done = Box::new(move |result: Result<(), WalError>| callback.io_completed(result.map_err(Into::into)));
        match self.alone.load(Ordering::Relaxed) {
            true => self.group.append_here(entries, done)?,
            false => self.group.append(entries, done)?,
        }
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        self.group.cut(last.map_or(0, |last| last.index + 1));
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        self.group.purge(from_raft(upto));
        Ok(())
    }
}
