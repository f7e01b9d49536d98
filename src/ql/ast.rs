//! Statements as read. Parameters have taken their values already.

use super::error::Span;
use super::value::{Object, Value};
use std::fmt;
use std::time::Duration;
use zeroize::Zeroizing;

/// A statement and where it stands in the script.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// Its bytes, without the semicolon.
    pub span: Span,
    /// The statement.
    pub statement: Statement,
}

/// One statement. Prints (`Display`) as source that reads back as the same statement, but for secrets.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `USE`: selects for what follows in the script. At least one is given.
    Use {
        /// Selects a namespace, and no database.
        namespace: Option<String>,
        /// Selects a database of the namespace.
        database: Option<String>,
    },
    /// `DEFINE NAMESPACE`.
    DefineNamespace(DefineNamespace),
    /// `ALTER NAMESPACE`.
    AlterNamespace {
        /// Its name.
        name: String,
        /// What changes.
        change: NamespaceChange,
    },
    /// `DROP NAMESPACE`.
    DropNamespace(String),
    /// `DEFINE DATABASE`.
    DefineDatabase {
        /// No error if it is there.
        if_not_exists: bool,
        /// Its name.
        name: String,
    },
    /// `DROP DATABASE`.
    DropDatabase(String),
    /// `DEFINE TOPIC`.
    DefineTopic(DefineTopic),
    /// `ALTER TOPIC`.
    AlterTopic {
        /// Its name.
        name: String,
        /// What changes.
        change: TopicChange,
    },
    /// `DROP TOPIC`.
    DropTopic(String),
    /// `CREATE`.
    Create {
        /// Where.
        table: String,
        /// An id of the user's own.
        id: Option<Value>,
        /// What.
        value: Object,
    },
    /// `INSERT INTO`.
    Insert {
        /// Where.
        table: String,
        /// Each once, at least one.
        fields: Vec<String>,
        /// As many values in each as there are fields; at least one row.
        rows: Vec<Vec<Value>>,
    },
    /// `UPDATE`, `UPSERT`, `DELETE`: for tables; a topic refuses them.
    Change {
        /// Which of the three.
        verb: ChangeVerb,
        /// Where.
        table: String,
        /// Which record; all of them without.
        id: Option<Value>,
        /// The new fields; none for DELETE.
        value: Option<Object>,
    },
    /// `READ FROM`.
    Read(Read),
    /// `DEFINE GROUP`.
    DefineGroup(DefineGroup),
    /// `ALTER GROUP .. START AT`.
    AlterGroup {
        /// The group.
        group: String,
        /// Its topic.
        topic: String,
        /// The position it starts from.
        start: u64,
    },
    /// `DROP GROUP`.
    DropGroup {
        /// The group.
        group: String,
        /// Its topic.
        topic: String,
    },
    /// `ACK` and `NACK`.
    Acknowledge(AcknowledgeMessages),
    /// `DEFINE REPLICA`.
    DefineReplica(DefineReplica),
    /// `ALTER REPLICA`.
    AlterReplica {
        /// The row's name.
        name: String,
        /// What changes.
        change: ReplicaChange,
    },
    /// `DROP REPLICA`.
    DropReplica(String),
    /// `DEFINE NODE ROLES`; empty for NONE.
    DefineNodeRoles(Vec<MemberRole>),
    /// `DEFINE USER`.
    DefineUser(DefineUser),
    /// `ALTER USER .. SET`.
    AlterUser {
        /// Who.
        name: String,
        /// What changes.
        change: UserChange,
    },
    /// `DROP USER`.
    DropUser(String),
    /// `GRANT`.
    Grant(Grant),
    /// `REVOKE`.
    Revoke(Grant),
    /// `INFO FOR`.
    Info(Info),
    /// `BEGIN`: the declarations up to COMMIT are applied together.
    Begin,
    /// `COMMIT`.
    Commit,
    /// `CANCEL`: none of the declarations since BEGIN is applied.
    Cancel,
}

/// `DEFINE NAMESPACE`.
#[derive(Clone, Debug, PartialEq)]
pub struct DefineNamespace {
    /// No error if it is there.
    pub if_not_exists: bool,
    /// Its name.
    pub name: String,
    /// How many members hold its data.
    pub replication: Option<Replication>,
    /// When a write is answered.
    pub acknowledge: Option<AcknowledgeLevel>,
}

/// How many members hold a namespace's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// One.
    None,
    /// So many; at least 1.
    Factor(u32),
}

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcknowledgeLevel {
    /// Durable on the leader.
    Leader,
    /// Durable on a majority.
    Majority,
}

/// One change of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NamespaceChange {
    Replication(Replication),
    Acknowledge(AcknowledgeLevel),
}

