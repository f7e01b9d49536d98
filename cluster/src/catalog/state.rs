//! The catalog's state: persistent maps, so that a view is a cheap clone and stays as it is while held.

use super::command::{Command, Reply, TopicChange, TopicSpec};
use super::error::{CatalogError, Kind};
use super::model::{Acknowledge, Database, Namespace, RangeRow, Scope, Topic, User};
use super::replica::Member;
use super::sign_ins::SignIns;
use crate::ids::{BrokerId, DatabaseId, NamespaceId, NodeId, RangeId, TopicId};
use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;

mod pool;
mod replicas;

/// Most partitions one topic may have.
pub const MAX_PARTITIONS: u32 = 100_000;
/// Most bytes in a name.
const MAX_NAME: usize = 200;

/// Everything declared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    store: Option<Uuid>,
    members: OrdMap<BrokerId, Arc<Member>>,
    banned: OrdSet<NodeId>,
    namespaces: OrdMap<String, Arc<Namespace>>,
    databases: OrdMap<(NamespaceId, String), Arc<Database>>,
    topics: OrdMap<(DatabaseId, String), Arc<Topic>>,
    topics_by_id: OrdMap<TopicId, Arc<Topic>>,
    topics_by_uuid: OrdMap<Uuid, Arc<Topic>>,
    ranges: OrdMap<RangeId, Arc<RangeRow>>,
    groups: OrdMap<String, NamespaceId>,
    pub(super) users: OrdMap<String, Arc<User>>,
    pub(super) sign_ins: SignIns,
    pub(super) next: Next,
    version: u64,
}

/// The next number of each kind of identity; numbers are never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Next {
    namespace: u32,
    database: u32,
    topic: u64,
    broker: i32,
    range: u32,
    producer_id: i64,
    pub(super) user: u64,
}

impl Default for Next {
    fn default() -> Self {
        Self {
            namespace: 1,
            database: 1,
            topic: 1,
            broker: 1,
            range: 1,
            producer_id: 1000,
            user: 1,
        }
    }
}

/// The state as rows, as it is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct Rows {
    #[serde(default)]
    store: Option<Uuid>,
    members: Vec<Arc<Member>>,
    #[serde(default)]
    banned: Vec<NodeId>,
    namespaces: Vec<Arc<Namespace>>,
    databases: Vec<Arc<Database>>,
    topics: Vec<Arc<Topic>>,
    ranges: Vec<Arc<RangeRow>>,
    groups: Vec<(String, NamespaceId)>,
    #[serde(default)]
    users: Vec<Arc<User>>,
    #[serde(default)]
    sign_ins: SignIns,
    next: Next,
    version: u64,
}

impl From<&State> for Rows {
    fn from(s: &State) -> Self {
        Self {
            store: s.store,
            members: s.members.values().cloned().collect(),
            banned: s.banned.iter().copied().collect(),
            namespaces: s.namespaces.values().cloned().collect(),
            databases: s.databases.values().cloned().collect(),
            topics: s.topics.values().cloned().collect(),
            ranges: s.ranges.values().cloned().collect(),
            groups: s.groups.iter().map(|(k, v)| (k.clone(), *v)).collect(),
            users: s.users.values().cloned().collect(),
            sign_ins: s.sign_ins.clone(),
            next: s.next,
            version: s.version,
        }
    }
}

impl From<Rows> for State {
    fn from(r: Rows) -> Self {
        Self {
            store: r.store,
            members: r.members.into_iter().map(|m| (m.broker, m)).collect(),
            banned: r.banned.into_iter().collect(),
            namespaces: r.namespaces.into_iter().map(|n| (n.name.clone(), n)).collect(),
            databases: r
                .databases
                .into_iter()
                .map(|d| ((d.namespace, d.name.clone()), d))
                .collect(),
            topics_by_id: r.topics.iter().map(|t| (t.id, t.clone())).collect(),
            topics_by_uuid: r.topics.iter().map(|t| (t.uuid, t.clone())).collect(),
            topics: r
                .topics
                .into_iter()
                .map(|t| ((t.database, t.name.clone()), t))
                .collect(),
            ranges: r.ranges.into_iter().map(|g| (g.id, g)).collect(),
            groups: r.groups.into_iter().collect(),
            users: r.users.into_iter().map(|u| (u.name.clone(), u)).collect(),
            sign_ins: r.sign_ins,
            next: r.next,
            version: r.version,
        }
    }
}

