//! How statements print.

use super::ast::*;
use super::print::{FieldName, Quoted};
use super::value::{Object, Value, duration_text};
use std::fmt::{self, Display, Formatter};

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Use { namespace, database } => {
                f.write_str("USE")?;
                clause(f, "NAMESPACE", namespace)?;
                clause(f, "DATABASE", database)
            }
            Self::DefineNamespace(define) => {
                write!(f, "DEFINE NAMESPACE {}{}", unless(define.if_not_exists), define.name)?;
                clause(f, "REPLICATION", &define.replication)?;
                clause(f, "ACKNOWLEDGE", &define.acknowledge)
            }
            Self::AlterNamespace { name, change } => match change {
                NamespaceChange::Replication(to) => write!(f, "ALTER NAMESPACE {name} REPLICATION {to}"),
                NamespaceChange::Acknowledge(to) => write!(f, "ALTER NAMESPACE {name} ACKNOWLEDGE {to}"),
            },
            Self::DropNamespace(name) => write!(f, "DROP NAMESPACE {name}"),
            Self::DefineDatabase { if_not_exists, name } => {
                write!(f, "DEFINE DATABASE {}{name}", unless(*if_not_exists))
            }
            Self::DropDatabase(name) => write!(f, "DROP DATABASE {name}"),
            Self::DefineTopic(define) => define_topic(f, define),
            Self::AlterTopic { name, change } => {
                write!(f, "ALTER TOPIC {name} ")?;
                match change {
                    TopicChange::Partitions(count) => write!(f, "PARTITIONS {count}"),
                    TopicChange::Retain(None) => f.write_str("RETAIN NONE"),
                    TopicChange::Retain(Some(time)) => write!(f, "RETAIN {}", duration_text(*time)),
                    TopicChange::RetainBytes(bytes) => write!(f, "RETAIN BYTES {bytes}"),
                    TopicChange::MaxBytes(bytes) => write!(f, "MAX BYTES {bytes}"),
                }
            }
            Self::DropTopic(name) => write!(f, "DROP TOPIC {name}"),
            Self::Create { table, id, value } => {
                write!(f, "CREATE {table}")?;
                record_id(f, id.as_ref())?;
                write!(f, " = {}", Fields(value))
            }
            Self::Insert { table, fields, rows } => insert(f, table, fields, rows),
            Self::Change { verb, table, id, value } => {
                write!(f, "{verb} {table}")?;
                record_id(f, id.as_ref())?;
                value.iter().try_for_each(|value| write!(f, " = {}", Fields(value)))
            }
            Self::Read(read) => {
                write!(f, "READ FROM {}", read.topic)?;
                clause(f, "PARTITION", &read.partition)?;
                clause(f, "FOR CONSUMER", &read.consumer.as_deref().map(Quoted))?;
                clause(f, "AFTER", &read.after)?;
                clause(f, "LIMIT", &read.limit)
            }
            Self::DefineGroup(define) => {
                let (group, deadline) = (Quoted(&define.group), duration_text(define.ack_deadline));
                write!(
                    f,
                    "DEFINE GROUP {group} ON TOPIC {} ACK DEADLINE {deadline}",
                    define.topic
                )?;
                clause(f, "DELIVERIES", &define.deliveries)?;
                clause(f, "IN FLIGHT", &define.in_flight)?;
                clause(f, "DEAD LETTER TO", &define.dead_letter)
            }
            Self::AlterGroup { group, topic, start } => {
                write!(f, "ALTER GROUP {} ON TOPIC {topic} START AT {start}", Quoted(group))
            }
            Self::DropGroup { group, topic } => write!(f, "DROP GROUP {} ON TOPIC {topic}", Quoted(group)),
            Self::Acknowledge(ack) => {
                let verb = if ack.nack.is_some() { "NACK" } else { "ACK" };
                write!(f, "{verb} {} FOR CONSUMER {} AT ", ack.topic, Quoted(&ack.group))?;
                list(f, &ack.positions)?;
                let delay = ack.nack.and_then(|nack| nack.delay);
                clause(f, "DELAY", &delay.map(duration_text))
            }
            Self::DefineReplica(define) => define_replica(f, define),
            Self::AlterReplica { name, change } => {
                write!(f, "ALTER REPLICA {name} ")?;
                match change {
                    ReplicaChange::At(at) => write!(f, "AT {}", Quoted(at)),
                    ReplicaChange::ClientsAt(at) => address(f, "CLIENTS", at.as_deref()),
                    ReplicaChange::HttpAt(at) => address(f, "HTTP", at.as_deref()),
                    ReplicaChange::KafkaAt(at) => address(f, "KAFKA", at.as_deref()),
                    ReplicaChange::Roles(roles) => {
                        f.write_str("ROLES ")?;
                        list(f, roles)
                    }
                    ReplicaChange::Leads(None) => f.write_str("LEADS NONE"),
                    ReplicaChange::Leads(Some(count)) => write!(f, "LEADS {count}"),
                }
            }
            Self::DropReplica(name) => write!(f, "DROP REPLICA {name}"),
            Self::DefineNodeRoles(roles) => {
                f.write_str("DEFINE NODE ROLES ")?;
                if roles.is_empty() {
                    f.write_str("NONE")
                } else {
                    list(f, roles)
                }
            }
            Self::DefineUser(define) => {
                write!(f, "DEFINE USER {}{}", unless(define.if_not_exists), define.name)?;
                match &define.scope {
                    Scope::Store => {}
                    Scope::Namespace(namespace) => write!(f, " ON NAMESPACE {namespace}")?,
                    Scope::Database { namespace, database } => write!(f, " ON DATABASE {namespace}.{database}")?,
                }
                write!(f, " ROLE {} ", define.role)?;
                match &define.credential {
                    Credential::Password(_) => write!(f, "PASSWORD {}", Quoted(Secret::REDACTED)),
                    Credential::Hash(_) => write!(f, "PASSHASH {}", Quoted(Secret::REDACTED)),
                }
            }
            Self::AlterUser { name, change } => match change {
                UserChange::Role(role) => write!(f, "ALTER USER {name} SET ROLE {role}"),
                UserChange::Password(_) => write!(f, "ALTER USER {name} SET PASSWORD {}", Quoted(Secret::REDACTED)),
            },
            Self::DropUser(name) => write!(f, "DROP USER {name}"),
            Self::Grant(grant) => {
                f.write_str("GRANT ")?;
                list(f, &grant.privileges)?;
                write!(f, " ON {} TO {}", grant.table, grant.user)
            }
            Self::Revoke(grant) => {
                f.write_str("REVOKE ")?;
                list(f, &grant.privileges)?;
                write!(f, " ON {} FROM {}", grant.table, grant.user)
            }
            Self::Info(info) => {
                f.write_str("INFO FOR ")?;
                match info {
                    Info::Store => f.write_str("STORE"),
                    Info::Namespace => f.write_str("NAMESPACE"),
                    Info::Database => f.write_str("DATABASE"),
                    Info::Topic(topic) => write!(f, "TOPIC {topic}"),
                    Info::Node => f.write_str("NODE"),
                    Info::Users => f.write_str("USERS"),
                    Info::User(user) => write!(f, "USER {user}"),
                    Info::Group(group) => write!(f, "GROUP {}", Quoted(group)),
                }
            }
            Self::Begin => f.write_str("BEGIN"),
            Self::Commit => f.write_str("COMMIT"),
            Self::Cancel => f.write_str("CANCEL"),
        }
    }
}

