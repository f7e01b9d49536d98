//! What may differ between two servers and two runs, taken out of an answer.
//!
//! Ids a server makes up become symbols in the order they are first seen in a scenario (`member#1`), so that the same
//! id twice is still the same id. Times, addresses and leader epochs become words. What a refusal says is not
//! compared. Order inside an array carries no meaning in the protocol's answers, so arrays of
//! structures are sorted.

use crate::answer::bytes_of;
use crate::batch;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// How one step's answer is looked at, beyond the rules that hold for every answer.
#[derive(Clone, Debug, Default)]
pub struct Projection {
    /// Keep only array elements whose name or group begins with the scenario's own prefix.
    pub own_only: bool,
    /// Fields replaced by `-`: unspecified by the protocol at this step, or dependent on timing.
    pub hidden: Vec<&'static str>,
}

impl Projection {
    /// Compares what concerns the scenario's own topics and groups.
    pub fn own() -> Self {
        Projection {
            own_only: true,
            ..Projection::default()
        }
    }

    /// Hides the named fields.
    pub fn hide(fields: &[&'static str]) -> Self {
        Projection {
            hidden: fields.to_vec(),
            ..Projection::default()
        }
    }
}

/// Stands for what is not compared.
pub const HIDDEN: &str = "-";

/// The symbols of one scenario run.
pub struct Normaliser {
    symbols: HashMap<(&'static str, String), String>,
    counts: HashMap<&'static str, usize>,
    /// Where the scenario's records begin in time, ms since 1970.
    base_time: i64,
    port: u16,
    own: String,
}

/// Half-width in ms of the windows in which a time counts as the scenario's own or as now.
const WINDOW: i64 = 3_600_000;

impl Normaliser {
    /// A fresh table for the scenario whose topics and groups begin with `own`.
    pub fn new(base_time: i64, port: u16, own: &str) -> Self {
        let own = own.to_owned();
        Normaliser {
            symbols: HashMap::new(),
            counts: HashMap::new(),
            base_time,
            port,
            own,
        }
    }

    /// `answer` without what may differ.
    pub fn apply(&mut self, answer: Value, projection: &Projection) -> Value {
        let unpacked = unpack_records(answer);
        let kept = self.filter(unpacked, projection);
        let sorted = self.sort(kept);
        self.symbolise("", sorted)
    }

    fn filter(&self, value: Value, projection: &Projection) -> Value {
        match value {
            Value::Array(items) => Value::Array(
                items
                    .into_iter()
                    .filter(|item| !projection.own_only || self.is_own(item))
                    .map(|item| self.filter(item, projection))
                    .collect(),
            ),
            Value::Object(fields) => Value::Object(
                fields
                    .into_iter()
                    .map(|(name, value)| {
                        let hidden = projection.hidden.contains(&name.as_str());
                        let value = if hidden {
                            HIDDEN.into()
                        } else {
                            self.filter(value, projection)
                        };
                        (name, value)
                    })
                    .collect(),
            ),
            other => other,
        }
    }

    fn is_own(&self, item: &Value) -> bool {
        ["name", "group_id"]
            .iter()
            .all(|field| match item.get(field).and_then(Value::as_str) {
                Some(name) => name.strip_prefix("d.d.").unwrap_or(name).starts_with(&self.own),
                None => true,
            })
    }

    /// Sorts arrays of structures by what is left of them once ids and times are blanked.
    fn sort(&self, value: Value) -> Value {
        match value {
            Value::Array(items) => {
                let mut items: Vec<Value> = items.into_iter().map(|item| self.sort(item)).collect();
                let batches = items.iter().all(|item| item.get("magic").is_some());
                if !batches && items.iter().all(Value::is_object) {
                    items.sort_by_cached_key(|item| blank("", item).to_string());
                }
                Value::Array(items)
            }
            Value::Object(fields) => Value::Object(
                fields
                    .into_iter()
                    .map(|(name, value)| (name, self.sort(value)))
                    .collect(),
            ),
            other => other,
        }
    }

    fn symbolise(&mut self, name: &str, value: Value) -> Value {
        match value {
            Value::Object(fields) => {
                let stamped = fields.contains_key("magic")
                    && fields
                        .get("attributes")
                        .and_then(Value::as_i64)
                        .is_some_and(|bits| bits & 8 != 0);
                // What a refusal says, and whether it says anything, is the server's own.
                let refused = fields.contains_key("batch_index")
                    || fields.get("error_code").is_some_and(|code| code.as_i64() != Some(0));
                let mut out = Map::new();
                for (field, value) in fields {
                    let value = if stamped && field == "max_timestamp" {
                        "append time".into()
                    } else if refused && matches!(rule(&field), Rule::Text) {
                        HIDDEN.into()
                    } else {
                        self.symbolise(&field, value)
                    };
                    out.insert(field, value);
                }
                Value::Object(out)
            }
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.symbolise(name, item)).collect()),
            leaf => self.leaf(name, leaf),
        }
    }