/// Whether `name` is an identifier: `[A-Za-z_][A-Za-z0-9_]*`, at most 200 bytes.
pub fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= MAX_NAME
        && bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reading.
impl State {
    /// Grows with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The store's identity, once it has one.
    pub fn store(&self) -> Option<Uuid> {
        self.store
    }

    /// The namespaces, by name.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.namespaces.values()
    }

    /// One namespace.
    pub fn namespace(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.namespaces.get(name)
    }

    /// One namespace, by identity.
    pub fn namespace_by_id(&self, id: NamespaceId) -> Option<&Arc<Namespace>> {
        self.namespaces.values().find(|n| n.id == id)
    }

    /// One database, by identity.
    pub fn database_by_id(&self, id: DatabaseId) -> Option<&Arc<Database>> {
        self.databases.values().find(|d| d.id == id)
    }

    /// The databases of a namespace, by name.
    pub fn databases(&self, namespace: NamespaceId) -> impl Iterator<Item = &Arc<Database>> {
        self.databases
            .range((namespace, String::new())..)
            .take_while(move |(k, _)| k.0 == namespace)
            .map(|(_, d)| d)
    }

    /// One database.
    pub fn database(&self, namespace: &str, name: &str) -> Option<&Arc<Database>> {
        let namespace = self.namespaces.get(namespace)?;
        self.databases.get(&(namespace.id, name.to_owned()))
    }

    /// Every topic there is, by database and name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.values()
    }

    /// The topics of a database, by name.
    pub fn topics_in(&self, database: DatabaseId) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics
            .range((database, String::new())..)
            .take_while(move |(k, _)| k.0 == database)
            .map(|(_, t)| t)
    }

    /// One topic, by its three names.
    pub fn topic(&self, namespace: &str, database: &str, name: &str) -> Option<&Arc<Topic>> {
        let database = self.database(namespace, database)?;
        self.topics.get(&(database.id, name.to_owned()))
    }

    /// One topic incarnation.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.topics_by_id.get(&id)
    }

    /// Whether there was such an incarnation and it is no more; false for one this state has not seen yet.
    pub fn was_dropped(&self, id: TopicId) -> bool {
        id.0 < self.next.topic && !self.topics_by_id.contains_key(&id)
    }

    /// One topic incarnation, by the id Kafka clients know.
    pub fn topic_by_uuid(&self, uuid: Uuid) -> Option<&Arc<Topic>> {
        self.topics_by_uuid.get(&uuid)
    }

    /// The data ranges.
    pub fn ranges(&self) -> impl Iterator<Item = &Arc<RangeRow>> {
        self.ranges.values()
    }

    /// Whether the topics are those of `other`, as far as a glance can tell: never wrong about a change between two views,
    /// of which one came from the other.
    pub fn has_topics_of(&self, other: &State) -> bool {
        self.topics.ptr_eq(&other.topics)
    }

    /// The same for users and what they may do.
    pub fn has_users_of(&self, other: &State) -> bool {
        self.users.ptr_eq(&other.users)
    }

    /// The namespace recorded for a group that nothing else decides.
    pub fn group_namespace(&self, group: &str) -> Option<NamespaceId> {
        self.groups.get(group).copied()
    }
}

/// Folding.
impl State {
    /// Applies one command; on a refusal the state is as before.
    pub fn apply(&mut self, command: Command) -> Result<Reply, CatalogError> {
        let mut next = self.clone();
        let reply = next.fold(command)?;
        next.keeps_an_owner(self)?;
        next.version += 1;
        *self = next;
        Ok(reply)
    }

