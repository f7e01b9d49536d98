//! Search in a segment's index: entries in its file first, then those not yet written.

use super::files::Files;
use super::format::{ENTRY_LEN, Entry, FILE_HEADER, FileId};
use std::io;

/// Entries read at once when the search has come near.
const BLOCK: u64 = 100;

/// The last entry for which `before` holds; `before` must hold for some first entries and for none after them.
pub(super) fn floor(
    files: &Files,
    id: FileId,
    written: u64,
    pending: &[Entry],
    before: impl Fn(&Entry) -> bool,
) -> io::Result<Option<Entry>> {
    if let Some(entry) = floor_in(pending, &before) {
        return Ok(Some(entry));
    }
    if written == 0 {
        return Ok(None);
    }
    let file = files.open(id)?;
    let read = |from: u64, buf: &mut [u8]| {
        let position = FILE_HEADER + from * ENTRY_LEN as u64;
        file.read_exact_at(buf, position)?;
        buf.chunks_exact(ENTRY_LEN)
            .enumerate()
            .map(|(n, bytes)| Entry::decode(bytes).ok_or_else(|| damaged(files, id, from + n as u64)))
            .collect::<io::Result<Vec<Entry>>>()
    };
    let (mut from, mut to) = (0, written);
    let mut best = None;
    while to - from > BLOCK {
        let middle = from + (to - from) / 2;
        let entry = read(middle, &mut [0; ENTRY_LEN])?[0];
        if before(&entry) {
            best = Some(entry);
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    let block = read(from, &mut vec![0; (to - from) as usize * ENTRY_LEN])?;
    Ok(floor_in(&block, &before).or(best))
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
