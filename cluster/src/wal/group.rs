//! One group's part of the log: its index and the entries still in memory.

use super::format::{self, Encoded, HEAD, Head, Kind, State};
use super::segment::Segment;
use super::writer::What;
use super::{Body, Done, Entry, GroupState, LogId, Shared, Vote, WalError};
use crate::ids::RangeId;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Neighbouring records are read from disk together up to this many bytes.
const READ_STEP: u64 = 1 << 20;

/// Bytes of an entry that its caller may write.
const HERE: usize = 64 << 10;

/// Where an entry's record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub seq: u64,
    pub offset: u32,
    /// Length of the body.
    pub len: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub term: u64,
    /// `Err` until written: which append it came with.
    pub place: Result<Place, u64>,
}

#[derive(Default, Debug)]
pub(super) struct Inner {
    pub log: Mutex<Log>,
}

/// What a group has in memory.
#[derive(Default, Debug)]
pub(super) struct Log {
    pub vote: Option<Vote>,
    pub purged: Option<LogId>,
    pub committed: Option<LogId>,
    /// Index of the first slot.
    pub first: u64,
    pub slots: VecDeque<Slot>,
    /// The last entries, without a gap to the end of `slots`.
    cache: VecDeque<Body>,
    cached: usize,
    /// Entries before this have been applied.
    applied: u64,
    appends: u64,
}

/// A handle to one group's part of the log. Cheap to clone.
#[derive(Clone)]
pub struct Group {
    id: RangeId,
    inner: Arc<Inner>,
    shared: Arc<Shared>,
}

impl Log {
    pub fn recovered(state: &State, first: u64) -> Self {
        Self {
            vote: state.vote,
            purged: state.purged,
            committed: state.committed,
            first,
            ..Self::default()
        }
    }

    fn next(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    pub fn last(&self) -> Option<LogId> {
        match self.slots.back() {
            Some(slot) => Some(LogId {
                term: slot.term,
                index: self.next() - 1,
            }),
            None => self.purged,
        }
    }

    /// Bytes of each entry, from the last to the first.
    fn sizes(&self) -> impl Iterator<Item = u64> {
        let bodies = self.cache.iter().rev().map(Some).chain(std::iter::repeat(None));
        self.slots
            .iter()
            .rev()
            .zip(bodies)
            .map(|(slot, body)| match (slot.place, body) {
                (Ok(place), _) => place.len.into(),
                (Err(_), body) => body.map_or(0, Body::size) as u64,
            })
    }

    fn pop_cached(&mut self) {
        if let Some(body) = self.cache.pop_front() {
            self.cached -= body.size();
        }
    }

    fn cache_first(&self) -> u64 {
        self.next() - self.cache.len() as u64
    }

    /// Drops from memory what is applied, and what is beyond `limit` bytes, as far as it can be read from disk.
    fn evict(&mut self, limit: usize) {
        while !self.cache.is_empty() && (self.cache_first() < self.applied || self.cached > limit) {
            let slot = &self.slots[(self.cache_first() - self.first) as usize];
            if slot.place.is_err() {
                break;
            }
            self.pop_cached();
        }
    }

    fn cut(&mut self, keep: u64) {
        while self.next() > keep.max(self.first) {
            self.slots.pop_back();
            if let Some(body) = self.cache.pop_back() {
                self.cached -= body.size();
            }
        }
    }

    fn purge(&mut self, upto: LogId) {
        self.purged = self.purged.max(Some(upto));
        while self.first <= upto.index && !self.slots.is_empty() {
            if self.cache.len() == self.slots.len() {
                self.pop_cached();
            }
            self.slots.pop_front();
            self.first += 1;
        }
        self.first = self.first.max(upto.index + 1);
    }

    /// Notes where the writer put an entry, unless it was cut off since.
    pub fn written(&mut self, index: u64, append: u64, place: Place) {
        if let Some(at) = index.checked_sub(self.first)
            && let Some(slot) = self.slots.get_mut(at as usize)
            && slot.place == Err(append)
        {
            slot.place = Ok(place);
        }
    }
}

impl Inner {
    pub fn committed(&self) -> Option<LogId> {
        self.log.lock().committed
    }

