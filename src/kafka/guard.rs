//! Checks every count and length of a request against the bytes that are there, before the codec sees it.
//!
//! The codec takes memory for as many elements as a frame claims: four bytes could abort the process. A frame that passes
//! holds all it claims and decodes to no more memory than [`Checked::memory`] says. What lies behind the body is passed over,
//! as in Kafka.

use super::schema::{Content, Shape, Struct, request};
use super::table::Api;
use kafka_protocol::messages::ApiKey;

/// What the fixed and counted parts of a decoded request may take, in bytes: some 200,000 partitions. Payloads (records,
/// strings) stay in the frame and don't count.
const MAX_DECODED: usize = 32 << 20;
/// What an owner of bytes in the frame takes: a string, an array, a blob.
const HANDLE: usize = 32;
/// A map's first node, which every struct with an unknown tagged field takes, and each further entry.
const TAG_NODE: usize = 512;
const TAG_ENTRY: usize = 64;

/// Why a frame is not decoded. The connection is closed: no answer would be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Lie {
    /// A length or count beyond the end of the frame.
    #[error("a length or count reaches beyond the frame")]
    Beyond,
    /// A length below -1, or a number of too many bytes.
    #[error("a length that is none")]
    Malformed,
    /// More elements than any client has use for.
    #[error("it would decode to more than {MAX_DECODED} bytes")]
    Elements,
    /// A tagged field that does not fill its size, or that this version has not.
    #[error("a tagged field does not fit")]
    Tag,
}

/// What the walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Most bytes that the decoded request takes beside its frame.
    pub memory: usize,
    /// Length of the body; more may follow it.
    pub len: usize,
}

/// The request header as its bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Number of the request kind.
    pub key: i16,
    /// Its version.
    pub version: i16,
    /// Comes back in the answer.
    pub correlation: i32,
}

impl Head {
    /// Reads the fixed part, which every version of every request begins with.
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let [k0, k1, v0, v1, c0, c1, c2, c3] = *frame.first_chunk::<8>()?;
        Some(Self {
            key: i16::from_be_bytes([k0, k1]),
            version: i16::from_be_bytes([v0, v1]),
            correlation: i32::from_be_bytes([c0, c1, c2, c3]),
        })
    }
}

/// Reads what follows the fixed part: where the client id lies (never compact, not even in flexible headers), and where
/// the body begins.
pub(crate) fn header_rest(
    api: &Api,
    version: i16,
    frame: &[u8],
) -> Result<(Option<std::ops::Range<usize>>, usize), Lie> {
    let mut walk = Walk::new(frame, version, false);
    walk.skip(8)?;
    let len = walk.u16()? as i16;
    let client = match len {
        // Any negative length is null here, as in Kafka.
        ..0 => None,
        0.. => {
            let at = walk.at;
            walk.skip(len as usize)?;
            Some(at..walk.at)
        }
    };
    if api.is_flexible(version) {
        walk.tagged(&[])?;
    }
    Ok((client, walk.at))
}

/// Walks a body.
pub(crate) fn check(api: &Api, version: i16, body: &[u8]) -> Result<Checked, Lie> {
    let schema = layout(api.key);
    let mut walk = Walk::new(body, version, api.is_flexible(version));
    walk.structure(schema)?;
    Ok(Checked {
        memory: walk.memory,
        len: walk.at,
    })
}

