//! What statements are answered.

use super::super::json::{Json, JsonObject};
use super::super::print;
use super::super::value::{Object, Value};
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct, Serializer};
use std::fmt::{self, Display, Formatter};

/// The answer to one statement. Prints as TessariQL (nothing for `Done`), serializes as HTTP's JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing to say.
    Done,
    /// Messages.
    Records {
        /// In order.
        records: Vec<Record>,
        /// What the reader should know besides.
        notes: Vec<Note>,
    },
    /// A fact.
    Value(Value),
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its topic.
    pub table: String,
    /// Its position, or partition and position (`0:5`) where the topic has several partitions and none was named.
    pub key: String,
    /// Its fields: `appended`, `position`, `value`, and `partition` where the key has it.
    pub fields: Object,
}

/// Something a reader should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Retention removed messages before the reader came to them. Said once.
    Lapsed {
        /// Whose.
        consumer: String,
        /// Where.
        partition: u32,
        /// How many messages.
        passed_over: u64,
    },
}

impl Display for Note {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lapsed {
                consumer,
                partition,
                passed_over,
            } => write!(
                f,
                "lapsed: retention removed {passed_over} messages of partition {partition} before {consumer} read them"
            ),
        }
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => Ok(()),
            Self::Records { records, notes } => {
                for record in records {
                    write!(f, "{}: ", record.key)?;
                    print::object(f, &record.fields)?;
                    writeln!(f)?;
                }
                notes.iter().try_for_each(|note| writeln!(f, "-- {note}"))
            }
            Self::Value(value) => writeln!(f, "{value}"),
        }
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Done => map.serialize_entry("kind", "done")?,
            Self::Records { records, notes } => {
                map.serialize_entry("kind", "records")?;
                map.serialize_entry("records", records)?;
                if !notes.is_empty() {
                    map.serialize_entry("notes", notes)?;
                }
            }
            Self::Value(value) => {
                map.serialize_entry("kind", "value")?;
                map.serialize_entry("value", &Json(value))?;
            }
        }
        map.end()
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut record = serializer.serialize_struct("Record", 2)?;
        record.serialize_field("id", &format_args!("{}:{}", self.table, self.key))?;
        record.serialize_field("value", &JsonObject(&self.fields))?;
        record.end()
    }
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Lapsed {
                consumer,
                partition,
                passed_over,
            } => {
                let mut note = serializer.serialize_struct("Note", 5)?;
                note.serialize_field("kind", "lapsed")?;
                note.serialize_field("consumer", consumer)?;
                note.serialize_field("partition", partition)?;
                note.serialize_field("passed_over", passed_over)?;
                note.serialize_field("message", &self.to_string())?;
                note.end()
            }
        }
    }
}
