//! CreateTopics (19), DeleteTopics (20), CreatePartitions (37), DeleteRecords (21).

use crate::auth::Action;
use crate::broker::Declared;
use crate::kafka::access::Access;
use crate::kafka::call::{Call, now_ms};
use crate::kafka::errors;
use crate::kafka::partitions;
use crate::kafka::topic_configs::{Settings, TOPIC_KEYS};
use crate::names::Parts;
use cluster::catalog::{CatalogFailure, Command, Reply, State, Topic, TopicChange, TopicSpec};
use futures::future::join_all;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{
    BrokerId, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteRecordsRequest, DeleteRecordsResponse, DeleteTopicsRequest, DeleteTopicsResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use uuid::Uuid;

/// A refusal with its sentence.
type Refused = (ResponseError, String);

fn refused(error: ResponseError, why: impl Into<String>) -> Refused {
    (error, why.into())
}

fn by_catalog(error: &CatalogFailure) -> Refused {
    (errors::catalog(error), error.to_string())
}

/// How often each key comes.
fn counted<K: Hash + Eq>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
    let mut counts = HashMap::new();
    for key in keys {
        *counts.entry(key).or_insert(0) += 1;
    }
    counts
}

pub(crate) async fn create_topics(call: &Call, request: CreateTopicsRequest) -> CreateTopicsResponse {
    let state = call.view();
    let access = Access::new(call, &state);
    let counts = counted(request.topics.iter().map(|t| t.name.clone()));
    let mut told = std::collections::HashSet::new();
    // Together, so that one sync serves them all; a name that comes twice is refused once.
    let topics = request.topics.into_iter().filter(|t| told.insert(t.name.clone()));
    let work = topics.map(|topic| {
        let (access, repeated) = (&access, counts[&topic.name] > 1);
        async move {
            let outcome = match repeated {
                true => Err(refused(
                    ResponseError::InvalidRequest,
                    "the topic is named more than once",
                )),
                false => create(call, access, &topic, request.validate_only).await,
            };
            (topic.name, outcome)
        }
    });
    let outcomes = join_all(work).await;
    // A client may use a topic at any member as soon as it is told of it.
    let declared = outcomes
        .iter()
        .flat_map(|(_, outcome)| outcome.as_ref().ok()?.declared.clone());
    if let Some(declared) = declared.reduce(Declared::and) {
        call.broker().everywhere(declared).await;
    }
    let topics = outcomes.into_iter().map(|(name, outcome)| created(call, name, outcome));
    CreateTopicsResponse::default().with_topics(topics.collect())
}

/// What was, or would be, declared.
struct Created {
    id: Uuid,
    partitions: usize,
    replicas: i16,
    settings: Settings,
    /// What all members are to know of it; `None` where nothing was declared.
    declared: Option<Declared>,
}

fn created(call: &Call, name: TopicName, outcome: Result<Created, Refused>) -> CreatableTopicResult {
    let result = CreatableTopicResult::default().with_name(name);
    match outcome {
        Ok(created) => {
            let config = &call.shared.config;
            let configs = TOPIC_KEYS.iter().map(|key| {
                let (value, source) = created.settings.value(config, key);
                CreatableTopicConfigs::default()
                    .with_name(StrBytes::from_static_str(key.name))
                    .with_value(Some(StrBytes::from_string(value)))
                    .with_config_source(source as i8)
            });
            result
                .with_topic_id(created.id)
                .with_num_partitions(i32::try_from(created.partitions).unwrap_or(i32::MAX))
                .with_replication_factor(created.replicas)
                .with_error_message(None)
                .with_configs(Some(configs.collect()))
        }
        Err((error, why)) => result
            .with_error_code(error.code())
            .with_error_message(Some(StrBytes::from_string(why)))
            .with_num_partitions(-1)
            .with_replication_factor(-1),
    }
}

