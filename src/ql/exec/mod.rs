//! Statements carried out. One entrance: [`Engine::execute`].
//!
//! A script is read as a whole, then its statements are carried out one after the other; the first that fails ends it,
//! and what came before it stays done.

mod append;
mod collect;
mod declare;
mod failure;
mod info;
mod members;
mod outcome;
mod placement;
mod read;
mod rights;
mod users;

#[cfg(test)]
mod tests;

pub use append::{Placed, too_large};
pub use outcome::{Note, Outcome, Record};
pub use placement::partition_of;

use super::ast::{Info, Located, Statement};
use super::error::{Code, Error, ErrorKind};
use super::parser::{Parameters, parse_bytes};
use super::value::{Object, Value};
use crate::auth::{Auth, Caller, Who, standing};
use crate::broker::Broker;
use bytes::Bytes;
use cluster::catalog::{Asker, CatalogError, CatalogFailure, Command, Scope, State, Topic, User};
use cluster::ids::{NamespaceId, NodeId};
use cluster::membership::Membership;
use declare::{Declaration, Group, declaration};
use placement::Placement;
use rights::Rights;
use std::sync::Arc;

const NOT_IN_GROUP: &str = "only USE and declarations may stand between BEGIN and COMMIT";

/// Bytes of messages and facts that the answer to one script may carry.
pub const ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// What the engine is told about its node.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// This node.
    pub node: NodeId,
    /// Bytes a message may have where its topic says nothing else.
    pub max_message_bytes: u32,
}

/// Whoever carries out scripts: what front doors and the shell are given.
#[async_trait::async_trait]
pub trait Scripts: Send + Sync + 'static {
    /// See [`Engine::execute`].
    async fn execute(&self, caller: Caller, script: Bytes, parameters: Parameters) -> Result<Vec<Outcome>, Error>;
}

#[async_trait::async_trait]
impl Scripts for Engine {
    async fn execute(&self, caller: Caller, script: Bytes, parameters: Parameters) -> Result<Vec<Outcome>, Error> {
        Engine::execute(self, &caller, &script, &parameters).await
    }
}

/// Carries out scripts. Holds no state of theirs.
pub struct Engine {
    broker: Arc<Broker>,
    auth: Arc<Auth>,
    settings: Settings,
    placement: Placement,
    members: Option<Membership>,
    answer_bytes: usize,
}

/// What a script has selected so far.
#[derive(Clone, Debug, Default)]
struct Session {
    namespace: Option<String>,
    database: Option<String>,
}

/// How many bytes the script's answer may still take.
#[derive(Clone, Copy, Debug)]
struct Answer {
    size: usize,
    left: usize,
    started: bool,
}

impl Answer {
    /// Takes room; a message that is the first of all gets it whatever its size.
    fn take(&mut self, bytes: usize) -> bool {
        if self.started && bytes > self.left {
            return false;
        }
        self.started = true;
        self.left = self.left.saturating_sub(bytes);
        true
    }
}

impl Engine {
    /// An engine over a node's broker. `auth` hashes passwords and tells the audit.
    pub fn new(broker: Arc<Broker>, auth: Arc<Auth>, settings: Settings) -> Self {
        Self {
            broker,
            auth,
            settings,
            placement: Placement::default(),
            members: None,
            answer_bytes: ANSWER_BYTES,
        }
    }

    /// The same, for a node that reaches the other members of its store.
    pub fn among(self, members: Membership) -> Self {
        Self {
            members: Some(members),
            ..self
        }
    }

