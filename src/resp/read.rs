//! Reads that do not wait: XLEN, XRANGE, XREVRANGE, XINFO, EXISTS, TYPE. A key without a topic reads as an empty stream, as
//! in Redis, to those who may know that there is none.

use super::call::Call;
use super::decode::Command;
use super::errors::Refusal;
use super::id;
use super::keys::Key;
use super::number::integer;
use super::reply::Reply;
use super::session::unknown_subcommand;
use super::stream::{Span, Stream};
use super::table::Does;
use crate::auth::Action;
use crate::broker::{Look, LookInto, Marks};
use crate::connections::Room;
use crate::log::Offset;

/// EXISTS key ..: how many of the keys there are.
pub(crate) fn exists(call: &Call<'_>, command: &Command) -> Result<Reply, Refusal> {
    let mut count = 0;
    for key in command.from(1) {
        count += i64::from(is_there(call, key)?);
    }
    Ok(Reply::Int(count))
}

/// TYPE key.
pub(crate) fn kind(call: &Call<'_>, command: &Command) -> Result<Reply, Refusal> {
    let there = is_there(call, command.get(1).unwrap_or_default())?;
    Ok(Reply::Simple(if there { "stream" } else { "none" }))
}

fn is_there(call: &Call<'_>, raw: &[u8]) -> Result<bool, Refusal> {
    let key = Key::parse(raw)?;
    let topic = call.topic(Action::Describe, raw)?;
    Ok(topic.is_some_and(|topic| key.partition_of(&topic).is_ok()))
}

/// XLEN key: entries held; of all partitions where none is named.
pub(crate) async fn xlen(call: &Call<'_>, command: &Command) -> Result<Reply, Refusal> {
    let raw = command.get(1).unwrap_or_default();
    let key = Key::parse(raw)?;
    let Some(topic) = call.topic(Action::Read, raw)? else {
        return Ok(Reply::Int(0));
    };
    let indexes = match key.partition_of(&topic)? {
        Some(index) => index..index + 1,
        None => 0..topic.partitions.len() as u32,
    };
    let mut looks = Vec::with_capacity(indexes.len());
    for index in indexes {
        let stream = Stream {
            topic: topic.clone(),
            index,
        };
        stream.led(call.shared).await?;
        looks.push(LookInto {
            topic: topic.clone(),
            index,
            look: Look::Marks,
        });
    }
    let mut length = 0;
    for looked in call.shared.broker.look(looks).await {
        let marks = looked?.marks;
        length += marks.high_watermark - marks.log_start;
    }
    Ok(Reply::Int(length))
}

async fn marks(call: &Call<'_>, stream: &Stream) -> Result<Marks, Refusal> {
    stream.led(call.shared).await?;
    let looked = call
        .shared
        .broker
        .look_into(&stream.topic, stream.index, Look::Marks)
        .await?;
    Ok(looked.marks)
}

/// XRANGE key start end [COUNT n], and XREVRANGE key end start [COUNT n].
pub(crate) async fn xrange(call: &Call<'_>, command: &Command, room: &mut Room) -> Result<Reply, Refusal> {
    let backwards = super::table::TABLE[call.number].does == Does::Xrevrange;
    let part = |at| command.get(at).unwrap_or_default();
    let key = Key::parse(part(1))?;
    let (start, end) = if backwards {
        (part(3), part(2))
    } else {
        (part(2), part(3))
    };
    let count = match command.len() {
        4 => usize::MAX,
        6 if part(4).eq_ignore_ascii_case(b"count") => count(part(5))?,
        _ => return Err(Refusal::syntax()),
    };
    let topic = call.topic(Action::Read, part(1))?;
    let index = match &topic {
        Some(topic) => key.stream_of(topic)?,
        None => 0,
    };
    let (from, to) = id::range(start, end, index)?;
    let Some(topic) = topic.filter(|_| count > 0) else {
        return Ok(Reply::Array(Vec::new()));
    };
    let stream = Stream { topic, index };
    let now = marks(call, &stream).await?;
    let (from, to) = (from.max(now.log_start), to.min(now.high_watermark));
    // Offsets follow each other without gaps, so the last ones can be told ahead.
    let from = match backwards {
        true => from.max(to.saturating_sub(Offset::try_from(count).unwrap_or(Offset::MAX))),
        false => from,
    };
    let bytes = call.shared.config.answer_bytes;
    let span = Span {
        from,
        to,
        count,
        bytes,
        first_whole: false,
    };
    let taken = stream.take(call, span, 0, room).await?;
    if taken.is_cut {
        // A part of a range would pass for the whole.
        return Err(Refusal::wrong(format!(
            "the entries of this range have more than the {bytes} bytes that one answer may have; ask for fewer with COUNT"
        )));
    }
    let mut out = Vec::with_capacity(taken.size() + 16);
    match backwards {
        true => taken.write_backwards(&mut out),
        false => taken.write(&mut out),
    }
    Ok(Reply::Written(out))
}

