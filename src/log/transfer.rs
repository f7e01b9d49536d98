//! Batches on their way to another member of the range, which has the same log up to some offset.
//!
//! ```text
//!   stretch   0 version u8 | 1 log start i64 | 9 count u32 | count x (append time i64, length u32) | batches
//! ```
//!
//! Big-endian. Batches go as they are stored: every replica stamps them alike. Their checksums are verified before they
//! are taken.

use super::format::{Entry, Kind, crc32c};
use super::partition::PartitionLog;
use super::shared::Removal;
use super::{Offset, Piece, ReadError, StampedBatch, index};
use crate::log::epochs::Epochs;
use crate::record::{BatchHeader, HEADER_LEN};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::io;

const VERSION: u8 = 1;

/// Bytes of the head for each batch.
const PER_BATCH: usize = 12;

impl PartitionLog {
    /// Batches from the one that begins with `from` to before `to`, about `max_bytes` of them but one at least, for
    /// [`Self::take`] of another member. Where the log now begins after `from`, from its beginning. `to` is a
    /// batch boundary that this log has reached.
    ///
    /// # Errors
    ///
    /// `NotFound` where the log does not reach `to` yet; else, of reading.
    pub fn give(&self, from: Offset, to: Offset, max_bytes: usize) -> io::Result<Bytes> {
        let read = |from| self.read(from, max_bytes, true);
        let (log_start, log_end) = self.bounds();
        if log_end < to {
            let why = format!("partition {} ends at {log_end}, {to} was asked for", self.id);
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        let from = from.max(log_start);
        let (log_start, slice) = match read(from) {
            Ok(slice) if from < to => (log_start, slice.pieces),
            Ok(_) => (log_start, Vec::new()),
            // A trim came in between.
            Err(ReadError::OutOfRange { log_start, .. }) => match log_start < to {
                true => (log_start, read(log_start).map_err(io::Error::other)?.pieces),
                false => (log_start, Vec::new()),
            },
            Err(error) => return Err(io::Error::other(error)),
        };
        let mut batches = BytesMut::new();
        for piece in slice {
            match piece {
                Piece::Memory(bytes) => batches.extend_from_slice(&bytes),
                Piece::File { file, position, len } => {
                    let at = batches.len();
                    batches.resize(at + len, 0);
                    file.read_exact_at(&mut batches[at..], position)?;
                }
            }
        }
        let mut headers = Vec::new();
        let mut end = 0;
        while end < batches.len() {
            let header = BatchHeader::parse(&batches[end..]).map_err(malformed)?;
            if header.base_offset >= to {
                break;
            }
            end += batch_len(&header, batches.len() - end)?;
            headers.push(header);
        }
        batches.truncate(end);
        let times = match (headers.first(), headers.last()) {
            (Some(first), Some(last)) => self.append_times(first.base_offset, last.base_offset),
            _ => Vec::new(),
        };
        let mut out = BytesMut::with_capacity(13 + PER_BATCH * headers.len() + batches.len());
        out.put_u8(VERSION);
        out.put_i64(log_start);
        out.put_u32(headers.len() as u32);
        for header in &headers {
            let known = times.partition_point(|entry| entry.offset <= header.base_offset);
            // Without an index nothing says when a batch came; it counts as new, so that retention spares it.
            let append_ms = known.checked_sub(1).map_or(i64::MAX, |n| times[n].append_ms);
            out.put_i64(append_ms);
            out.put_u32(header.batch_len() as u32);
        }
        out.extend_from_slice(&batches);
        Ok(out.freeze())
    }

    /// What a member gives of a partition that it no longer has, because its topic was dropped since.
    pub fn nothing_before(to: Offset) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(VERSION);
        out.put_i64(to);
        out.put_u32(0);
        out.freeze()
    }

    /// Index entries that say when the batches of `first..=last` (base offsets) came; what can't be read is left out.
    fn append_times(&self, first: Offset, last: Offset) -> Vec<Entry> {
        let mut times = Vec::new();
        let segments: Vec<_> = {
            let state = self.state.lock();
            let from = state.segment_of(first).unwrap_or(0);
            let segments = state.segments.iter().enumerate().skip(from);
            segments
                .take_while(|(_, segment)| segment.base <= last)
                .map(|(n, segment)| {
                    (
                        segment.base,
                        state.segment_end(n),
                        segment.indexed,
                        segment.pending.clone(),
                    )
                })
                .collect()
        };
        for (base, end, indexed, pending) in segments {
            let id = self.file(base, Kind::Index);
            let read = |n| index::entry(&self.shared.files, id, n);
            let mut find = || {
                let (mut low, mut high) = (0, indexed);
                while low < high {
                    let middle = low + (high - low) / 2;
                    match read(middle)?.offset <= first {
                        true => low = middle + 1,
                        false => high = middle,
                    }
                }
                for n in low.saturating_sub(1)..indexed {
                    let entry = read(n)?;
                    if entry.offset > last || entry.offset >= end {
                        break;
                    }
                    times.push(entry);
                }
                Ok::<_, io::Error>(())
            };
            if let Err(error) = find() {
                tracing::warn!(file = id.name(), %error, "append times of batches given away are lost");
            }
            times.extend(pending.into_iter().filter(|entry| entry.offset <= last));
        }
        times
    }

