//! Metadata (3): brokers, topics, who leads what.

use crate::auth::{Action, On};
use crate::kafka::access::Access;
use crate::kafka::call::Call;
use crate::kafka::partitions::{Leaders, NO_BROKER, NO_EPOCH};
use cluster::catalog::Topic;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::collections::HashSet;
use std::future::{Future, ready};

/// Topics are never created here, whatever `allow_auto_topic_creation` says.
pub(crate) fn metadata(call: &Call, request: MetadataRequest) -> impl Future<Output = MetadataResponse> {
    ready(answer(call, request))
}

fn answer(call: &Call, request: MetadataRequest) -> MetadataResponse {
    if let Some(refused) = refused_whole(call, &request) {
        return refused;
    }
    let state = call.view();
    let mut leaders = Leaders::new(call, &state);
    let controller = leaders.controller();
    let brokers = leaders
        .brokers()
        .listed()
        .iter()
        .map(|e| {
            MetadataResponseBroker::default()
                .with_node_id(BrokerId(e.broker))
                .with_host(StrBytes::from_string(e.host.clone()))
                .with_port(i32::from(e.port))
        })
        .collect();
    let access = Access::new(call, &state);
    let mut topics = Topics {
        access: &access,
        leaders,
        operations: request.include_topic_authorized_operations,
    };
    let topics = match request.topics {
        // Version 0 has no null.
        Some(asked) if !(asked.is_empty() && call.version == 0) => topics.asked(asked),
        _ => topics.all(),
    };
    let mut response = MetadataResponse::default()
        .with_brokers(brokers)
        .with_cluster_id(Some(StrBytes::from_string(call.shared.config.cluster_id.clone())))
        .with_controller_id(BrokerId(controller))
        .with_topics(topics);
    if (8..=10).contains(&call.version) && request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = access.cluster_operations();
    }
    response
}

/// Versions 10 and 11 have the fields of topic ids but not their meaning (KAFKA-12701).
fn refused_whole(call: &Call, request: &MetadataRequest) -> Option<MetadataResponse> {
    let asked = request.topics.as_ref()?;
    if call.version >= 12 || asked.iter().all(|t| t.name.is_some() && t.topic_id.is_nil()) {
        return None;
    }
    let refuse = |t: &MetadataRequestTopic| {
        failed(Some(t.name.clone().unwrap_or_default()), ResponseError::InvalidRequest).with_topic_id(t.topic_id)
    };
    Some(MetadataResponse::default().with_topics(asked.iter().map(refuse).collect()))
}

struct Topics<'a> {
    access: &'a Access<'a>,
    leaders: Leaders<'a>,
    operations: bool,
}

impl Topics<'_> {
    fn all(&mut self) -> Vec<MetadataResponseTopic> {
        let named = |topic: &Topic| StrBytes::from_string(topic.full_name());
        let access = self.access;
        let topics = access.state().topics();
        topics
            .filter(|topic| access.may(Action::Describe, On::Topic(topic)))
            .map(|topic| self.describe(topic, named(topic)))
            .collect()
    }

    fn asked(&mut self, asked: Vec<MetadataRequestTopic>) -> Vec<MetadataResponseTopic> {
        let mut seen = HashSet::with_capacity(asked.len());
        asked
            .into_iter()
            .filter(|t| seen.insert((t.name.clone(), t.topic_id)))
            .map(|t| self.one(t))
            .collect()
    }

    fn one(&mut self, asked: MetadataRequestTopic) -> MetadataResponseTopic {
        if !asked.topic_id.is_nil() {
            // One that may not be described is unknown.
            return match self.access.topic_by_id(Action::Describe, asked.topic_id) {
                Ok(topic) => self.describe(topic, StrBytes::from_string(topic.full_name())),
                Err(_) => failed(None, ResponseError::UnknownTopicId).with_topic_id(asked.topic_id),
            };
        }
        let Some(name) = asked.name else {
            return failed(None, ResponseError::InvalidRequest);
        };
        match self.access.topic(Action::Describe, &name) {
            // As asked: a client that says `orders` is not told of `shop.orders.orders`.
            Ok(topic) => self.describe(topic, name.0),
            Err(error) => failed(Some(name), error),
        }
    }

    fn describe(&mut self, topic: &Topic, name: StrBytes) -> MetadataResponseTopic {
        let partitions = topic.partitions.iter().zip(0..).map(|(range, index)| {
            let partition = MetadataResponsePartition::default().with_partition_index(index);
            match self.leaders.of(*range) {
                Some((broker, epoch)) => {
                    let replicas: Vec<BrokerId> = self
                        .leaders
                        .replicas(*range, broker)
                        .into_iter()
                        .map(BrokerId)
                        .collect();
                    partition
                        .with_leader_id(BrokerId(broker))
                        .with_leader_epoch(epoch)
                        .with_replica_nodes(replicas.clone())
                        .with_isr_nodes(replicas)
                }
                None => partition
                    .with_error_code(ResponseError::LeaderNotAvailable.code())
                    .with_leader_id(BrokerId(NO_BROKER))
                    .with_leader_epoch(NO_EPOCH),
            }
        });
        let response = MetadataResponseTopic::default()
            .with_name(Some(TopicName(name)))
            .with_topic_id(topic.uuid)
            .with_partitions(partitions.collect());
        match self.operations {
            true => response.with_topic_authorized_operations(self.access.topic_operations(topic)),
            false => response,
        }
    }
}

fn failed(name: Option<TopicName>, error: ResponseError) -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_name(name)
        .with_error_code(error.code())
}
