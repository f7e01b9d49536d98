//! Search in a segment's index: entries in its file first, then those not yet written.

use super::Offset;
use super::files::Files;
use super::format::{ENTRY_LEN, Entry, FILE_HEADER, FileId};
use std::io;

/// Entries read at once when the search has come near.
const BLOCK: u64 = 100;

/// Entries that lie together in an index file.
pub(super) struct Block {
    /// First offset of the segment.
    pub segment: Offset,
    /// Number of the first entry.
    first: u64,
    entries: Vec<Entry>,
}

impl Block {
    fn read(files: &Files, id: FileId, first: u64, to: u64) -> io::Result<Self> {
        let mut bytes = vec![0; (to - first) as usize * ENTRY_LEN];
        files
            .open(id)?
            .read_exact_at(&mut bytes, FILE_HEADER + first * ENTRY_LEN as u64)?;
        let entries = (first..)
            .zip(bytes.chunks_exact(ENTRY_LEN))
            .map(|(n, bytes)| Entry::decode(bytes).ok_or_else(|| damaged(files, id, n)));
        Ok(Self {
            segment: id.base,
            first,
            entries: entries.collect::<io::Result<_>>()?,
        })
    }

    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The floor, if it is surely in this block of an index of `written` entries.
    fn floor(&self, written: u64, before: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let n = self.entries.partition_point(before);
        (n > 0 && (n < self.entries.len() || self.end() == written)).then(|| self.entries[n - 1])
    }
}

/// The last of `written` entries of a file for which `before` holds; `before` must hold for some first entries and for none
/// after them. `near`, a block of an earlier search, saves a sequential reader the search; a block read newly is returned.
pub(super) fn floor(
    files: &Files,
    id: FileId,
    written: u64,
    near: Option<&Block>,
    before: impl Fn(&Entry) -> bool,
) -> io::Result<(Option<Entry>, Option<Block>)> {
    if written == 0 {
        return Ok((None, None));
    }
    if let Some(near) = near {
        if let Some(entry) = near.floor(written, &before) {
            return Ok((Some(entry), None));
        }
        let (first, to) = (near.end() - 1, written.min(near.end() + BLOCK));
        if near.entries.last().is_some_and(&before) {
            let next = Block::read(files, id, first, to)?;
            if let Some(entry) = next.floor(written, &before) {
                return Ok((Some(entry), Some(next)));
            }
        }
    }
    let (mut from, mut to) = (0, written);
    let mut best = None;
    while to - from > BLOCK {
        let middle = from + (to - from) / 2;
        let entry = entry(files, id, middle)?;
        if before(&entry) {
            best = Some(entry);
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    // Entries after it too: whoever reads on will want them.
    let block = Block::read(files, id, from, written.min(from + 2 * BLOCK))?;
    Ok((floor_in(&block.entries, &before).or(best), Some(block)))
}

/// [`floor`] over entries in memory.
pub(super) fn floor_in(entries: &[Entry], before: impl Fn(&Entry) -> bool) -> Option<Entry> {
    entries.partition_point(before).checked_sub(1).map(|n| entries[n])
}

/// Entry number `n` of an index file.
pub(super) fn entry(files: &Files, id: FileId, n: u64) -> io::Result<Entry> {
    let mut bytes = [0; ENTRY_LEN];
    files
        .open(id)?
        .read_exact_at(&mut bytes, FILE_HEADER + n * ENTRY_LEN as u64)?;
    Entry::decode(&bytes).ok_or_else(|| damaged(files, id, n))
}

/// Whole entries in an index file of `len` bytes.
pub(super) fn entries(len: u64) -> u64 {
    len.saturating_sub(FILE_HEADER) / ENTRY_LEN as u64
}

fn damaged(files: &Files, id: FileId, n: u64) -> io::Error {
    let why = format!("{}: entry {n} fails its checksum", files.path(id).display());
    io::Error::new(io::ErrorKind::InvalidData, why)
}