/// A key without a layout is a key without fields: nothing passes but an empty body. A test holds the two tables together.
fn layout(key: ApiKey) -> &'static Struct {
    const EMPTY: Struct = Struct {
        fields: &[],
        tagged: &[],
    };
    request(key).unwrap_or(&EMPTY)
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    version: i16,
    flexible: bool,
    memory: usize,
}

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8], version: i16, flexible: bool) -> Self {
        Self {
            bytes,
            at: 0,
            version,
            flexible,
            memory: 0,
        }
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn skip(&mut self, n: usize) -> Result<(), Lie> {
        if n > self.left() {
            return Err(Lie::Beyond);
        }
        self.at += n;
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Lie> {
        let found = self.bytes[self.at..].first_chunk::<N>().ok_or(Lie::Beyond)?;
        self.at += N;
        Ok(*found)
    }

    fn u16(&mut self) -> Result<u16, Lie> {
        self.take().map(u16::from_be_bytes)
    }

    fn varint(&mut self) -> Result<u32, Lie> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.take::<1>()?;
            if shift == 28 && byte > 0x0f {
                return Err(Lie::Malformed);
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Lie::Malformed)
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Lie> {
        self.memory = self.memory.saturating_add(bytes);
        if self.memory > MAX_DECODED {
            return Err(Lie::Elements);
        }
        Ok(())
    }

    /// A length with `wide` (32-bit) or 16-bit prefix, or a compact one; null is 0.
    fn length(&mut self, wide: bool) -> Result<usize, Lie> {
        if self.flexible {
            return Ok(self.varint()?.saturating_sub(1) as usize);
        }
        let len = if wide {
            i32::from_be_bytes(self.take()?)
        } else {
            i32::from(self.u16()? as i16)
        };
        match len {
            -1 => Ok(0),
            0.. => Ok(len as usize),
            _ => Err(Lie::Malformed),
        }
    }

    fn structure(&mut self, layout: &Struct) -> Result<(), Lie> {
        for field in layout.fields {
            if (field.from..=field.to).contains(&self.version) {
                self.value(&field.shape)?;
            }
        }
        if self.flexible {
            self.tagged(layout.tagged)?;
        }
        Ok(())
    }

    fn value(&mut self, shape: &Shape) -> Result<(), Lie> {
        match shape {
            Shape::Fixed(n) => self.skip(*n),
            Shape::Text => {
                let n = self.length(false)?;
                self.skip(n)
            }
            Shape::Blob => {
                let n = self.length(true)?;
                self.skip(n)
            }
            Shape::Each(of) => {
                let count = self.count(decoded_size(of), least(of, self.flexible))?;
                for _ in 0..count {
                    self.value(of)?;
                }
                Ok(())
            }
            Shape::Array(of) => {
                let size = of.fields.iter().map(|f| decoded_size(&f.shape)).sum::<usize>() + HANDLE;
                let count = self.count(size, self.least_of(of))?;
                for _ in 0..count {
                    self.structure(of)?;
                }
                Ok(())
            }
        }
    }

    /// A count, of which so many elements of at least `least` bytes must still fit, each decoding to `size` bytes.
    fn count(&mut self, size: usize, least: usize) -> Result<usize, Lie> {
        let count = self.length(true)?;
        if count.checked_mul(least).is_none_or(|n| n > self.left()) {
            return Err(Lie::Beyond);
        }
        self.charge(count.saturating_mul(size))?;
        Ok(count)
    }

    fn least_of(&self, of: &Struct) -> usize {
        let fields = of
            .fields
            .iter()
            .filter(|f| (f.from..=f.to).contains(&self.version))
            .map(|f| least(&f.shape, self.flexible))
            .sum::<usize>();
        fields + usize::from(self.flexible)
    }

    fn tagged(&mut self, known: &[super::schema::Tagged]) -> Result<(), Lie> {
        let count = self.varint()? as usize;
        // A tag and a size are at least one byte each.
        if count.checked_mul(2).is_none_or(|n| n > self.left()) {
            return Err(Lie::Beyond);
        }
        if count > 0 {
            self.charge(TAG_NODE + count * TAG_ENTRY)?;
        }
        for _ in 0..count {
            let tag = self.varint()?;
            // The codec counts tags in 31 bits, and loses those beyond.
            if tag > i32::MAX as u32 {
                return Err(Lie::Tag);
            }
            let size = self.varint()? as usize;
            let end = self.at.checked_add(size).filter(|end| *end <= self.bytes.len());
            let end = end.ok_or(Lie::Beyond)?;
            match known.iter().find(|k| k.tag == tag) {
                None => self.at = end,
                Some(known) if self.version < known.from => return Err(Lie::Tag),
                Some(known) => {
                    match &known.content {
                        Content::Value(shape) => self.value(shape)?,
                        Content::Struct(layout) => self.structure(layout)?,
                    }
                    if self.at != end {
                        return Err(Lie::Tag);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Fewest bytes a value takes on the wire.
fn least(shape: &Shape, flexible: bool) -> usize {
    match shape {
        Shape::Fixed(n) => *n,
        _ if flexible => 1,
        Shape::Text => 2,
        Shape::Blob | Shape::Each(_) | Shape::Array(_) => 4,
    }
}

/// Most bytes a value takes when decoded, without what it owns.
fn decoded_size(shape: &Shape) -> usize {
    match shape {
        Shape::Fixed(n) => (*n).next_multiple_of(if *n < 8 { 4 } else { 8 }),
        _ => HANDLE,
    }
}

#[cfg(test)]
#[path = "guard_test.rs"]
mod tests;
