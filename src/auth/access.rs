//! What a user may do: roles, scopes and grants as of one view of the catalog.
//!
//! | | on what the user is ON, and within |
//! |---|---|
//! | viewer | Describe, Read |
//! | editor | Describe, Read, Write, Declare |
//! | owner | everything |
//!
//! A user that was ever granted anything has its grants instead: Describe and Read, Describe and Write, or all three, on
//! each topic granted, as long as the topic lies within what the user is ON.

use super::principal::Who;
use cluster::catalog::{Database, Namespace, Privileges, Role, Scope, State, Topic, User};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Knowing that it is there, and facts about it.
    Describe,
    /// Reading messages, and keeping positions.
    Read,
    /// Appending messages.
    Write,
    /// Declaring, altering or dropping what is directly within it; of a topic, altering or dropping itself.
    Declare,
    /// Users and grants there; on the store, members, too.
    Administer,
}

/// What it is to be done on.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum On<'a> {
    Store,
    Namespace(&'a Namespace),
    Database(&'a Database),
    Topic(&'a Topic),
}

/// Why somebody may ask for nothing at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStanding {
    /// The store has users, and nobody is signed in.
    #[error("sign in first")]
    SignInWanted,
    /// The user was dropped, declared anew, or got another password since it signed in.
    #[error("the user changed since it signed in; sign in again")]
    Ended,
}

/// What somebody may do, in one view of the catalog. For one request.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'v> {
    view: &'v State,
    /// `None` may do everything.
    user: Option<&'v User>,
}

/// What `who` may do in `view`.
///
/// # Errors
/// Nothing at all: see [`NotStanding`]. A user that was dropped is refused also where the store is open again.
pub fn standing<'v>(view: &'v State, who: &Who) -> Result<Standing<'v>, NotStanding> {
    let user = match who {
        Who::Folder => None,
        Who::Anonymous if view.is_open() => None,
        Who::Anonymous => return Err(NotStanding::SignInWanted),
        Who::User(principal) => {
            let user = view.user(&principal.name).map(|user| &**user);
            let same = user.filter(|user| user.id == principal.id && user.credential == principal.credential);
            Some(same.ok_or(NotStanding::Ended)?)
        }
    };
    Ok(Standing { view, user })
}

impl<'v> Standing<'v> {
    /// Whether `action` is allowed on `on` itself. Namespaces and databases on the way to what a user may see may be
    /// described; this tells nothing about what else is in them.
    pub fn may(&self, action: Action, on: On<'_>) -> bool {
        let Some(user) = self.user else { return true };
        let on_the_way = matches!(on, On::Namespace(_) | On::Database(_)) && action == Action::Describe;
        if user.granted {
            return match on {
                On::Topic(topic) => {
                    let granted = user.grants.get(&topic.id).copied().unwrap_or_default();
                    self.covers(on) && allows(granted, action)
                }
                _ => on_the_way && self.may_within(action, on),
            };
        }
        enough(user.role, action) && (self.covers(on) || (on_the_way && self.overlaps(user, on)))
    }

    /// Whether `action` is allowed on anything that `on` is or holds.
    pub fn may_within(&self, action: Action, on: On<'_>) -> bool {
        let Some(user) = self.user else { return true };
        if user.granted {
            return user.grants.keys().any(|id| {
                let topic = self.view.topic_by_id(*id);
                topic.is_some_and(|topic| holds(on, topic) && self.may(action, On::Topic(topic)))
            });
        }
        enough(user.role, action) && (self.covers(on) || self.overlaps(user, on))
    }

    /// Whether `on` lies wholly within what the user is ON.
    pub fn covers(&self, on: On<'_>) -> bool {
        let Some(user) = self.user else { return true };
        match (user.scope, on) {
            (Scope::Store, _) => true,
            (_, On::Store) => false,
            (Scope::Namespace(id), On::Namespace(namespace)) => namespace.id == id,
            (Scope::Namespace(id), On::Database(database)) => database.namespace == id,
            (Scope::Namespace(id), On::Topic(topic)) => topic.namespace == id,
            (Scope::Database(_), On::Namespace(_)) => false,
            (Scope::Database(id), On::Database(database)) => database.id == id,
            (Scope::Database(id), On::Topic(topic)) => topic.database == id,
        }
    }

    /// Whether what the user is ON lies within `on`.
    fn overlaps(&self, user: &User, on: On<'_>) -> bool {
        match (user.scope, on) {
            (Scope::Namespace(_) | Scope::Database(_), On::Store) => true,
            (Scope::Database(id), On::Namespace(namespace)) => {
                self.view.databases(namespace.id).any(|database| database.id == id)
            }
            _ => false,
        }
    }

    /// The user's name; `None` where everything is allowed to everybody.
    pub fn name(&self) -> Option<&'v str> {
        self.user.map(|user| user.name.as_str())
    }

    /// The user; `None` where everything is allowed to everybody.
    pub fn user(&self) -> Option<&'v User> {
        self.user
    }
}

fn enough(role: Role, action: Action) -> bool {
    match action {
        Action::Describe | Action::Read => true,
        Action::Write | Action::Declare => role >= Role::Editor,
        Action::Administer => role >= Role::Owner,
    }
}

fn allows(granted: Privileges, action: Action) -> bool {
    match action {
        Action::Describe => !granted.is_empty(),
        Action::Read => granted.read,
        Action::Write => granted.write,
        Action::Declare | Action::Administer => false,
    }
}

fn holds(on: On<'_>, topic: &Topic) -> bool {
    match on {
        On::Store => true,
        On::Namespace(namespace) => topic.namespace == namespace.id,
        On::Database(database) => topic.database == database.id,
        On::Topic(one) => one.id == topic.id,
    }
}

#[cfg(test)]
#[path = "access_test.rs"]
mod tests;