async fn create(
    call: &Call,
    access: &Access<'_>,
    asked: &CreatableTopic,
    validate_only: bool,
) -> Result<Created, Refused> {
    let state = access.state();
    let parts = call
        .shared
        .names
        .parse(&asked.name)
        .map_err(|e| (errors::name(e), e.to_string()))?;
    if !access.may_where(Action::Declare, &asked.name) {
        let error = access.refused(Action::Declare, &asked.name, ResponseError::TopicAuthorizationFailed);
        return Err(refused(error, errors::sentence(error)));
    }
    let Some(namespace) = state.namespace(parts.namespace) else {
        let why = format!("namespace {} is not defined", parts.namespace);
        return Err(refused(ResponseError::InvalidTopicException, why));
    };
    if state.database(parts.namespace, parts.database).is_none() {
        let why = format!(
            "database {} is not defined in namespace {}",
            parts.database, parts.namespace
        );
        return Err(refused(ResponseError::InvalidTopicException, why));
    }
    if state.topic(parts.namespace, parts.database, parts.topic).is_some() {
        let why = format!("topic {} already exists", &*asked.name);
        return Err(refused(ResponseError::TopicAlreadyExists, why));
    }
    let members = state.members().filter(|member| member.holds_data()).count();
    let own = namespace
        .replication
        .map_or(members, |n| usize::from(n).min(members))
        .max(1);
    let (partitions, replicas) = match asked.assignments.is_empty() {
        true => counts(asked, own, members)?,
        false => assigned(state, asked)?,
    };
    let mut settings = Settings::default();
    for config in &asked.configs {
        let name = &*config.name;
        let value = config
            .value
            .as_deref()
            .ok_or_else(|| refused(ResponseError::InvalidConfig, format!("{name} has no value")))?;
        settings
            .set(&call.shared.config, name, value)
            .map_err(|e| refused(ResponseError::InvalidConfig, e.to_string()))?;
    }
    let mut created = Created {
        id: Uuid::nil(),
        partitions: partitions as usize,
        replicas: i16::try_from(replicas).unwrap_or(i16::MAX),
        settings,
        declared: None,
    };
    if !validate_only {
        let (topic, declared) = define(call, parts, settings.spec(partitions)).await?;
        created.id = topic.uuid;
        created.partitions = topic.partitions.len();
        created.declared = Some(declared);
    }
    Ok(created)
}

async fn define(call: &Call, parts: Parts<'_>, spec: TopicSpec) -> Result<(Arc<Topic>, Declared), Refused> {
    let command = Command::DefineTopic {
        namespace: parts.namespace.to_owned(),
        database: parts.database.to_owned(),
        name: parts.topic.to_owned(),
        if_not_exists: false,
        spec,
        uuid: Uuid::new_v4(),
        now_ms: now_ms(),
    };
    match call.broker().declare_here(command).await {
        Ok((Reply::Topic(topic), declared)) => Ok((topic, declared)),
        Ok(_) => Err(refused(ResponseError::RequestTimedOut, "the catalog gave no topic")),
        Err(error) => Err(by_catalog(&error)),
    }
}

/// Partitions and replicas by number; -1 is the default of each (KIP-464).
fn counts(asked: &CreatableTopic, own: usize, members: usize) -> Result<(u32, usize), Refused> {
    let partitions = match asked.num_partitions {
        -1 => 1,
        n @ 1.. => n as u32,
        n => {
            let why = format!("{n} partitions: at least 1, or -1 for the default");
            return Err(refused(ResponseError::InvalidPartitions, why));
        }
    };
    if partitions > cluster::catalog::MAX_PARTITIONS {
        let why = format!("a topic has at most {} partitions", cluster::catalog::MAX_PARTITIONS);
        return Err(refused(ResponseError::InvalidPartitions, why));
    }
    let replicas = match asked.replication_factor {
        -1 => own,
        n @ 1.. if (n as usize) <= members => n as usize,
        n => {
            let why = format!("replication factor {n}: 1 to {members}, or -1 for the namespace's");
            return Err(refused(ResponseError::InvalidReplicationFactor, why));
        }
    };
    Ok((partitions, replicas))
}

