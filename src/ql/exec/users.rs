//! Users and grants: statements as commands of the catalog, and facts about them.

use super::super::ast::{self, Credential, DefineUser, Grant, Privilege, Statement};
use super::super::error::ErrorKind;
use super::super::value::Value;
use super::rights::{Rights, database_by_id, role_name};
use super::{Engine, Session, unknown};
use crate::auth::{HashError, parse_hash};
use cluster::catalog::{Command, PasswordHash, Privileges, Role, Scope, ScopeName, State, User, UserChange, UserRef};

impl From<HashError> for ErrorKind {
    fn from(error: HashError) -> Self {
        match error {
            HashError::Busy => Self::Unavailable(error.to_string()),
            HashError::TooLong | HashError::Nul => Self::InvalidValue(error.to_string()),
            HashError::Failed => Self::Internal(error.to_string()),
        }
    }
}

impl Engine {
    /// The hash that a statement's password, if it has one, goes into the catalog as.
    pub(super) async fn hashed(&self, statement: &Statement) -> Result<Option<PasswordHash>, ErrorKind> {
        let password = match statement {
            Statement::DefineUser(define) => match &define.credential {
                Credential::Password(password) => password,
                Credential::Hash(hash) => {
                    let hash = parse_hash(hash.expose()).map_err(|error| ErrorKind::InvalidValue(error.to_string()))?;
                    return Ok(Some(hash));
                }
            },
            Statement::AlterUser {
                change: ast::UserChange::Password(password),
                ..
            } => password,
            _ => return Ok(None),
        };
        Ok(Some(self.auth.hash(password.expose().as_bytes()).await?))
    }
}

/// The command of a statement about users; `None` for other statements.
pub(super) fn user_command(
    statement: &Statement,
    session: &Session,
    view: &State,
    hash: Option<PasswordHash>,
) -> Option<Result<Command, ErrorKind>> {
    let no_hash = || ErrorKind::Internal("a password went without its hash".to_owned());
    Some(match statement {
        Statement::DefineUser(define) => hash.ok_or_else(no_hash).map(|hash| define_user(define, hash)),
        Statement::AlterUser { name, change } => {
            let change = match change {
                ast::UserChange::Role(to) => Ok(UserChange::Role(role(*to))),
                ast::UserChange::Password(_) => hash.map(UserChange::Password).ok_or_else(no_hash),
            };
            user(view, name).and_then(|user| Ok(Command::AlterUser { user, change: change? }))
        }
        Statement::DropUser(name) => user(view, name).map(|user| Command::DropUser { user }),
        Statement::Grant(grant) => granted(grant, session, view).map(|(user, topic, privileges)| Command::Grant {
            user,
            topic,
            privileges,
        }),
        Statement::Revoke(grant) => granted(grant, session, view).map(|(user, topic, privileges)| Command::Revoke {
            user,
            topic,
            privileges,
        }),
        _ => return None,
    })
}

fn define_user(define: &DefineUser, hash: PasswordHash) -> Command {
    Command::DefineUser {
        name: define.name.clone(),
        if_not_exists: define.if_not_exists,
        only_first: false,
        scope: match &define.scope {
            ast::Scope::Store => ScopeName::Store,
            ast::Scope::Namespace(name) => ScopeName::Namespace(name.clone()),
            ast::Scope::Database { namespace, database } => ScopeName::Database {
                namespace: namespace.clone(),
                name: database.clone(),
            },
        },
        role: role(define.role),
        hash,
    }
}

fn role(role: ast::UserRole) -> Role {
    match role {
        ast::UserRole::Viewer => Role::Viewer,
        ast::UserRole::Editor => Role::Editor,
        ast::UserRole::Owner => Role::Owner,
    }
}

fn user(view: &State, name: &str) -> Result<UserRef, ErrorKind> {
    let user = view.user(name).ok_or_else(|| unknown("the user", name))?;
    Ok(UserRef {
        name: name.to_owned(),
        id: Some(user.id),
    })
}

fn granted(
    grant: &Grant,
    session: &Session,
    view: &State,
) -> Result<(UserRef, cluster::ids::TopicId, Privileges), ErrorKind> {
    let topic = session.topic(view, &grant.table)?;
    let privileges = Privileges {
        read: grant.privileges.contains(&Privilege::Read),
        write: grant.privileges.contains(&Privilege::Write),
    };
    Ok((user(view, &grant.user)?, topic.id, privileges))
}

/// Facts about one user. The hash is none of them.
pub(super) fn info_user(name: &str, view: &State) -> Result<Value, ErrorKind> {
    let user = view.user(name).ok_or_else(|| unknown("the user", name))?;
    Ok(facts(user, view))
}

/// Facts about each user the caller decides about.
pub(super) fn info_users(rights: &Rights<'_>) -> Value {
    let users = rights.state.users().filter(|user| rights.administers(user));
    Value::Array(users.map(|user| facts(user, rights.state)).collect())
}

fn facts(user: &User, view: &State) -> Value {
    let on = match user.scope {
        Scope::Store => None,
        Scope::Namespace(id) => view.namespace_by_id(id).map(|namespace| namespace.name.clone()),
        Scope::Database(id) => database_by_id(view, id).and_then(|database| {
            let namespace = view.namespace_by_id(database.namespace)?;
            Some(format!("{}.{}", namespace.name, database.name))
        }),
    };
    let grants = user.grants.iter().filter_map(|(id, privileges)| {
        let words = [("read", privileges.read), ("write", privileges.write)];
        let words = words.into_iter().filter(|(_, held)| *held);
        let words = words.map(|(word, _)| Value::from(word)).collect();
        Some((view.topic_by_id(*id)?.full_name(), Value::Array(words)))
    });
    Value::object([
        ("grants", user.granted.then(|| Value::object(grants)).into()),
        ("name", user.name.clone().into()),
        ("on", on.into()),
        ("role", role_name(user.role).into()),
    ])
}
