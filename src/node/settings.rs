//! What the flags mean to each room.

use super::Node;
use crate::config::{Config, Validate};
use crate::connections::Budget;
use crate::groups::GroupConfig;
use crate::kafka::KafkaConfig;
use crate::log::LogConfig;
use crate::resp::{CommandLimits, RespConfig};
use cluster::raft::HostConfig;
use std::path::Path;
use std::time::Duration;

pub fn host(config: &Config) -> HostConfig {
    HostConfig {
        checkpoint_bytes: config.storage.checkpoint_bytes,
        checkpoint_interval: Duration::from_secs(config.storage.checkpoint_seconds),
        log_span: config.storage.checkpoint_bytes.saturating_mul(4),
        ..HostConfig::default()
    }
}

pub fn log(config: &Config, dir: &Path) -> LogConfig {
    LogConfig {
        dir: dir.join("topics"),
        segment_bytes: config.storage.segment_bytes,
        index_interval: 4096,
        tail_bytes: 64 << 20,
    }
}

pub fn groups(config: &Config) -> GroupConfig {
    GroupConfig {
        initial_rebalance_delay: Duration::from_millis(u64::from(config.kafka.group_initial_delay_ms)),
        ..GroupConfig::default()
    }
}

pub fn kafka(config: &Config, node: &Node, budget: Budget) -> KafkaConfig {
    let cluster_id = node.broker.catalog().view().store().unwrap_or_default();
    let limits = &config.limits;
    KafkaConfig {
        advertise: config.kafka.kafka_advertise.clone(),
        database: config.kafka.kafka_database.clone(),
        walk_records: config.kafka.kafka_validate == Validate::Records,
        max_message_bytes: config.kafka.max_message_bytes,
        segment_bytes: config.storage.segment_bytes,
        log_dir: config
            .path
            .as_ref()
            .map_or_else(String::new, |path| path.display().to_string()),
        max_frame: limits.max_request_bytes as usize,
        budget,
        pipeline: limits.max_queued_requests,
        pipeline_bytes: limits.max_inflight_bytes_per_connection as usize,
        max_connections: limits.max_connections,
        max_connections_per_address: limits.max_connections_per_address,
        max_unauthenticated: limits.max_unauthenticated,
        sign_in_time: Duration::from_secs(limits.sign_in_seconds),
        max_idle: Duration::from_secs(limits.idle_seconds),
        max_stall: Duration::from_secs(limits.stall_seconds),
        send_buffer: limits.send_buffer(),
        session: match config.kafka.kafka_session_seconds {
            0 => None,
            seconds => Some(Duration::from_secs(u64::from(seconds))),
        },
        ..KafkaConfig::new(cluster_id.simple().to_string())
    }
}

pub fn resp(config: &Config, budget: Budget) -> RespConfig {
    let (limits, defaults) = (&config.limits, RespConfig::default());
    RespConfig {
        database: config.kafka.kafka_database.clone(),
        limits: CommandLimits {
            bytes: limits.max_request_bytes as usize,
            ..defaults.limits
        },
        budget,
        pipeline: limits.max_queued_requests,
        max_connections: limits.max_resp_connections,
        max_unauthenticated: limits.max_unauthenticated,
        sign_in_time: Duration::from_secs(limits.sign_in_seconds),
        max_idle: Duration::from_secs(limits.idle_seconds),
        max_stall: Duration::from_secs(limits.stall_seconds),
        send_buffer: limits.send_buffer(),
        ..defaults
    }
}