/// Partitions by assignment. Placement is the store's own; what is named must make sense all the same.
fn assigned(state: &State, asked: &CreatableTopic) -> Result<(u32, usize), Refused> {
    if asked.num_partitions != -1 || asked.replication_factor != -1 {
        let why = "assignments and numbers exclude each other";
        return Err(refused(ResponseError::InvalidRequest, why));
    }
    let wrong = |why: &str| Err(refused(ResponseError::InvalidReplicaAssignment, why));
    let mut indexes: Vec<i32> = asked.assignments.iter().map(|a| a.partition_index).collect();
    indexes.sort_unstable();
    if !indexes.iter().copied().eq(0..indexes.len() as i32) {
        return wrong("partitions are numbered from 0 without gaps");
    }
    let replicas = asked.assignments[0].broker_ids.len();
    for assignment in &asked.assignments {
        check_brokers(state, &assignment.broker_ids)?;
        if assignment.broker_ids.len() != replicas {
            return wrong("all partitions have equally many replicas");
        }
    }
    if indexes.len() > cluster::catalog::MAX_PARTITIONS as usize {
        let why = format!("a topic has at most {} partitions", cluster::catalog::MAX_PARTITIONS);
        return Err(refused(ResponseError::InvalidPartitions, why));
    }
    Ok((indexes.len() as u32, replicas))
}

fn check_brokers(state: &State, brokers: &[BrokerId]) -> Result<(), Refused> {
    let known = |broker: &BrokerId| state.members().any(|m| m.broker.0 == broker.0);
    let why = if brokers.is_empty() {
        "a partition has at least one replica"
    } else if !brokers.iter().all(known) {
        "a broker that is none"
    } else if counted(brokers.iter()).values().any(|n| *n > 1) {
        "a broker holds a partition once"
    } else {
        return Ok(());
    };
    Err(refused(ResponseError::InvalidReplicaAssignment, why))
}

pub(crate) async fn delete_topics(call: &Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    let state = call.view();
    let access = Access::new(call, &state);
    let asked: Vec<DeleteTopicState> = match call.version {
        6.. => request.topics,
        _ => request
            .topic_names
            .into_iter()
            .map(|name| DeleteTopicState::default().with_name(Some(name)))
            .collect(),
    };
    let counts = counted(asked.iter().map(|t| (t.name.clone(), t.topic_id)));
    let mut told = std::collections::HashSet::new();
    let asked = asked.into_iter().filter(|t| told.insert((t.name.clone(), t.topic_id)));
    let work = asked.map(|asked| {
        let (access, repeated) = (&access, counts[&(asked.name.clone(), asked.topic_id)] > 1);
        async move {
            let found = match repeated {
                true => Err(refused(
                    ResponseError::InvalidRequest,
                    "the topic is named more than once",
                )),
                false => to_delete(access, &asked),
            };
            let (name, id, outcome) = match found {
                Ok(topic) => {
                    let name = asked
                        .name
                        .unwrap_or_else(|| TopicName(StrBytes::from_string(topic.full_name())));
                    let id = topic.uuid;
                    let outcome = call.broker().drop_topic(topic).await.map_err(|e| by_catalog(&e));
                    (Some(name), id, outcome)
                }
                Err(refused) => (asked.name, asked.topic_id, Err(refused)),
            };
            let result = DeletableTopicResult::default().with_name(name).with_topic_id(id);
            match outcome {
                Ok(()) => result,
                Err((error, why)) => result
                    .with_error_code(error.code())
                    .with_error_message(Some(StrBytes::from_string(why))),
            }
        }
    });
    DeleteTopicsResponse::default().with_responses(join_all(work).await)
}

fn to_delete(access: &Access<'_>, asked: &DeleteTopicState) -> Result<Arc<Topic>, Refused> {
    match &asked.name {
        Some(_) if !asked.topic_id.is_nil() => Err(refused(
            ResponseError::InvalidRequest,
            "a topic is named or given by id, not both",
        )),
        Some(name) => to_declare(access, name).cloned(),
        None if asked.topic_id.is_nil() => Err(refused(ResponseError::InvalidRequest, "neither a name nor an id")),
        None => match access.topic_by_id(Action::Declare, asked.topic_id) {
            Ok(topic) => Ok(topic.clone()),
            Err(error) => Err(refused(
                error,
                match error {
                    ResponseError::UnknownTopicId => "no topic has this id".to_owned(),
                    error => errors::sentence(error),
                },
            )),
        },
    }
}

