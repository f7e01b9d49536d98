//! Whether a statement may be carried out, before anything of it is.
//!
//! What a user may not see is answered the same whether it is there or not: `NotGranted` to who has grants,
//! `OutsideTenancy` to who reaches beyond what it is ON. `Unknown` is for those who would see it.

use super::super::ast::{self, Info, Statement};
use super::super::error::ErrorKind;
use super::{Session, unknown};
use crate::auth::{Action, NotStanding, On, Standing};
use cluster::catalog::{Database, Namespace, Role, Scope, State, User};
use std::sync::Arc;

impl From<NotStanding> for ErrorKind {
    fn from(_: NotStanding) -> Self {
        Self::NotSignedIn
    }
}

/// Judges statements of one caller.
pub(super) struct Rights<'v> {
    /// As of the catalog as it is.
    pub(super) standing: Standing<'v>,
    /// The catalog as it would be with the declarations since BEGIN.
    pub(super) state: &'v State,
    pub(super) session: &'v Session,
}

impl<'v> Rights<'v> {
    /// Refuses what the caller may not do.
    pub(super) fn check(&self, statement: &Statement) -> Result<(), ErrorKind> {
        if self.standing.user().is_none() {
            return Ok(());
        }
        match statement {
            Statement::Begin | Statement::Commit | Statement::Cancel => Ok(()),
            Statement::Use { namespace, database } => self.select(namespace.as_deref(), database.as_deref()),
            Statement::DefineNamespace(define) => self.may(Action::Declare, On::Store, &define.name),
            Statement::DropNamespace(name) => self.may(Action::Declare, On::Store, name),
            Statement::AlterNamespace { name, .. } => {
                let namespace = self.namespace(name)?;
                self.may(Action::Declare, On::Namespace(namespace), name)
            }
            Statement::DefineDatabase { name, .. } | Statement::DropDatabase(name) => {
                let namespace = self.selected_namespace()?;
                self.may(Action::Declare, On::Namespace(namespace), name)
            }
            Statement::DefineTopic(define) => {
                let database = self.selected_database()?;
                self.may(Action::Declare, On::Database(database), &define.name)
            }
            Statement::AlterTopic { name, .. } | Statement::DropTopic(name) => self.topic(name, Action::Declare),
            Statement::Create { table, .. } | Statement::Insert { table, .. } | Statement::Change { table, .. } => {
                self.topic(table, Action::Write)
            }
            Statement::Read(read) => self.topic(&read.topic, Action::Read),
            Statement::DefineGroup(define) => self.topic(&define.topic, Action::Declare),
            Statement::AlterGroup { topic, .. } | Statement::DropGroup { topic, .. } => {
                self.topic(topic, Action::Declare)
            }
            Statement::Acknowledge(messages) => self.topic(&messages.topic, Action::Read),
            Statement::DefineReplica(_)
            | Statement::AlterReplica { .. }
            | Statement::DropReplica(_)
            | Statement::DefineNodeRoles(_) => self.may(Action::Administer, On::Store, "the store"),
            Statement::DefineUser(define) => self.may_place(&define.scope),
            // A password is its user's own.
            Statement::AlterUser {
                name,
                change: ast::UserChange::Password(_),
            } if self.standing.name() == Some(name) => Ok(()),
            Statement::AlterUser { name, .. } | Statement::DropUser(name) => self.user(name),
            Statement::Grant(grant) | Statement::Revoke(grant) => {
                self.topic(&grant.table, Action::Administer)?;
                self.user(&grant.user)
            }
            Statement::Info(info) => self.info(info),
        }
    }

    fn info(&self, info: &Info) -> Result<(), ErrorKind> {
        match info {
            // Each is told of what it may see.
            Info::Store => Ok(()),
            Info::Namespace => {
                let namespace = self.selected_namespace()?;
                self.may(Action::Describe, On::Namespace(namespace), &namespace.name)
            }
            Info::Database => {
                let database = self.selected_database()?;
                self.may(Action::Describe, On::Database(database), &database.name)
            }
            Info::Topic(name) => self.topic(name, Action::Describe),
            Info::Node => self.may(Action::Describe, On::Store, "the store"),
            Info::Group(_) => {
                let namespace = self.selected_namespace()?;
                self.may(Action::Describe, On::Namespace(namespace), &namespace.name)
            }
            Info::Users => match self.standing.may_within(Action::Administer, On::Store) {
                true => Ok(()),
                false => Err(self.refusal(Action::Administer, true, "users")),
            },
            Info::User(name) if self.standing.name() == Some(name) => Ok(()),
            Info::User(name) => self.user(name),
        }
    }

    fn may(&self, action: Action, on: On<'_>, what: &str) -> Result<(), ErrorKind> {
        match self.standing.may(action, on) {
            true => Ok(()),
            false => Err(self.refusal(action, self.standing.covers(on), what)),
        }
    }