    fn fold(&mut self, command: Command) -> Result<Reply, CatalogError> {
        match command {
            Command::Found { store } => Ok(Reply::Store(*self.store.get_or_insert(store))),
            Command::JoinNode { node } => self.join(node),
            Command::DefineNamespace {
                name,
                if_not_exists,
                replication,
                acknowledge,
            } => self.define_namespace(name, if_not_exists, replication, acknowledge),
            Command::AlterNamespace {
                name,
                replication,
                acknowledge,
            } => {
                let mut row = (**self.find_namespace(&name)?).clone();
                if let Some(replication) = replication {
                    row.replication = check_replication(replication)?;
                }
                row.acknowledge = acknowledge.unwrap_or(row.acknowledge);
                self.namespaces.insert(name, Arc::new(row));
                Ok(Reply::Done)
            }
            Command::DropNamespace { name } => self.drop_namespace(name),
            Command::DefineDatabase {
                namespace,
                name,
                if_not_exists,
            } => self.define_database(&namespace, name, if_not_exists),
            Command::DropDatabase { namespace, name } => self.drop_database(&namespace, name),
            Command::DefineTopic {
                namespace,
                database,
                name,
                if_not_exists,
                spec,
                uuid,
                now_ms,
            } => self
                .define_topic(&namespace, &database, name, if_not_exists, spec, uuid, now_ms)
                .map(Reply::Topic),
            Command::AlterTopic { topic, changes } => self.alter_topic(topic, changes).map(Reply::Topic),
            Command::DropTopic { topic } => self.drop_topic(topic),
            Command::RecordGroup { group, namespace } => {
                let decided = match self.groups.get(&group) {
                    Some(known) if self.namespace_by_id(*known).is_some() => *known,
                    _ => {
                        self.groups.insert(group, namespace);
                        namespace
                    }
                };
                Ok(Reply::Namespace(decided))
            }
            Command::Asked { by, command } => match self.still(by) {
                true => self.fold(*command),
                false => Err(CatalogError::AskerChanged),
            },
            Command::AllocateProducerIds { count } => {
                let first = self.next.producer_id;
                self.next.producer_id = first
                    .checked_add(i64::from(count))
                    .ok_or_else(|| CatalogError::InvalidValue("no producer ids are left".into()))?;
                Ok(Reply::ProducerIds(first))
            }
            Command::DefineUser {
                name,
                if_not_exists,
                only_first,
                scope,
                role,
                hash,
            } => match only_first && !self.users.is_empty() {
                true => Ok(Reply::Done),
                false => self.define_user(name, if_not_exists, &scope, role, hash),
            },
            Command::AlterUser { user, change } => self.alter_user(&user, change),
            Command::DropUser { user } => self.drop_user(&user),
            Command::Grant {
                user,
                topic,
                privileges,
            } => self.grant(&user, topic, privileges),
            Command::Revoke {
                user,
                topic,
                privileges,
            } => self.revoke(&user, topic, privileges),
            Command::CountWrongPassword { name, now_ms } => {
                self.sign_ins.count(&name, now_ms);
                Ok(Reply::Done)
            }
            Command::ForgetWrongPasswords { name } => {
                self.sign_ins.forget(&name);
                Ok(Reply::Done)
            }
            Command::Member(command) => self.change_members(command),
            Command::Together(commands) => commands
                .into_iter()
                .map(|c| self.fold(c))
                .collect::<Result<_, _>>()
                .map(Reply::Together),
        }
    }

    pub(super) fn find_namespace(&self, name: &str) -> Result<&Arc<Namespace>, CatalogError> {
        self.namespaces.get(name).ok_or_else(|| unknown(Kind::Namespace, name))
    }

