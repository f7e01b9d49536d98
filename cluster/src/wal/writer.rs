//! The thread that writes: drains the queue, one write, one fdatasync, tells every waiter.
//!
//! Records are gathered in pages of the thread's own and written past the page cache: pages new to the cache cost the system
//! more than copying does, and the log is read back after a crash or by a member that lags far behind, else never.

use super::format::{self, Encoded, HEAD, Head, Kind, PAGE, SegmentHeader, State};
use super::group::{self, Inner, Place};
use super::segment::Segment;
use super::{Body, Done, LogId, Shared, Vote, WalError};
use crate::fs::{self, Pages};
use crate::ids::RangeId;
use crate::planted::{self, Bug};
use crate::threads;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A write is closed once it has this many bytes, so that those who wait first don't wait for all the others' bytes.
const MAX_WRITE: u64 = 8 << 20;
/// Bytes gathered for one call.
const GATHERED: usize = 4 << 20;
/// How long the thread looks for more work before it sleeps: shorter than a wake-up takes, and nothing when idle.
const SPIN: Duration = Duration::from_micros(20);
/// Who is told of one write begins the next at about the same time: the thread waits so long for as many as were told,
/// and no longer than an eighth of what the write took.
const GATHER: Duration = Duration::from_micros(400);
/// A disk that takes no longer is waited for by who has something to write alone.
const BRISK: Duration = Duration::from_millis(1);
/// How often a write that met a full disk is tried again.
const RETRY: Duration = Duration::from_millis(50);

static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

pub(super) struct Job {
    pub group: RangeId,
    pub what: What,
    pub done: Option<Done>,
}

pub(super) enum What {
    /// Entries, the append they came with, whose they are, and what is committed.
    Entries(Vec<Encoded>, u64, Arc<Inner>, Option<LogId>),
    Vote(Vote),
    Purge(LogId, Option<LogId>),
    Cut(u64),
    Gone,
}

/// What the disk has of a group, as far as the writer has written.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    pub state: State,
    /// First and last index of the group's entries in each segment; may say too much, never too little.
    pub spans: BTreeMap<u64, (u64, u64)>,
    /// The newest segment the group itself wrote entries to, since the start; copies don't count. A group that is copied
    /// piece by piece would else look busy for ever.
    pub wrote: u64,
}

impl Shadow {
    pub fn put(&mut self, seq: u64, id: LogId) {
        self.cut(id.index);
        let span = self.spans.entry(seq).or_insert((id.index, id.index));
        *span = (span.0.min(id.index), span.1.max(id.index));
        self.state.put(id);
    }

    pub fn cut(&mut self, keep: u64) {
        self.spans.retain(|_, (first, last)| {
            *last = (*last).min(keep.saturating_sub(1));
            *first < keep
        });
    }

    pub fn purge(&mut self, upto: LogId) {
        self.state.purged = self.state.purged.max(Some(upto));
        self.spans.retain(|_, (_, last)| *last > upto.index);
        if self.state.last.is_none_or(|last| last.index <= upto.index) {
            self.state.last = Some(upto);
        }
    }
}

/// Where the log goes on.
pub(super) struct Tail {
    pub seq: u64,
    pub segment: Arc<Segment>,
    /// The next free byte.
    pub offset: u64,
    /// Up to where this segment is durable.
    pub synced: u32,
    pub chain: u32,
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    tail: Tail,
    shadows: BTreeMap<RangeId, Shadow>,
    batch: Batch,
    /// Where a batch is gathered.
    pages: Pages,
    /// Whether this segment has the small state of every group, so that the ones before are not needed for it. Not so
    /// after a start: it may have been torn off.
    stated: bool,
    /// Whether a segment was begun since it was last looked which groups hold old ones.
    rolled: bool,
    /// How many waited for the last write, and how long it took.
    last: (usize, Duration),
}

/// One write in the making.
#[derive(Default)]
struct Batch {
    /// Where it goes.
    begin: u64,
    len: u64,
    /// Encoded bytes, referred to by `pieces`.
    scratch: Vec<u8>,
    pieces: Vec<Piece>,
    /// To be told when it is durable.
    placed: Vec<Placed>,
    done: Vec<Done>,
    /// Whether a purge is in it, so that segments may be given back after it.
    purged: bool,
}