    /// `within`: what was asked for lies within what the user is ON.
    fn refusal(&self, action: Action, within: bool, what: &str) -> ErrorKind {
        let Some(user) = self.standing.user() else {
            return ErrorKind::Internal("somebody who may do everything was refused".to_owned());
        };
        if user.granted {
            return ErrorKind::NotGranted {
                user: user.name.clone(),
                action: match action {
                    Action::Describe | Action::Read => "read",
                    Action::Write => "write",
                    Action::Declare => "declaring",
                    Action::Administer => "administering",
                },
                table: what.to_owned(),
            };
        }
        match within {
            true => ErrorKind::RoleForbids {
                role: role_name(user.role),
            },
            false => ErrorKind::OutsideTenancy(user.name.clone()),
        }
    }

    /// Whether the user sees everything that there is on `on`, so that what is not there may be called unknown.
    fn sees_all(&self, on: On<'_>) -> bool {
        self.standing.covers(on) && self.standing.user().is_none_or(|user| !user.granted)
    }

    fn namespace(&self, name: &str) -> Result<&'v Namespace, ErrorKind> {
        match self.state.namespace(name) {
            Some(namespace) => {
                self.may(Action::Describe, On::Namespace(namespace), name)?;
                Ok(namespace)
            }
            None if self.sees_all(On::Store) => Err(unknown("the namespace", name)),
            None => Err(self.refusal(Action::Describe, false, name)),
        }
    }

    fn database(&self, namespace: &Namespace, name: &str) -> Result<&'v Database, ErrorKind> {
        match self.state.database(&namespace.name, name) {
            Some(database) => {
                self.may(Action::Describe, On::Database(database), name)?;
                Ok(database)
            }
            None if self.sees_all(On::Namespace(namespace)) => Err(unknown("the database", name)),
            None => Err(self.refusal(Action::Describe, false, name)),
        }
    }

    fn topic(&self, name: &str, action: Action) -> Result<(), ErrorKind> {
        let database = self.selected_database()?;
        match self.state.topic(&self.selected_namespace()?.name, &database.name, name) {
            Some(topic) => self.may(action, On::Topic(topic), name),
            None if self.sees_all(On::Database(database)) => Err(unknown("the topic", name)),
            None => Err(self.refusal(action, false, name)),
        }
    }

    fn selected_namespace(&self) -> Result<&'v Namespace, ErrorKind> {
        let name = self.session.namespace.as_ref().ok_or(ErrorKind::NoNamespaceSelected)?;
        self.namespace(name)
    }

    fn selected_database(&self) -> Result<&'v Database, ErrorKind> {
        let namespace = self.selected_namespace()?;
        let name = self.session.database.as_ref().ok_or(ErrorKind::NoDatabaseSelected)?;
        self.database(namespace, name)
    }

    fn select(&self, namespace: Option<&str>, database: Option<&str>) -> Result<(), ErrorKind> {
        let namespace = match namespace {
            Some(name) => self.namespace(name)?,
            None => self.selected_namespace()?,
        };
        if let Some(name) = database {
            self.database(namespace, name)?;
        }
        Ok(())
    }

    /// Whether users may be placed there.
    fn may_place(&self, scope: &ast::Scope) -> Result<(), ErrorKind> {
        match scope {
            ast::Scope::Store => self.may(Action::Administer, On::Store, "the store"),
            ast::Scope::Namespace(name) => {
                let namespace = self.namespace(name)?;
                self.may(Action::Administer, On::Namespace(namespace), name)
            }
            ast::Scope::Database { namespace, database } => {
                let namespace = self.namespace(namespace)?;
                let database = self.database(namespace, database)?;
                self.may(Action::Administer, On::Database(database), &database.name)
            }
        }
    }

    /// Whether a user may be changed; one that is not the caller's to see is not known to it.
    fn user(&self, name: &str) -> Result<(), ErrorKind> {
        if !self.standing.may_within(Action::Administer, On::Store) {
            return Err(self.refusal(Action::Administer, true, name));
        }
        match self.state.user(name).filter(|user| self.administers(user)) {
            Some(_) => Ok(()),
            None => Err(unknown("the user", name)),
        }
    }

    /// Whether a user is the caller's to decide about.
    pub(super) fn administers(&self, user: &User) -> bool {
        let may = |on| self.standing.may(Action::Administer, on);
        match user.scope {
            Scope::Store => may(On::Store),
            Scope::Namespace(id) => self
                .state
                .namespace_by_id(id)
                .is_some_and(|row| may(On::Namespace(row))),
            Scope::Database(id) => database_by_id(self.state, id).is_some_and(|row| may(On::Database(row))),
        }
    }
}

/// One database, by identity.
pub(super) fn database_by_id(state: &State, id: cluster::ids::DatabaseId) -> Option<&Arc<Database>> {
    state
        .namespaces()
        .flat_map(|namespace| state.databases(namespace.id))
        .find(|database| database.id == id)
}

/// The word a role is written with.
pub(super) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Editor => "editor",
        Role::Owner => "owner",
    }
}
