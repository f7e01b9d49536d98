//! Who a connection is, and what it may send in its state: a step function over SASL's exchange.
//!
//! ```text
//!                  SaslHandshake                  right password
//!   nobody yet -------------------> exchange -------------------------> signed in
//!                                   |      ^                               |
//!                    anything wrong |      +--- SaslHandshake again -------+
//!                                   v           (where sessions end, KIP-368)
//!                                  over
//! ```
//!
//! As Apache Kafka's broker does: before sign-in one ApiVersions and then SASL, anything else closes; a refusal within the
//! exchange is answered and closes; once signed in, SASL's requests are answered ILLEGAL_SASL_STATE (34) unless sessions
//! end. A store without users asks nobody to sign in, and takes whoever does.

use super::reply::Refusal;
use crate::auth::{NotStanding, Principal, Who};
use kafka_protocol::messages::ApiKey;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// A connection signs in again at most so often; Kafka's own bound (KIP-368).
const BETWEEN: Duration = Duration::from_secs(1);

/// The sign-in of one connection.
#[derive(Debug)]
pub(crate) struct SignIn {
    stage: Mutex<Stage>,
    /// How long a sign-in lasts; `None`: as long as the connection.
    session: Option<Duration>,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Nobody has signed in.
    Nobody {
        /// ApiVersions was asked while the store wanted a sign-in.
        asked: bool,
    },
    /// The mechanism is agreed, the token is next.
    Exchange {
        /// The token comes in SaslAuthenticate; else as a frame of its own (after a handshake of version 0).
        in_request: bool,
        /// Who signs in again, and stays who it is.
        again: Option<Principal>,
        began: Instant,
    },
    /// Signed in; as nobody in particular while the store is open.
    In {
        who: Who,
        began: Instant,
        until: Option<Instant>,
    },
    /// Nothing that still comes is looked at.
    Over,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Admission {
    /// It runs, as this.
    Run(Who),
    /// A SaslHandshake: see [`SignIn::agreed`].
    Handshake,
    /// A SaslAuthenticate with a token.
    Authenticate,
    /// It is answered ILLEGAL_SASL_STATE (34), and the connection goes on.
    IllegalState,
    /// It is answered ILLEGAL_SASL_STATE (34), and the connection closes.
    IllegalStateAndClose,
}

impl SignIn {
    /// Nobody yet. `session` is how long a sign-in lasts.
    pub(crate) fn new(session: Option<Duration>) -> Self {
        Self {
            stage: Mutex::new(Stage::Nobody { asked: false }),
            session,
        }
    }

    /// Who the connection is now.
    pub(crate) fn who(&self) -> Who {
        match &*self.stage.lock() {
            Stage::In { who, .. } => who.clone(),
            Stage::Exchange { again: Some(user), .. } => Who::User(user.clone()),
            Stage::Nobody { .. } | Stage::Exchange { .. } | Stage::Over => Who::Anonymous,
        }
    }

    /// Whether a user has signed in.
    pub(crate) fn is_user(&self) -> bool {
        matches!(self.who(), Who::User(_))
    }

    /// Whether the next frame is a token without a request around it.
    pub(crate) fn awaits_token(&self) -> bool {
        matches!(*self.stage.lock(), Stage::Exchange { in_request: false, .. })
    }

    /// Decides on the next request. `standing` is the catalog's word on [`SignIn::who`] now.
    pub(crate) fn admit(
        &self,
        key: ApiKey,
        standing: Result<(), NotStanding>,
        now: Instant,
    ) -> Result<Admission, Refusal> {
        let mut stage = self.stage.lock();
        let decided = decide(&mut stage, key, standing, self.session.is_some(), now);
        if matches!(decided, Err(_) | Ok(Admission::IllegalStateAndClose)) {
            *stage = Stage::Over;
        }
        decided
    }

    /// A handshake named a mechanism there is. `in_request`: from version 1 on.
    pub(crate) fn agreed(&self, in_request: bool, now: Instant) {
        let mut stage = self.stage.lock();
        let again = match &*stage {
            Stage::In {
                who: Who::User(user), ..
            } => Some(user.clone()),
            _ => None,
        };
        *stage = Stage::Exchange {
            in_request,
            again,
            began: now,
        };
    }

    /// The token was right. `None`: this connection belongs to another user, and is over.
    /// Else how long the sign-in lasts, in milliseconds; 0 without an end.
    pub(crate) fn succeeded(&self, who: Who, now: Instant) -> Option<i64> {
        let mut stage = self.stage.lock();
        let (began, other) = match (&*stage, &who) {
            (Stage::Exchange { again: None, began, .. }, _) => (*began, false),
            (
                Stage::Exchange {
                    again: Some(before),
                    began,
                    ..
                },
                Who::User(user),
            ) => (*began, user.id != before.id),
            _ => (now, true),
        };
        if other {
            *stage = Stage::Over;
            return None;
        }
        *stage = Stage::In {
            who,
            began,
            until: self.session.map(|session| now + session),
        };
        Some(
            self.session
                .map_or(0, |s| i64::try_from(s.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// The exchange failed.
    pub(crate) fn failed(&self) {
        *self.stage.lock() = Stage::Over;
    }
}

fn decide(
    stage: &mut Stage,
    key: ApiKey,
    standing: Result<(), NotStanding>,
    sessions_end: bool,
    now: Instant,
) -> Result<Admission, Refusal> {
    let wants_sign_in = standing == Err(NotStanding::SignInWanted);
    match stage {
        Stage::Over => Err(Refusal::SignedOut),
        // The user is no more, or has another password.
        _ if standing == Err(NotStanding::Ended) => Err(Refusal::UserEnded),
        Stage::Nobody { .. } if key == ApiKey::SaslHandshake => Ok(Admission::Handshake),
        Stage::Nobody { asked } if wants_sign_in => match key {
            ApiKey::ApiVersions if !std::mem::replace(asked, true) => Ok(Admission::Run(Who::Anonymous)),
            _ => Err(Refusal::SignInWanted(key)),
        },
        Stage::Exchange { in_request, .. } => match key {
            ApiKey::SaslAuthenticate if *in_request => Ok(Admission::Authenticate),
            ApiKey::SaslHandshake | ApiKey::ApiVersions => Ok(Admission::IllegalStateAndClose),
            _ => Err(Refusal::SignInWanted(key)),
        },
        // It signed in when the store was open to all.
        Stage::In { .. } if wants_sign_in => match key {
            ApiKey::SaslHandshake => Ok(Admission::Handshake),
            _ => Err(Refusal::SignInWanted(key)),
        },
        Stage::In { began, .. } if key == ApiKey::SaslHandshake => {
            match sessions_end && now.duration_since(*began) >= BETWEEN {
                true => Ok(Admission::Handshake),
                false => Ok(Admission::IllegalState),
            }
        }
        Stage::In { until: Some(until), .. } if now >= *until => Err(Refusal::SessionOver),
        Stage::Nobody { .. } | Stage::In { .. } if key == ApiKey::SaslAuthenticate => Ok(Admission::IllegalState),
        Stage::Nobody { .. } => Ok(Admission::Run(Who::Anonymous)),
        Stage::In { who, .. } => Ok(Admission::Run(who.clone())),
    }
}

#[cfg(test)]
#[path = "sign_in_test.rs"]
mod tests;
