//! Fixed-width big-endian fields, read so that no input can panic or make the reader take more memory than it brings.

use super::Position;
use bytes::{Buf, BufMut};
use cluster::ids::{NamespaceId, PartitionId, TopicId};

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed: {0}")]
pub(super) struct Malformed(pub(super) &'static str);

impl From<bytes::TryGetError> for Malformed {
    fn from(_: bytes::TryGetError) -> Self {
        Self("cut short")
    }
}

/// Bytes of an encoded [`PartitionId`].
pub(super) const PARTITION_LEN: usize = 12;

pub(super) fn put_partition(out: &mut Vec<u8>, id: PartitionId) {
    out.put_u64(id.topic.0);
    out.put_u32(id.index);
}

pub(super) fn get_partition(input: &mut &[u8]) -> Result<PartitionId, Malformed> {
    Ok(PartitionId {
        topic: TopicId(input.try_get_u64()?),
        index: input.try_get_u32()?,
    })
}

pub(super) fn get_namespace(input: &mut &[u8]) -> Result<NamespaceId, Malformed> {
    Ok(NamespaceId(input.try_get_u32()?))
}

/// A count of things that take at least `each` bytes: never more than the input can hold.
pub(super) fn get_count(input: &mut &[u8], each: usize) -> Result<usize, Malformed> {
    let count = input.try_get_u32()? as usize;
    if count > input.len() / each.max(1) {
        return Err(Malformed("a count beyond the bytes"));
    }
    Ok(count)
}

/// `items` is never above `u32::MAX`: what is counted here lies in memory and takes more than one byte each.
pub(super) fn put_count(out: &mut Vec<u8>, items: usize) {
    out.put_u32(items as u32);
}

pub(super) fn put_str(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.put_slice(text.as_bytes());
}

pub(super) fn get_str(input: &mut &[u8]) -> Result<String, Malformed> {
    let len = get_count(input, 1)?;
    let (text, rest) = input.split_at(len);
    *input = rest;
    match std::str::from_utf8(text) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Malformed("not UTF-8")),
    }
}

pub(super) fn get_flag(input: &mut &[u8]) -> Result<bool, Malformed> {
    match input.try_get_u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("a flag that is neither 0 nor 1")),
    }
}

/// An offset that may be missing; offsets are never negative.
pub(super) fn put_optional_offset(out: &mut Vec<u8>, offset: Option<i64>) {
    out.put_i64(offset.unwrap_or(-1));
}

pub(super) fn get_optional_offset(input: &mut &[u8]) -> Result<Option<i64>, Malformed> {
    let offset = input.try_get_i64()?;
    Ok((offset >= 0).then_some(offset))
}

pub(super) fn put_position(out: &mut Vec<u8>, position: &Position) {
    out.put_i64(position.offset);
    out.put_i32(position.leader_epoch);
    out.put_i64(position.commit_ms);
    put_str(out, &position.metadata);
}

pub(super) fn get_position(input: &mut &[u8]) -> Result<Position, Malformed> {
    Ok(Position {
        offset: input.try_get_i64()?,
        leader_epoch: input.try_get_i32()?,
        commit_ms: input.try_get_i64()?,
        metadata: get_str(input)?,
    })
}

/// Nothing may follow what was read.
pub(super) fn finish(input: &[u8]) -> Result<(), Malformed> {
    if input.is_empty() {
        Ok(())
    } else {
        Err(Malformed("bytes left over"))
    }
}