    /// Appends what another member gave (see [`Self::give`]) from this log's end on, or drops all that is here where the other
    /// log begins later. The log end afterwards, at most `to`. Only for a range's machine that is being filled.
    ///
    /// # Errors
    ///
    /// `InvalidData` where the bytes are not what follows the log end; batches before the bad one are in the log.
    pub fn take(&self, stretch: Bytes, to: Offset) -> io::Result<Offset> {
        let (log_start, batches) = decode(stretch)?;
        let first = match batches.first() {
            Some((_, batch)) => BatchHeader::parse(batch).map_err(malformed)?.base_offset,
            None => log_start.min(to),
        };
        if first > self.log_end() {
            if log_start <= self.log_end() {
                return Err(malformed(format!("offset {first} where {} is next", self.log_end())));
            }
            self.begin_at(first);
        }
        for (append_ms, batch) in batches {
            let header = BatchHeader::parse(&batch).map_err(malformed)?;
            let last = header.base_offset.checked_add(i64::from(header.last_offset_delta));
            let last = last.filter(|last| (header.base_offset..to).contains(last));
            let last = last.ok_or_else(|| malformed("offsets beyond what was asked for"))?;
            if header.base_offset != self.log_end() {
                let why = format!("offset {} where {} is next", header.base_offset, self.log_end());
                return Err(malformed(why));
            }
            if crc32c(&batch[21..]) != header.crc {
                return Err(malformed(format!("batch {} fails its checksum", header.base_offset)));
            }
            self.append(StampedBatch {
                head: batch.slice(..HEADER_LEN),
                rest: batch.slice(HEADER_LEN..),
                base_offset: header.base_offset,
                last_offset: last,
                leader_epoch: header.leader_epoch,
                append_ms,
                max_timestamp: header.max_timestamp,
            });
        }
        Ok(self.log_end())
    }

    /// Ends a filling: the log begins at `log_start`, and its epochs are those of the member it came from.
    pub fn taken(&self, log_start: Offset, epochs: Vec<(i32, Offset)>) {
        self.trim(log_start);
        let state = &mut *self.state.lock();
        state.epochs = Epochs::new(epochs);
        state.epochs.trim(state.log_start);
    }

    /// Drops all that is here; the next append begins at `offset`, above the log end.
    fn begin_at(&self, offset: Offset) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let gone: Vec<Offset> = state.segments.drain(..).map(|segment| segment.base).collect();
        state.size = 0;
        state.log_start = offset;
        state.log_end = offset;
        state.epochs = Epochs::default();
        state.cursors.clear();
        state.near = None;
        let cost = state.tail.drop_while(|_| true);
        drop(guard);
        self.shared.gave(cost);
        if let Some(log) = self.me.upgrade().filter(|_| !gone.is_empty()) {
            self.shared.remove(Removal {
                log,
                segments: gone,
                last: false,
            });
        }
    }
}

fn batch_len(header: &BatchHeader, left: usize) -> io::Result<usize> {
    usize::try_from(header.batch_len())
        .ok()
        .filter(|len| (HEADER_LEN..=left).contains(len))
        .ok_or_else(|| {
            malformed(format!(
                "batch length {} where {left} bytes are left",
                header.batch_len()
            ))
        })
}

/// The giver's log start, and whole batches with the times they came.
fn decode(mut stretch: Bytes) -> io::Result<(Offset, Vec<(i64, Bytes)>)> {
    let cut = |_| malformed("cut short");
    if stretch.try_get_u8().map_err(cut)? != VERSION {
        return Err(malformed("a version of a newer node"));
    }
    let log_start = stretch.try_get_i64().map_err(cut)?;
    let count = stretch.try_get_u32().map_err(cut)? as usize;
    if count > stretch.len() / PER_BATCH {
        return Err(malformed("a count beyond the bytes"));
    }
    let mut heads = stretch.split_to(count * PER_BATCH);
    let mut batches = Vec::with_capacity(count);
    while heads.has_remaining() {
        let (append_ms, len) = (heads.get_i64(), heads.get_u32() as usize);
        if len < HEADER_LEN || len > stretch.len() {
            return Err(malformed("cut short"));
        }
        let batch = stretch.split_to(len);
        let header = BatchHeader::parse(&batch).map_err(malformed)?;
        if batch_len(&header, len)? != len {
            return Err(malformed("a batch of another length"));
        }
        batches.push((append_ms, batch));
    }
    match stretch.is_empty() {
        true => Ok((log_start, batches)),
        false => Err(malformed("bytes left over")),
    }
}

fn malformed(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}
