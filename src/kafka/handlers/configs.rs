//! DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44).

use crate::auth::Action;
use crate::kafka::access::Access;
use crate::kafka::call::Call;
use crate::kafka::errors;
use crate::kafka::topic_configs::{
    BROKER_KEYS, Key, Settings, Source, TOPIC_KEYS, Type, broker_value, find, node_value,
};
use cluster::catalog::{Command, State, Topic};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::incremental_alter_configs_request::AlterableConfig;
use kafka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, alter_configs_response,
    incremental_alter_configs_response,
};
use kafka_protocol::protocol::StrBytes;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// Kafka's resource types.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// Operations of IncrementalAlterConfigs.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// A refusal with its sentence.
type Refused = (ResponseError, String);

pub(crate) async fn describe_configs(call: &Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse {
    let state = call.view();
    let access = Access::new(call, &state);
    let (synonyms, docs) = (request.include_synonyms, request.include_documentation);
    let results = request.resources.into_iter().map(|resource| {
        let asked = resource.configuration_keys;
        // No keys are all keys, null or not.
        let asked = asked.filter(|keys| !keys.is_empty());
        let wanted = |name: &str| asked.as_ref().is_none_or(|keys| keys.iter().any(|k| &**k == name));
        let described = match resource.resource_type {
            TOPIC => topic(&access, Action::Describe, &resource.resource_name)
                .map(|topic| describe_topic(call, topic, wanted, synonyms, docs)),
            BROKER => cluster(&access, Action::Describe)
                .and_then(|()| is_this_broker(call, &state, &resource.resource_name))
                .map(|named| describe_broker(call, named, wanted, synonyms, docs)),
            other => Err((
                ResponseError::InvalidRequest,
                format!("resource type {other} has no configuration here"),
            )),
        };
        let result = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name);
        match described {
            Ok(configs) => result.with_configs(configs),
            Err((error, why)) => result
                .with_error_code(error.code())
                .with_error_message(Some(StrBytes::from_string(why))),
        }
    });
    DescribeConfigsResponse::default().with_results(results.collect())
}

fn topic<'s>(access: &Access<'s>, action: Action, name: &str) -> Result<&'s Arc<Topic>, Refused> {
    let found = access.topic(action, name);
    found.map_err(|error| (error, errors::sentence(error)))
}

fn cluster(access: &Access<'_>, action: Action) -> Result<(), Refused> {
    let may = access.cluster(action);
    may.map_err(|error| (error, errors::sentence(error)))
}

/// Whether the resource is this broker (true) or all brokers (false).
fn is_this_broker(call: &Call, state: &State, name: &str) -> Result<bool, Refused> {
    if name.is_empty() {
        return Ok(false);
    }
    let own = state.member(call.shared.node).map(|m| m.broker.0);
    match name.parse::<i32>() {
        Ok(id) if Some(id) == own => Ok(true),
        _ => Err((
            ResponseError::InvalidRequest,
            format!("this is broker {}, not {name:?}", own.unwrap_or(-1)),
        )),
    }
}

fn describe_topic(
    call: &Call,
    topic: &Topic,
    wanted: impl Fn(&str) -> bool,
    synonyms: bool,
    docs: bool,
) -> Vec<DescribeConfigsResourceResult> {
    let config = &call.shared.config;
    let settings = Settings::of(topic);
    let keys = TOPIC_KEYS.iter().filter(|key| wanted(key.name));
    keys.map(|key| {
        let (value, source) = settings.value(config, key);
        let mut also = Vec::new();
        if synonyms {
            if source == Source::Topic {
                also.push(synonym(key.name, &value, source));
            }
            if let Some(broker_key) = key.broker_key {
                let (value, source) = node_value(config, key);
                also.push(synonym(broker_key, &value, source));
            }
        }
        entry(call, key, key.name, value, source, false, also, docs)
    })
    .collect()
}

