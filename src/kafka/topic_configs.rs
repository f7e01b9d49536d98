//! The configuration that Kafka clients see and set on a topic and on a broker.
//!
//! Every key Kafka has is told with the value that really holds here. Five of a topic's can be set; another may be named
//! only with the value it has anyway.

use super::config::KafkaConfig;
use cluster::catalog::{Topic, TopicChange, TopicSpec};

/// Kafka's type codes in DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Type {
    Boolean = 1,
    Text = 2,
    Int = 3,
    Long = 5,
    Double = 6,
    List = 7,
}

/// Where a value comes from: Kafka's source codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Set on the topic.
    Topic = 1,
    /// Given to the node at its start.
    Node = 4,
    /// Built in.
    Default = 5,
}

/// A key, its built-in value, and the broker key that stands for all topics.
pub(crate) struct Key {
    pub name: &'static str,
    pub kind: Type,
    pub default: &'static str,
    pub broker_key: Option<&'static str>,
    pub doc: &'static str,
}

const fn key(
    name: &'static str,
    kind: Type,
    default: &'static str,
    broker_key: Option<&'static str>,
    doc: &'static str,
) -> Key {
    Key {
        name,
        kind,
        default,
        broker_key,
        doc,
    }
}

const LONG_MAX: &str = "9223372036854775807";
/// An hour, as in Kafka (KIP-937): a record from the far future would keep its segment for ever and lead time lookups
/// astray.
pub(crate) const MAX_AHEAD_MS: i64 = 3_600_000;
const MAX_AHEAD: &str = "3600000";

const CLEANUP: &str = "cleanup.policy";
const MAX_BYTES: &str = "max.message.bytes";
const TIMESTAMP_TYPE: &str = "message.timestamp.type";
const RETAIN_BYTES: &str = "retention.bytes";
const RETAIN_MS: &str = "retention.ms";

/// A topic's keys, by name.
#[rustfmt::skip]
pub(crate) const TOPIC_KEYS: &[Key] = &[
    key(CLEANUP, Type::List, "delete", Some("log.cleanup.policy"), "Old messages are deleted; compaction is not offered."),
    key("compression.gzip.level", Type::Int, "-1", Some("compression.gzip.level"), "Unused: batches are stored as sent."),
    key("compression.lz4.level", Type::Int, "9", Some("compression.lz4.level"), "Unused: batches are stored as sent."),
    key("compression.type", Type::Text, "producer", Some("compression.type"), "Batches are stored as the producer compressed them."),
    key("compression.zstd.level", Type::Int, "3", Some("compression.zstd.level"), "Unused: batches are stored as sent."),
    key("delete.retention.ms", Type::Long, "86400000", Some("log.cleaner.delete.retention.ms"), "Unused: there is no compaction."),
    key("file.delete.delay.ms", Type::Long, "0", Some("log.segment.delete.delay.ms"), "Files are deleted at once; readers keep what they hold."),
    key("flush.messages", Type::Long, "1", Some("log.flush.interval.messages"), "Every batch is durable before it is acknowledged."),
    key("flush.ms", Type::Long, "0", Some("log.flush.interval.ms"), "Every batch is durable before it is acknowledged."),
    key("follower.replication.throttled.replicas", Type::List, "", None, "Unused."),
    key("index.interval.bytes", Type::Int, "4096", Some("log.index.interval.bytes"), "Bytes between two index entries."),
    key("leader.replication.throttled.replicas", Type::List, "", None, "Unused."),
    key("max.compaction.lag.ms", Type::Long, LONG_MAX, Some("log.cleaner.max.compaction.lag.ms"), "Unused: there is no compaction."),
    key(MAX_BYTES, Type::Int, "1048588", Some("message.max.bytes"), "Largest batch accepted, in bytes as sent."),
    key("message.timestamp.after.max.ms", Type::Long, MAX_AHEAD, Some("log.message.timestamp.after.max.ms"), "How far ahead of the node's clock a timestamp may be."),
    key("message.timestamp.before.max.ms", Type::Long, LONG_MAX, Some("log.message.timestamp.before.max.ms"), "Timestamps in the past are taken."),
    key(TIMESTAMP_TYPE, Type::Text, "CreateTime", Some("log.message.timestamp.type"), "Whose clock the timestamps are: CreateTime or LogAppendTime."),
    key("min.cleanable.dirty.ratio", Type::Double, "0.5", Some("log.cleaner.min.cleanable.ratio"), "Unused: there is no compaction."),
    key("min.compaction.lag.ms", Type::Long, "0", Some("log.cleaner.min.compaction.lag.ms"), "Unused: there is no compaction."),
    key("min.insync.replicas", Type::Int, "1", Some("min.insync.replicas"), "Acknowledgement is the namespace's, not the topic's."),
    key("preallocate", Type::Boolean, "false", Some("log.preallocate"), "Unused."),
    key("remote.storage.enable", Type::Boolean, "false", None, "There is no tiered storage."),
    key(RETAIN_BYTES, Type::Long, "-1", Some("log.retention.bytes"), "Bytes of a partition beyond which old messages go; -1 keeps them."),
    key(RETAIN_MS, Type::Long, "-1", Some("log.retention.ms"), "Milliseconds after which messages go; -1 keeps them."),
    key("segment.bytes", Type::Int, "536870912", Some("log.segment.bytes"), "Bytes after which a segment file is closed."),
    key("segment.index.bytes", Type::Int, "10485760", Some("log.index.size.max.bytes"), "Unused."),
    key("segment.jitter.ms", Type::Long, "0", Some("log.roll.jitter.ms"), "Unused."),
    key("segment.ms", Type::Long, LONG_MAX, Some("log.roll.ms"), "Segments are closed by size."),
    key("unclean.leader.election.enable", Type::Boolean, "false", Some("unclean.leader.election.enable"), "Never: a leader holds all that was acknowledged."),
];

