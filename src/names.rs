//! Topic names of clients that select no database: `<namespace>.<database>.<topic>`, or a bare `<topic>` where a database is
//! set for them. What Kafka clients call a topic, and RESP clients a key.
//!
//! No answer tells whether a topic exists to those who may not describe it: what is refused by name is refused alike
//! whether there is such a topic or not.

use crate::auth::{Action, On, Standing};
use cluster::catalog::{Database, Namespace, State, Topic, is_identifier};
use std::sync::Arc;

/// Why a name names no topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Neither of the two forms.
    #[error(
        "a topic name is <namespace>.<database>.<topic>, each an identifier, or a bare <topic> where the node has a database for them"
    )]
    Invalid,
    /// Of the right form, but nothing has it.
    #[error("there is no such topic")]
    Unknown,
}

/// Why a name leads to no topic for the one who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It names none, which the one who asks may know.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The one who asks may not do this, were there such a topic or not.
    #[error("this user may not do this with this topic")]
    Forbidden,
}

/// The three parts of a topic name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Parts<'a> {
    pub namespace: &'a str,
    pub database: &'a str,
    pub topic: &'a str,
}

/// How this node reads topic names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    bare: Option<(String, String)>,
}

impl Names {
    /// `bare` is the namespace and database of `--kafka-database`.
    pub fn new(bare: Option<(String, String)>) -> Self {
        Self { bare }
    }

    /// Takes a name apart.
    pub fn parse<'a>(&'a self, name: &'a str) -> Result<Parts<'a>, NameError> {
        let parts = match name.split_once('.') {
            Some((namespace, rest)) => {
                let (database, topic) = rest.split_once('.').ok_or(NameError::Invalid)?;
                Parts {
                    namespace,
                    database,
                    topic,
                }
            }
            None => {
                let (namespace, database) = self.bare.as_ref().ok_or(NameError::Invalid)?;
                Parts {
                    namespace,
                    database,
                    topic: name,
                }
            }
        };
        // What is left of a fourth part is no identifier either.
        if [parts.namespace, parts.database, parts.topic]
            .into_iter()
            .all(is_identifier)
        {
            Ok(parts)
        } else {
            Err(NameError::Invalid)
        }
    }

    /// The topic that `name` names now.
    pub fn topic<'s>(&self, state: &'s State, name: &str) -> Result<&'s Arc<Topic>, NameError> {
        let parts = self.parse(name)?;
        state
            .topic(parts.namespace, parts.database, parts.topic)
            .ok_or(NameError::Unknown)
    }

    /// The topic that is named, if `standing` allows this with it; without one, nothing is. Names that none can have come
    /// first, so that a client is told what is wrong with its configuration.
    pub fn reach<'s>(
        &self,
        state: &'s State,
        standing: Option<&Standing<'_>>,
        action: Action,
        name: &str,
    ) -> Result<&'s Arc<Topic>, Refused> {
        match self.topic(state, name) {
            Ok(topic) if standing.is_some_and(|s| s.may(action, On::Topic(topic))) => Ok(topic),
            Err(NameError::Invalid) => Err(NameError::Invalid.into()),
            Err(NameError::Unknown) if self.may_where(state, standing, action, name) => Err(NameError::Unknown.into()),
            Ok(_) | Err(NameError::Unknown) => Err(Refused::Forbidden),
        }
    }

    /// Whether `standing` allows this with a topic of that name, were there one: what of its place exists decides.
    pub fn may_where(&self, state: &State, standing: Option<&Standing<'_>>, action: Action, name: &str) -> bool {
        // Whoever may read all that is there may know what is not. That a place may be described says less.
        let action = match action {
            Action::Describe => Action::Read,
            action => action,
        };
        let Ok(parts) = self.parse(name) else {
            return false;
        };
        let on = match state.namespace(parts.namespace) {
            None => On::Store,
            Some(namespace) => match state.database(parts.namespace, parts.database) {
                None => On::Namespace(namespace),
                Some(database) => On::Database(database),
            },
        };
        standing.is_some_and(|s| s.may(action, on))
    }

    /// Namespace and database of bare names, where set and declared.
    pub fn bare<'s>(&self, state: &'s State) -> Option<(&'s Arc<Namespace>, &'s Arc<Database>)> {
        let (namespace, database) = self.bare.as_ref()?;
        Some((state.namespace(namespace)?, state.database(namespace, database)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_identifiers_or_one() {
        let plain = Names::default();
        let bare = Names::new(Some(("shop".into(), "orders".into())));
        let parts = |n, d, t| {
            Ok(Parts {
                namespace: n,
                database: d,
                topic: t,
            })
        };
        assert_eq!(plain.parse("a.b.c"), parts("a", "b", "c"));
        assert_eq!(bare.parse("a.b.c"), parts("a", "b", "c"));
        assert_eq!(bare.parse("_x9"), parts("shop", "orders", "_x9"));
        assert_eq!(plain.parse("orders"), Err(NameError::Invalid));
        for wrong in [
            "", ".", "..", "a.b", "a.b.", "a..c", ".b.c", "a.b.c.d", "a.b.1c", "a b", "a.b.c d", "é", "a-b",
        ] {
            assert_eq!(bare.parse(wrong), Err(NameError::Invalid), "{wrong:?}");
        }
        assert_eq!(bare.parse(&"x".repeat(201)), Err(NameError::Invalid));
    }
}