/// The topic that is named, if the caller may change what is declared of it.
fn to_declare<'s>(access: &Access<'s>, name: &str) -> Result<&'s Arc<Topic>, Refused> {
    access
        .topic(Action::Declare, name)
        .map_err(|error| (error, errors::sentence(error)))
}

pub(crate) async fn create_partitions(call: &Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse {
    let state = call.view();
    let access = Access::new(call, &state);
    let counts = counted(request.topics.iter().map(|t| t.name.clone()));
    let mut told = std::collections::HashSet::new();
    let topics = request.topics.into_iter().filter(|t| told.insert(t.name.clone()));
    let work = topics.map(|asked| {
        let (access, repeated) = (&access, counts[&asked.name] > 1);
        async move {
            let outcome = match repeated {
                true => Err(refused(
                    ResponseError::InvalidRequest,
                    "the topic is named more than once",
                )),
                false => grow(call, access, &asked, request.validate_only).await,
            };
            let result = CreatePartitionsTopicResult::default().with_name(asked.name);
            match outcome {
                Ok(()) => result,
                Err((error, why)) => result
                    .with_error_code(error.code())
                    .with_error_message(Some(StrBytes::from_string(why))),
            }
        }
    });
    CreatePartitionsResponse::default().with_results(join_all(work).await)
}

async fn grow(
    call: &Call,
    access: &Access<'_>,
    asked: &CreatePartitionsTopic,
    validate_only: bool,
) -> Result<(), Refused> {
    let topic = to_declare(access, &asked.name)?;
    let now = topic.partitions.len();
    let wanted = usize::try_from(asked.count).unwrap_or(0);
    if wanted <= now || wanted > cluster::catalog::MAX_PARTITIONS as usize {
        let why = format!(
            "the topic has {now} partitions, which only grow; {} are none",
            asked.count
        );
        return Err(refused(ResponseError::InvalidPartitions, why));
    }
    if let Some(assignments) = &asked.assignments {
        if assignments.len() != wanted - now {
            let why = format!("{} assignments for {} new partitions", assignments.len(), wanted - now);
            return Err(refused(ResponseError::InvalidReplicaAssignment, why));
        }
        for assignment in assignments {
            check_brokers(access.state(), &assignment.broker_ids)?;
        }
    }
    if validate_only {
        return Ok(());
    }
    let command = Command::AlterTopic {
        topic: topic.id,
        changes: vec![TopicChange::Partitions(wanted as u32)],
    };
    call.broker()
        .declare(command)
        .await
        .map(drop)
        .map_err(|e| by_catalog(&e))
}

pub(crate) async fn delete_records(call: &Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse {
    let state = call.view();
    let access = Access::new(call, &state);
    let named = request.topics.into_iter().filter(|t| !t.partitions.is_empty());
    let work = named.map(|asked| {
        let topic = access.topic(Action::Declare, &asked.name);
        async move {
            let partitions = asked.partitions.iter().map(|partition| {
                let topic = topic.as_ref().map_err(|e| *e);
                async move {
                    let outcome = match topic {
                        Ok(topic) => trim(call, topic, partition.partition_index, partition.offset).await,
                        Err(error) => Err(error),
                    };
                    let result =
                        DeleteRecordsPartitionResult::default().with_partition_index(partition.partition_index);
                    match outcome {
                        Ok(low) => result.with_low_watermark(low),
                        Err(error) => result.with_low_watermark(-1).with_error_code(error.code()),
                    }
                }
            });
            let partitions = join_all(partitions).await;
            DeleteRecordsTopicResult::default()
                .with_name(asked.name)
                .with_partitions(partitions)
        }
    });
    DeleteRecordsResponse::default().with_topics(join_all(work).await)
}

/// Moves the log start; -1 means the high watermark.
async fn trim(call: &Call, topic: &Arc<Topic>, partition: i32, offset: i64) -> Result<i64, ResponseError> {
    let index = partitions::index(topic, partition)?;
    let to = match offset {
        -1 => None,
        0.. => Some(offset),
        _ => return Err(ResponseError::OffsetOutOfRange),
    };
    let trimmed = call.shared.broker.delete_records(topic, index, to).await;
    trimmed.map_err(|e| errors::delete(&e))
}
