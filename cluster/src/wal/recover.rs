//! Reading the log back when it is opened.
//!
//! Segments are read in the order of their seq, records in the order they were written. The log ends at the first bad
//! record; that is damage, and an error, where anything shows that it was durable once.

use super::format::{self, HEAD, Head, Kind, PAGE, State};
use super::group::{Inner, Log, Place, Slot};
use super::segment::{self, Segment, Segments};
use super::writer::{Shadow, Tail};
use super::{LogId, OpenError, WalConfig};
use crate::fs::FileSystem;
use crate::ids::RangeId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How far behind the end later batches are looked for: no write is longer, but for one giant record.
const LOOK_AHEAD: usize = 24 << 20;

pub(super) struct Recovered {
    pub groups: BTreeMap<RangeId, (Arc<Inner>, Shadow)>,
    pub tail: Tail,
}

/// A group while it is read.
#[derive(Default)]
struct Replay {
    state: State,
    /// May have a gap at the front for a while: what was purged, or copied forward.
    entries: BTreeMap<u64, (u64, Place)>,
}

struct Found {
    segment: Arc<Segment>,
    chain: u32,
}

pub(super) fn recover(
    files: Arc<dyn FileSystem>,
    dir: &Path,
    config: &WalConfig,
) -> Result<(Segments, Recovered), OpenError> {
    let mut used: BTreeMap<u64, Found> = BTreeMap::new();
    let mut spare = Vec::new();
    let mut headless = Vec::new();
    for entry in files.list(dir)? {
        if entry.is_dir || segment::name_number(&entry.name).is_none() {
            continue;
        }
        let file = files.open(&dir.join(&entry.name))?;
        let mut page = vec![0; PAGE as usize];
        let name = entry.name;
        let header = match file.read_exact_at(&mut page, 0) {
            Ok(()) => format::read_segment_header(&page).map_err(|version| OpenError::Version {
                file: name.clone(),
                version,
            })?,
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(e) => return Err(e.into()),
        };
        let segment = Arc::new(Segment { file, name });
        match header {
            Some(header) => {
                let chain = header.chain;
                if let Some(twin) = used.insert(header.seq, Found { segment, chain }) {
                    let name = &twin.segment.name;
                    return Err(OpenError::Corrupt(format!(
                        "{name} and another file are both segment {}",
                        header.seq
                    )));
                }
            }
            None => {
                if page[..HEAD].iter().any(|byte| *byte != 0) {
                    headless.push(segment.clone());
                }
                spare.push(segment);
            }
        }
    }

    // Old segments that were given back may still have their headers; those before a gap are surely of that kind.
    let newest = used.keys().next_back().copied();
    for segment in headless {
        check_unused(&segment, newest.unwrap_or(0))?;
    }
    let mut oldest = newest.unwrap_or(1);
    while used.contains_key(&oldest.wrapping_sub(1)) {
        oldest -= 1;
    }
    let kept = used.split_off(&oldest);
    spare.extend(used.into_values().map(|found| found.segment));
    let mut used = kept;

    let mut replays: BTreeMap<RangeId, Replay> = BTreeMap::new();
    let mut tail: Option<Tail> = None;
    // A bad record before the newest segment: damage, or a segment that was given back and was being written anew when
    // the power went. Then nothing of it is missed.
    let mut bad: Option<String> = None;
    let mut begin = oldest;
    for (seq, found) in &used {
        if let Some(before) = &tail
            && before.chain != found.chain
        {
            bad = Some(format!("{} at {}: a bad record", before.segment.name, before.offset));
            replays.clear();
            begin = *seq;
        }
        let last = Some(*seq) == newest;
        tail = Some(read_segment(*seq, found, last, &mut replays)?);
    }

    let kept = used.split_off(&begin);
    spare.extend(used.into_values().map(|found| found.segment));
    let live = kept.into_iter().map(|(seq, found)| (seq, found.segment)).collect();
    let segments = Arc::new(Segments::new(files.clone(), dir, config, live, spare));
    let tail = match tail {
        Some(tail) => {
            // What was read may only have been in the page cache.
            tail.segment.file.sync_data()?;
            files.sync_dir(dir)?;
            tail
        }
        None => first_segment(&segments)?,
    };
    let mut groups = BTreeMap::new();
    for (id, replay) in replays {
        let group = finish(replay).map_err(|missing| {
            let why = bad.as_deref().unwrap_or("no bad record was met");
            OpenError::Corrupt(format!("entry {missing} of range {id} is missing; {why}"))
        })?;
        groups.insert(id, group);
    }
    let recovered = Recovered { groups, tail };
    match Arc::try_unwrap(segments) {
        Ok(segments) => Ok((segments, recovered)),
        Err(_) => Err(OpenError::Io(io::Error::other("segments are held"))),
    }
}

/// The first segment of a new log.
fn first_segment(segments: &Arc<Segments>) -> io::Result<Tail> {
    let segment = segments.take(1)?;
    let header = format::segment_header(format::SegmentHeader { seq: 1, chain: 0 });
    segment.file.write_all_at(&header, 0)?;
    segment.file.sync_data()?;
    Ok(Tail {
        seq: 1,
        segment,
        offset: PAGE,
        synced: PAGE as u32,
        chain: 0,
    })
}