/// Where the entries of one append came to lie.
struct Placed {
    group: Arc<Inner>,
    append: u64,
    places: Vec<(u64, Place)>,
}

enum Piece {
    Scratch(usize, usize),
    Bytes(Bytes),
    Zeros(usize),
}

impl Batch {
    fn scratch(&mut self, bytes: &[u8]) {
        let at = self.scratch.len();
        self.scratch.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
        match self.pieces.last_mut() {
            Some(Piece::Scratch(_, end)) if *end == at => *end = self.scratch.len(),
            _ => self.pieces.push(Piece::Scratch(at, self.scratch.len())),
        }
    }

    fn bytes(&mut self, bytes: &Bytes) {
        if !bytes.is_empty() {
            self.len += bytes.len() as u64;
            self.pieces.push(Piece::Bytes(bytes.clone()));
        }
    }

    fn pad(&mut self, to: u64) {
        let n = (to - self.begin - self.len) as usize;
        if n > 0 {
            self.len += n as u64;
            self.pieces.push(Piece::Zeros(n));
        }
    }

    fn end(&self) -> u64 {
        self.begin + self.len
    }

    fn clear(&mut self, begin: u64) {
        self.begin = begin;
        self.len = 0;
        self.scratch.clear();
        self.scratch.shrink_to(1 << 20);
        self.pieces.clear();
        self.purged = false;
    }
}

/// Reports a panic of the writer as the end of the log.
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            fail(&self.0, WalError::Failed("the writer panicked".into()));
        }
    }
}

/// Ends the log: what is queued and what comes later gets `error`.
fn fail(shared: &Shared, error: WalError) -> WalError {
    shared.fatal.send_if_modified(|fatal| {
        let first = fatal.is_none();
        fatal.get_or_insert(error);
        first
    });
    let jobs = {
        let mut queue = shared.queue.lock();
        queue.closed = true;
        std::mem::take(&mut queue.jobs)
    };
    let error = shared.error();
    for done in jobs.into_iter().filter_map(|job| job.done) {
        done(Err(error.clone()));
    }
    error
}

/// The thread that writes.
pub(super) fn run(shared: &Shared) {
    shared.segments.prepare();
    let mut last = (0, Duration::ZERO);
    while wait(shared, last) {
        let mut pen = shared.pen.lock();
        write_queued(&mut pen);
        match &*pen {
            Some(writer) => last = writer.last,
            None => return,
        }
    }
    if let Some(mut writer) = shared.pen.lock().take()
        && let Err(error) = writer.finish()
    {
        tracing::warn!(%error, "the write-ahead log did not end cleanly");
    }
}

/// Writes what is queued. Takes the pen away for good where that fails.
pub(super) fn write_queued(pen: &mut Option<Writer>) {
    let Some(writer) = pen else { return };
    let guard = Guard(writer.shared.clone());
    let written = writer.write_queued();
    drop(guard);
    if written.is_err() {
        *pen = None;
    }
}

/// Waits until something is queued; `false` at the end. `last` is how many waited for the last write, and how long it took.
fn wait(shared: &Shared, (waited, took): (usize, Duration)) -> bool {
    let begin = Instant::now();
    while !shared.ready.load(Ordering::Acquire) && begin.elapsed() < threads::patience(SPIN) {
        std::hint::spin_loop();
    }
    let patience = threads::patience(GATHER.min(took / 8));
    let mut queue = shared.queue.lock();
    loop {
        if !queue.jobs.is_empty() {
            if queue.jobs.len() < waited && !queue.closed && begin.elapsed() < patience {
                drop(queue);
                std::thread::yield_now();
                queue = shared.queue.lock();
                continue;
            }
            return true;
        }
        if queue.closed {
            return false;
        }
        shared.ready.store(false, Ordering::Release);
        shared.wake.wait(&mut queue);
    }
}

