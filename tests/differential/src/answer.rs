//! A decoded response as a tree of named fields.
//!
//! The codec's response types have no serialisation of their own, but their `Debug` form names every field. It is
//! read back here into a [`serde_json::Value`], so that any two answers can be compared field by field.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Number, Value};
use std::fmt::Debug;

/// Marks a byte string in a tree; hexadecimal digits follow.
pub const BYTES: &str = "hex:";

/// The tree of a decoded message. `None` is null, a byte string is [`BYTES`] and its hexadecimal digits, and an empty
/// `unknown_tagged_fields` is left out.
pub fn tree(message: &impl Debug) -> Result<Value> {
    let text = format!("{message:?}");
    let mut reader = Reader { rest: &text };
    let value = reader.value().with_context(|| format!("in {text}"))?;
    ensure!(reader.rest.is_empty(), "left over: {}", reader.rest);
    Ok(value)
}

/// The bytes of a tree's byte string, if it is one.
pub fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    let digits = value.as_str()?.strip_prefix(BYTES)?;
    (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok())
        .collect()
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Result<Value> {
        if self.take("b\"") {
            return self.bytes();
        }
        if self.take("\"") {
            return self.string();
        }
        if self.take("[") {
            return self.list();
        }
        if self.take("{") {
            return self.map();
        }
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && !"_.+-".contains(c));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        ensure!(!word.is_empty(), "no value at {:.40}", self.rest);
        self.rest = rest;
        if self.take("(") {
            let inner = self.value()?;
            ensure!(self.take(")"), "a tuple of more than one value");
            return Ok(inner);
        }
        if self.take(" { ") {
            return self.fields();
        }
        if self.take(" {}") {
            return Ok(Value::Object(Map::new()));
        }
        Ok(match word {
            "None" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => match (word.parse::<i64>(), word.parse::<f64>()) {
                (Ok(n), _) => Value::Number(n.into()),
                (_, Ok(n)) if word.contains('.') => Value::Number(Number::from_f64(n).context("not a finite number")?),
                _ => Value::String(word.to_owned()),
            },
        })
    }

    fn fields(&mut self) -> Result<Value> {
        let mut fields = Map::new();
        loop {
            let (name, rest) = self.rest.split_once(": ").context("a field without a value")?;
            let name = name.to_owned();
            self.rest = rest;
            let value = self.value()?;
            if !(name == "unknown_tagged_fields" && value.as_object().is_some_and(Map::is_empty)) {
                fields.insert(name, value);
            }
            if self.take(" }") {
                return Ok(Value::Object(fields));
            }
            ensure!(self.take(", "), "a field not ended at {:.40}", self.rest);
        }
    }

    fn list(&mut self) -> Result<Value> {
        let mut items = Vec::new();
        while !self.take("]") {
            items.push(self.value()?);
            self.take(", ");
        }
        Ok(Value::Array(items))
    }

    fn map(&mut self) -> Result<Value> {
        let mut entries = Map::new();
        while !self.take("}") {
            let key = self.value()?;
            ensure!(self.take(": "), "a map key without a value");
            let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
            entries.insert(key, self.value()?);
            self.take(", ");
        }
        Ok(Value::Object(entries))
    }

    fn string(&mut self) -> Result<Value> {
        let mut text = String::new();
        loop {
            match self.next()? {
                '"' => return Ok(Value::String(text)),
                '\\' => match self.next()? {
                    'u' => {
                        let (digits, rest) = self.rest.split_once('}').context("an escape not ended")?;
                        let code = u32::from_str_radix(digits.trim_start_matches('{'), 16)?;
                        text.push(char::from_u32(code).context("not a character")?);
                        self.rest = rest;
                    }
                    escape => text.push(plain(escape)?),
                },
                other => text.push(other),
            }
        }
    }

    fn bytes(&mut self) -> Result<Value> {
        let mut digits = String::from(BYTES);
        loop {
            let byte = match self.next()? {
                '"' => return Ok(Value::String(digits)),
                '\\' => match self.next()? {
                    'x' => {
                        let (code, rest) = self.rest.split_at_checked(2).context("an escape cut short")?;
                        self.rest = rest;
                        u8::from_str_radix(code, 16)?
                    }
                    escape => plain(escape)? as u8,
                },
                other => u8::try_from(other)?,
            };
            digits.push_str(&format!("{byte:02x}"));
        }
    }

    fn next(&mut self) -> Result<char> {
        let mut chars = self.rest.chars();
        let next = chars.next().context("text cut short")?;
        self.rest = chars.as_str();
        Ok(next)
    }
}

fn plain(escape: char) -> Result<char> {
    Ok(match escape {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        '0' => '\0',
        '\\' | '"' | '\'' => escape,
        other => bail!("unknown escape {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    use kafka_protocol::messages::{FetchResponse, TopicName};
    use kafka_protocol::protocol::StrBytes;
    use serde_json::json;

    #[test]
    fn a_nested_answer_reads_back_with_every_field() {
        let bytes: Vec<u8> = (0..=255).collect();
        let answer = FetchResponse::default().with_responses(vec![
            FetchableTopicResponse::default()
                .with_topic(TopicName(StrBytes::from_static_str("a\"b\\é\u{7}\n")))
                .with_partitions(vec![
                    PartitionData::default().with_records(Some(Bytes::from(bytes.clone()))),
                ]),
        ]);
        let tree = tree(&answer).unwrap();
        let topic = &tree["responses"][0];
        assert_eq!(topic["topic"], json!("a\"b\\é\u{7}\n"));
        assert_eq!(topic["topic_id"], json!("00000000-0000-0000-0000-000000000000"));
        assert_eq!(topic["partitions"][0]["last_stable_offset"], json!(-1));
        assert_eq!(bytes_of(&topic["partitions"][0]["records"]), Some(bytes));
        assert_eq!(tree["error_code"], json!(0));
        assert!(tree.get("unknown_tagged_fields").is_none());
    }
}
