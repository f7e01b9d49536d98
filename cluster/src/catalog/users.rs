//! Users and their grants, as the catalog folds them.

use super::command::{Asker, Reply, ScopeName, UserChange, UserRef};
use super::error::{CatalogError, Kind};
use super::model::{PasswordHash, Privileges, Role, Scope, User};
use super::state::{State, already, check_name, unknown};
use crate::ids::{TopicId, UserId};
use std::sync::Arc;

/// Reading.
impl State {
    /// The users, by name.
    pub fn users(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// One user.
    pub fn user(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// Whether no user is declared: then everybody may do everything.
    pub fn is_open(&self) -> bool {
        self.users.is_empty()
    }

    /// The names of the users whose role holds exactly there.
    pub(super) fn users_on(&self, scope: Scope) -> impl Iterator<Item = &String> {
        self.users.values().filter(move |u| u.scope == scope).map(|u| &u.name)
    }
}

/// Folding.
impl State {
    /// Whether whoever asked is who they were when their rights were judged.
    pub(super) fn still(&self, by: Asker) -> bool {
        match by {
            Asker::Nobody => self.is_open(),
            Asker::User { id, .. } => {
                let user = self.users.values().find(|user| user.id == id);
                user.is_some_and(|user| Asker::from(Some(&**user)) == by)
            }
        }
    }

    pub(super) fn define_user(
        &mut self,
        name: String,
        if_not_exists: bool,
        scope: &ScopeName,
        role: Role,
        hash: PasswordHash,
    ) -> Result<Reply, CatalogError> {
        check_name(&name)?;
        if self.users.contains_key(&name) {
            return already(Kind::User, name, if_not_exists);
        }
        let user = User {
            id: UserId(self.next.user),
            scope: self.scope(scope)?,
            role,
            hash,
            credential: 1,
            grants: imbl::OrdMap::new(),
            granted: false,
            name,
        };
        self.next.user += 1;
        // What was tried on the name before is no burden to whoever has it now.
        self.sign_ins.forget(&user.name);
        self.users.insert(user.name.clone(), Arc::new(user));
        Ok(Reply::Done)
    }

    fn scope(&self, scope: &ScopeName) -> Result<Scope, CatalogError> {
        Ok(match scope {
            ScopeName::Store => Scope::Store,
            ScopeName::Namespace(name) => Scope::Namespace(self.find_namespace(name)?.id),
            ScopeName::Database { namespace, name } => {
                self.find_namespace(namespace)?;
                let row = self.database(namespace, name);
                Scope::Database(row.ok_or_else(|| unknown(Kind::Database, name))?.id)
            }
        })
    }

    pub(super) fn alter_user(&mut self, user: &UserRef, change: UserChange) -> Result<Reply, CatalogError> {
        let row = self.change_user(user)?;
        match change {
            UserChange::Role(role) => row.role = role,
            UserChange::Password(hash) => {
                row.hash = hash;
                row.credential += 1;
                self.sign_ins.forget(&user.name);
            }
        }
        Ok(Reply::Done)
    }

    pub(super) fn drop_user(&mut self, user: &UserRef) -> Result<Reply, CatalogError> {
        self.change_user(user)?;
        self.users.remove(&user.name);
        Ok(Reply::Done)
    }

    pub(super) fn grant(&mut self, user: &UserRef, topic: TopicId, more: Privileges) -> Result<Reply, CatalogError> {
        let row = self.topic_by_id(topic);
        let row = row.ok_or_else(|| unknown(Kind::Topic, &topic.to_string()))?.clone();
        let user = self.change_user(user)?;
        let reachable = match user.scope {
            Scope::Store => true,
            Scope::Namespace(id) => id == row.namespace,
            Scope::Database(id) => id == row.database,
        };
        if !reachable {
            return Err(CatalogError::OutsideTenancy {
                name: user.name.clone(),
            });
        }
        if !more.is_empty() {
            let held = user.grants.entry(topic).or_default();
            held.read |= more.read;
            held.write |= more.write;
            user.granted = true;
        }
        Ok(Reply::Done)
    }

    /// The last grant stays: without any, a user is of no use, and who takes it away most likely means to drop the user.
    pub(super) fn revoke(&mut self, user: &UserRef, topic: TopicId, less: Privileges) -> Result<Reply, CatalogError> {
        if self.topic_by_id(topic).is_none() {
            return Err(unknown(Kind::Topic, &topic.to_string()));
        }
        let user = self.change_user(user)?;
        let Some(held) = user.grants.get_mut(&topic) else {
            return Ok(Reply::Done);
        };
        held.read &= !less.read;
        held.write &= !less.write;
        if held.is_empty() {
            user.grants.remove(&topic);
        }
        match user.grants.is_empty() {
            true => Err(CatalogError::LastGrant {
                name: user.name.clone(),
            }),
            false => Ok(Reply::Done),
        }
    }

    fn change_user(&mut self, user: &UserRef) -> Result<&mut User, CatalogError> {
        let row = self.users.get_mut(&user.name);
        row.filter(|row| user.id.is_none_or(|id| id == row.id))
            .map(Arc::make_mut)
            .ok_or_else(|| unknown(Kind::User, &user.name))
    }

    /// The topic is no more, and so is what was granted on it.
    pub(super) fn drop_grants(&mut self, topic: TopicId) {
        let holders = self.users.values().filter(|u| u.grants.contains_key(&topic));
        let holders: Vec<String> = holders.map(|u| u.name.clone()).collect();
        for name in holders {
            if let Some(row) = self.users.get_mut(&name) {
                Arc::make_mut(row).grants.remove(&topic);
            }
        }
    }

    /// A change that takes away the last one who may do everything would lock everybody out, unless it opens the store.
    pub(super) fn keeps_an_owner(&self, before: &State) -> Result<(), CatalogError> {
        if self.users.ptr_eq(&before.users) || self.is_open() || self.users.values().any(|u| u.owns_store()) {
            return Ok(());
        }
        match before.users.values().find(|u| u.owns_store()) {
            None => Ok(()),
            Some(last) => Err(CatalogError::LastOwner {
                name: last.name.clone(),
            }),
        }
    }
}

#[cfg(test)]
#[path = "users_test.rs"]
mod tests;
