//! From batch to batch by their headers.

use super::Offset;
use super::format::crc32c;
use crate::record::{BatchHeader, HEADER_LEN};
use cluster::fs::File;

/// Bytes read at once where batches are small.
const WINDOW: usize = 4096;

/// Bytes read at once to check checksums.
const CHECK_WINDOW: usize = 256 * 1024;

/// A batch's place in a segment file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub position: u64,
    pub len: u64,
    pub base: Offset,
    pub last: Offset,
    pub max_timestamp: i64,
}

/// What is wrong with a file, and where.
#[derive(Debug)]
pub(super) struct Damage {
    pub position: u64,
    pub why: String,
}

impl Damage {
    pub fn from_io(position: u64, error: &std::io::Error) -> Self {
        Self {
            position,
            why: error.to_string(),
        }
    }
}

/// Reads headers one after another, and refuses what is no chain of batches.
pub(super) struct Hopper<'a> {
    file: &'a dyn File,
    position: u64,
    limit: u64,
    expected: Offset,
    window: Vec<u8>,
    window_at: u64,
    read: usize,
}

impl<'a> Hopper<'a> {
    /// Starts at the batch at `position`, whose base offset is `expected`; ends at `limit`, a batch boundary.
    pub fn new(file: &'a dyn File, position: u64, expected: Offset, limit: u64) -> Self {
        Self {
            file,
            position,
            limit,
            expected,
            window: Vec::new(),
            window_at: 0,
            read: WINDOW,
        }
    }

    /// The offset of the batch that comes next.
    pub fn expected(&self) -> Offset {
        self.expected
    }

    /// The batch at hand, `None` at the limit; goes on to the next.
    pub fn next(&mut self) -> Result<Option<Found>, Damage> {
        let position = self.position;
        let damage = |why: String| Damage { position, why };
        if position >= self.limit {
            return Ok(None);
        }
        let left = self.limit - position;
        if left < HEADER_LEN as u64 {
            return Err(damage(format!("{left} bytes are no batch")));
        }
        let known = self.window_at + self.window.len() as u64;
        if position < self.window_at || position + HEADER_LEN as u64 > known {
            self.window.resize(left.min(self.read as u64) as usize, 0);
            self.window_at = position;
            if let Err(e) = self.file.read_exact_at(&mut self.window, position) {
                self.window.clear();
                return Err(damage(e.to_string()));
            }
        }
        let at = (position - self.window_at) as usize;
        let header = BatchHeader::parse(&self.window[at..]).map_err(|e| damage(e.to_string()))?;
        let len = check(&header, self.expected, left).map_err(damage)?;
        let last = header.base_offset + i64::from(header.last_offset_delta);
        self.position += len;
        self.expected = last + 1;
        self.read = if len < WINDOW as u64 { WINDOW } else { HEADER_LEN };
        Ok(Some(Found {
            position,
            len,
            base: header.base_offset,
            last,
            max_timestamp: header.max_timestamp,
        }))
    }
}

/// Whether a header can stand where `expected` is the next offset and `left` bytes are; the batch's length.
fn check(header: &BatchHeader, expected: Offset, left: u64) -> Result<u64, String> {
    if header.base_offset != expected {
        return Err(format!("base offset {} where {expected} is next", header.base_offset));
    }
    if header.last_offset_delta < 0 || header.base_offset.checked_add(header.offset_count()).is_none() {
        return Err(format!("last offset delta {}", header.last_offset_delta));
    }
    match u64::try_from(header.batch_len()) {
        Ok(len) if len >= HEADER_LEN as u64 && len <= left => Ok(len),
        _ => Err(format!(
            "batch length {} where {left} bytes are left",
            header.batch_len()
        )),
    }
}

/// Reads all batches of `from..to` (batch boundaries; the first base offset is `expected`) and checks their checksums.
/// Where the good ones end, and what is wrong after them.
pub(super) fn verify(file: &dyn File, from: u64, to: u64, expected: Offset) -> (u64, Offset, Option<Damage>) {
    let (mut position, mut expected) = (from, expected);
    let mut window: Vec<u8> = Vec::new();
    let mut at = 0;
    while position < to {
        let fail = move |why: String| Some(Damage { position, why });
        let left = to - position;
        let mut have = (window.len() - at) as u64;
        let mut want = HEADER_LEN as u64;
        if left < want {
            return (position, expected, fail(format!("{left} bytes are no batch")));
        }
        for _ in 0..2 {
            if have < want {
                window.resize(want.max(left.min(CHECK_WINDOW as u64)) as usize, 0);
                at = 0;
                have = window.len() as u64;
                if let Err(e) = file.read_exact_at(&mut window, position) {
                    return (position, expected, fail(e.to_string()));
                }
            }
            let header = match BatchHeader::parse(&window[at..]) {
                Ok(header) => header,
                Err(e) => return (position, expected, fail(e.to_string())),
            };
            want = match check(&header, expected, left) {
                Ok(len) => len,
                Err(why) => return (position, expected, fail(why)),
            };
            if have < want {
                continue;
            }
            let crc = crc32c(&window[at + 21..at + want as usize]);
            if crc != header.crc {
                let why = format!("checksum {crc:08x} where the batch says {:08x}", header.crc);
                return (position, expected, fail(why));
            }
            at += want as usize;
            position += want;
            expected += header.offset_count();
            break;
        }
    }
    (position, expected, None)
}
