//! XADD and XTRIM.

use super::call::Call;
use super::decode::Command;
use super::errors::Refusal;
use super::id::{self, Id};
use super::keys::Key;
use super::number::integer;
use super::reply::Reply;
use super::stream::Stream;
use crate::auth::Action;
use crate::broker::Look;
use crate::ql::exec::too_large;
use crate::ql::{Object, Value};
use futures::FutureExt;
use futures::future::BoxFuture;

/// A command whose answer is there, or comes once what it did is durable.
pub(crate) enum Begun {
    Done(Reply),
    Later(BoxFuture<'static, Reply>),
}

/// XADD key [NOMKSTREAM] * field value ..: appends a message as CREATE does. When this returns, its place behind what the
/// connection appended before is fixed.
pub(crate) async fn xadd(call: &Call<'_>, command: &Command) -> Result<Begun, Refusal> {
    let raw = command.get(1).unwrap_or_default();
    let key = Key::parse(raw)?;
    let mut at = 2;
    let mut declared_only = false;
    loop {
        match command.get(at).unwrap_or_default().to_ascii_lowercase().as_slice() {
            b"nomkstream" => {
                declared_only = true;
                at += 1;
            }
            b"maxlen" | b"minid" => {
                return Err(Refusal::wrong(
                    "XADD does not trim: ALTER TOPIC .. RETAIN lets old entries go by themselves, and XTRIM at once",
                ));
            }
            b"keepref" | b"delref" | b"acked" => return Err(Refusal::syntax()),
            b"*" => break,
            _ => {
                return Err(Refusal::wrong(
                    "the store gives each entry its id: its position in the stream; XADD takes * alone",
                ));
            }
        }
    }
    let fields = command.from(at + 1);
    if fields.len() == 0 || !fields.len().is_multiple_of(2) {
        return Err(Refusal::wrong("wrong number of arguments for 'xadd' command"));
    }
    let Some(topic) = call.topic(Action::Write, raw)? else {
        return match declared_only {
            true => Ok(Begun::Done(Reply::Null)),
            false => Err(crate::names::NameError::Unknown.into()),
        };
    };
    let partition = key.partition_of(&topic)?;
    let limit = call.shared.engine.max_message_bytes(&topic);
    if least_json(command.from(at + 1)) > limit {
        return Err(too_large(&topic, limit).into());
    }
    let value = object(fields)?;
    let placed = call.shared.engine.submit(&topic, partition, value).await?;
    let answer = placed.map(|placed| match placed {
        Ok(placed) => Reply::text(id::of(placed.offset, placed.partition)),
        Err(error) => Refusal::from(error).into(),
    });
    Ok(Begun::Later(answer.boxed()))
}

/// Bytes that these fields take as a JSON object, if nothing in them has to be escaped.
fn least_json<'a>(fields: impl ExactSizeIterator<Item = &'a [u8]>) -> usize {
    // Two quotes, and a colon, comma or brace, each; a brace before them.
    let around = 1 + 3 * fields.len();
    fields.map(<[u8]>::len).sum::<usize>() + around
}

/// Names and values as an object of strings.
fn object<'a>(mut fields: impl Iterator<Item = &'a [u8]>) -> Result<Object, Refusal> {
    let text = |bytes: &[u8]| {
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| {
            Refusal::wrong(
                "fields and values are kept as JSON text: they must be UTF-8; encode bytes, or produce them by Kafka",
            )
        })
    };
    let mut object = Object::new();
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        let name = text(name)?;
        if object.contains_key(&name) {
            return Err(Refusal::wrong(
                "a field is given twice: an entry is kept as a JSON object",
            ));
        }
        object.insert(name, Value::String(text(value)?));
    }
    Ok(object)
}

/// XTRIM key MINID|MAXLEN [=|~] threshold: moves the stream's beginning up. For those who may alter the topic.
pub(crate) async fn xtrim(call: &Call<'_>, command: &Command) -> Result<Reply, Refusal> {
    let raw = command.get(1).unwrap_or_default();
    let key = Key::parse(raw)?;
    let by_id = match command.get(2).unwrap_or_default().to_ascii_lowercase().as_slice() {
        b"minid" => true,
        b"maxlen" => false,
        _ => return Err(Refusal::syntax()),
    };
    // What is trimmed is trimmed exactly, also where less would do.
    let threshold = match (command.get(3), command.len()) {
        (Some(b"=" | b"~"), 5) => command.get(4),
        (threshold, 4) => threshold,
        _ => return Err(Refusal::syntax()),
    };
    let threshold = threshold.unwrap_or_default();
    let Some(topic) = call.topic(Action::Declare, raw)? else {
        return Ok(Reply::Int(0));
    };
    let index = key.stream_of(&topic)?;
    let stream = Stream { topic, index };
    stream.led(call.shared).await?;
    let broker = &call.shared.broker;
    let marks = broker.look_into(&stream.topic, index, Look::Marks).await?.marks;
    let to = match by_id {
        true => Id::parse(threshold, 0)?.at_or_after(index),
        false => {
            let keep = integer(threshold)
                .filter(|keep| *keep >= 0)
                .ok_or_else(|| Refusal::wrong("The MAXLEN argument must be >= 0."))?;
            marks.high_watermark.saturating_sub(keep)
        }
    };
    let to = to.min(marks.high_watermark);
    if to <= marks.log_start {
        return Ok(Reply::Int(0));
    }
    let now = broker.delete_records(&stream.topic, index, Some(to)).await?;
    Ok(Reply::Int(now.saturating_sub(marks.log_start).max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&[u8]]) -> Result<Object, Refusal> {
        object(fields.iter().copied())
    }

    #[test]
    fn an_entry_is_an_object_of_strings() {
        let object = of(&[b"total", b"120.00", b"customer", b"c-17"]).unwrap();
        assert_eq!(object.get("total"), Some(&Value::from("120.00")));
        assert_eq!(object.len(), 2);
        let fields = [&b"total"[..], b"120.00", b"customer", b"c-17"];
        let json = r#"{"customer":"c-17","total":"120.00"}"#;
        assert_eq!(least_json(fields.into_iter()), json.len());
        for wrong in [
            &[&b"a"[..], b"1", b"a", b"2"],
            &[b"a", b"\xff", b"b", b""],
            &[b"\xff", b"", b"b", b""],
        ] {
            assert!(of(wrong).is_err());
        }
    }
}
