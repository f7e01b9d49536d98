//! Sessions: tokens that stand for a sign-in. Kept by the node that gave them, and gone when it restarts.

use super::principal::Principal;
use super::sign_in::Auth;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::RngCore;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;
use zeroize::Zeroizing;

/// How long a session lasts.
pub const SESSION_TIME: Duration = Duration::from_secs(12 * 60 * 60);
/// Sessions of one user at once; a further one ends the oldest.
const MAX_PER_USER: usize = 64;
/// Sessions of a node at once.
const MAX_SESSIONS: usize = 100_000;
/// Characters of a token: 32 bytes.
const TOKEN: usize = 43;

/// A session just opened. The token is told once.
pub struct Session {
    /// 256 random bits, in base64 for URLs.
    pub token: Zeroizing<String>,
    /// When it ends, milliseconds since the epoch.
    pub expires_ms: i64,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("expires_ms", &self.expires_ms)
            .finish_non_exhaustive()
    }
}

/// Hash of a token: a copy of this node's memory signs nobody in.
type Digest = [u8; 32];

#[derive(Default)]
pub(super) struct Sessions(HashMap<Digest, Open>);

struct Open {
    principal: Principal,
    expires_ms: i64,
}

fn digest_of(token: &str) -> Digest {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    out
}

impl Auth {
    /// Opens a session for a user who signed in. It ends after [`SESSION_TIME`], when the user changes, or by
    /// [`Auth::end_session`].
    pub fn open_session(&self, principal: Principal) -> Session {
        let mut bytes = Zeroizing::new([0; 32]);
        rand::rng().fill_bytes(&mut *bytes);
        let token = Zeroizing::new(URL_SAFE_NO_PAD.encode(*bytes));
        let now_ms = self.now_ms();
        let expires_ms = now_ms.saturating_add(SESSION_TIME.as_millis() as i64);
        let mut sessions = self.sessions.lock();
        sessions.make_room(&principal, now_ms);
        sessions.0.insert(digest_of(&token), Open { principal, expires_ms });
        Session { token, expires_ms }
    }

    /// Whose session it is; `None` for one that ended or never was. Whether the user still stands is
    /// [`super::standing`]'s to say.
    pub fn session(&self, token: &str) -> Option<Principal> {
        if token.len() != TOKEN {
            return None;
        }
        let sessions = self.sessions.lock();
        let open = sessions.0.get(&digest_of(token))?;
        (self.now_ms() < open.expires_ms).then(|| open.principal.clone())
    }

    /// Ends a session. Answers whether there was one.
    pub fn end_session(&self, token: &str) -> bool {
        self.sessions.lock().0.remove(&digest_of(token)).is_some()
    }
}

impl Sessions {
    fn make_room(&mut self, principal: &Principal, now_ms: i64) {
        // Those of earlier passwords are of no use to anybody.
        self.0.retain(|_, open| {
            let same = open.principal.name == principal.name;
            now_ms < open.expires_ms && (!same || open.principal == *principal)
        });
        let own = |open: &Open| open.principal == *principal;
        if self.0.values().filter(|open| own(open)).count() >= MAX_PER_USER {
            self.end_oldest(own);
        }
        if self.0.len() >= MAX_SESSIONS {
            self.end_oldest(|_| true);
        }
    }

    fn end_oldest(&mut self, among: impl Fn(&Open) -> bool) {
        let candidates = self.0.iter().filter(|(_, open)| among(open));
        if let Some(oldest) = candidates
            .min_by_key(|(_, open)| open.expires_ms)
            .map(|(digest, _)| *digest)
        {
            self.0.remove(&oldest);
        }
    }
}