    /// Reads a script and carries it out: one outcome a statement. What the caller may do is judged anew for each.
    ///
    /// # Errors
    /// Nobody is signed in, or the script does not read (nothing was done), or a statement failed (those before it are
    /// done, but for declarations since a BEGIN without COMMIT).
    pub async fn execute(
        &self,
        caller: &Caller,
        script: &[u8],
        parameters: &Parameters,
    ) -> Result<Vec<Outcome>, Error> {
        let view = self.broker.catalog().view();
        let user = standing(&view, &caller.who).map_err(ErrorKind::from)?.user();
        let statements = parse_bytes(script, parameters)?;
        let mut run = Run {
            engine: self,
            caller,
            session: user.map_or_else(Session::default, |user| Session::of(user, &view)),
            group: None,
            began: Asker::Nobody,
            answer: Answer {
                size: self.answer_bytes,
                left: self.answer_bytes,
                started: false,
            },
        };
        let mut outcomes = Vec::with_capacity(statements.len());
        for Located { span, statement } in statements {
            let outcome = Box::pin(run.statement(statement)).await.map_err(|kind| kind.at(span))?;
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }
}

/// One script under way.
struct Run<'e> {
    engine: &'e Engine,
    caller: &'e Caller,
    session: Session,
    /// Since BEGIN.
    group: Option<Group>,
    /// Who the caller was at BEGIN.
    began: Asker,
    answer: Answer,
}