    pub fn written(&self, entries: &[(u64, Place)], append: u64, cache_bytes: usize) {
        let mut log = self.log.lock();
        for (index, place) in entries {
            log.written(*index, append, *place);
        }
        log.evict(cache_bytes);
    }
}

impl Inner {
    /// Where the entries from `first` to `last` lie that lie in segment `seq`; `None` where memory no longer has them all,
    /// because a change is on its way to the log.
    pub fn places(&self, seq: u64, (first, last): (u64, u64)) -> Option<Vec<(LogId, Place)>> {
        let log = self.log.lock();
        if first < log.first || last >= log.next() {
            return None;
        }
        let mut places = Vec::new();
        for index in first..=last {
            let slot = log.slots[(index - log.first) as usize];
            let place = slot.place.ok()?;
            if place.seq == seq {
                places.push((LogId { term: slot.term, index }, place));
            }
        }
        Some(places)
    }

    /// Notes that entries were copied, unless they were dropped since.
    pub fn moved(&self, copies: &[(u64, Place, Place)]) {
        let mut log = self.log.lock();
        for (index, from, to) in copies {
            let first = log.first;
            if let Some(at) = index.checked_sub(first)
                && let Some(slot) = log.slots.get_mut(at as usize)
                && slot.place == Ok(*from)
            {
                slot.place = Ok(*to);
            }
        }
    }
}

/// Reads one record's body whole, or says where it is damaged.
pub(super) fn read_body(segment: &Segment, group: RangeId, place: Place) -> io::Result<Bytes> {
    let mut buf = BytesMut::zeroed(HEAD + place.len as usize);
    segment.file.read_exact_at(&mut buf, place.offset.into())?;
    let buf = buf.freeze();
    check_body(&buf, group, place)
        .ok_or_else(|| WalError::Corrupt(format!("{} at {}: a bad record", segment.name, place.offset)).into())
}

/// The body of the record at the start of `buf`, if it is the one that should be there.
fn check_body(buf: &Bytes, group: RangeId, place: Place) -> Option<Bytes> {
    let body = buf.slice(HEAD..HEAD + place.len as usize);
    Head::decode(buf)
        .filter(|head| head.group == group.0 && head.seq == place.seq && head.len == place.len)
        .filter(|head| matches!(head.kind, Kind::Entry | Kind::Moved))
        .filter(|head| head.body_crc == format::crc(&[&body]))
        .map(|_| body)
}

enum Found {
    Cached(Entry),
    OnDisk(LogId, Place),
}

impl Group {
    pub(super) fn new(id: RangeId, inner: Arc<Inner>, shared: Arc<Shared>) -> Self {
        Self { id, inner, shared }
    }

    /// Which group this is.
    pub fn id(&self) -> RangeId {
        self.id
    }

    /// What the log has of the group.
    pub fn state(&self) -> GroupState {
        let log = self.inner.log.lock();
        GroupState {
            vote: log.vote,
            purged: log.purged,
            last: log.last(),
            committed: log.committed,
        }
    }

    /// Adds entries at the end. They can be read when this returns; `done` is called when they are durable.
    /// Their indexes must go on from the last one; an empty log may begin anywhere. Order among all calls to the log is the order of the calls.
    pub fn append(&self, entries: Vec<Entry>, done: Done) -> Result<(), WalError> {
        self.queue(entries, done)?;
        self.shared.wake.ring_one();
        Ok(())
    }

    /// [`append`](Self::append), written and synced on the calling thread before it returns where nobody else has anything to
    /// write, it is a single small entry, and the disk was quick last time: it saves waking two threads, which costs about as
    /// much as the write. Blocks for as long as the disk takes then.
    pub fn append_here(&self, entries: Vec<Entry>, done: Done) -> Result<(), WalError> {
        let bytes = match &entries[..] {
            [entry] => entry.body.size(),
            _ => usize::MAX,
        };
        let first = self.queue(entries, done)?;
        if first && bytes <= HERE {
            self.shared.write_here(bytes);
        } else {
            self.shared.wake.ring_one();
        }
        Ok(())
    }