/// All brokers together have no configuration of their own: nothing can be set at run time.
fn describe_broker(
    call: &Call,
    named: bool,
    wanted: impl Fn(&str) -> bool,
    synonyms: bool,
    docs: bool,
) -> Vec<DescribeConfigsResourceResult> {
    if !named {
        return Vec::new();
    }
    let config = &call.shared.config;
    let topics = TOPIC_KEYS.iter().filter_map(|key| {
        let name = key.broker_key?;
        let (value, source) = node_value(config, key);
        Some((key, name, value, source))
    });
    let own = BROKER_KEYS.iter().map(|key| {
        let (value, source) = broker_value(config, key);
        (key, key.name, value, source)
    });
    let mut entries: Vec<_> = topics
        .chain(own)
        .filter(|(_, name, ..)| wanted(name))
        .map(|(key, name, value, source)| {
            let also = match synonyms {
                true => vec![synonym(name, &value, source)],
                false => Vec::new(),
            };
            entry(call, key, name, value, source, true, also, docs)
        })
        .collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

fn synonym(name: &'static str, value: &str, source: Source) -> DescribeConfigsSynonym {
    DescribeConfigsSynonym::default()
        .with_name(StrBytes::from_static_str(name))
        .with_value(Some(StrBytes::from_string(value.to_owned())))
        .with_source(source as i8)
}

#[allow(clippy::too_many_arguments)]
fn entry(
    call: &Call,
    key: &Key,
    name: &'static str,
    value: String,
    source: Source,
    read_only: bool,
    synonyms: Vec<DescribeConfigsSynonym>,
    docs: bool,
) -> DescribeConfigsResourceResult {
    let entry = DescribeConfigsResourceResult::default()
        .with_name(StrBytes::from_static_str(name))
        .with_value(Some(StrBytes::from_string(value)))
        .with_read_only(read_only)
        .with_config_source(source as i8)
        .with_synonyms(synonyms);
    match call.version {
        3.. => entry
            .with_config_type(key.kind as i8)
            .with_documentation(docs.then(|| StrBytes::from_static_str(key.doc))),
        _ => entry,
    }
}

pub(crate) async fn incremental_alter_configs(
    call: &Call,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let mut response = IncrementalAlterConfigsResponse::default();
    let resources = request.resources.iter();
    let twice = repeated(resources.map(|r| (r.resource_type, r.resource_name.clone())));
    for resource in request.resources {
        let fold = |settings: &mut Settings| fold(call, settings, &resource.configs);
        let names = resource.configs.iter().map(|c| &*c.name);
        let outcome = match no_repeat(names) {
            Ok(()) if twice.contains(&(resource.resource_type, resource.resource_name.clone())) => Err((
                ResponseError::InvalidRequest,
                format!("{} is named more than once", resource.resource_name),
            )),
            Ok(()) => {
                alter(
                    call,
                    resource.resource_type,
                    &resource.resource_name,
                    request.validate_only,
                    false,
                    fold,
                )
                .await
            }
            Err(refused) => Err(refused),
        };
        let (code, why) = told(outcome);
        response.responses.push(
            incremental_alter_configs_response::AlterConfigsResourceResponse::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name)
                .with_error_code(code)
                .with_error_message(why),
        );
    }
    response
}

/// The whole set is replaced: what is not named goes back to the node's value.
pub(crate) async fn alter_configs(call: &Call, request: AlterConfigsRequest) -> AlterConfigsResponse {
    let mut response = AlterConfigsResponse::default();
    for resource in request.resources {
        let set = |settings: &mut Settings| -> Result<(), Refused> {
            for config in &resource.configs {
                set(call, settings, &config.name, config.value.as_deref())?;
            }
            Ok(())
        };
        let names = resource.configs.iter().map(|c| &*c.name);
        let outcome = match no_repeat(names) {
            Ok(()) => {
                alter(
                    call,
                    resource.resource_type,
                    &resource.resource_name,
                    request.validate_only,
                    true,
                    set,
                )
                .await
            }
            Err(refused) => Err(refused),
        };
        let (code, why) = told(outcome);
        response.responses.push(
            alter_configs_response::AlterConfigsResourceResponse::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name)
                .with_error_code(code)
                .with_error_message(why),
        );
    }
    response
}

