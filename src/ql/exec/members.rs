//! The cluster's members: declared, and told of.

use super::super::ast::{DefineReplica, MemberRole, ReplicaChange as Change, Statement};
use super::super::error::ErrorKind;
use super::super::value::{Object, Value};
use super::Engine;
use cluster::catalog::{Command, KafkaAt, Member, MemberCommand, ReplicaChange, ReplicaSpec, Roles, Standing, State};
use cluster::ids::NodeId;
use cluster::membership::{MemberState, Overview};

/// The command that a statement about members makes on `node`; `None` if it is about something else.
pub(super) fn member_command(statement: &Statement, node: NodeId) -> Option<Result<Command, ErrorKind>> {
    let command = match statement {
        Statement::DefineReplica(define) => define_replica(define),
        Statement::AlterReplica { name, change } => Ok(MemberCommand::Alter {
            name: name.clone(),
            change: altered(change),
        }),
        Statement::DropReplica(name) => Ok(MemberCommand::Drop { name: name.clone() }),
        Statement::DefineNodeRoles(given) => Ok(MemberCommand::NodeRoles {
            node,
            roles: roles(given),
        }),
        _ => return None,
    };
    Some(command.map(Command::Member))
}

fn define_replica(define: &DefineReplica) -> Result<MemberCommand, ErrorKind> {
    let node = define.node.as_deref().map(str::parse).transpose();
    Ok(MemberCommand::Define {
        spec: ReplicaSpec {
            name: define.name.clone(),
            at: define.at.clone(),
            clients_at: define.clients_at.clone(),
            http_at: define.http_at.clone(),
            kafka_at: define.kafka_at.clone(),
            node: node.map_err(|_| ErrorKind::InvalidValue("a node id is 32 hex digits".to_owned()))?,
            roles: define.roles.as_deref().map(roles),
        },
        if_not_exists: define.if_not_exists,
    })
}

fn altered(change: &Change) -> ReplicaChange {
    match change {
        Change::At(at) => ReplicaChange::At(at.clone()),
        Change::ClientsAt(at) => ReplicaChange::ClientsAt(at.clone()),
        Change::HttpAt(at) => ReplicaChange::HttpAt(at.clone()),
        Change::KafkaAt(at) => ReplicaChange::KafkaAt(at.clone()),
        Change::Roles(given) => ReplicaChange::Roles(roles(given)),
        Change::Leads(count) => ReplicaChange::Leads(*count),
    }
}

fn roles(given: &[MemberRole]) -> Roles {
    Roles {
        serving: given.contains(&MemberRole::Serving),
        writable: given.contains(&MemberRole::Writable),
        coordinating: given.contains(&MemberRole::Coordinating),
    }
}

/// Whether a statement changes the store, so that a member must be `writable` to take it. What gives members their roles
/// is taken everywhere: nobody is to lock the store for good.
pub(super) fn needs_writable(statement: &Statement) -> bool {
    match statement {
        Statement::DefineReplica(_)
        | Statement::AlterReplica { .. }
        | Statement::DropReplica(_)
        | Statement::DefineNodeRoles(_)
        | Statement::Use { .. }
        | Statement::Info(_)
        | Statement::Begin
        | Statement::Commit
        | Statement::Cancel => false,
        Statement::Read(read) => read.consumer.is_some(),
        _ => true,
    }
}

impl Engine {
    /// Refuses what changes the store on a member that is not `writable`.
    pub(super) fn check_writable(&self, statement: &Statement, view: &State) -> Result<(), ErrorKind> {
        match self.takes_writes(view) || !needs_writable(statement) {
            true => Ok(()),
            false => Err(ErrorKind::NotWritable),
        }
    }

    /// Whether the node's roles let it take writes.
    pub(super) fn takes_writes(&self, view: &State) -> bool {
        let member = view.member(self.settings.node);
        member.is_none_or(|member| member.roles.writable)
    }

    pub(super) fn info_node(&self, view: &State) -> Value {
        let members: Vec<Value> = match &self.members {
            Some(members) => members.overview(view).iter().map(seen).collect(),
            None => view.members().map(|member| Value::Object(declared(member))).collect(),
        };
        let broker = view.member(self.settings.node).map(|member| i64::from(member.broker.0));
        Value::object([
            ("broker", broker.into()),
            ("members", Value::Array(members)),
            ("node", self.settings.node.to_string().into()),
            ("version", env!("CARGO_PKG_VERSION").into()),
        ])
    }
}

/// What is known of a member.
fn seen(overview: &Overview) -> Value {
    let mut facts = declared(&overview.member);
    let (state, more) = match &overview.state {
        MemberState::Joining(why) => ("joining", why.as_ref().map(|why| ("why", Value::from(why.clone())))),
        MemberState::CatchingUp(bytes) => ("catching up", Some(("bytes_left", Value::from(*bytes)))),
        MemberState::Voting => ("voting", None),
        MemberState::Following => ("following", None),
        MemberState::Unreachable => ("unreachable", None),
        MemberState::Draining => ("draining", None),
    };
    let mut tell = |name: &str, value: Value| facts.insert(name.to_owned(), value);
    tell("state", state.into());
    tell("lag", overview.lag.into());
    tell(
        "leading",
        Value::Int(i64::try_from(overview.leading).unwrap_or(i64::MAX)),
    );
    if let Some((name, value)) = more {
        tell(name, value);
    }
    Value::Object(facts)
}

/// What the catalog says of a member.
fn declared(member: &Member) -> Object {
    let kafka = match &member.kafka {
        KafkaAt::Hidden => Value::None,
        KafkaAt::Told | KafkaAt::At(_) => member.kafka_address().map(shown).into(),
    };
    let state = match member.standing {
        Standing::Declared => "joining",
        Standing::Joined => "voting",
        Standing::Leaving => "draining",
    };
    let facts = [
        ("at", member.at.clone().into()),
        ("broker", Value::Int(member.broker.0.into())),
        (
            "clients_at",
            member.clients_at.clone().or_else(|| member.told.serve.clone()).into(),
        ),
        ("http_at", member.http_at.clone().into()),
        ("kafka_at", kafka),
        ("leads", member.leads.into()),
        ("name", member.name.clone().into()),
        ("node", member.node.map(|node| node.to_string()).into()),
        ("roles", Value::Array(member.roles.names().map(Value::from).collect())),
        ("state", state.into()),
    ];
    let given = facts.into_iter().filter(|(_, value)| *value != Value::None);
    given.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn shown((host, port): &(String, u16)) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}
