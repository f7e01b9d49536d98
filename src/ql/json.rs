//! Values as JSON, and the documents messages are stored as.
//!
//! JSON has fewer kinds than TessariQL. Going out to a client the difference is dropped: decimals, durations, instants
//! and UUIDs become strings, bytes lowercase hex, `NONE` is left out. In a stored document it is kept beside the JSON, in
//! [`Document::types`], so that any Kafka client reads plain JSON and `READ FROM` answers what was written.

use super::lexer::decode_hex;
use super::value::{Object, Value, duration_text, parse_duration, parse_rfc3339, rfc3339};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use std::collections::BTreeMap;
use std::io;

/// Serializes a value as JSON.
pub struct Json<'a>(pub &'a Value);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::None | Value::Null => serializer.serialize_unit(),
            Value::Bool(truth) => serializer.serialize_bool(*truth),
            Value::Int(number) => serializer.serialize_i64(*number),
            Value::Float(number) => serializer.serialize_f64(*number),
            Value::Decimal(number) => serializer.collect_str(number),
            Value::String(text) => serializer.serialize_str(text),
            Value::Bytes(bytes) => serializer.serialize_str(&hex(bytes)),
            Value::Duration(duration) => serializer.serialize_str(&duration_text(*duration)),
            Value::Datetime(instant) => serializer.serialize_str(&rfc3339(*instant)),
            Value::Uuid(id) => serializer.collect_str(id),
            Value::Array(items) => {
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| seq.serialize_element(&Json(item)))?;
                seq.end()
            }
            Value::Object(fields) => JsonObject(fields).serialize(serializer),
        }
    }
}

/// Serializes an object as JSON.
pub struct JsonObject<'a>(pub &'a Object);

impl Serialize for JsonObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.0 {
            if *value != Value::None {
                map.serialize_entry(name, &Json(value))?;
            }
        }
        map.end()
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// The name of the record header that carries [`Document::types`].
pub const TYPES_HEADER: &str = "tessari.types";

/// Bytes of types for one of JSON, at most. A place is rarely longer than its value twice over.
const TYPES_TO_JSON: usize = 8;

/// Takes bytes up to a limit.
struct Within {
    out: Vec<u8>,
    limit: usize,
}

impl io::Write for Within {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.out.len() + bytes.len() > self.limit {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A message as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The value, compact, fields ordered by name.
    pub json: Vec<u8>,
    /// What JSON cannot tell, if anything: a JSON object from a kind (`decimal`, `bytes`, `duration`, `datetime`, `uuid`,
    /// `none`) to the places of such values, each a JSON Pointer (RFC 6901).
    pub types: Option<Vec<u8>>,
}

impl Document {
    /// Writes an object down, unless its JSON has more than so many bytes: nothing is written beyond them. Nor are types
    /// that take many times as much, as they do where one long name stands before each of them.
    pub fn encode(value: &Object, limit: usize) -> Option<Self> {
        let mut json = Within { out: Vec::new(), limit };
        // Serializing strings, numbers and maps with string keys fails for want of room alone.
        serde_json::to_writer(&mut json, &JsonObject(value)).ok()?;
        let mut noted = Noted {
            kinds: Kinds::new(),
            left: limit.saturating_mul(TYPES_TO_JSON),
        };
        note_fields(value, &mut String::new(), &mut noted)?;
        let kinds = noted.kinds;
        Some(Self {
            json: json.out,
            types: (!kinds.is_empty()).then(|| serde_json::to_vec(&kinds).unwrap_or_default()),
        })
    }

    /// Reads a document back. `None` if it is no JSON; types that do not fit are left as JSON has them.
    pub fn decode(json: &[u8], types: Option<&[u8]>) -> Option<Value> {
        let mut value = from_json(serde_json::from_slice(json).ok()?);
        if let Some(kinds) = types.and_then(|types| serde_json::from_slice::<Kinds>(types).ok()) {
            for (kind, places) in &kinds {
                for place in places {
                    if let Some(found) = find(&mut value, place) {
                        restore(found, kind);
                    }
                }
            }
        }
        Some(value)
    }
}

type Kinds = BTreeMap<String, Vec<String>>;

/// The places noted so far, and the bytes that more of them may have.
struct Noted {
    kinds: Kinds,
    left: usize,
}

fn note_fields(fields: &Object, path: &mut String, noted: &mut Noted) -> Option<()> {
    for (name, value) in fields {
        if *value == Value::None {
            continue;
        }
        let length = path.len();
        path.push('/');
        path.push_str(&name.replace('~', "~0").replace('/', "~1"));
        note(value, path, noted)?;
        path.truncate(length);
    }
    Some(())
}

fn note(value: &Value, path: &mut String, noted: &mut Noted) -> Option<()> {
    let kind = match value {
        Value::Decimal(_) => "decimal",
        Value::Bytes(_) => "bytes",
        Value::Duration(_) => "duration",
        Value::Datetime(_) => "datetime",
        Value::Uuid(_) => "uuid",
        Value::None => "none",
        Value::Object(fields) => return note_fields(fields, path, noted),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let length = path.len();
                path.push('/');
                path.push_str(&at.to_string());
                note(item, path, noted)?;
                path.truncate(length);
            }
            return Some(());
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_) => return Some(()),
    };
    noted.left = noted.left.checked_sub(path.len())?;
    noted.kinds.entry(kind.to_owned()).or_default().push(path.clone());
    Some(())
}