    fn define_namespace(
        &mut self,
        name: String,
        if_not_exists: bool,
        replication: Option<u8>,
        acknowledge: Acknowledge,
    ) -> Result<Reply, CatalogError> {
        check_name(&name)?;
        if self.namespaces.contains_key(&name) {
            return already(Kind::Namespace, name, if_not_exists);
        }
        let replication = check_replication(replication)?;
        let home = self.pick_home(replication)?;
        let id = NamespaceId(self.next.namespace);
        self.next.namespace += 1;
        self.namespaces.insert(
            name.clone(),
            Arc::new(Namespace {
                id,
                name,
                replication,
                acknowledge,
                home,
            }),
        );
        Ok(Reply::Done)
    }

    fn drop_namespace(&mut self, name: String) -> Result<Reply, CatalogError> {
        let row = self.find_namespace(&name)?.clone();
        still_depended(
            Kind::Namespace,
            &name,
            Kind::Database,
            self.databases(row.id).map(|d| &d.name),
        )?;
        still_depended(
            Kind::Namespace,
            &name,
            Kind::User,
            self.users_on(Scope::Namespace(row.id)),
        )?;
        self.namespaces.remove(&name);
        self.change_range(row.home, |r| r.homes = r.homes.saturating_sub(1));
        self.groups = self
            .groups
            .iter()
            .filter(|(_, id)| **id != row.id)
            .map(|(g, id)| (g.clone(), *id))
            .collect();
        Ok(Reply::Done)
    }

    fn define_database(&mut self, namespace: &str, name: String, if_not_exists: bool) -> Result<Reply, CatalogError> {
        check_name(&name)?;
        let namespace = self.find_namespace(namespace)?.id;
        if self.databases.contains_key(&(namespace, name.clone())) {
            return already(Kind::Database, name, if_not_exists);
        }
        let id = DatabaseId(self.next.database);
        self.next.database += 1;
        self.databases
            .insert((namespace, name.clone()), Arc::new(Database { id, namespace, name }));
        Ok(Reply::Done)
    }

    fn drop_database(&mut self, namespace: &str, name: String) -> Result<Reply, CatalogError> {
        let namespace = self.find_namespace(namespace)?.id;
        let key = (namespace, name);
        let row = self
            .databases
            .get(&key)
            .ok_or_else(|| unknown(Kind::Database, &key.1))?;
        still_depended(
            Kind::Database,
            &key.1,
            Kind::Topic,
            self.topics_in(row.id).map(|t| &t.name),
        )?;
        still_depended(
            Kind::Database,
            &key.1,
            Kind::User,
            self.users_on(Scope::Database(row.id)),
        )?;
        self.databases.remove(&key);
        Ok(Reply::Done)
    }

    #[allow(clippy::too_many_arguments)]
    fn define_topic(
        &mut self,
        namespace: &str,
        database: &str,
        name: String,
        if_not_exists: bool,
        spec: TopicSpec,
        uuid: Uuid,
        now_ms: i64,
    ) -> Result<Arc<Topic>, CatalogError> {
        check_name(&name)?;
        let replication = self.find_namespace(namespace)?.replication;
        let row = self
            .database(namespace, database)
            .ok_or_else(|| unknown(Kind::Database, database))?
            .clone();
        if let Some(there) = self.topics.get(&(row.id, name.clone())) {
            return match if_not_exists {
                true => Ok(there.clone()),
                false => Err(CatalogError::NameTaken {
                    kind: Kind::Topic,
                    name,
                }),
            };
        }
        check_partitions(spec.partitions, 1)?;
        let id = TopicId(self.next.topic);
        self.next.topic += 1;
        let mut topic = Topic {
            id,
            uuid,
            namespace: row.namespace,
            database: row.id,
            namespace_name: namespace.to_owned(),
            database_name: database.to_owned(),
            name,
            partitions: Vec::new(),
            by: spec.by,
            retain_ms: spec.retain_ms,
            retain_bytes: spec.retain_bytes,
            max_bytes: spec.max_bytes,
            log_append_time: spec.log_append_time,
            created_ms: now_ms,
        };
        self.deal(replication, &mut topic.partitions, spec.partitions);
        Ok(self.put_topic(topic))
    }

