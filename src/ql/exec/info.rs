//! INFO FOR: what there is.

use super::super::error::ErrorKind;
use super::super::value::{Object, Value};
use super::Engine;
use super::rights::Rights;
use crate::auth::{Action, On};
use crate::broker::{AccessError, Look, LookInto};
use cluster::catalog::{Acknowledge, State, Topic};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

fn names<'a>(names: impl Iterator<Item = &'a String>) -> Value {
    Value::Array(names.map(|name| Value::String(name.clone())).collect())
}

impl Engine {
    pub(super) fn info_store(&self, rights: &Rights<'_>) -> Value {
        let namespaces = rights.state.namespaces();
        let seen = namespaces.filter(|one| rights.standing.may(Action::Describe, On::Namespace(one)));
        Value::object([
            ("namespaces", names(seen.map(|namespace| &namespace.name))),
            ("node", self.settings.node.to_string().into()),
            ("version", env!("CARGO_PKG_VERSION").into()),
        ])
    }

    pub(super) fn info_namespace(&self, rights: &Rights<'_>) -> Result<Value, ErrorKind> {
        let view = rights.state;
        let name = rights.session.namespace(view)?;
        let namespace = view
            .namespace(&name)
            .ok_or_else(|| super::unknown("the namespace", &name))?;
        let acknowledge = match namespace.acknowledge {
            Acknowledge::Majority => "majority",
            Acknowledge::Leader => "leader",
        };
        let databases = view.databases(namespace.id);
        let seen = databases.filter(|one| rights.standing.may(Action::Describe, On::Database(one)));
        Ok(Value::object([
            ("acknowledge", acknowledge.into()),
            ("databases", names(seen.map(|database| &database.name))),
            ("name", name.into()),
            ("replication", namespace.replication.map(u32::from).into()),
        ]))
    }

    pub(super) fn info_database(&self, rights: &Rights<'_>) -> Result<Value, ErrorKind> {
        let view = rights.state;
        let (namespace, name) = rights.session.database(view)?;
        let database = view
            .database(&namespace, &name)
            .ok_or_else(|| super::unknown("the database", &name))?;
        let topics = view.topics_in(database.id);
        let seen = topics.filter(|one| rights.standing.may(Action::Describe, On::Topic(one)));
        Ok(Value::object([
            ("name", name.into()),
            ("namespace", namespace.into()),
            ("topics", names(seen.map(|topic| &topic.name))),
        ]))
    }

    pub(super) async fn info_topic(&self, topic: &Arc<Topic>, view: &State) -> Result<Value, ErrorKind> {
        let count = topic.partitions.len() as u32;
        // What no leader answers for is told of as far as is known here.
        if let Err(error) = self.led(topic, 0..count).await {
            tracing::debug!(%error, "facts of a topic are not complete");
        }
        let mut readers: BTreeMap<u32, Vec<(String, i64)>> = BTreeMap::new();
        for (reader, partition, position) in self.broker.positions_in(topic).await? {
            readers.entry(partition).or_default().push((reader, position.offset));
        }
        let cluster = view.members().nth(1).is_some();
        let routes = self.broker.routes().table();
        let looks = (0..count).map(|index| LookInto {
            topic: topic.clone(),
            index,
            look: Look::Marks,
        });
        let looked = self.broker.look(looks.collect()).await;
        let mut each = Vec::with_capacity(topic.partitions.len());
        for ((partition, range), looked) in (0..count).zip(&topic.partitions).zip(looked) {
            let marks = match looked {
                Ok(looked) => Some(looked.marks),
                // Its leader does not answer; the rest is told all the same.
                Err(AccessError::NotLeader) => None,
                Err(error) => return Err(error.into()),
            };
            let mut fields = Object::from([("partition".to_owned(), Value::from(partition))]);
            if let Some(marks) = marks {
                fields.insert("first".to_owned(), Value::Int(marks.log_start + 1));
                fields.insert("last".to_owned(), Value::Int(marks.high_watermark));
                let consumers = readers.remove(&partition).unwrap_or_default();
                let consumers = consumers.into_iter().map(|(reader, position)| {
                    let lag = (marks.high_watermark - position).max(0);
                    let standing = Value::object([("lag", Value::Int(lag)), ("position", Value::Int(position))]);
                    (reader, standing)
                });
                fields.insert("consumers".to_owned(), Value::object(consumers));
            }
            if cluster {
                fields.insert("range".to_owned(), range.0.into());
                let leader = routes.range(*range).map(|leader| leader.node);
                fields.insert(
                    "leader".to_owned(),
                    leader.map_or(Value::Null, |node| node.to_string().into()),
                );
            }
            each.push(Value::Object(fields));
        }
        let max_bytes = topic.max_bytes.unwrap_or(self.settings.max_message_bytes);
        Ok(Value::object([
            ("by", topic.by.clone().into()),
            ("each", Value::Array(each)),
            ("max_bytes", max_bytes.into()),
            ("name", topic.name.clone().into()),
            ("partitions", count.into()),
            (
                "retain",
                topic
                    .retain_ms
                    .map_or(Value::None, |ms| Value::Duration(Duration::from_millis(ms))),
            ),
            ("retain_bytes", topic.retain_bytes.into()),
        ]))
    }
}