/// `DEFINE TOPIC`.
#[derive(Clone, Debug, PartialEq)]
pub struct DefineTopic {
    /// No error if it is there.
    pub if_not_exists: bool,
    /// Its name.
    pub name: String,
    /// Without: one partition, and nothing to place by.
    pub partitions: Option<Partitions>,
    /// How long a message is held; for ever without.
    pub retain: Option<Duration>,
    /// Bytes each partition holds before its oldest messages go; without bound if not given.
    pub retain_bytes: Option<u64>,
    /// Bytes one message may have.
    pub max_bytes: Option<u32>,
}

/// `PARTITIONS n BY field`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitions {
    /// 1 to [`cluster::catalog::MAX_PARTITIONS`].
    pub count: u32,
    /// The field of a value whose text places it.
    pub by: String,
}

/// One change of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicChange {
    /// More partitions.
    Partitions(u32),
    /// How long a message is held; `None` for ever.
    Retain(Option<Duration>),
    /// Bytes each partition holds.
    RetainBytes(u64),
    /// Bytes one message may have.
    MaxBytes(u32),
}

/// What is refused for a topic's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ChangeVerb {
    Update,
    Upsert,
    Delete,
}

/// `READ FROM`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The topic.
    pub topic: String,
    /// One partition only, from 0.
    pub partition: Option<u32>,
    /// The named reader whose position is followed and moved.
    pub consumer: Option<String>,
    /// Only positions past this one.
    pub after: Option<u64>,
    /// Messages at most.
    pub limit: Option<u64>,
}

/// `DEFINE GROUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefineGroup {
    /// The group.
    pub group: String,
    /// Its topic.
    pub topic: String,
    /// How long a message is a reader's before it is handed out again.
    pub ack_deadline: Duration,
    /// Handed out so many times at most; without bound if not given.
    pub deliveries: Option<u32>,
    /// Messages out at one time; 1 if not given.
    pub in_flight: Option<u32>,
    /// Where messages go that were handed out too often.
    pub dead_letter: Option<String>,
}

/// `ACK` and `NACK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcknowledgeMessages {
    /// The topic.
    pub topic: String,
    /// The group.
    pub group: String,
    /// At least one.
    pub positions: Vec<u64>,
    /// `None` for ACK.
    pub nack: Option<Nack>,
}

/// What NACK adds to ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nack {
    /// Hand out again after this; at once without.
    pub delay: Option<Duration>,
}

/// `DEFINE REPLICA`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefineReplica {
    /// No error if it is there.
    pub if_not_exists: bool,
    /// The row's name.
    pub name: String,
    /// Peer address.
    pub at: String,
    /// Where clients of the store reach it.
    pub clients_at: Option<String>,
    /// URL where HTTP reaches it.
    pub http_at: Option<String>,
    /// Where Kafka clients reach it.
    pub kafka_at: Option<String>,
    /// The node's identity, 32 hex digits.
    pub node: Option<String>,
    /// What the member does; every role without.
    pub roles: Option<Vec<MemberRole>>,
}

/// What a member does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberRole {
    /// Answers clients.
    Serving,
    /// Takes writes.
    Writable,
    /// Votes and leads.
    Coordinating,
}

/// One change of a replica row; an address `None` is taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReplicaChange {
    At(String),
    ClientsAt(Option<String>),
    HttpAt(Option<String>),
    KafkaAt(Option<String>),
    Roles(Vec<MemberRole>),
    /// How many ranges it should lead.
    Leads(Option<u32>),
}

/// `DEFINE USER`.
#[derive(Clone, Debug, PartialEq)]
pub struct DefineUser {
    /// No error if it is there.
    pub if_not_exists: bool,
    /// Who.
    pub name: String,
    /// Where.
    pub scope: Scope,
    /// What for.
    pub role: UserRole,
    /// How the user signs in.
    pub credential: Credential,
}

/// Where a user's role holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere.
    Store,
    /// In one namespace.
    Namespace(String),
    /// In one database.
    Database {
        /// Its namespace.
        namespace: String,
        /// The database.
        database: String,
    },
}

/// What a user may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserRole {
    /// Reads.
    Viewer,
    /// Reads, writes and declares.
    Editor,
    /// Does everything, users and replicas included.
    Owner,
}

/// How a user signs in.
#[derive(Clone, Debug, PartialEq)]
pub enum Credential {
    /// A password, to be hashed.
    Password(Secret),
    /// An Argon2id hash in PHC form.
    Hash(Secret),
}

/// Text that appears in no message, log or printed statement, and is wiped when it goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// What stands in its place when printed.
    pub const REDACTED: &'static str = "********";

    /// Keeps a secret.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::REDACTED)
    }
}

/// One change of a user.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum UserChange {
    Role(UserRole),
    Password(Secret),
}

/// `GRANT` and `REVOKE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// At least one, each once.
    pub privileges: Vec<Privilege>,
    /// On which table or topic.
    pub table: String,
    /// Whose.
    pub user: String,
}

/// What a grant allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Privilege {
    Read,
    Write,
}

/// `INFO FOR`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Info {
    Store,
    Namespace,
    Database,
    Topic(String),
    Node,
    Users,
    User(String),
    Group(String),
}