    fn leaf(&mut self, name: &str, value: Value) -> Value {
        match rule(name) {
            Rule::Keep => value,
            Rule::Id(kind) => self.symbol(kind, value),
            Rule::Epoch => match value.as_i64() {
                Some(epoch) if epoch >= 0 => "epoch".into(),
                _ => value,
            },
            Rule::Time => match value.as_i64() {
                Some(time) if (time - self.base_time).abs() < WINDOW => format!("T{:+}", time - self.base_time).into(),
                Some(time) if (time - self.base_time - DAY).abs() < WINDOW => "now".into(),
                _ => value,
            },
            Rule::Host => "host".into(),
            Rule::Port => match value.as_u64() {
                Some(port) if port == u64::from(self.port) => "own port".into(),
                _ => value,
            },
            Rule::Word(word) => match value.as_i64() {
                Some(-1) => value,
                _ => word.into(),
            },
            Rule::Text => match &value {
                Value::String(text) if !text.is_empty() => "text".into(),
                _ => value,
            },
        }
    }

    fn symbol(&mut self, kind: &'static str, value: Value) -> Value {
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return value,
        };
        let none = text.is_empty() || text == "-1" || text == "00000000-0000-0000-0000-000000000000";
        // A fetch session of 0 is no session.
        if none || kind == "session" && text == "0" {
            return value;
        }
        if let Some(known) = self.symbols.get(&(kind, text.clone())) {
            return known.as_str().into();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let symbol = format!("{kind}#{count}");
        self.symbols.insert((kind, text), symbol.clone());
        symbol.into()
    }
}

/// How long before now a scenario's records begin, ms.
pub const DAY: i64 = 86_400_000;

enum Rule {
    Keep,
    Id(&'static str),
    Epoch,
    Time,
    Host,
    Port,
    Word(&'static str),
    Text,
}

fn rule(field: &str) -> Rule {
    match field {
        "member_id" | "leader" => Rule::Id("member"),
        "producer_id" => Rule::Id("producer"),
        "topic_id" => Rule::Id("topic"),
        "session_id" => Rule::Id("session"),
        "cluster_id" => Rule::Id("cluster"),
        "node_id" | "broker_id" | "leader_id" | "controller_id" | "replica_nodes" | "isr_nodes"
        | "offline_replicas" => Rule::Id("node"),
        "leader_epoch" | "finalized_features_epoch" => Rule::Epoch,
        "timestamp" | "base_timestamp" | "max_timestamp" => Rule::Time,
        "log_append_time_ms" => Rule::Word("append time"),
        "host" | "client_host" => Rule::Host,
        "port" => Rule::Port,
        "log_dir" => Rule::Word("path"),
        "total_bytes" | "usable_bytes" => Rule::Word("bytes"),
        "error_message" | "message" | "batch_index_error_message" => Rule::Text,
        _ => Rule::Keep,
    }
}

fn blank(name: &str, value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(field, value)| (field.clone(), blank(field, value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(|item| blank(name, item)).collect()),
        leaf => match rule(name) {
            Rule::Keep => leaf.clone(),
            _ => Value::Null,
        },
    }
}

fn unpack_records(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| match bytes_of(&value) {
                    Some(bytes) if name == "records" => (name, batch::describe(&bytes)),
                    _ => (name, unpack_records(value)),
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(unpack_records).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_same_id_keeps_its_symbol_and_none_stays_none() {
        let mut normaliser = Normaliser::new(0, 9092, "s");
        let mut apply = |value| normaliser.apply(value, &Projection::default());
        assert_eq!(
            apply(json!({"member_id": "x-1", "leader": "x-2"})),
            json!({"leader": "member#1", "member_id": "member#2"})
        );
        assert_eq!(apply(json!({"member_id": "x-2"})), json!({"member_id": "member#1"}));
        assert_eq!(apply(json!({"member_id": ""})), json!({"member_id": ""}));
        assert_eq!(apply(json!({"producer_id": -1})), json!({"producer_id": -1}));
    }

    #[test]
    fn a_wrong_port_is_seen() {
        let mut normaliser = Normaliser::new(0, 9092, "s");
        let mut apply = |value| normaliser.apply(value, &Projection::default());
        assert_eq!(apply(json!({"port": 9092})), json!({"port": "own port"}));
        assert_eq!(apply(json!({"port": 9093})), json!({"port": 9093}));
    }

    #[test]
    fn own_only_leaves_other_topics_out() {
        let mut normaliser = Normaliser::new(0, 9092, "mine");
        let answer = json!({"topics": [{"name": "d.d.mine_a"}, {"name": "__consumer_offsets"}]});
        assert_eq!(
            normaliser.apply(answer, &Projection::own()),
            json!({"topics": [{"name": "d.d.mine_a"}]})
        );
    }
}