    fn put_topic(&mut self, topic: Topic) -> Arc<Topic> {
        let topic = Arc::new(topic);
        self.topics.insert((topic.database, topic.name.clone()), topic.clone());
        self.topics_by_id.insert(topic.id, topic.clone());
        self.topics_by_uuid.insert(topic.uuid, topic.clone());
        topic
    }

    fn alter_topic(&mut self, id: TopicId, changes: Vec<TopicChange>) -> Result<Arc<Topic>, CatalogError> {
        let mut topic = (**self
            .topics_by_id
            .get(&id)
            .ok_or_else(|| unknown(Kind::Topic, &id.to_string()))?)
        .clone();
        for change in changes {
            match change {
                TopicChange::Partitions(count) => {
                    check_partitions(count, topic.partitions.len() as u32 + 1)?;
                    let namespace = self.namespace_by_id(topic.namespace);
                    let replication = namespace.and_then(|n| n.replication);
                    self.deal(replication, &mut topic.partitions, count);
                }
                TopicChange::RetainMs(v) => topic.retain_ms = v,
                TopicChange::RetainBytes(v) => topic.retain_bytes = v,
                TopicChange::MaxBytes(v) => topic.max_bytes = v,
                TopicChange::LogAppendTime(v) => topic.log_append_time = v,
            }
        }
        Ok(self.put_topic(topic))
    }

    fn drop_topic(&mut self, id: TopicId) -> Result<Reply, CatalogError> {
        let topic = self
            .topics_by_id
            .remove(&id)
            .ok_or_else(|| unknown(Kind::Topic, &id.to_string()))?;
        self.topics_by_uuid.remove(&topic.uuid);
        self.topics.remove(&(topic.database, topic.name.clone()));
        self.drop_grants(topic.id);
        for range in &topic.partitions {
            self.change_range(*range, |r| r.partitions = r.partitions.saturating_sub(1));
        }
        Ok(Reply::Topic(topic))
    }
}

pub(super) fn unknown(kind: Kind, name: &str) -> CatalogError {
    CatalogError::Unknown {
        kind,
        name: name.to_owned(),
    }
}

pub(super) fn already(kind: Kind, name: String, if_not_exists: bool) -> Result<Reply, CatalogError> {
    if if_not_exists {
        Ok(Reply::Done)
    } else {
        Err(CatalogError::NameTaken { kind, name })
    }
}

pub(super) fn check_name(name: &str) -> Result<(), CatalogError> {
    if is_identifier(name) {
        Ok(())
    } else {
        Err(CatalogError::BadName {
            name: name.chars().take(MAX_NAME).collect(),
        })
    }
}

fn check_partitions(asked: u32, least: u32) -> Result<(), CatalogError> {
    let why = if asked < least && least > 1 {
        format!("the count only grows, and there are {} now", least - 1)
    } else if asked < least {
        "a topic has at least one".to_owned()
    } else if asked > MAX_PARTITIONS {
        format!("a topic has at most {MAX_PARTITIONS}")
    } else {
        return Ok(());
    };
    Err(CatalogError::InvalidPartitions { asked, why })
}

fn check_replication(replication: Option<u8>) -> Result<Option<u8>, CatalogError> {
    match replication {
        Some(n) if n == 0 || n > pool::MAX_REPLICAS => Err(CatalogError::InvalidValue(format!(
            "replication factor {n} is not in 1..={}",
            pool::MAX_REPLICAS
        ))),
        ok => Ok(ok),
    }
}

fn still_depended<'a>(
    kind: Kind,
    name: &str,
    inside: Kind,
    mut names: impl Iterator<Item = &'a String>,
) -> Result<(), CatalogError> {
    let Some(first) = names.next() else { return Ok(()) };
    let count = 1 + names.count();
    Err(CatalogError::StillDepended {
        kind,
        name: name.to_owned(),
        count,
        inside,
        first: first.clone(),
    })
}

#[cfg(test)]
#[path = "state_test.rs"]
mod tests;
