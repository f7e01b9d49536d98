//! What the caller of a request may do, in Kafka's terms.
//!
//! | Kafka | here |
//! |---|---|
//! | topic DESCRIBE, DESCRIBE_CONFIGS | [`Action::Describe`] of the topic |
//! | topic READ, WRITE | [`Action::Read`], [`Action::Write`] of the topic |
//! | topic CREATE | [`Action::Declare`] in its database |
//! | topic ALTER, ALTER_CONFIGS, DELETE | [`Action::Declare`] of the topic |
//! | group DESCRIBE, READ | [`Action::Read`] of something in the namespace that coordinates the group |
//! | group DELETE | [`Action::Declare`] there |
//! | cluster DESCRIBE, DESCRIBE_CONFIGS | [`Action::Describe`] of the store |
//! | cluster IDEMPOTENT_WRITE | [`Action::Write`] of anything |
//!
//! No answer tells whether a topic exists to those who may not describe it: what is refused by name is refused alike
//! (TOPIC_AUTHORIZATION_FAILED) whether there is such a topic or not.

use super::call::Call;
use super::errors;
use crate::auth::{self, Action, On, Standing};
use crate::names::Refused;
use cluster::catalog::{Namespace, Scope, State, Topic};
use cluster::ids::NamespaceId;
use kafka_protocol::ResponseError;
use std::sync::Arc;
use uuid::Uuid;

/// Kafka's operations, as bits (KIP-430).
mod bit {
    pub(super) const READ: i32 = 1 << 3;
    pub(super) const WRITE: i32 = 1 << 4;
    pub(super) const CREATE: i32 = 1 << 5;
    pub(super) const DELETE: i32 = 1 << 6;
    pub(super) const ALTER: i32 = 1 << 7;
    pub(super) const DESCRIBE: i32 = 1 << 8;
    pub(super) const CLUSTER_ACTION: i32 = 1 << 9;
    pub(super) const DESCRIBE_CONFIGS: i32 = 1 << 10;
    pub(super) const ALTER_CONFIGS: i32 = 1 << 11;
    pub(super) const IDEMPOTENT_WRITE: i32 = 1 << 12;
}

/// The rights of a caller in one view of the catalog.
pub(crate) struct Access<'s> {
    call: &'s Call,
    state: &'s State,
    /// `None`: it has lost its standing since the request was admitted, and may nothing.
    standing: Option<Standing<'s>>,
}

impl<'s> Access<'s> {
    /// The caller's rights by this view.
    pub(crate) fn new(call: &'s Call, state: &'s State) -> Self {
        Self {
            call,
            state,
            standing: auth::standing(state, &call.who).ok(),
        }
    }