fn read_segment(
    seq: u64,
    found: &Found,
    newest: bool,
    replays: &mut BTreeMap<RangeId, Replay>,
) -> Result<Tail, OpenError> {
    let segment = &found.segment;
    let mut bytes = vec![0; segment.file.len()? as usize];
    segment.file.read_exact_at(&mut bytes, 0)?;
    let mut chain = found.chain;
    let mut end = PAGE as usize;
    let mut at = end;
    loop {
        let here = record(&bytes, at, seq, Some(chain));
        // A batch may end anywhere; the next begins at a page.
        let (head, body) = match here {
            Some(record) => record,
            None => {
                let page = end.next_multiple_of(PAGE as usize);
                match (page > at).then(|| record(&bytes, page, seq, Some(chain))).flatten() {
                    Some(record) => {
                        at = page;
                        record
                    }
                    None => break,
                }
            }
        };
        let place = Place {
            seq,
            offset: at as u32,
            len: head.len,
        };
        let replay = replays.entry(RangeId(head.group)).or_default();
        if head.kind == Kind::Gone {
            replays.remove(&RangeId(head.group));
        } else if replay.take(head.kind, body, place).is_none() {
            return Err(OpenError::Corrupt(format!(
                "{} at {at}: a record makes no sense",
                segment.name
            )));
        }
        chain = head.crc;
        end = at + HEAD + head.len as usize;
        at = format::align(end as u64) as usize;
    }
    if newest && was_durable(&bytes, end, seq) {
        return Err(OpenError::Corrupt(format!("{} at {at}: a bad record", segment.name)));
    }
    Ok(Tail {
        seq,
        segment: segment.clone(),
        offset: end as u64,
        synced: end as u32,
        chain,
    })
}

/// The record at `at`, if all of it is right.
fn record(bytes: &[u8], at: usize, seq: u64, chain: Option<u32>) -> Option<(Head, &[u8])> {
    let head = Head::decode(bytes.get(at..)?)?;
    if head.seq != seq || chain.is_some_and(|chain| head.chain != chain) {
        return None;
    }
    let body = bytes.get(at + HEAD..)?.get(..head.len as usize)?;
    (format::crc(&[body]) == head.body_crc).then_some((head, body))
}

/// A file without a header is one whose first write was torn, unless later writes went well.
fn check_unused(segment: &Segment, newest: u64) -> Result<(), OpenError> {
    let mut bytes = vec![0; segment.file.len()? as usize];
    segment.file.read_exact_at(&mut bytes, 0)?;
    let durable = (PAGE as usize..bytes.len()).step_by(8).any(|at| {
        Head::decode(&bytes[at..])
            .is_some_and(|head| head.seq > newest && head.synced > 0 && record(&bytes, at, head.seq, None).is_some())
    });
    match durable {
        true => Err(OpenError::Corrupt(format!(
            "{} at 0: a bad segment header",
            segment.name
        ))),
        false => Ok(()),
    }
}

/// Whether a later record says that the log was durable beyond `end`.
fn was_durable(bytes: &[u8], end: usize, seq: u64) -> bool {
    let from = format::align(end as u64) as usize;
    let to = bytes.len().min(from.saturating_add(LOOK_AHEAD));
    (from..to).step_by(8).any(|at| {
        Head::decode(&bytes[at..])
            .is_some_and(|head| head.synced as usize > end && record(bytes, at, seq, None).is_some())
    })
}

impl Replay {
    fn take(&mut self, kind: Kind, body: &[u8], place: Place) -> Option<()> {
        match kind {
            Kind::Entry => {
                let id = format::entry_id(body)?;
                self.entries.split_off(&id.index);
                self.entries.insert(id.index, (id.term, place));
                self.state.put(id);
            }
            Kind::Moved => {
                let id = format::entry_id(body)?;
                self.entries.insert(id.index, (id.term, place));
            }
            Kind::State => {
                self.state = State::decode(body)?;
                if let Some(purged) = self.state.purged {
                    self.entries = self.entries.split_off(&(purged.index + 1));
                }
            }
            Kind::Cut => {
                let keep = format::decode_cut(body)?;
                self.entries.split_off(&keep);
                self.state.last = match keep.checked_sub(1) {
                    Some(index) if self.state.purged.is_none_or(|purged| purged.index < index) => {
                        self.state.last.map(|last| LogId {
                            index: last.index.min(index),
                            ..last
                        })
                    }
                    _ => self.state.purged,
                };
            }
            Kind::Gone => {}
        }
        Some(())
    }
}

/// A group as it was read, or the first index that is missing.
fn finish(replay: Replay) -> Result<(Arc<Inner>, Shadow), u64> {
    let Replay { mut state, entries } = replay;
    let first = state.begin();
    let mut log = Log::recovered(&state, first);
    let mut shadow = Shadow::default();
    let expected = state.last.map(|last| last.index);
    for (n, (index, (term, place))) in entries.into_iter().enumerate() {
        if index != first + n as u64 {
            return Err(first + n as u64);
        }
        log.slots.push_back(Slot { term, place: Ok(place) });
        let span = shadow.spans.entry(place.seq).or_insert((index, index));
        span.1 = index;
    }
    let last = log.last();
    if last.map(|last| last.index) < expected {
        return Err(last.map_or(0, |last| last.index + 1));
    }
    state.last = last;
    shadow.state = state;
    let inner = Inner { log: Mutex::new(log) };
    Ok((Arc::new(inner), shadow))
}