    /// Whether nothing else waits to be written.
    fn queue(&self, entries: Vec<Entry>, done: Done) -> Result<bool, WalError> {
        let encoded: Option<Vec<Encoded>> = entries.iter().map(format::encode_entry).collect();
        let Some(encoded) = encoded else {
            return Err(WalError::Invalid("an entry is too long"));
        };
        let mut log = self.inner.log.lock();
        if log.last().is_none()
            && let Some(first) = entries.first()
        {
            log.first = first.id.index;
        }
        if !entries
            .iter()
            .map(|entry| entry.id.index)
            .eq(log.next()..log.next() + entries.len() as u64)
        {
            return Err(WalError::Invalid("entries must follow each other"));
        }
        log.appends += 1;
        let append = log.appends;
        for entry in entries {
            log.slots.push_back(Slot {
                term: entry.id.term,
                place: Err(append),
            });
            log.cached += entry.body.size();
            log.cache.push_back(entry.body);
        }
        // Under the group's lock, so that the queue has the group's changes in the order memory has them.
        let what = What::Entries(encoded, append, self.inner.clone(), log.committed);
        Ok(self.shared.queue(self.id, what, Some(done)))
    }

    /// Records a vote; `done` is called when it is durable.
    pub fn save_vote(&self, vote: Vote, done: Done) {
        let mut log = self.inner.log.lock();
        log.vote = Some(vote);
        self.shared.push(self.id, What::Vote(vote), Some(done));
    }

    /// Notes what is committed. Written when the group's state is next, so a restart may bring back an earlier value.
    pub fn save_committed(&self, committed: Option<LogId>) {
        let mut log = self.inner.log.lock();
        log.committed = committed;
    }

    /// Drops entries from index `keep` on. Durable no later than what is appended next.
    pub fn cut(&self, keep: u64) {
        let mut log = self.inner.log.lock();
        log.cut(keep);
        self.shared.push(self.id, What::Cut(keep), None);
    }

    /// Drops entries up to `upto`, inclusive. `committed` goes with it.
    pub fn purge(&self, upto: LogId) {
        let mut log = self.inner.log.lock();
        log.purge(upto);
        let committed = log.committed;
        self.shared.push(self.id, What::Purge(upto, committed), None);
    }

    /// Says that entries before index `next` have been applied, so that memory need not hold them.
    pub fn applied(&self, next: u64) {
        let mut log = self.inner.log.lock();
        log.applied = log.applied.max(next);
        log.evict(self.shared.config.cache_bytes);
    }

    /// Forgets the group, its entries and its votes; `done` is called when that is durable.
    pub fn remove(&self, done: Done) {
        let mut log = self.inner.log.lock();
        *log = Log::default();
        self.shared.groups.write().remove(&self.id);
        self.shared.push(self.id, What::Gone, Some(done));
    }

    /// Term of the entry at `index`, where it is held.
    pub fn term(&self, index: u64) -> Option<u64> {
        let log = self.inner.log.lock();
        let at = index.checked_sub(log.first)?;
        log.slots.get(at as usize).map(|slot| slot.term)
    }

    /// Index of the first of the last entries that have no more than `bytes` together.
    pub fn first_of_last(&self, bytes: u64) -> u64 {
        let log = self.inner.log.lock();
        let mut sum = 0;
        let few = log.sizes().take_while(|size| {
            sum += size;
            sum <= bytes
        });
        log.next() - few.count() as u64
    }

    /// Bytes of the entries from index `from` on.
    pub fn bytes_from(&self, from: u64) -> u64 {
        let log = self.inner.log.lock();
        let count = log.next().saturating_sub(from);
        log.sizes().take(usize::try_from(count).unwrap_or(usize::MAX)).sum()
    }

    /// The last entry of each term, among those held from `from` to `to` (inclusive).
    pub fn term_ends(&self, from: u64, to: u64) -> Vec<LogId> {
        let log = self.inner.log.lock();
        let mut ends: Vec<LogId> = Vec::new();
        let begin = from.saturating_sub(log.first) as usize;
        for (n, slot) in log.slots.iter().enumerate().skip(begin) {
            let (term, index) = (slot.term, log.first + n as u64);
            if index > to {
                break;
            }
            match ends.last_mut() {
                Some(last) if last.term == term => last.index = index,
                _ => ends.push(LogId { term, index }),
            }
        }
        ends
    }