/// A value that can't be had. INVALID_CONFIG (40).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// Kafka has no such key either.
    #[error("unknown topic config name: {0}")]
    Unknown(String),
    /// No value, or one that the key can't have.
    #[error("invalid value {value} for configuration {name}: {why}")]
    Invalid {
        name: &'static str,
        value: String,
        why: &'static str,
    },
    /// Known, but not to be changed here.
    #[error("{name} is fixed at {value}")]
    Fixed { name: &'static str, value: String },
}

/// The keys of a topic that can be set; `None`: not set on the topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub retain_ms: Option<u64>,
    pub retain_bytes: Option<u64>,
    pub max_bytes: Option<u32>,
    pub log_append_time: bool,
}

impl Settings {
    /// Those of a topic.
    pub(crate) fn of(topic: &Topic) -> Self {
        Self {
            retain_ms: topic.retain_ms,
            retain_bytes: topic.retain_bytes,
            max_bytes: topic.max_bytes,
            log_append_time: topic.log_append_time,
        }
    }

    /// What a topic is declared with.
    pub(crate) fn spec(&self, partitions: u32) -> TopicSpec {
        TopicSpec {
            partitions,
            by: None,
            retain_ms: self.retain_ms,
            retain_bytes: self.retain_bytes,
            max_bytes: self.max_bytes,
            log_append_time: self.log_append_time,
        }
    }

    /// What must change to get from `before` to these.
    pub(crate) fn changes(&self, before: &Self) -> Vec<TopicChange> {
        let mut changes = Vec::new();
        if self.retain_ms != before.retain_ms {
            changes.push(TopicChange::RetainMs(self.retain_ms));
        }
        if self.retain_bytes != before.retain_bytes {
            changes.push(TopicChange::RetainBytes(self.retain_bytes));
        }
        if self.max_bytes != before.max_bytes {
            changes.push(TopicChange::MaxBytes(self.max_bytes));
        }
        if self.log_append_time != before.log_append_time {
            changes.push(TopicChange::LogAppendTime(self.log_append_time));
        }
        changes
    }

    /// Sets a key.
    pub(crate) fn set(&mut self, config: &KafkaConfig, name: &str, value: &str) -> Result<(), ConfigError> {
        let key = find(name)?;
        let value = value.trim();
        let invalid = |why| ConfigError::Invalid {
            name: key.name,
            value: value.to_owned(),
            why,
        };
        match key.name {
            RETAIN_MS => match value.parse::<i64>() {
                Ok(-1) => self.retain_ms = None,
                Ok(ms @ 0..) => self.retain_ms = Some(ms as u64),
                _ => return Err(invalid("a number of milliseconds, or -1")),
            },
            RETAIN_BYTES => match value.parse::<i64>() {
                Ok(bytes @ 0..) => self.retain_bytes = Some(bytes as u64),
                Ok(_) => self.retain_bytes = None,
                Err(_) => return Err(invalid("a number of bytes, or -1")),
            },
            MAX_BYTES => match value.parse::<i32>() {
                Ok(bytes @ 0..) => self.max_bytes = Some(bytes as u32),
                _ => return Err(invalid("a number of bytes, at least 0")),
            },
            TIMESTAMP_TYPE => match value {
                "CreateTime" => self.log_append_time = false,
                "LogAppendTime" => self.log_append_time = true,
                _ => return Err(invalid("CreateTime or LogAppendTime")),
            },
            _ => {
                let fixed = built_in(config, key);
                if value != fixed {
                    return Err(ConfigError::Fixed {
                        name: key.name,
                        value: fixed,
                    });
                }
            }
        }
        Ok(())
    }

    /// Takes a key's value from the topic, so that the node's holds. A key that is not known has none.
    pub(crate) fn unset(&mut self, name: &str) {
        match name {
            RETAIN_MS => self.retain_ms = None,
            RETAIN_BYTES => self.retain_bytes = None,
            MAX_BYTES => self.max_bytes = None,
            TIMESTAMP_TYPE => self.log_append_time = false,
            _ => {}
        }
    }

    /// A key's value, where the topic sets it.
    fn own(&self, name: &str) -> Option<String> {
        match name {
            RETAIN_MS => self.retain_ms.map(|v| v.to_string()),
            RETAIN_BYTES => self.retain_bytes.map(|v| v.to_string()),
            MAX_BYTES => self.max_bytes.map(|v| v.to_string()),
            TIMESTAMP_TYPE => self.log_append_time.then(|| "LogAppendTime".to_owned()),
            _ => None,
        }
    }

