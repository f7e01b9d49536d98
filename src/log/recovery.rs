//! Opening: every log is cut back to its checkpoint. Costs a listing of the folder and a few calls per partition.
//!
//! Segments are removed oldest first, by trims that may be younger than the checkpoint; the replay does them again. So
//! missing oldest segments move the log start up, and if all are gone the log is empty and ends where the checkpoint says.
//! A segment missing after one that is there, or shorter than the checkpoint says, is damage: nothing is opened.

use super::epochs::Epochs;
use super::files::Files;
use super::format::{ENTRY_LEN, Entry, FILE_HEADER, FileId, Kind};
use super::hop::{Damage, Hopper};
use super::partition::State;
use super::segment::{Segment, Times};
use super::{LogCheckpoint, Offset, index};
use cluster::ids::PartitionId;
use std::collections::{BTreeMap, HashMap};
use std::io;

/// Index entries read at once from the end.
const ENTRIES: u64 = 25;

/// Lengths of a segment's two files; `None` where there is none.
#[derive(Clone, Copy, Default)]
struct Found {
    segment: Option<u64>,
    index: Option<u64>,
}

/// What the folder holds.
pub(super) struct Listing {
    partitions: HashMap<PartitionId, BTreeMap<Offset, Found>>,
}

impl Listing {
    /// Reads the folder.
    pub fn read(files: &Files) -> io::Result<Self> {
        let mut partitions: HashMap<PartitionId, BTreeMap<Offset, Found>> = HashMap::new();
        for entry in files.fs().list(files.dir())? {
            let Some(id) = FileId::parse(&entry.name).filter(|_| !entry.is_dir) else {
                tracing::warn!(name = entry.name, "not a file of this folder, left alone");
                continue;
            };
            let found = partitions.entry(id.partition).or_default().entry(id.base).or_default();
            match id.kind {
                Kind::Segment => found.segment = Some(entry.len),
                Kind::Index => found.index = Some(entry.len),
            }
        }
        Ok(Self { partitions })
    }

    /// Cuts a partition's files back to `checkpoint`.
    pub fn open(
        &mut self,
        files: &Files,
        partition: PartitionId,
        checkpoint: LogCheckpoint,
        index_interval: u32,
    ) -> io::Result<State> {
        let mut found = self.partitions.remove(&partition).unwrap_or_default();
        let mut state = State {
            log_start: checkpoint.log_start,
            log_end: checkpoint.log_end,
            epochs: Epochs::new(checkpoint.epochs),
            ..State::default()
        };
        if checkpoint.log_start > checkpoint.log_end || checkpoint.segment.is_some_and(|s| s >= checkpoint.log_end) {
            return Err(corrupt(format!("checkpoint of partition {partition} makes no sense")));
        }
        let after = checkpoint.segment.map_or(Offset::MIN, |base| base + 1);
        remove(files, partition, found.split_off(&after))?;
        let Some(active) = checkpoint.segment else {
            return Ok(state);
        };
        // An index without its segment is what is left of a removal.
        let (found, orphans): (BTreeMap<_, _>, BTreeMap<_, _>) =
            found.into_iter().partition(|(_, files)| files.segment.is_some());
        remove(files, partition, orphans)?;
        let Some(oldest) = found.keys().next().copied() else {
            state.log_start = state.log_end;
            state.epochs.trim(state.log_end);
            return Ok(state);
        };
        let active_id = FileId {
            partition,
            base: active,
            kind: Kind::Segment,
        };
        if !found.contains_key(&active) {
            return Err(corrupt(format!("{} is missing", files.path(active_id).display())));
        }
        if oldest > state.log_start {
            tracing::info!(%partition, from = state.log_start, to = oldest, "trimmed after the checkpoint");
            state.log_start = oldest;
        }
        state.epochs.trim(state.log_start);
        let bases: Vec<Offset> = found.keys().copied().collect();
        for (n, (base, lens)) in found.into_iter().enumerate() {
            let len = lens.segment.unwrap_or(0);
            let indexed = index::entries(lens.index.unwrap_or(0));
            let segment = if base == active {
                if len < checkpoint.segment_len {
                    let path = files.path(active_id);
                    let why = format!("{} has {len} bytes of {}", path.display(), checkpoint.segment_len);
                    return Err(corrupt(why));
                }
                if len > checkpoint.segment_len {
                    files.open(active_id)?.set_len(checkpoint.segment_len)?;
                }
                open_active(
                    files,
                    active_id,
                    checkpoint.segment_len,
                    indexed,
                    index_interval,
                    state.log_end,
                )?
            } else if bases.get(n + 1).is_some_and(|next| *next <= state.log_start) {
                remove(files, partition, BTreeMap::from([(base, lens)]))?;
                continue;
            } else if len <= FILE_HEADER {
                let path = files.path(FileId { base, ..active_id });
                return Err(corrupt(format!("{} is empty", path.display())));
            } else {
                Segment::found(base, len, indexed)
            };
            state.size += segment.data_len();
            state.segments.push_back(segment);
        }
        Ok(state)
    }

