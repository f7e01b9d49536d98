//! What a script can be answered instead of its outcomes.

use std::fmt;

/// Bytes `start..end` of the script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// The class of an error, as a client of HTTP sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The script is wrong; it will be wrong again.
    Invalid,
    /// Nobody is signed in.
    Unauthenticated,
    /// The user may not.
    Forbidden,
    /// Too many tries.
    Throttled,
    /// The outcome may be known or not; the script may be sent again.
    Retry,
    /// What is there stands in the way.
    Conflict,
    /// Nobody can answer at present.
    Unavailable,
    /// A fault of the store.
    Internal,
}

impl Code {
    /// The word that names it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::Throttled => "throttled",
            Self::Retry => "retry",
            Self::Conflict => "conflict",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }
}

/// What went wrong. The names are those users know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// The script does not read as TessariQL.
    #[error("{expected} was expected, not {found}")]
    UnexpectedToken {
        /// What could stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A literal that is none.
    #[error("{0}")]
    InvalidLiteral(String),
    /// A value of the wrong kind or outside its bounds.
    #[error("{0}")]
    InvalidValue(String),
    /// One clause twice.
    #[error("the clause {0} is given twice")]
    ClauseTwice(&'static str),
    /// One field twice in an object or in a list of fields.
    #[error("the field {0} is given twice")]
    FieldTwice(String),
    /// Arrays and objects within each other.
    #[error("values may be nested {0} deep at most")]
    TooDeep(usize),
    /// More values than a script may hold.
    #[error("a script may hold {0} values at most")]
    TooManyValues(usize),
    /// More statements than a script may have.
    #[error("a script may have {0} statements at most")]
    TooManyStatements(usize),
    /// Messages and facts of one script beyond what one answer may carry.
    #[error("the answer to one script may have {0} bytes at most; read less at a time")]
    AnswerTooLarge(usize),
    /// A script longer than may be sent.
    #[error("a script may have {0} bytes at most")]
    ScriptTooLarge(usize),
    /// `$name` without a value.
    #[error("the parameter ${0} has no value")]
    UnboundParameter(String),
    /// BEGIN, COMMIT and CANCEL that don't match, or what may not stand between them.
    #[error("{0}")]
    InvalidGroup(&'static str),
    /// The statement is known, but this version does not have it yet.
    #[error("this version does not have {0} yet")]
    NotYet(&'static str),

    /// The name is taken.
    #[error("{what} {name} is there already")]
    NameTaken {
        /// What carries the name: `the topic`, ..
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Nothing has this name.
    #[error("{what} {name} is not known")]
    Unknown {
        /// What was looked for: `the topic`, ..
        what: &'static str,
        /// The name.
        name: String,
    },
    /// DROP of what still holds something.
    #[error("{what} {name} still holds {count} {inside}, first {first}; drop what is inside first")]
    StillDepended {
        /// What should go.
        what: &'static str,
        /// Its name.
        name: String,
        /// How many are inside.
        count: usize,
        /// What they are.
        inside: &'static str,
        /// The first of them.
        first: String,
    },
    /// USE NAMESPACE is missing.
    #[error("no namespace is selected; USE NAMESPACE selects one")]
    NoNamespaceSelected,
    /// USE DATABASE is missing.
    #[error("no database is selected; USE DATABASE selects one")]
    NoDatabaseSelected,
    /// UPDATE, UPSERT or DELETE of a message, or an id of the user's own for one.
    #[error("the topic {0} is append-only: a message is never changed, and the store gives it its position")]
    TopicIsAppendOnly(String),
    /// The same id twice.
    #[error("the record {0} is there already")]
    RecordExists(String),
    /// A message past the topic's MAX BYTES.
    #[error("a message is larger than the {limit} bytes the topic {topic} takes")]
    TopicMessageTooLarge {
        /// The topic.
        topic: String,
        /// The topic's limit in bytes.
        limit: u64,
    },
    /// The name is not a topic's.
    #[error("{0} is not a topic")]
    NotATopic(String),
    /// A position outside what the topic can have.
    #[error("{0}")]
    InvalidPosition(String),
    /// The group is there already.
    #[error("the group {0} is there already")]
    GroupExists(String),
    /// No such group.
    #[error("the group {0} is not known")]
    NoSuchGroup(String),
    /// The reader is not a group.
    #[error("{0} is not a group")]
    NotAGroup(String),
    /// AFTER together with a group.
    #[error("a group hands out its own messages: AFTER does not go with FOR CONSUMER of a group")]
    AfterOnGroup,
    /// Dead letters of a topic into itself.
    #[error("the dead letters of the topic {0} cannot go to itself")]
    DeadLetterIsTheTopic(String),
    /// Nobody is signed in.
    #[error("sign in first")]
    NotSignedIn,
    /// A grant is missing.
    #[error("{user} was not granted {action} on {table}")]
    NotGranted {
        /// Who.
        user: String,
        /// `read` or `write`.
        action: &'static str,
        /// On what.
        table: String,
    },
    /// The role is too small.
    #[error("the role {role} does not allow this")]
    RoleForbids {
        /// The user's role.
        role: &'static str,
    },
    /// Outside what the user is ON.
    #[error("this lies outside what {0} may reach")]
    OutsideTenancy(String),
    /// The node was dropped from the cluster.
    #[error("the node {0} was dropped and cannot come back")]
    NodeTombstoned(String),
    /// The node's roles don't include writable.
    #[error("this node does not take writes")]
    NotWritable,
    /// No such role.
    #[error("{0} is not a role")]
    NoSuchRole(String),
    /// An empty password.
    #[error("a password cannot be empty")]
    PasswordEmpty,
    /// Too many wrong passwords.
    #[error("too many wrong passwords; try again in {seconds} s")]
    SignInThrottled {
        /// Until the next try is looked at.
        seconds: u64,
    },
    /// REVOKE of the only grant of a user.
    #[error("this is the last grant of {0}; DROP USER ends a user")]
    LastGrant(String),
    /// A change that would leave a store with users and nobody who may do everything.
    #[error("{0} is the last owner of the store; declare another one first")]
    LastOwner(String),

    /// Surely not done; the same script may succeed when sent again.
    #[error("{0}; nothing was done, try again")]
    Retry(String),
    /// It may have been done or not.
    #[error("it is not known whether this was done: {0}")]
    OutcomeUnknown(String),
    /// Nobody can answer at present.
    #[error("{0}")]
    Unavailable(String),
    /// A fault of the store.
    #[error("{0}")]
    Internal(String),
}

impl ErrorKind {
    /// The class HTTP answers.
    pub fn code(&self) -> Code {
        match self {
            Self::UnexpectedToken { .. }
            | Self::InvalidLiteral(_)
            | Self::InvalidValue(_)
            | Self::ClauseTwice(_)
            | Self::FieldTwice(_)
            | Self::TooDeep(_)
            | Self::TooManyValues(_)
            | Self::TooManyStatements(_)
            | Self::AnswerTooLarge(_)
            | Self::ScriptTooLarge(_)
            | Self::UnboundParameter(_)
            | Self::InvalidGroup(_)
            | Self::NotYet(_)
            | Self::Unknown { .. }
            | Self::NoNamespaceSelected
            | Self::NoDatabaseSelected
            | Self::TopicIsAppendOnly(_)
            | Self::TopicMessageTooLarge { .. }
            | Self::NotATopic(_)
            | Self::InvalidPosition(_)
            | Self::NoSuchGroup(_)
            | Self::NotAGroup(_)
            | Self::AfterOnGroup
            | Self::DeadLetterIsTheTopic(_)
            | Self::NoSuchRole(_)
            | Self::PasswordEmpty => Code::Invalid,
            Self::NotSignedIn => Code::Unauthenticated,
            Self::NotGranted { .. } | Self::RoleForbids { .. } | Self::OutsideTenancy(_) => Code::Forbidden,
            Self::SignInThrottled { .. } => Code::Throttled,
            Self::NameTaken { .. }
            | Self::StillDepended { .. }
            | Self::RecordExists(_)
            | Self::GroupExists(_)
            | Self::NodeTombstoned(_)
            | Self::LastGrant(_)
            | Self::LastOwner(_) => Code::Conflict,
            Self::Retry(_) | Self::OutcomeUnknown(_) => Code::Retry,
            Self::NotWritable | Self::Unavailable(_) => Code::Unavailable,
            Self::Internal(_) => Code::Internal,
        }
    }

    /// With the place in the script.
    pub fn at(self, span: Span) -> Error {
        Error {
            kind: self,
            span: Some(span),
        }
    }
}

/// An error and where in the script it arose. Prints as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What went wrong.
    pub kind: ErrorKind,
    /// Where, if anywhere.
    pub span: Option<Span>,
}

impl Error {
    /// The class HTTP answers.
    pub fn code(&self) -> Code {
        self.kind.code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        if let Some(Span { start, end }) = self.span {
            write!(f, " (at {start}..{end})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { kind, span: None }
    }
}