    /// A key's value and where it comes from.
    pub(crate) fn value(&self, config: &KafkaConfig, key: &Key) -> (String, Source) {
        match self.own(key.name) {
            Some(value) => (value, Source::Topic),
            None => node_value(config, key),
        }
    }
}

/// The value that holds where a topic says nothing.
pub(crate) fn node_value(config: &KafkaConfig, key: &Key) -> (String, Source) {
    let value = built_in(config, key);
    let source = match value == key.default {
        true => Source::Default,
        false => Source::Node,
    };
    (value, source)
}

fn built_in(config: &KafkaConfig, key: &Key) -> String {
    match key.name {
        MAX_BYTES => config.max_message_bytes.to_string(),
        "segment.bytes" => config.segment_bytes.to_string(),
        _ => key.default.to_owned(),
    }
}

/// The key of that name.
pub(crate) fn find(name: &str) -> Result<&'static Key, ConfigError> {
    TOPIC_KEYS
        .iter()
        .find(|k| k.name == name)
        .ok_or_else(|| ConfigError::Unknown(name.chars().take(200).collect()))
}

/// A broker's own keys besides those that stand for topics.
#[rustfmt::skip]
pub(crate) const BROKER_KEYS: &[Key] = &[
    key("auto.create.topics.enable", Type::Boolean, "false", None, "Topics are declared, never made by asking for them."),
    key("connections.max.idle.ms", Type::Long, "600000", None, "A connection without a request for so long is closed."),
    key("default.replication.factor", Type::Int, "1", None, "Replicas of a topic where its namespace says nothing."),
    key("delete.topic.enable", Type::Boolean, "true", None, "Topics can be deleted."),
    key("group.initial.rebalance.delay.ms", Type::Int, "0", None, "A new group's first rebalance waits so long for more members."),
    key("group.max.session.timeout.ms", Type::Int, "1800000", None, "Longest session timeout of a group member."),
    key("group.min.session.timeout.ms", Type::Int, "6000", None, "Shortest session timeout of a group member."),
    key("max.connections", Type::Int, "2147483647", None, "Connections at one time."),
    key("max.incremental.fetch.session.cache.slots", Type::Int, "1000", None, "Fetch sessions kept."),
    key("num.partitions", Type::Int, "1", None, "Partitions of a topic that is created without a number."),
    key("offset.metadata.max.bytes", Type::Int, "4096", None, "Longest metadata of a committed offset."),
    key("socket.request.max.bytes", Type::Int, "104857600", None, "Largest request."),
    key("transaction.max.timeout.ms", Type::Int, "900000", None, "Unused: transactions are refused."),
];

/// The value of a broker key.
pub(crate) fn broker_value(config: &KafkaConfig, key: &Key) -> (String, Source) {
    let value = match key.name {
        "connections.max.idle.ms" => config.max_idle.as_millis().to_string(),
        "max.connections" => config.max_connections.to_string(),
        "max.incremental.fetch.session.cache.slots" => config.fetch_sessions.to_string(),
        "socket.request.max.bytes" => config.max_frame.to_string(),
        _ => key.default.to_owned(),
    };
    let source = match value == key.default {
        true => Source::Default,
        false => Source::Node,
    };
    (value, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> KafkaConfig {
        KafkaConfig::new("c".into())
    }

    #[test]
    fn settable_keys_are_set_and_unset() {
        let mut settings = Settings::default();
        for (name, value) in [
            (RETAIN_MS, " 60000 "),
            (RETAIN_BYTES, "1000"),
            (MAX_BYTES, "50000"),
            (TIMESTAMP_TYPE, "LogAppendTime"),
            (CLEANUP, "delete"),
            ("compression.type", "producer"),
        ] {
            settings.set(&config(), name, value).unwrap();
        }
        let expected = Settings {
            retain_ms: Some(60_000),
            retain_bytes: Some(1000),
            max_bytes: Some(50_000),
            log_append_time: true,
        };
        assert_eq!(settings, expected);
        assert_eq!(settings.changes(&Settings::default()).len(), 4);
        for key in TOPIC_KEYS {
            settings.unset(key.name);
        }
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn the_value_that_is_told_may_be_set() {
        for key in TOPIC_KEYS {
            let (value, source) = Settings::default().value(&config(), key);
            assert_eq!(source, Source::Default, "{}", key.name);
            Settings::default().set(&config(), key.name, &value).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let mut settings = Settings::default();
        for (name, value) in [
            (RETAIN_MS, "-2"),
            (RETAIN_MS, "x"),
            (RETAIN_BYTES, ""),
            (MAX_BYTES, "-1"),
            (MAX_BYTES, "3000000000"),
            (TIMESTAMP_TYPE, "logappendtime"),
            (CLEANUP, "compact"),
            ("min.insync.replicas", "2"),
            ("nope", "1"),
        ] {
            let error = settings.set(&config(), name, value).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        assert_eq!(settings, Settings::default());
    }
}