    /// Entries from `from` to before `to`, as far as they are held without a gap from the first one held; stops once
    /// `limit` bytes of payload are reached, but gives one entry at least. Those in memory cost no disk access.
    pub fn read(&self, from: u64, to: u64, limit: usize) -> io::Result<Vec<Entry>> {
        let (found, segments) = self.find(from, to, limit);
        let mut entries = Vec::with_capacity(found.len());
        let mut ahead: VecDeque<Found> = found.into();
        while let Some(next) = ahead.pop_front() {
            match next {
                Found::Cached(entry) => entries.push(entry),
                Found::OnDisk(id, place) => {
                    let mut run = vec![(id, place)];
                    let begin = u64::from(place.offset);
                    let mut end = begin + HEAD as u64 + u64::from(place.len);
                    while let Some(Found::OnDisk(id, p)) = ahead.front()
                        && p.seq == place.seq
                        && u64::from(p.offset) >= end
                        && u64::from(p.offset) + HEAD as u64 + u64::from(p.len) <= begin + READ_STEP
                    {
                        end = u64::from(p.offset) + HEAD as u64 + u64::from(p.len);
                        run.push((*id, *p));
                        ahead.pop_front();
                    }
                    let segment = segments.iter().find(|(seq, _)| *seq == place.seq);
                    let Some((_, segment)) = segment else {
                        return Err(io::Error::new(io::ErrorKind::NotFound, "a log segment is gone"));
                    };
                    self.read_run(segment, &run, begin, end, &mut entries)?;
                }
            }
        }
        Ok(entries)
    }

    /// Whether `read` with the same arguments would need the disk.
    pub fn is_cached(&self, from: u64) -> bool {
        let log = self.inner.log.lock();
        from >= log.cache_first()
    }

    /// Holds the segments, so that none is used anew while it is read.
    fn find(&self, from: u64, to: u64, limit: usize) -> (Vec<Found>, Vec<(u64, Arc<Segment>)>) {
        let log = self.inner.log.lock();
        let mut found = Vec::new();
        let mut segments: Vec<(u64, Arc<Segment>)> = Vec::new();
        let mut size = 0;
        let cache_first = log.cache_first();
        for index in from.max(log.first)..to.min(log.next()) {
            let slot = log.slots[(index - log.first) as usize];
            let id = LogId { term: slot.term, index };
            match (slot.place, index.checked_sub(cache_first)) {
                (_, Some(at)) => {
                    let body = log.cache[at as usize].clone();
                    size += body.size();
                    found.push(Found::Cached(Entry { id, body }));
                }
                (Ok(place), None) => {
                    size += place.len as usize;
                    if segments.last().is_none_or(|(seq, _)| *seq != place.seq)
                        && let Some(segment) = self.shared.segments.get(place.seq)
                    {
                        segments.push((place.seq, segment));
                    }
                    found.push(Found::OnDisk(id, place));
                }
                // What is not written is in the cache: `evict` leaves it.
                (Err(_), None) => break,
            }
            if size >= limit {
                break;
            }
        }
        (found, segments)
    }

    fn read_run(
        &self,
        segment: &Segment,
        run: &[(LogId, Place)],
        begin: u64,
        end: u64,
        entries: &mut Vec<Entry>,
    ) -> io::Result<()> {
        let mut buf = BytesMut::zeroed((end - begin) as usize);
        segment.file.read_exact_at(&mut buf, begin)?;
        let buf: Bytes = buf.freeze();
        for (id, place) in run {
            let at = (u64::from(place.offset) - begin) as usize;
            let entry = check_body(&buf.slice(at..), self.id, *place)
                .and_then(|body| format::decode_entry(&body))
                .filter(|entry| entry.id == *id);
            match entry {
                Some(entry) => entries.push(entry),
                None => {
                    let what = format!("{} at {}: entry {}", segment.name, place.offset, id.index);
                    return Err(WalError::Corrupt(what).into());
                }
            }
        }
        Ok(())
    }
}
