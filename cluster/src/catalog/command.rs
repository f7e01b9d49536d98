//! What can be declared. Encoded as JSON: declarations are rare, and unknown fields of a newer node are passed over.

use super::error::CatalogError;
use super::model::{Acknowledge, PasswordHash, Privileges, Role, Topic, User};
use super::replica::MemberCommand;
use crate::ids::{BrokerId, NamespaceId, NodeId, TopicId, UserId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;

/// What a topic is declared with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopicSpec {
    /// Number of partitions, at least 1.
    pub partitions: u32,
    /// The field by which TessariQL places messages.
    #[serde(default)]
    pub by: Option<String>,
    /// Milliseconds.
    #[serde(default)]
    pub retain_ms: Option<u64>,
    /// Bytes per partition.
    #[serde(default)]
    pub retain_bytes: Option<u64>,
    /// Largest batch in bytes.
    #[serde(default)]
    pub max_bytes: Option<u32>,
    /// Records carry the broker's append time.
    #[serde(default)]
    pub log_append_time: bool,
}

/// One change of a topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopicChange {
    /// A new partition count; only grows.
    Partitions(u32),
    /// Milliseconds, or `None` to keep for ever.
    RetainMs(Option<u64>),
    /// Bytes per partition, or `None`.
    RetainBytes(Option<u64>),
    /// Largest batch, or `None` for the node's default.
    MaxBytes(Option<u32>),
    /// Whose clock the timestamps are.
    LogAppendTime(bool),
}

/// Where a user's role is to hold, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeName {
    /// Everywhere.
    Store,
    /// In one namespace.
    Namespace(String),
    /// In one database.
    Database {
        /// Its namespace.
        namespace: String,
        /// The database.
        name: String,
    },
}

/// A user that must be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRef {
    /// Its name.
    pub name: String,
    /// Which declaration is meant: another one of this name is not it. `None` for one that the same proposal declares.
    pub id: Option<UserId>,
}

/// One change of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserChange {
    /// Another role, where it was.
    Role(Role),
    /// Another password; ends what was signed in with the one before.
    Password(PasswordHash),
}

/// Who asked for a command, as of the moment their rights were judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asker {
    /// Nobody signed in: the store had no users.
    Nobody,
    /// A user, with what its rights come from.
    User {
        /// Which declaration of its name.
        id: UserId,
        /// Which of its passwords.
        credential: u64,
        /// Its role.
        role: Role,
        /// Whether it had grants.
        granted: bool,
    },
}

impl From<Option<&User>> for Asker {
    fn from(user: Option<&User>) -> Self {
        user.map_or(Self::Nobody, |user| Self::User {
            id: user.id,
            credential: user.credential,
            role: user.role,
            granted: user.granted,
        })
    }
}