fn unless(if_not_exists: bool) -> &'static str {
    if if_not_exists { "IF NOT EXISTS " } else { "" }
}

/// ` KEYWORD value`, if there is a value.
fn clause(f: &mut Formatter<'_>, keyword: &str, value: &Option<impl Display>) -> fmt::Result {
    value.iter().try_for_each(|value| write!(f, " {keyword} {value}"))
}

fn list(f: &mut Formatter<'_>, items: &[impl Display]) -> fmt::Result {
    items
        .iter()
        .enumerate()
        .try_for_each(|(at, item)| write!(f, "{}{item}", if at > 0 { ", " } else { "" }))
}

fn address(f: &mut Formatter<'_>, keyword: &str, at: Option<&str>) -> fmt::Result {
    match at {
        Some(at) => write!(f, "{keyword} AT {}", Quoted(at)),
        None => write!(f, "{keyword} NONE"),
    }
}

fn record_id(f: &mut Formatter<'_>, id: Option<&Value>) -> fmt::Result {
    id.iter().try_for_each(|id| write!(f, ":{id}"))
}

/// An object without cloning it into a value.
struct Fields<'a>(&'a Object);

impl Display for Fields<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        super::print::object(f, self.0)
    }
}

fn define_topic(f: &mut Formatter<'_>, define: &DefineTopic) -> fmt::Result {
    write!(f, "DEFINE TOPIC {}{}", unless(define.if_not_exists), define.name)?;
    if let Some(partitions) = &define.partitions {
        write!(f, " PARTITIONS {} BY {}", partitions.count, FieldName(&partitions.by))?;
    }
    clause(f, "RETAIN", &define.retain.map(duration_text))?;
    clause(f, "RETAIN BYTES", &define.retain_bytes)?;
    clause(f, "MAX BYTES", &define.max_bytes)
}

fn insert(f: &mut Formatter<'_>, table: &str, fields: &[String], rows: &[Vec<Value>]) -> fmt::Result {
    write!(f, "INSERT INTO {table} (")?;
    list(f, &fields.iter().map(|name| FieldName(name)).collect::<Vec<_>>())?;
    f.write_str(") VALUES ")?;
    for (at, row) in rows.iter().enumerate() {
        f.write_str(if at > 0 { ", (" } else { "(" })?;
        list(f, row)?;
        f.write_str(")")?;
    }
    Ok(())
}

fn define_replica(f: &mut Formatter<'_>, define: &DefineReplica) -> fmt::Result {
    let (unless, at) = (unless(define.if_not_exists), Quoted(&define.at));
    write!(f, "DEFINE REPLICA {unless}{} AT {at}", define.name)?;
    clause(f, "CLIENTS AT", &define.clients_at.as_deref().map(Quoted))?;
    clause(f, "HTTP AT", &define.http_at.as_deref().map(Quoted))?;
    clause(f, "KAFKA AT", &define.kafka_at.as_deref().map(Quoted))?;
    clause(f, "NODE", &define.node.as_deref().map(Quoted))?;
    if let Some(roles) = &define.roles {
        f.write_str(" ROLES ")?;
        list(f, roles)?;
    }
    Ok(())
}

impl Display for Replication {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("NONE"),
            Self::Factor(count) => write!(f, "FACTOR {count}"),
        }
    }
}

impl Display for AcknowledgeLevel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leader => "LEADER",
            Self::Majority => "MAJORITY",
        })
    }
}

impl Display for ChangeVerb {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Update => "UPDATE",
            Self::Upsert => "UPSERT",
            Self::Delete => "DELETE",
        })
    }
}

impl Display for MemberRole {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serving => "serving",
            Self::Writable => "writable",
            Self::Coordinating => "coordinating",
        })
    }
}

impl Display for UserRole {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Viewer => "viewer",
            Self::Editor => "editor",
            Self::Owner => "owner",
        })
    }
}

impl Display for Privilege {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}
