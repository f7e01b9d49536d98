//! What each refusal of the rooms is called on the wire: one mapping, and the only one.
//!
//! | class | word | a client may |
//! |---|---|---|
//! | Rejected: surely not done | `TRYAGAIN` | send it again |
//! | Unknown: it may be done | `ERR it is not known whether this was done: ..` | look before it sends it again |
//! | Invalid | `ERR`, `NOAUTH`, `WRONGPASS`, `NOPERM`, `NOPROTO` | change what it sends |
//! | this member takes no writes | `READONLY` | ask another member |
//! | Fatal | `TRYAGAIN` | ask another member |

use crate::auth::{NotStanding, SignInError};
use crate::broker::{AccessError, DeleteError};
use crate::log::ReadError;
use crate::names::NameError;
use crate::ql::{Code, ErrorKind};
use cluster::range::ProposeError;
use std::fmt;

/// The first word of an error, by which clients tell errors apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Word {
    Err,
    NoAuth,
    WrongPass,
    NoPerm,
    NoProto,
    ReadOnly,
    TryAgain,
}

impl Word {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [
        Self::Err,
        Self::NoAuth,
        Self::WrongPass,
        Self::NoPerm,
        Self::NoProto,
        Self::ReadOnly,
        Self::TryAgain,
    ];

    /// As it is written.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Err => "ERR",
            Self::NoAuth => "NOAUTH",
            Self::WrongPass => "WRONGPASS",
            Self::NoPerm => "NOPERM",
            Self::NoProto => "NOPROTO",
            Self::ReadOnly => "READONLY",
            Self::TryAgain => "TRYAGAIN",
        }
    }
}

/// Why a command was not done, or is not known to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) word: Word,
    why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.word.as_str(), self.why)
    }
}

impl Refusal {
    /// Any.
    pub(crate) fn new(word: Word, why: impl Into<String>) -> Self {
        Self { word, why: why.into() }
    }

    /// The command is wrong.
    pub(crate) fn wrong(why: impl Into<String>) -> Self {
        Self::new(Word::Err, why)
    }

    /// Options that are not understood.
    pub(crate) fn syntax() -> Self {
        Self::wrong("syntax error")
    }

    /// Surely not done.
    pub(crate) fn try_again(why: impl fmt::Display) -> Self {
        Self::new(Word::TryAgain, format!("{why}; nothing was done, try again"))
    }
}

impl From<NotStanding> for Refusal {
    fn from(why: NotStanding) -> Self {
        match why {
            NotStanding::SignInWanted => Self::new(Word::NoAuth, "Authentication required."),
            NotStanding::Ended => Self::new(Word::NoAuth, why.to_string()),
        }
    }
}

impl From<SignInError> for Refusal {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::Refused => Self::new(Word::WrongPass, "invalid username-password pair or user is disabled."),
            SignInError::Throttled { .. } | SignInError::Crowded | SignInError::Busy | SignInError::Unavailable(_) => {
                Self::new(Word::TryAgain, error.to_string())
            }
        }
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        match error {
            NameError::Invalid => Self::wrong(format!("{error}; /N behind it names a partition")),
            NameError::Unknown => Self::wrong("no such key: there is no such topic, and DEFINE TOPIC declares one"),
        }
    }
}

/// An append is refused in the words of CREATE.
impl From<ErrorKind> for Refusal {
    fn from(kind: ErrorKind) -> Self {
        let word = match (&kind, kind.code()) {
            (ErrorKind::NotWritable, _) => Word::ReadOnly,
            // It says so itself, and must not be sent again unseen.
            (ErrorKind::OutcomeUnknown(_), _) => Word::Err,
            (_, Code::Retry | Code::Throttled | Code::Unavailable) => Word::TryAgain,
            (_, Code::Unauthenticated) => Word::NoAuth,
            (_, Code::Forbidden) => Word::NoPerm,
            (_, Code::Invalid | Code::Conflict | Code::Internal) => Word::Err,
        };
        Self::new(word, kind.to_string())
    }
}

impl From<ProposeError> for Refusal {
    fn from(error: ProposeError) -> Self {
        ErrorKind::from(error).into()
    }
}

impl From<AccessError> for Refusal {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::NotLeader | AccessError::FencedEpoch | AccessError::UnknownEpoch => {
                Self::try_again("the stream has no leader that answers")
            }
            AccessError::Read(error @ ReadError::OutOfRange { .. }) => Self::wrong(error.to_string()),
            AccessError::Read(error @ ReadError::Storage { .. }) => {
                tracing::error!(%error, "a stream cannot be read");
                Self::wrong("the stored entries cannot be read")
            }
        }
    }
}

impl From<DeleteError> for Refusal {
    fn from(error: DeleteError) -> Self {
        match error {
            DeleteError::Access(error) => error.into(),
            DeleteError::Propose(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::AppendError;
    use cluster::ids::RangeId;
    use std::time::Duration;

    fn not_leader() -> ProposeError {
        ProposeError::NotLeader {
            range: RangeId(1),
            leader: None,
        }
    }

    #[test]
    fn each_outcome_has_its_word() {
        let append = |error| Refusal::from(ErrorKind::from(AppendError::Propose(error)));
        let storage = ReadError::Storage {
            file: "f".to_owned(),
            position: 0,
            why: "x".to_owned(),
        };
        let throttled = SignInError::Throttled {
            wait: Duration::from_secs(2),
        };
        for (refusal, word) in [
            (append(not_leader()), Word::TryAgain),
            (append(ProposeError::NoSpace), Word::TryAgain),
            (append(ProposeError::Unknown("timed out")), Word::Err),
            (append(ProposeError::Fatal("a sync failed".to_owned())), Word::TryAgain),
            (ErrorKind::from(AppendError::Gone).into(), Word::TryAgain),
            (ErrorKind::NotWritable.into(), Word::ReadOnly),
            (ErrorKind::NotSignedIn.into(), Word::NoAuth),
            (ErrorKind::OutsideTenancy("ada".to_owned()).into(), Word::NoPerm),
            (ErrorKind::FieldTwice("a".to_owned()).into(), Word::Err),
            (AccessError::NotLeader.into(), Word::TryAgain),
            (AccessError::Read(storage).into(), Word::Err),
            (DeleteError::Propose(not_leader()).into(), Word::TryAgain),
            (SignInError::Refused.into(), Word::WrongPass),
            (throttled.into(), Word::TryAgain),
            (SignInError::Busy.into(), Word::TryAgain),
            (NotStanding::SignInWanted.into(), Word::NoAuth),
            (NotStanding::Ended.into(), Word::NoAuth),
            (NameError::Invalid.into(), Word::Err),
        ] {
            assert_eq!(refusal.word, word, "{refusal}");
        }
    }

    #[test]
    fn an_unknown_outcome_says_so_and_asks_nobody_to_send_it_again() {
        let refusal = Refusal::from(ErrorKind::from(ProposeError::Unknown("timed out")));
        assert_eq!(
            refusal.to_string(),
            "ERR it is not known whether this was done: timed out"
        );
        let surely_not = Refusal::from(not_leader()).to_string();
        assert!(surely_not.ends_with("nothing was done, try again"), "{surely_not}");
    }

    #[test]
    fn every_word_has_its_place() {
        for (at, word) in Word::ALL.into_iter().enumerate() {
            assert_eq!(word as usize, at);
        }
    }
}
