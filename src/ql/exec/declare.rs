//! Declarations as commands of the catalog, one by one or together.

use super::super::ast::{
    AcknowledgeLevel, DefineTopic, NamespaceChange, Replication, Statement, TopicChange as AlterTopic,
};
use super::super::error::ErrorKind;
use super::Session;
use super::members::member_command;
use super::users::user_command;
use cluster::catalog::{Acknowledge, Command, PasswordHash, State, Topic, TopicChange, TopicSpec};
use cluster::ids::NodeId;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// What a declaration comes to.
pub(super) enum Declaration {
    /// A command for the catalog.
    Command(Command),
    /// The topic and all it holds go.
    DropTopic(Arc<Topic>),
}

/// Declarations since BEGIN.
pub(super) struct Group {
    commands: Vec<Command>,
    /// The catalog as it would be with them, so that later ones are judged after earlier ones.
    pending: State,
    /// The catalog as it was at BEGIN.
    before: Arc<State>,
    /// What the audit is told once they are applied.
    told: Vec<String>,
}

impl Group {
    pub(super) fn begin(view: Arc<State>) -> Self {
        Self {
            commands: Vec::new(),
            pending: (*view).clone(),
            before: view,
            told: Vec::new(),
        }
    }

    pub(super) fn pending(&self) -> &State {
        &self.pending
    }

    /// Adds a declaration, or says at once why it will be refused.
    pub(super) fn add(&mut self, declaration: Declaration) -> Result<(), ErrorKind> {
        // Data of a topic dropped here goes in the broker's next round.
        let mut command = match declaration {
            Declaration::DropTopic(topic) => Command::DropTopic { topic: topic.id },
            Declaration::Command(command) => command,
        };
        // A topic's identity is only known once it is there.
        if let Command::AlterTopic { topic, .. } | Command::DropTopic { topic } = &command
            && self.before.topic_by_id(*topic).is_none()
        {
            return Err(ErrorKind::InvalidGroup(
                "a topic declared since BEGIN cannot be altered or dropped before COMMIT",
            ));
        }
        if let Command::Grant { topic, .. } | Command::Revoke { topic, .. } = &command
            && self.before.topic_by_id(*topic).is_none()
        {
            return Err(ErrorKind::InvalidGroup(
                "a topic declared since BEGIN cannot be granted before COMMIT",
            ));
        }
        // So is a user's, but its name will do: nobody else can have declared it in between.
        if let Command::AlterUser { user, .. }
        | Command::DropUser { user }
        | Command::Grant { user, .. }
        | Command::Revoke { user, .. } = &mut command
        {
            user.id = user
                .id
                .filter(|id| self.before.user(&user.name).is_some_and(|before| before.id == *id));
        }
        self.pending.apply(command.clone())?;
        self.commands.push(command);
        Ok(())
    }

    /// Tells the audit of a declaration once all are applied.
    pub(super) fn tell(&mut self, what: String) {
        self.told.push(what);
    }

    /// All of them as one command (`None` if there are none), and what the audit is told then.
    pub(super) fn end(self) -> (Option<Command>, Vec<String>) {
        let command = (!self.commands.is_empty()).then_some(Command::Together(self.commands));
        (command, self.told)
    }
}

/// The declaration a statement makes on `node`; `None` if it makes none. `hash` is that of the password it gives, if it does.
pub(super) fn declaration(
    statement: &Statement,
    session: &Session,
    view: &State,
    node: NodeId,
    hash: Option<&PasswordHash>,
) -> Option<Result<Declaration, ErrorKind>> {
    let command = match statement {
        Statement::DefineNamespace(define) => {
            replicas(define.replication).map(|replication| Command::DefineNamespace {
                name: define.name.clone(),
                if_not_exists: define.if_not_exists,
                replication,
                acknowledge: define.acknowledge.map_or(Acknowledge::Majority, acknowledge),
            })
        }
        Statement::AlterNamespace { name, change } => alter_namespace(name, *change),
        Statement::DropNamespace(name) => Ok(Command::DropNamespace { name: name.clone() }),
        Statement::DefineDatabase { if_not_exists, name } => {
            session.namespace(view).map(|namespace| Command::DefineDatabase {
                namespace,
                name: name.clone(),
                if_not_exists: *if_not_exists,
            })
        }
        Statement::DropDatabase(name) => session.namespace(view).map(|namespace| Command::DropDatabase {
            namespace,
            name: name.clone(),
        }),
        Statement::DefineTopic(define) => define_topic(define, session, view),
        Statement::AlterTopic { name, change } => session.topic(view, name).map(|topic| Command::AlterTopic {
            topic: topic.id,
            changes: vec![alter_topic(*change)],
        }),
        Statement::DropTopic(name) => return Some(session.topic(view, name).map(Declaration::DropTopic)),
        _ => match user_command(statement, session, view, hash.cloned()) {
            Some(command) => command,
            None => member_command(statement, node)?,
        },
    };
    Some(command.map(Declaration::Command))
}

fn alter_namespace(name: &str, change: NamespaceChange) -> Result<Command, ErrorKind> {
    let (replication, level) = match change {
        NamespaceChange::Replication(to) => (Some(replicas(Some(to))?), None),
        NamespaceChange::Acknowledge(to) => (None, Some(acknowledge(to))),
    };
    Ok(Command::AlterNamespace {
        name: name.to_owned(),
        replication,
        acknowledge: level,
    })
}

/// REPLICATION NONE is one replica; without the clause there are as many as members.
fn replicas(replication: Option<Replication>) -> Result<Option<u8>, ErrorKind> {
    match replication {
        None => Ok(None),
        Some(Replication::None) => Ok(Some(1)),
        Some(Replication::Factor(count)) => u8::try_from(count)
            .map(Some)
            .map_err(|_| ErrorKind::InvalidValue(format!("a replication factor of {count} is too large"))),
    }
}

fn acknowledge(level: AcknowledgeLevel) -> Acknowledge {
    match level {
        AcknowledgeLevel::Leader => Acknowledge::Leader,
        AcknowledgeLevel::Majority => Acknowledge::Majority,
    }
}

fn define_topic(define: &DefineTopic, session: &Session, view: &State) -> Result<Command, ErrorKind> {
    let (namespace, database) = session.database(view)?;
    Ok(Command::DefineTopic {
        namespace,
        database,
        name: define.name.clone(),
        if_not_exists: define.if_not_exists,
        spec: TopicSpec {
            partitions: define.partitions.as_ref().map_or(1, |partitions| partitions.count),
            by: define.partitions.as_ref().map(|partitions| partitions.by.clone()),
            retain_ms: define.retain.map(millis),
            retain_bytes: define.retain_bytes,
            max_bytes: define.max_bytes,
            log_append_time: false,
        },
        uuid: Uuid::new_v4(),
        now_ms: super::now_ms(),
    })
}

fn alter_topic(change: AlterTopic) -> TopicChange {
    match change {
        AlterTopic::Partitions(count) => TopicChange::Partitions(count),
        AlterTopic::Retain(time) => TopicChange::RetainMs(time.map(millis)),
        AlterTopic::RetainBytes(bytes) => TopicChange::RetainBytes(Some(bytes)),
        AlterTopic::MaxBytes(bytes) => TopicChange::MaxBytes(Some(bytes)),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