    /// Removes the files of partitions that no checkpoint named.
    pub fn remove_rest(self, files: &Files) -> io::Result<()> {
        for (partition, found) in self.partitions {
            remove(files, partition, found)?;
        }
        Ok(())
    }
}

/// The segment being written: its index is cut back too, and its last stretch read for what the index does not say yet.
fn open_active(
    files: &Files,
    id: FileId,
    len: u64,
    indexed: u64,
    index_interval: u32,
    log_end: Offset,
) -> io::Result<Segment> {
    let mut segment = Segment::found(id.base, len, indexed);
    segment.closed = false;
    let index_id = FileId {
        kind: Kind::Index,
        ..id
    };
    let last = if indexed > 0 {
        cut_index(files, index_id, &mut segment)?
    } else {
        None
    };
    let last = last.unwrap_or_else(|| {
        // Without an index nothing says when the batches came; they count as new, so that retention spares them.
        segment.indexed = 0;
        Entry {
            offset: id.base,
            position: FILE_HEADER,
            append_ms: i64::MAX,
            max_before: i64::MIN,
        }
    });
    if segment.indexed > 0 {
        segment.first_append_ms = index::entry(files, index_id, 0).ok().map(|first| first.append_ms);
    } else {
        tracing::warn!(
            file = index_id.name(),
            "the index is gone and made anew, without append times"
        );
        segment.pending.push(last);
    }
    segment.last_entry = last.position;
    let file = files.open(id)?;
    let mut max_timestamp = last.max_before;
    let mut hopper = Hopper::new(&*file, last.position, last.offset, len);
    let damaged = |damage: Damage| {
        let path = files.path(id);
        corrupt(format!(
            "{} at byte {}: {}",
            path.display(),
            damage.position,
            damage.why
        ))
    };
    while let Some(found) = hopper.next().map_err(damaged)? {
        if found.position - segment.last_entry >= u64::from(index_interval) {
            segment.pending.push(Entry {
                offset: found.base,
                position: found.position,
                append_ms: last.append_ms,
                max_before: max_timestamp,
            });
            segment.last_entry = found.position;
        }
        max_timestamp = max_timestamp.max(found.max_timestamp);
    }
    if hopper.expected() != log_end {
        let path = files.path(id);
        let why = format!("{} ends at offset {} of {log_end}", path.display(), hopper.expected());
        return Err(corrupt(why));
    }
    segment.times = Some(Times {
        last_append_ms: last.append_ms,
        max_timestamp,
    });
    Ok(segment)
}

/// Drops entries from the first that lies beyond the segment or fails its checksum. The last entry kept.
fn cut_index(files: &Files, id: FileId, segment: &mut Segment) -> io::Result<Option<Entry>> {
    let file = match files.open(id) {
        Err(e) if e.kind() == io::ErrorKind::InvalidData || e.kind() == io::ErrorKind::UnexpectedEof => {
            tracing::warn!(error = %e, "damaged index");
            return Ok(None);
        }
        file => file?,
    };
    let found = segment.indexed;
    let mut kept = found;
    let mut last = None;
    while kept > 0 && last.is_none() {
        let from = kept.saturating_sub(ENTRIES);
        let mut bytes = vec![0; (kept - from) as usize * ENTRY_LEN];
        file.read_exact_at(&mut bytes, FILE_HEADER + from * ENTRY_LEN as u64)?;
        let mut good = from;
        for bytes in bytes.chunks_exact(ENTRY_LEN) {
            match Entry::decode(bytes) {
                Some(entry) if entry.position < segment.len => last = Some(entry),
                Some(_) => break,
                None => {
                    tracing::warn!(
                        file = id.name(),
                        entry = good,
                        "index cut at an entry that fails its checksum"
                    );
                    break;
                }
            }
            good += 1;
        }
        kept = if last.is_some() { good } else { from };
    }
    segment.indexed = kept;
    if kept < found {
        file.set_len(FILE_HEADER + kept * ENTRY_LEN as u64)?;
    }
    Ok(last)
}

fn remove(files: &Files, partition: PartitionId, found: BTreeMap<Offset, Found>) -> io::Result<()> {
    for (base, lens) in found {
        for (kind, len) in [(Kind::Segment, lens.segment), (Kind::Index, lens.index)] {
            if len.is_some() {
                files.remove(FileId { partition, base, kind })?;
            }
        }
    }
    Ok(())
}

fn corrupt(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