    /// The view that decides.
    pub(crate) fn state(&self) -> &'s State {
        self.state
    }

    /// Whether the caller may do this.
    pub(crate) fn may(&self, action: Action, on: On<'_>) -> bool {
        self.standing.as_ref().is_some_and(|s| s.may(action, on))
    }

    /// The topic that is named, if the caller may do this with it. Names that none can have come first, so that a client
    /// is told what is wrong with its configuration.
    pub(crate) fn topic(&self, action: Action, name: &str) -> Result<&'s Arc<Topic>, ResponseError> {
        let names = &self.call.shared.names;
        match names.reach(self.state, self.standing.as_ref(), action, name) {
            Ok(topic) => Ok(topic),
            Err(Refused::Name(error)) => Err(errors::name(error)),
            Err(Refused::Forbidden) => Err(self.refused(action, name, ResponseError::TopicAuthorizationFailed)),
        }
    }

    /// Whether the caller may do this with a topic of that name, were there one: what of its place exists decides.
    pub(crate) fn may_where(&self, action: Action, name: &str) -> bool {
        let names = &self.call.shared.names;
        names.may_where(self.state, self.standing.as_ref(), action, name)
    }

    /// The topic with this id, if the caller may do this with it. An id tells nothing to who was never told of it, so the
    /// refusal may say that the topic is there, as Kafka's does.
    pub(crate) fn topic_by_id(&self, action: Action, id: Uuid) -> Result<&'s Arc<Topic>, ResponseError> {
        let topic = self.state.topic_by_uuid(id).ok_or(ResponseError::UnknownTopicId)?;
        match self.may(action, On::Topic(topic)) {
            true => Ok(topic),
            false => Err(self.refused(action, &topic.full_name(), ResponseError::TopicAuthorizationFailed)),
        }
    }

    /// The topic that a request names; which of the two counts depends on the version.
    pub(crate) fn topic_of(
        &self,
        action: Action,
        by_id: bool,
        name: &str,
        id: Uuid,
    ) -> Result<&'s Arc<Topic>, ResponseError> {
        match by_id {
            true => self.topic_by_id(action, id),
            false => self.topic(action, name),
        }
    }

    /// Fails where the caller may not do this with the store as a whole.
    pub(crate) fn cluster(&self, action: Action) -> Result<(), ResponseError> {
        match self.may(action, On::Store) {
            true => Ok(()),
            false => Err(self.refused(action, "the store", ResponseError::ClusterAuthorizationFailed)),
        }
    }

    /// Fails where the caller may do this with nothing in the namespace that coordinates the group; `None`: no namespace
    /// does yet.
    pub(crate) fn group(
        &self,
        action: Action,
        group: &str,
        namespace: Option<NamespaceId>,
    ) -> Result<(), ResponseError> {
        match self.may_somewhere(action, namespace) {
            true => Ok(()),
            false => Err(self.refused(action, group, ResponseError::GroupAuthorizationFailed)),
        }
    }

    /// Whether the caller may do this with anything in the namespace, or at all.
    pub(crate) fn may_somewhere(&self, action: Action, namespace: Option<NamespaceId>) -> bool {
        let on = match namespace {
            None => On::Store,
            Some(id) => match self.state.namespace_by_id(id) {
                Some(namespace) => On::Namespace(namespace),
                None => return false,
            },
        };
        self.standing.as_ref().is_some_and(|s| s.may_within(action, on))
    }

    /// Whether the caller may do this with everything in the namespace.
    pub(crate) fn may_throughout(&self, action: Action, namespace: &Namespace) -> bool {
        self.may(action, On::Namespace(namespace))
    }

    /// The namespace that the caller's user is confined to.
    pub(crate) fn scope(&self) -> Option<NamespaceId> {
        match self.standing.as_ref()?.user()?.scope {
            Scope::Store => None,
            Scope::Namespace(id) => Some(id),
            Scope::Database(id) => self.state.database_by_id(id).map(|d| d.namespace),
        }
    }

    /// What the caller may do with a topic, as Kafka's bits.
    pub(crate) fn topic_operations(&self, topic: &Topic) -> i32 {
        let allowed = |action, bits| if self.may(action, On::Topic(topic)) { bits } else { 0 };
        allowed(Action::Describe, bit::DESCRIBE | bit::DESCRIBE_CONFIGS)
            | allowed(Action::Read, bit::READ)
            | allowed(Action::Write, bit::WRITE)
            | allowed(
                Action::Declare,
                bit::CREATE | bit::DELETE | bit::ALTER | bit::ALTER_CONFIGS,
            )
    }

    /// What the caller may do with the store as a whole, as Kafka's bits.
    pub(crate) fn cluster_operations(&self) -> i32 {
        let allowed = |may, bits| if may { bits } else { 0 };
        let may = |action| self.may(action, On::Store);
        allowed(may(Action::Describe), bit::DESCRIBE | bit::DESCRIBE_CONFIGS)
            | allowed(may(Action::Declare), bit::CREATE)
            | allowed(
                may(Action::Administer),
                bit::ALTER | bit::ALTER_CONFIGS | bit::CLUSTER_ACTION,
            )
            | allowed(self.may_somewhere(Action::Write, None), bit::IDEMPOTENT_WRITE)
    }

    /// What the caller may do with a group of the namespace, as Kafka's bits.
    pub(crate) fn group_operations(&self, namespace: Option<NamespaceId>) -> i32 {
        let allowed = |action, bits| {
            if self.may_somewhere(action, namespace) { bits } else { 0 }
        };
        allowed(Action::Read, bit::READ | bit::DESCRIBE | bit::DESCRIBE_CONFIGS)
            | allowed(Action::Declare, bit::DELETE | bit::ALTER_CONFIGS)
    }

    /// Notes a refusal for the audit.
    pub(crate) fn refused(&self, action: Action, what: &str, error: ResponseError) -> ResponseError {
        let call = self.call;
        call.peer.refusals.note(call.api.key as i16, what, || {
            let line = format!("{:?}: {action:?} {what}", call.api.key);
            call.shared.auth.audit().refused(&call.who, &call.peer.origin(), &line);
        });
        error
    }
}