fn told(outcome: Result<(), Refused>) -> (i16, Option<StrBytes>) {
    match outcome {
        Ok(()) => (0, None),
        Err((error, why)) => (error.code(), Some(StrBytes::from_string(why))),
    }
}

/// What comes more than once.
fn repeated<K: Hash + Eq + Clone>(keys: impl Iterator<Item = K>) -> HashSet<K> {
    let mut seen = HashSet::new();
    keys.filter(|key| !seen.insert(key.clone())).collect()
}

fn no_repeat<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Refused> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err((ResponseError::InvalidRequest, format!("{name} is named more than once")));
        }
    }
    Ok(())
}

async fn alter(
    call: &Call,
    kind: i8,
    name: &str,
    validate_only: bool,
    replace: bool,
    change: impl FnOnce(&mut Settings) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let state = call.view();
    let access = Access::new(call, &state);
    match kind {
        TOPIC => {}
        BROKER => {
            cluster(&access, Action::Administer)?;
            is_this_broker(call, &state, name)?;
            let why = "a broker's configuration is given at its start".to_owned();
            return Err((ResponseError::InvalidRequest, why));
        }
        other => {
            let why = format!("resource type {other} has no configuration here");
            return Err((ResponseError::InvalidRequest, why));
        }
    }
    let topic = topic(&access, Action::Declare, name)?;
    let before = Settings::of(topic);
    let mut after = if replace { Settings::default() } else { before };
    change(&mut after)?;
    let changes = after.changes(&before);
    if validate_only || changes.is_empty() {
        return Ok(());
    }
    let command = Command::AlterTopic {
        topic: topic.id,
        changes,
    };
    match call.broker().declare(command).await {
        Ok(_) => Ok(()),
        Err(error) => Err((errors::catalog(&error), error.to_string())),
    }
}

fn set(call: &Call, settings: &mut Settings, name: &str, value: Option<&str>) -> Result<(), Refused> {
    let value = value.ok_or_else(|| (ResponseError::InvalidRequest, format!("{name} has no value")))?;
    settings
        .set(&call.shared.config, name, value)
        .map_err(|e| (ResponseError::InvalidConfig, e.to_string()))
}

fn fold(call: &Call, settings: &mut Settings, configs: &[AlterableConfig]) -> Result<(), Refused> {
    for config in configs {
        let name = &*config.name;
        match config.config_operation {
            SET => set(call, settings, name, config.value.as_deref())?,
            DELETE => settings.unset(name),
            APPEND | SUBTRACT => change_list(call, settings, config)?,
            other => {
                let why = format!("operation {other} on {name} is none");
                return Err((ResponseError::InvalidRequest, why));
            }
        }
    }
    Ok(())
}

/// `cleanup.policy` and the throttles are lists, each fixed; an operation that leaves one as it is succeeds.
fn change_list(call: &Call, settings: &mut Settings, config: &AlterableConfig) -> Result<(), Refused> {
    let invalid = |why: String| (ResponseError::InvalidConfig, why);
    let key = find(&config.name).map_err(|e| invalid(e.to_string()))?;
    if key.kind != Type::List {
        return Err(invalid(format!("{} is no list", key.name)));
    }
    let mut items: Vec<&str> = key.default.split(',').filter(|i| !i.is_empty()).collect();
    let named = config
        .value
        .as_deref()
        .ok_or_else(|| (ResponseError::InvalidRequest, format!("{} has no value", key.name)))?;
    for item in named.split(',').map(str::trim).filter(|i| !i.is_empty()) {
        match config.config_operation {
            APPEND if !items.contains(&item) => items.push(item),
            SUBTRACT => items.retain(|i| *i != item),
            _ => {}
        }
    }
    set(call, settings, key.name, Some(&items.join(",")))
}