impl Run<'_> {
    async fn statement(&mut self, statement: Statement) -> Result<Outcome, ErrorKind> {
        let view = self.engine.broker.catalog().view();
        let node = self.engine.settings.node;
        let rights = Rights {
            standing: standing(&view, &self.caller.who)?,
            state: self.group.as_ref().map_or(&*view, Group::pending),
            session: &self.session,
        };
        if let Err(refusal) = rights.check(&statement) {
            self.tell_refused(&refusal);
            return Err(refusal);
        }
        let by = Asker::from(rights.standing.user());
        self.engine.check_writable(&statement, &view)?;
        if let Statement::Info(info) = statement {
            if self.group.is_some() {
                return Err(ErrorKind::InvalidGroup(NOT_IN_GROUP));
            }
            let value = self.facts(info, &rights).await?;
            return match self.answer.take(value.to_string().len()) {
                true => Ok(Outcome::Value(value)),
                false => Err(ErrorKind::AnswerTooLarge(self.engine.answer_bytes)),
            };
        }
        let hash = self.engine.hashed(&statement).await?;
        if let Some(group) = &mut self.group
            && let Some(declared) = declaration(&statement, &self.session, group.pending(), node, hash.as_ref())
        {
            group.add(declared?)?;
            if is_told(&statement) {
                group.tell(self.session.located(&statement));
            }
            return Ok(Outcome::Done);
        }
        if self.group.is_none()
            && let Some(declared) = declaration(&statement, &self.session, &view, node, hash.as_ref())
        {
            self.declare(by, declared?).await?;
            if is_told(&statement) {
                self.tell_changed(&self.session.located(&statement));
            }
            return Ok(Outcome::Done);
        }
        match (statement, &self.group) {
            (Statement::Use { namespace, database }, group) => {
                let pending = group.as_ref().map_or(&*view, Group::pending);
                self.session = self.session.select(namespace, database, pending)?;
                Ok(Outcome::Done)
            }
            (Statement::Begin, _) => {
                self.group = Some(Group::begin(view));
                self.began = by;
                Ok(Outcome::Done)
            }
            (Statement::Cancel, _) => {
                self.group = None;
                Ok(Outcome::Done)
            }
            (Statement::Commit, _) => {
                if let Some(group) = self.group.take() {
                    let (command, told) = group.end();
                    if let Some(command) = command {
                        self.propose(self.began, command).await?;
                    }
                    told.iter().for_each(|what| self.tell_changed(what));
                }
                Ok(Outcome::Done)
            }
            (_, Some(_)) => Err(ErrorKind::InvalidGroup(NOT_IN_GROUP)),
            (statement, None) => self.act(statement, &view).await,
        }
    }

    fn tell_changed(&self, what: &str) {
        self.engine.auth.audit().changed(self.caller, what);
    }

    fn tell_refused(&self, refusal: &ErrorKind) {
        if refusal.code() == Code::Forbidden {
            let Caller { who, origin } = self.caller;
            self.engine.auth.audit().refused(who, origin, &refusal.to_string());
        }
    }

    /// Proposes what the caller may do as `by`. Between the judgement and this others went on, and hashing a password
    /// takes long: it is refused if the caller is no longer who it was.
    async fn propose(&self, by: Asker, command: Command) -> Result<(), ErrorKind> {
        let catalog = self.engine.broker.catalog();
        let command = match self.caller.who {
            Who::Folder => command,
            Who::Anonymous | Who::User(_) => Command::Asked {
                by,
                command: Box::new(command),
            },
        };
        match self.engine.broker.declare(command).await {
            Ok(_) => Ok(()),
            Err(CatalogFailure::Refused(error @ CatalogError::AskerChanged)) => {
                standing(&catalog.view(), &self.caller.who)?;
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn declare(&self, by: Asker, declaration: Declaration) -> Result<(), ErrorKind> {
        let broker = &self.engine.broker;
        match declaration {
            Declaration::Command(command) => self.propose(by, command).await?,
            Declaration::DropTopic(topic) => {
                broker.drop_topic(topic).await?;
                let view = broker.catalog().view();
                self.engine.placement.retain(|id| view.topic_by_id(id).is_some());
            }
        }
        Ok(())
    }

    async fn act(&mut self, statement: Statement, view: &State) -> Result<Outcome, ErrorKind> {
        let engine = self.engine;
        match statement {
            Statement::Create { table, id, value } => {
                let topic = self.session.topic(view, &table)?;
                match id {
                    None => engine.append(&topic, vec![value]).await,
                    Some(_) => Err(ErrorKind::TopicIsAppendOnly(table)),
                }
            }
            Statement::Insert { table, fields, rows } => {
                let topic = self.session.topic(view, &table)?;
                let row = |row: Vec<Value>| fields.iter().cloned().zip(row).collect::<Object>();
                engine.append(&topic, rows.into_iter().map(row).collect()).await
            }
            Statement::Change { table, .. } => {
                self.session.topic(view, &table)?;
                Err(ErrorKind::TopicIsAppendOnly(table))
            }
            Statement::Read(read) => {
                let topic = self.session.topic(view, &read.topic)?;
                engine.read(&self.session, &read, topic, &mut self.answer).await
            }
            Statement::DefineGroup(_)
            | Statement::AlterGroup { .. }
            | Statement::DropGroup { .. }
            | Statement::Acknowledge(_) => Err(ErrorKind::NotYet("groups that acknowledge messages")),
            // Handled before this is called.
            Statement::Use { .. }
            | Statement::Info(_)
            | Statement::DefineUser(_)
            | Statement::AlterUser { .. }
            | Statement::DropUser(_)
            | Statement::Grant(_)
            | Statement::Revoke(_)
            | Statement::DefineNamespace(_)
            | Statement::AlterNamespace { .. }
            | Statement::DropNamespace(_)
            | Statement::DefineDatabase { .. }
            | Statement::DropDatabase(_)
            | Statement::DefineTopic(_)
            | Statement::AlterTopic { .. }
            | Statement::DropTopic(_)
            | Statement::DefineReplica(_)
            | Statement::AlterReplica { .. }
            | Statement::DropReplica(_)
            | Statement::DefineNodeRoles(_)
            | Statement::Begin
            | Statement::Commit
            | Statement::Cancel => Err(ErrorKind::Internal("a statement went the wrong way".to_owned())),
        }
    }

    async fn facts(&self, info: Info, rights: &Rights<'_>) -> Result<Value, ErrorKind> {
        let (engine, session, view) = (self.engine, &self.session, rights.state);
        match info {
            Info::Store => Ok(engine.info_store(rights)),
            Info::Namespace => engine.info_namespace(rights),
            Info::Database => engine.info_database(rights),
            Info::Topic(name) => engine.info_topic(&session.topic(view, &name)?, view).await,
            Info::Node => Ok(engine.info_node(view)),
            Info::Users => Ok(users::info_users(rights)),
            Info::User(name) => users::info_user(&name, view),
            Info::Group(_) => Err(ErrorKind::NotYet("facts about groups")),
        }
    }
}

/// Declarations that the audit tells: who may do what, and which members there are.
fn is_told(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::DefineUser(_)
            | Statement::AlterUser { .. }
            | Statement::DropUser(_)
            | Statement::Grant(_)
            | Statement::Revoke(_)
            | Statement::DefineReplica(_)
            | Statement::AlterReplica { .. }
            | Statement::DropReplica(_)
            | Statement::DefineNodeRoles(_)
    )
}

impl Session {
    /// What is selected as a user's script begins: where the user is ON.
    fn of(user: &User, view: &State) -> Self {
        let namespace = |id| view.namespace_by_id(id).map(|namespace| namespace.name.clone());
        match user.scope {
            Scope::Store => Self::default(),
            Scope::Namespace(id) => Self {
                namespace: namespace(id),
                database: None,
            },
            Scope::Database(id) => rights::database_by_id(view, id).map_or_else(Self::default, |database| Self {
                namespace: namespace(database.namespace),
                database: Some(database.name.clone()),
            }),
        }
    }

    /// A statement and where it was given, without secrets.
    fn located(&self, statement: &Statement) -> String {
        match (statement, &self.namespace, &self.database) {
            (Statement::Grant(_) | Statement::Revoke(_), Some(namespace), Some(database)) => {
                format!("{statement} IN {namespace}.{database}")
            }
            _ => statement.to_string(),
        }
    }

    fn select(&self, namespace: Option<String>, database: Option<String>, view: &State) -> Result<Session, ErrorKind> {
        let mut selected = match namespace {
            Some(name) if view.namespace(&name).is_none() => return Err(unknown("the namespace", &name)),
            Some(name) => Session {
                namespace: Some(name),
                database: None,
            },
            None => self.clone(),
        };
        if let Some(database) = database {
            let namespace = selected.namespace(view)?;
            if view.database(&namespace, &database).is_none() {
                return Err(unknown("the database", &database));
            }
            selected.database = Some(database);
        }
        Ok(selected)
    }

    /// The selected namespace.
    fn namespace(&self, view: &State) -> Result<String, ErrorKind> {
        let name = self.namespace.as_ref().ok_or(ErrorKind::NoNamespaceSelected)?;
        match view.namespace(name) {
            Some(_) => Ok(name.clone()),
            None => Err(unknown("the namespace", name)),
        }
    }

    fn namespace_id(&self, view: &State) -> Result<NamespaceId, ErrorKind> {
        let name = self.namespace(view)?;
        let namespace = view.namespace(&name).ok_or_else(|| unknown("the namespace", &name))?;
        Ok(namespace.id)
    }

    /// The selected namespace and database.
    fn database(&self, view: &State) -> Result<(String, String), ErrorKind> {
        let namespace = self.namespace(view)?;
        let database = self.database.as_ref().ok_or(ErrorKind::NoDatabaseSelected)?;
        match view.database(&namespace, database) {
            Some(_) => Ok((namespace, database.clone())),
            None => Err(unknown("the database", database)),
        }
    }

    /// A topic of the selected database.
    fn topic(&self, view: &State, name: &str) -> Result<Arc<Topic>, ErrorKind> {
        let (namespace, database) = self.database(view)?;
        let topic = view.topic(&namespace, &database, name);
        topic.cloned().ok_or_else(|| unknown("the topic", name))
    }
}

fn unknown(what: &'static str, name: &str) -> ErrorKind {
    ErrorKind::Unknown {
        what,
        name: name.to_owned(),
    }
}

/// Milliseconds since the epoch.
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