/// What follows COUNT; nobody wants fewer than none.
pub(crate) fn count(text: &[u8]) -> Result<usize, Refusal> {
    let number = integer(text).ok_or_else(|| Refusal::wrong("value is not an integer or out of range"))?;
    Ok(usize::try_from(number.max(0)).unwrap_or(usize::MAX))
}

/// The first entry at or after an offset.
async fn entry(
    call: &Call<'_>,
    stream: &Stream,
    (from, to): (Offset, Offset),
    before: usize,
    room: &mut Room,
) -> Result<Option<Vec<u8>>, Refusal> {
    let span = Span {
        from: from.max(0),
        to,
        count: 1,
        bytes: call.shared.config.answer_bytes,
        first_whole: true,
    };
    let taken = stream.take(call, span, before, room).await?;
    Ok(taken.first().map(<[u8]>::to_vec))
}

/// XINFO STREAM key.
pub(crate) async fn xinfo(call: &Call<'_>, command: &Command, room: &mut Room) -> Result<Reply, Refusal> {
    let subcommand = command.get(1).unwrap_or_default();
    match (subcommand.to_ascii_lowercase().as_slice(), command.len()) {
        (b"stream", 3) => {}
        (b"stream", 4..) => {
            return Err(Refusal::wrong(
                "XINFO STREAM .. FULL is not answered; XRANGE has the entries",
            ));
        }
        (b"groups" | b"consumers", _) => {
            return Err(Refusal::wrong(
                "groups of readers are Kafka's consumer groups: INFO FOR TOPIC in TessariQL tells of them",
            ));
        }
        _ => return Err(unknown_subcommand("XINFO", subcommand)),
    }
    let raw = command.get(2).unwrap_or_default();
    let topic = call.declared(Action::Read, raw)?;
    let index = Key::parse(raw)?.stream_of(&topic)?;
    let stream = Stream { topic, index };
    let now = marks(call, &stream).await?;
    let (start, end) = (now.log_start, now.high_watermark);
    let first = entry(call, &stream, (start, end), 0, room).await?;
    let before = first.as_ref().map_or(0, Vec::len);
    let last = entry(call, &stream, (end - 1, end), before, room).await?;
    let shown = |entry: Option<Vec<u8>>| entry.map_or(Reply::Null, Reply::Written);
    let nothing = || "0-0".to_owned();
    let of = |offset: Offset| if offset < 0 { nothing() } else { id::of(offset, index) };
    let facts = [
        ("length", Reply::Int(end - start)),
        ("last-generated-id", Reply::text(of(end - 1))),
        ("max-deleted-entry-id", Reply::text(of(start - 1))),
        ("entries-added", Reply::Int(end)),
        (
            "recorded-first-entry-id",
            Reply::text(if start < end { of(start) } else { nothing() }),
        ),
        ("groups", Reply::Int(0)),
        ("first-entry", shown(first)),
        ("last-entry", shown(last)),
    ];
    Ok(Reply::Map(facts.map(|(name, value)| (Reply::text(name), value)).into()))
}
