//! What a stored record is as an entry: its fields, in order.
//!
//! | the record's value | fields |
//! |---|---|
//! | a JSON object (all that XADD and CREATE append, and whatever a Kafka client sends so) | the object's: strings bare, everything else as its JSON text stands |
//! | anything else | `value`, with the bytes; none where it is null |
//!
//! Behind them comes what else a Kafka client sent: `kafka.key` where there is a key, and `kafka.header.NAME` for each
//! header that has a value.

use super::reply::{array, bulk};
use crate::ql::json::TYPES_HEADER;
use crate::record::RecordView;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Fields of an object that are told apart; one with more is answered as a whole, as `value`.
const MOST_FIELDS: usize = 65_536;

/// The fields of a JSON object, in order, repeated ones too.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    if fields.len() == MOST_FIELDS {
                        return Err(A::Error::custom("too many fields"));
                    }
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(InOrder).map(Self)
    }
}

/// A value's text: that of a string without its quotes.
fn text(value: &RawValue) -> Cow<'_, str> {
    let raw = value.get();
    let inner = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner {
        None => raw.into(),
        Some(plain) if !plain.contains('\\') => plain.into(),
        // An escape that stands for no character (half a surrogate pair) stays as it is.
        Some(_) => serde_json::from_str::<String>(raw).map_or_else(|_| raw.into(), Into::into),
    }
}

/// Writes a record as an entry. `documents`: TessariQL or XADD appended it.
pub(crate) fn write(record: &RecordView<'_>, documents: bool, id: &str, out: &mut Vec<u8>) {
    let object = record
        .value
        .and_then(|value| serde_json::from_slice::<Fields<'_>>(value).ok());
    let types = |name: &[u8]| documents && name == TYPES_HEADER.as_bytes();
    let headers = || {
        let headers = record.headers.filter(|header| !types(header.key));
        headers.filter_map(|header| Some((header.key, header.value?)))
    };
    let own = match &object {
        Some(Fields(fields)) => fields.len(),
        None => usize::from(record.value.is_some()),
    };
    array(out, 2);
    bulk(out, id.as_bytes());
    array(out, 2 * (own + usize::from(record.key.is_some()) + headers().count()));
    match (&object, record.value) {
        (Some(Fields(fields)), _) => {
            for (name, value) in fields {
                bulk(out, name.as_bytes());
                bulk(out, text(value).as_bytes());
            }
        }
        (None, Some(value)) => {
            bulk(out, b"value");
            bulk(out, value);
        }
        (None, None) => {}
    }
    if let Some(key) = record.key {
        bulk(out, b"kafka.key");
        bulk(out, key);
    }
    for (name, value) in headers() {
        bulk(out, &[b"kafka.header.", name].concat());
        bulk(out, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{BatchBuilder, NewRecord, RecordReader};

    /// The fields of the entry that a record becomes.
    fn entry(record: NewRecord<'_>, documents: bool) -> Vec<String> {
        let mut builder = BatchBuilder::new();
        builder.push(record).unwrap();
        let batch = builder.build().unwrap();
        let mut reader = RecordReader::new(&batch, 1 << 20).unwrap();
        let mut out = Vec::new();
        write(&reader.next().unwrap().unwrap(), documents, "1-0", &mut out);
        let text = String::from_utf8(out).unwrap();
        let parts: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(parts[..3], ["*2", "$3", "1-0"], "{text:?}");
        let fields: Vec<String> = parts[4..]
            .chunks(2)
            .filter(|pair| pair.len() == 2)
            .map(|pair| {
                assert_eq!(pair[0], format!("${}", pair[1].len()), "{text:?}");
                pair[1].to_owned()
            })
            .collect();
        assert_eq!(parts[3], format!("*{}", fields.len()), "{text:?}");
        fields
    }

    fn value(json: &str) -> NewRecord<'_> {
        NewRecord {
            value: Some(json.as_bytes()),
            ..NewRecord::default()
        }
    }

    #[test]
    fn the_fields_of_an_object_keep_order_digits_and_nesting() {
        let json = r#"{"z":"a\u00e9\n","n":1.10,"big":123456789012345678901234567890,"o":{"a": [1, "x"]},"t":true,"u":null,"z":""}"#;
        assert_eq!(
            entry(value(json), true),
            [
                "z",
                "aé\n",
                "n",
                "1.10",
                "big",
                "123456789012345678901234567890",
                "o",
                r#"{"a": [1, "x"]}"#,
                "t",
                "true",
                "u",
                "null",
                "z",
                ""
            ]
        );
        assert_eq!(entry(value("{}"), true), [""; 0]);
        assert_eq!(entry(value(r#"{"half":"\ud800"}"#), false), ["half", r#""\ud800""#]);
    }

    #[test]
    fn what_is_no_object_is_a_value() {
        for json in ["120.00", "[1]", "\"x\"", "{\"a\":1} x", "{", ""] {
            assert_eq!(entry(value(json), false), ["value", json]);
        }
        assert_eq!(entry(NewRecord::default(), false), [""; 0]);
        let many = (0..=MOST_FIELDS).map(|n| format!("\"{n}\":0")).collect::<Vec<_>>();
        let json = format!("{{{}}}", many.join(","));
        assert_eq!(entry(value(&json), false), ["value", &json]);
    }

    #[test]
    fn keys_and_headers_of_kafka_clients_follow() {
        let record = NewRecord {
            key: Some(b"c-17"),
            headers: &[("source", Some(b"web")), ("none", None), (TYPES_HEADER, Some(b"{}"))],
            ..value(r#"{"key":"own"}"#)
        };
        let rest = ["key", "own", "kafka.key", "c-17", "kafka.header.source", "web"];
        assert_eq!(entry(record, true), rest);
        let types = ["kafka.header.tessari.types", "{}"];
        assert_eq!(
            entry(record, false),
            [&rest[..], &types].concat(),
            "another's header of that name"
        );
    }
}