/// A declaration. Names are identifiers, checked by the proposer and again when applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", content = "with", rename_all = "snake_case")]
pub enum Command {
    /// Gives the store its identity, unless it has one.
    Found {
        /// The identity to give.
        store: Uuid,
    },
    /// Makes a node known and gives it a broker id; answered the same for a node already known.
    JoinNode {
        /// The node.
        node: NodeId,
    },
    /// Declares a namespace.
    DefineNamespace {
        /// Its name.
        name: String,
        /// Accept one that is there.
        if_not_exists: bool,
        /// Replicas wanted.
        replication: Option<u8>,
        /// When writes are acknowledged.
        acknowledge: Acknowledge,
    },
    /// Changes a namespace.
    AlterNamespace {
        /// Its name.
        name: String,
        /// New replica count: `Some(None)` unsets it.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
        replication: Option<Option<u8>>,
        /// New level.
        acknowledge: Option<Acknowledge>,
    },
    /// Drops an empty namespace.
    DropNamespace {
        /// Its name.
        name: String,
    },
    /// Declares a database.
    DefineDatabase {
        /// Namespace name.
        namespace: String,
        /// Its name.
        name: String,
        /// Accept one that is there.
        if_not_exists: bool,
    },
    /// Drops an empty database.
    DropDatabase {
        /// Namespace name.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Declares a topic and deals its partitions over the ranges.
    DefineTopic {
        /// Namespace name.
        namespace: String,
        /// Database name.
        database: String,
        /// Its name.
        name: String,
        /// Accept one that is there, as it is.
        if_not_exists: bool,
        /// What it is declared with.
        spec: TopicSpec,
        /// The topic id to give, made by the proposer.
        uuid: Uuid,
        /// The proposer's clock, milliseconds since the epoch.
        now_ms: i64,
    },
    /// Changes a topic, all changes or none.
    AlterTopic {
        /// Which incarnation.
        topic: TopicId,
        /// What changes.
        changes: Vec<TopicChange>,
    },
    /// Drops a topic and all it holds.
    DropTopic {
        /// Which incarnation.
        topic: TopicId,
    },
    /// Says which namespace coordinates a group whose namespace nothing else decides; the first to say so wins.
    RecordGroup {
        /// The group.
        group: String,
        /// The namespace.
        namespace: NamespaceId,
    },
    /// A command of somebody whose rights were judged before: refused where whoever asked is no longer who they were.
    Asked {
        /// Whose rights were judged.
        by: Asker,
        /// What was asked.
        command: Box<Command>,
    },
    /// Takes a block of producer ids that no one else will get.
    AllocateProducerIds {
        /// How many.
        count: u32,
    },
    /// Declares a user. The first one closes the store to everybody else.
    DefineUser {
        /// Its name.
        name: String,
        /// Accept one that is there, as it is.
        if_not_exists: bool,
        /// Do nothing where any user is declared.
        #[serde(default)]
        only_first: bool,
        /// Where the role holds.
        scope: ScopeName,
        /// What the user may do there.
        role: Role,
        /// How the user signs in.
        hash: PasswordHash,
    },
    /// Changes a user.
    AlterUser {
        /// Who.
        user: UserRef,
        /// What changes.
        change: UserChange,
    },
    /// Drops a user. Without the last one the store is open again.
    DropUser {
        /// Who.
        user: UserRef,
    },
    /// Gives a user privileges on a topic within its scope.
    Grant {
        /// Who.
        user: UserRef,
        /// On what.
        topic: TopicId,
        /// What more is allowed.
        privileges: Privileges,
    },
    /// Takes privileges on a topic from a user.
    Revoke {
        /// Who.
        user: UserRef,
        /// On what.
        topic: TopicId,
        /// What is allowed no longer.
        privileges: Privileges,
    },
    /// A wrong password was given for a name, be there such a user or not.
    CountWrongPassword {
        /// The name; its first 200 bytes are kept.
        name: String,
        /// The proposer's clock, milliseconds since the epoch.
        now_ms: i64,
    },
    /// The right password was given: wrong ones before it count no longer.
    ForgetWrongPasswords {
        /// The name.
        name: String,
    },
    /// Changes members, or what they hold.
    Member(MemberCommand),
    /// All of these or none.
    Together(Vec<Command>),
}

/// A field that is there, even as null.
fn given<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<Option<u8>>, D::Error> {
    Option::deserialize(field).map(Some)
}

/// What a declaration is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Done (or already so).
    Done,
    /// The topic declared, or the one that was there.
    Topic(Arc<Topic>),
    /// The store's identity.
    Store(Uuid),
    /// The node's number on the Kafka wire.
    Broker(BrokerId),
    /// The namespace that coordinates the group.
    Namespace(NamespaceId),
    /// First id of the block.
    ProducerIds(i64),
    /// One for each of `Together`.
    Together(Vec<Reply>),
}

/// An answer as it travels from the machine to the proposer.
pub(super) type Outcome = Result<Reply, CatalogError>;