impl Writer {
    pub fn new(shared: Arc<Shared>, tail: Tail, shadows: BTreeMap<RangeId, Shadow>) -> io::Result<Self> {
        let mut batch = Batch::default();
        batch.clear(tail.offset.next_multiple_of(PAGE));
        Ok(Self {
            shared,
            tail,
            shadows,
            batch,
            pages: Pages::new(GATHERED)?,
            stated: false,
            rolled: false,
            last: (0, Duration::ZERO),
        })
    }

    /// Takes what is queued and writes it. An error is the log's end, and told to all who wait.
    fn write_queued(&mut self) -> Result<(), WalError> {
        let jobs = {
            let mut queue = self.shared.queue.lock();
            self.shared.ready.store(false, Ordering::Release);
            std::mem::take(&mut queue.jobs)
        };
        let mut jobs = jobs.into_iter();
        while let Some(Job { group, what, mut done }) = jobs.next() {
            let written = self.add(group, what).and_then(|()| {
                self.batch.done.extend(done.take());
                if jobs.len() == 0 || self.batch.len >= MAX_WRITE {
                    self.flush()?;
                    self.move_resting()?;
                }
                Ok(())
            });
            if let Err(error) = written {
                tracing::error!(%error, "the write-ahead log failed");
                let error = fail(&self.shared, WalError::Failed(error.to_string().into()));
                let waiting = std::mem::take(&mut self.batch.done);
                let queued = jobs.filter_map(|job| job.done);
                for done in waiting.into_iter().chain(done).chain(queued) {
                    done(Err(error.clone()));
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether a record of so many bytes fits where the log goes on: blocks that the file has already.
    pub fn has_room(&self, bytes: usize) -> bool {
        let end = self.tail.offset + bytes as u64 + 2 * PAGE;
        self.stated && end <= self.shared.config.segment_bytes
    }

    /// At a clean end everything before is attested by what follows it, and the last committed ids are kept.
    fn finish(&mut self) -> io::Result<()> {
        let groups: Vec<_> = self.shadows.keys().copied().collect();
        for id in groups {
            let committed = self.shared.groups.read().get(&id).and_then(|group| group.committed());
            let state = &mut self.shadow(id).state;
            state.committed = state.committed.max(committed);
            self.add_state(id)?;
        }
        self.flush()
    }

    fn add(&mut self, group: RangeId, what: What) -> io::Result<()> {
        if !self.stated {
            self.add_states();
        }
        match what {
            What::Entries(entries, append, inner, committed) => {
                let state = &mut self.shadow(group).state;
                state.committed = state.committed.max(committed);
                let mut places = Vec::with_capacity(entries.len());
                for entry in entries {
                    let place = self.add_entry(group, Kind::Entry, &entry)?;
                    let shadow = self.shadow(group);
                    shadow.put(place.seq, entry.id);
                    shadow.wrote = place.seq;
                    places.push((entry.id.index, place));
                }
                self.batch.placed.push(Placed {
                    group: inner,
                    append,
                    places,
                });
            }
            What::Vote(_) if planted::has(Bug::ForgottenVote) => {}
            What::Vote(vote) => {
                self.shadow(group).state.vote = Some(vote);
                self.add_state(group)?;
            }
            What::Purge(upto, committed) => {
                let shadow = self.shadow(group);
                shadow.purge(upto);
                shadow.state.committed = shadow.state.committed.max(committed);
                self.add_state(group)?;
                self.batch.purged = true;
            }
            What::Cut(keep) => {
                self.add_record(group, Kind::Cut, &keep.to_le_bytes())?;
                let shadow = self.shadow(group);
                shadow.cut(keep);
                // The term of what is last now is not at hand; recovery takes it from the entry itself.
                shadow.state.last = match keep.checked_sub(1) {
                    Some(index) if shadow.state.purged.is_none_or(|purged| purged.index < index) => {
                        shadow.state.last.map(|last| LogId {
                            index: last.index.min(index),
                            ..last
                        })
                    }
                    _ => shadow.state.purged,
                };
            }
            What::Gone => {
                self.add_record(group, Kind::Gone, &[])?;
                self.shadows.remove(&group);
                self.batch.purged = true;
            }
        }
        Ok(())
    }

    fn shadow(&mut self, group: RangeId) -> &mut Shadow {
        self.shadows.entry(group).or_default()
    }

    fn add_state(&mut self, group: RangeId) -> io::Result<()> {
        let state = self.shadow(group).state.encode();
        self.add_record(group, Kind::State, &state)
    }

    fn add_record(&mut self, group: RangeId, kind: Kind, body: &[u8]) -> io::Result<()> {
        self.make_room(body.len())?;
        self.add_head(group, kind, body.len() as u32, format::crc(&[body]));
        self.batch.scratch(body);
        Ok(())
    }

    fn add_entry(&mut self, group: RangeId, kind: Kind, entry: &Encoded) -> io::Result<Place> {
        self.make_room(entry.len as usize)?;
        let offset = self.add_head(group, kind, entry.len, entry.crc);
        self.batch.scratch(&entry.meta);
        match &entry.body {
            Body::Blank => {}
            Body::Membership(bytes) => self.batch.bytes(bytes),
            Body::Normal(payload) => {
                self.batch.bytes(&payload.head);
                for part in payload.parts.iter() {
                    self.batch.bytes(part);
                }
            }
        }
        Ok(Place {
            seq: self.tail.seq,
            offset: offset as u32,
            len: entry.len,
        })
    }

    fn add_head(&mut self, group: RangeId, kind: Kind, len: u32, body_crc: u32) -> u64 {
        self.batch.pad(format::align(self.batch.end()));
        let offset = self.batch.end();
        let mut head = Head {
            crc: 0,
            body_crc,
            len,
            seq: self.tail.seq,
            chain: self.tail.chain,
            synced: self.tail.synced,
            group: group.0,
            kind,
        };
        self.batch.scratch(&head.encode());
        self.tail.chain = head.crc;
        offset
    }

    /// Goes on to the next segment where this one has no room for a record. A record longer than a segment gets one of
    /// its own, which grows.
    fn make_room(&mut self, body: usize) -> io::Result<()> {
        let end = format::align(self.batch.end()) + (HEAD + body) as u64;
        let limit = self.shared.config.segment_bytes;
        let empty = self.tail.offset <= PAGE && self.batch.end() <= PAGE;
        if end <= limit || empty {
            return Ok(());
        }
        // This one is durable before a byte of the next is written: where there is a next one, this one is whole.
        self.flush()?;
        let seq = self.tail.seq + 1;
        let segment = self.until_space(|writer| writer.shared.segments.take(seq))?;
        self.tail = Tail {
            seq,
            segment,
            offset: 0,
            synced: 0,
            chain: self.tail.chain,
        };
        self.batch.clear(0);
        let header = format::segment_header(SegmentHeader {
            seq,
            chain: self.tail.chain,
        });
        self.batch.scratch(&header);
        // Small state never holds an old segment: each begins with all of it.
        self.add_states();
        self.rolled = true;
        self.shared.segments.prepare();
        Ok(())
    }

    fn add_states(&mut self) {
        self.stated = true;
        let states: Vec<_> = self.shadows.iter().map(|(id, s)| (*id, s.state.encode())).collect();
        for (group, state) in states {
            self.add_head(group, Kind::State, state.len() as u32, format::crc(&[&state]));
            self.batch.scratch(&state);
        }
    }

    /// Writes the batch. It begins and ends with a page.
    fn write(&mut self) -> io::Result<()> {
        let (batch, pages, file) = (&self.batch, &mut self.pages, &self.tail.segment.file);
        let mut at = batch.begin;
        pages.clear();
        for piece in &batch.pieces {
            let mut rest = match piece {
                Piece::Scratch(from, to) => &batch.scratch[*from..*to],
                Piece::Bytes(bytes) => bytes,
                Piece::Zeros(n) => &ZEROS[..*n],
            };
            while !rest.is_empty() {
                rest = &rest[pages.fill(rest)..];
                if pages.is_full() {
                    file.write_pages_at(pages, at)?;
                    at += pages.len() as u64;
                    pages.clear();
                }
            }
        }
        if pages.is_empty() {
            return Ok(());
        }
        file.write_pages_at(pages, at)
    }

    /// Makes the batch durable and tells everybody.
    fn flush(&mut self) -> io::Result<()> {
        if self.batch.len > 0 {
            let begin = Instant::now();
            let end = self.batch.end();
            self.batch.pad(end.next_multiple_of(PAGE));
            if planted::has(Bug::AckBeforeSync) {
                self.batch.done.drain(..).for_each(|done| done(Ok(())));
                threads::sleep(Duration::from_millis(400));
            }
            self.until_space(Self::write)?;
            self.tail.segment.file.sync_data()?;
            self.tail.offset = self.batch.end();
            self.tail.synced = end as u32;
            let (waited, took) = (self.batch.done.len(), begin.elapsed());
            self.last = (waited, took);
            self.shared
                .brisk
                .store(waited <= 1 && took < threads::patience(BRISK), Ordering::Release);
        }
        let purged = self.batch.purged;
        self.batch.clear(self.tail.offset);
        let cache_bytes = self.shared.config.cache_bytes;
        for placed in self.batch.placed.drain(..) {
            placed.group.written(&placed.places, placed.append, cache_bytes);
        }
        for done in self.batch.done.drain(..) {
            done(Ok(()));
        }
        if purged {
            self.collect();
        }
        Ok(())
    }

    /// Gives back segments in which nothing is needed any more. What made it so is durable.
    fn collect(&mut self) {
        let spans = self.shadows.values().filter_map(|shadow| shadow.spans.keys().next());
        let needed = spans.min().copied().unwrap_or(self.tail.seq);
        self.shared.segments.release_before(needed.min(self.tail.seq));
    }

    /// Copies forward what groups that rest have in the oldest segment, once the log has become long.
    fn move_resting(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.rolled) {
            return Ok(());
        }
        let live = self.shared.segments.live_count();
        if live <= self.shared.config.live_segments {
            return Ok(());
        }
        let Some(oldest) = self
            .shadows
            .values()
            .filter_map(|s| s.spans.keys().next())
            .min()
            .copied()
        else {
            return Ok(());
        };
        let Some(segment) = self.shared.segments.get(oldest) else {
            return Ok(());
        };
        let half = self.tail.seq - (self.tail.seq - oldest) / 2;
        let rests = |shadow: &Shadow| shadow.wrote < half;
        let holders: Vec<_> = self
            .shadows
            .iter()
            .filter(|(_, shadow)| rests(shadow))
            .filter_map(|(id, shadow)| {
                let (first, last) = *shadow.spans.get(&oldest)?;
                Some((*id, (first.max(shadow.state.begin()), last)))
            })
            .collect();
        for (id, span) in holders {
            let inner = self.shared.groups.read().get(&id).cloned();
            let Some((inner, places)) = inner.and_then(|inner| Some((inner.clone(), inner.places(oldest, span)?)))
            else {
                continue;
            };
            let mut copies = Vec::with_capacity(places.len());
            for (entry, from) in places {
                let body = group::read_body(&segment, id, from)?;
                self.make_room(body.len())?;
                let offset = self.add_head(id, Kind::Moved, from.len, format::crc(&[&body]));
                self.batch.bytes(&body);
                let to = Place {
                    seq: self.tail.seq,
                    offset: offset as u32,
                    len: from.len,
                };
                let span = self
                    .shadow(id)
                    .spans
                    .entry(to.seq)
                    .or_insert((entry.index, entry.index));
                *span = (span.0.min(entry.index), span.1.max(entry.index));
                copies.push((entry.index, from, to));
            }
            self.flush()?;
            inner.moved(&copies);
            self.shadow(id).spans.remove(&oldest);
        }
        self.rolled = false;
        self.collect();
        Ok(())
    }

    /// Tries until it is not the lack of space that it fails for, or the log is closed.
    fn until_space<T>(&mut self, mut op: impl FnMut(&mut Self) -> io::Result<T>) -> io::Result<T> {
        let mut told = false;
        loop {
            match op(self) {
                Err(error) if fs::is_full(&error) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!("the disk is full: the write-ahead log waits for space");
                    }
                    let mut queue = self.shared.queue.lock();
                    if queue.closed {
                        return Err(error);
                    }
                    self.shared.wake.wait_for(&mut queue, RETRY);
                }
                done => return done,
            }
        }
    }
}