fn from_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(truth) => Value::Bool(truth),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(whole) => Value::Int(whole),
            None => Value::Float(number.as_f64().unwrap_or_default()),
        },
        serde_json::Value::String(text) => Value::String(text),
        serde_json::Value::Array(items) => Value::Array(items.into_iter().map(from_json).collect()),
        serde_json::Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| (name, from_json(value)))
                .collect(),
        ),
    }
}

/// The value a JSON Pointer points to.
fn find<'v>(value: &'v mut Value, pointer: &str) -> Option<&'v mut Value> {
    pointer
        .strip_prefix('/')?
        .split('/')
        .try_fold(value, |within, step| match within {
            Value::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
            Value::Object(fields) => fields.get_mut(&step.replace("~1", "/").replace("~0", "~")),
            _ => None,
        })
}

fn restore(value: &mut Value, kind: &str) {
    let restored = match (kind, &*value) {
        ("none", Value::Null) => Some(Value::None),
        ("decimal", Value::String(text)) => rust_decimal::Decimal::from_str_exact(text).ok().map(Value::Decimal),
        ("bytes", Value::String(text)) => decode_hex(text).map(|bytes| Value::Bytes(bytes.into())),
        ("duration", Value::String(text)) => parse_duration(text).map(Value::Duration),
        ("datetime", Value::String(text)) => parse_rfc3339(text).map(Value::Datetime),
        ("uuid", Value::String(text)) => text.parse().ok().map(Value::Uuid),
        _ => None,
    };
    if let Some(restored) = restored {
        *value = restored;
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::parse_literal;
    use super::*;

    fn object(source: &str) -> Object {
        match parse_literal(source).unwrap() {
            Value::Object(fields) => fields,
            other => panic!("{other} is no object"),
        }
    }

    #[test]
    fn plain_documents_are_compact_ordered_json_without_types() {
        let document = Document::encode(&object("{ total: 19.99, customer: 'c-42' }"), 33).unwrap();
        assert_eq!(document.json, br#"{"customer":"c-42","total":19.99}"#);
        assert_eq!(document.types, None);
    }

    #[test]
    fn nothing_is_encoded_beyond_the_limit() {
        let small = object("{ total: 19.99, customer: 'c-42' }");
        assert_eq!(Document::encode(&small, 32), None);
        let nuls = Object::from([("a".to_owned(), Value::String("\0".repeat(10_000)))]);
        assert_eq!(Document::encode(&nuls, 10_000), None);
        let mut within = Within {
            out: Vec::new(),
            limit: 10_000,
        };
        assert!(serde_json::to_writer(&mut within, &JsonObject(&nuls)).is_err());
        assert!(within.out.len() <= 10_000 && within.out.capacity() < 20_000);
        // One long name, and many places under it.
        let places = (0..1000)
            .map(|n| (n.to_string(), Value::Bytes(vec![].into())))
            .collect();
        let long = Object::from([("x".repeat(10_000), Value::Object(places))]);
        assert_eq!(Document::encode(&long, 100_000), None);
        assert!(Document::encode(&long, 2_000_000).is_some());
    }

    #[test]
    fn what_json_cannot_tell_comes_back() {
        let source = object(
            "{ a: dec 12.340, b: 0x00ff, c: 1h30m, d: datetime '2026-10-22T11:45:47.225Z',
               e: uuid '9f2c4e1a-70bb-43d5-a1c6-e2f480937d55', f: [NONE, { 'x/y~z': 0x01 }], g: NONE, h: 1.0, i: NULL }",
        );
        let document = Document::encode(&source, 1000).unwrap();
        assert_eq!(
            String::from_utf8(document.json.clone()).unwrap(),
            r#"{"a":"12.340","b":"00ff","c":"1h30m","d":"2026-10-22T11:45:47.225Z","e":"9f2c4e1a-70bb-43d5-a1c6-e2f480937d55","f":[null,{"x/y~z":"01"}],"h":1.0,"i":null}"#
        );
        let mut expected = source;
        expected.remove("g");
        let back = Document::decode(&document.json, document.types.as_deref());
        assert_eq!(back, Some(Value::Object(expected)));
    }

    #[test]
    fn types_that_do_not_fit_change_nothing() {
        let plain = Document::decode(br#"{"a":"x","b":[1]}"#, None);
        for types in [
            r#"{"bytes":["/a","/b/0","/b/9","/c","","/b/-","nope"]}"#,
            r#"{"unknown":["/a"]}"#,
            "[]",
            "{",
        ] {
            assert_eq!(
                Document::decode(br#"{"a":"x","b":[1]}"#, Some(types.as_bytes())),
                plain,
                "{types}"
            );
        }
        assert_eq!(Document::decode(b"\xff", None), None);
    }
}
