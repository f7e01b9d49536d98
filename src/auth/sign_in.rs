//! Signing in: one way for every front door.

use super::audit::Audit;
use super::known::Known;
use super::password::{Cost, HashError, Hasher, MAX_PASSWORD, NoTurn, cost};
use super::principal::{Caller, Origin, Principal, Surface, Who};
use super::sessions::Sessions;
use super::throttle::{self, Unrecorded};
use super::turns::{Class, Place};
use cluster::catalog::{Catalog, CatalogFailure, Command, PasswordHash, Role, ScopeName, State, User};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use zeroize::Zeroizing;

/// Milliseconds since the epoch.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// How long the record of a wrong password is waited for; it counts here meanwhile.
const RECORD_TIME: Duration = Duration::from_secs(5);
/// Bytes of a name that count.
const MAX_NAME: usize = 200;

/// How a node checks passwords.
#[derive(Clone)]
pub struct AuthConfig {
    /// Passwords hashed at once; each takes a core for some hundredths of a second and 19 MiB. Default half the cores, at
    /// least one: the others go on serving.
    pub parallel: usize,
    /// Tries of strangers that may wait for their turn; those who signed in lately have eight times as much room. Default
    /// 1,024.
    pub waiting: usize,
    /// Default the system's.
    pub clock: Clock,
}

impl Default for AuthConfig {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            parallel: (cores / 2).max(1),
            waiting: 1_024,
            clock: Arc::new(|| jiff::Timestamp::now().as_millisecond()),
        }
    }
}

/// Why somebody is not signed in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// No such user, or not its password.
    #[error("the name or the password is wrong")]
    Refused,
    /// Too many wrong passwords for this name; this one was not looked at.
    #[error("too many wrong passwords; try again in {} s", seconds(*wait))]
    Throttled {
        /// Until a try is looked at.
        wait: Duration,
    },
    /// Too many are signing in, most of them from the same address or by the same name; this try was not looked at.
    #[error("too many are signing in from the same address; try again in a moment")]
    Crowded,
    /// Too many others are signing in; this try was not looked at in time.
    #[error("too many are signing in; try again in a moment")]
    Busy,
    /// It cannot be told at present.
    #[error("nobody can sign in at present: {0}")]
    Unavailable(String),
}

/// Whole seconds, rounded up.
fn seconds(wait: Duration) -> u64 {
    wait.as_millis().div_ceil(1000) as u64
}

impl SignInError {
    /// Whole seconds to wait before the next try, if it says.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Throttled { wait } => Some(seconds(*wait)),
            Self::Crowded | Self::Busy => Some(1),
            Self::Refused | Self::Unavailable(_) => None,
        }
    }
}

/// How sign-ins went on this node. For `/metrics`.
#[derive(Default)]
#[allow(missing_docs)]
pub struct SignInCounts {
    pub good: AtomicU64,
    pub refused: AtomicU64,
    pub throttled: AtomicU64,
    pub busy: AtomicU64,
}

/// Signs users in. One per node, shared by its front doors.
pub struct Auth {
    catalog: Catalog,
    clock: Clock,
    pub(super) hasher: Hasher,
    known: Mutex<Known>,
    unrecorded: Mutex<Unrecorded>,
    pub(super) sessions: Mutex<Sessions>,
    counts: SignInCounts,
    audit: Audit,
}

/// Kinds of hashes whose time a wrong password takes besides its own.
const OTHER_COSTS: usize = 4;

/// What the store's hashes take to verify, and one made here, but for `own`; the dearest ones where there are many.
fn other_costs(view: &State, own: Cost) -> Vec<Cost> {
    let hashes = view.users().map(|user| cost(Some(&user.hash)));
    let mut costs: Vec<Cost> = hashes.chain([cost(None)]).filter(|cost| *cost != own).collect();
    costs.sort_unstable();
    costs.dedup();
    costs.drain(..costs.len().saturating_sub(OTHER_COSTS));
    costs
}

impl Auth {
    /// Over a node's catalog.
    pub fn new(catalog: Catalog, config: AuthConfig) -> Self {
        Self {
            catalog,
            clock: config.clock,
            hasher: Hasher::new(config.parallel, config.waiting),
            known: Mutex::default(),
            unrecorded: Mutex::default(),
            sessions: Mutex::default(),
            counts: SignInCounts::default(),
            audit: Audit::default(),
        }
    }

    /// Signs in by name and password. Takes some hundredths of a second, most of it on another thread, whether the name
    /// is a user's or nobody's; longer where others wait for the same, who take turns by where they come from (`turns.rs`).
    ///
    /// # Errors
    /// See [`SignInError`]. Only [`SignInError::Refused`] counts as a wrong password.
    pub async fn sign_in(&self, name: &str, password: &[u8], origin: &Origin) -> Result<Principal, SignInError> {
        self.judge(name, password, origin, false).await
    }

    /// The same for who is signed in as this name already: does not wait with strangers.
    ///
    /// # Errors
    /// See [`SignInError`].
    pub async fn sign_in_again(&self, name: &str, password: &[u8], origin: &Origin) -> Result<Principal, SignInError> {
        self.judge(name, password, origin, true).await
    }

    async fn judge(&self, name: &str, password: &[u8], origin: &Origin, again: bool) -> Result<Principal, SignInError> {
        let place = Place::new(origin.remote.map(|remote| remote.ip()), shortened(name));
        let result = self.check(name, password, &place, again).await;
        let (count, outcome) = match &result {
            Ok(_) => (&self.counts.good, "good"),
            Err(SignInError::Refused) => (&self.counts.refused, "refused"),
            Err(SignInError::Throttled { .. }) => (&self.counts.throttled, "throttled"),
            Err(SignInError::Crowded | SignInError::Busy | SignInError::Unavailable(_)) => {
                (&self.counts.busy, "not looked at")
            }
        };
        count.fetch_add(1, Relaxed);
        self.audit.sign_in(shortened(name), origin, outcome);
        result
    }

    async fn check(&self, name: &str, password: &[u8], place: &Place, again: bool) -> Result<Principal, SignInError> {
        self.throttle(name)?;
        let class = match again || self.known.lock().has(place, self.now_ms()) {
            true => Class::Known,
            false => Class::Stranger,
        };
        let turn = self.hasher.turn(class, place).await.map_err(|no| match no {
            NoTurn::Crowded => SignInError::Crowded,
            NoTurn::Late => SignInError::Busy,
        })?;
        // Others may have tried the name while this one waited.
        self.throttle(name)?;
        let view = self.catalog.view();
        let user = view.user(name).cloned();
        let hash = user.as_ref().map(|user| user.hash.clone());
        let own = cost(hash.as_ref());
        // One too long to be anybody's is looked at up to there, so that it takes its time, too.
        let right = turn
            .verify(hash, copy(&password[..password.len().min(MAX_PASSWORD)]), move || {
                other_costs(&view, own)
            })
            .await;
        let signed_in = user.filter(|_| right && password.len() <= MAX_PASSWORD);
        let Some(user) = signed_in.filter(|user| self.is_current(user)) else {
            self.unrecorded.lock().add(shortened(name), (self.clock)());
            // The count is known here now, so the next in line may be judged by it.
            drop(turn);
            self.record(name).await;
            return Err(SignInError::Refused);
        };
        self.known.lock().add(place.clone(), self.now_ms());
        self.hasher.know(place);
        drop(turn);
        self.forget(name).await;
        Ok(Principal {
            name: user.name.as_str().into(),
            id: user.id,
            credential: user.credential,
        })
    }

    fn throttle(&self, name: &str) -> Result<(), SignInError> {
        let recorded = self.catalog.view().wrong_passwords(name);
        let wrong = self.unrecorded.lock().with(shortened(name), recorded);
        match wrong.and_then(|wrong| throttle::wait(wrong, (self.clock)())) {
            Some(wait) => Err(SignInError::Throttled { wait }),
            None => Ok(()),
        }
    }

    /// Whether the user is still as it was when its password was looked at.
    fn is_current(&self, user: &User) -> bool {
        let view = self.catalog.view();
        let now = view.user(&user.name);
        now.is_some_and(|now| now.id == user.id && now.credential == user.credential)
    }

    async fn record(&self, name: &str) {
        let command = Command::CountWrongPassword {
            name: shortened(name).to_owned(),
            now_ms: (self.clock)(),
        };
        match tokio::time::timeout(RECORD_TIME, self.catalog.propose(command)).await {
            Ok(Ok(_)) => self.unrecorded.lock().recorded(shortened(name)),
            Ok(Err(error)) => tracing::warn!(%error, "a wrong password is counted on this node only"),
            Err(_) => tracing::warn!(
                error = "no answer in time",
                "a wrong password is counted on this node only"
            ),
        }
    }

    async fn forget(&self, name: &str) {
        self.unrecorded.lock().forget(shortened(name));
        if self.catalog.view().wrong_passwords(name).is_none() {
            return;
        }
        let command = Command::ForgetWrongPasswords { name: name.to_owned() };
        match tokio::time::timeout(RECORD_TIME, self.catalog.propose(command)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "wrong passwords before a right one count on"),
            Err(_) => tracing::warn!(
                error = "no answer in time",
                "wrong passwords before a right one count on"
            ),
        }
    }

    /// The hash of a new password, which alone goes into the catalog.
    ///
    /// # Errors
    /// See [`HashError`].
    pub async fn hash(&self, password: &[u8]) -> Result<PasswordHash, HashError> {
        if password.len() > MAX_PASSWORD {
            return Err(HashError::TooLong);
        }
        if password.contains(&0) {
            return Err(HashError::Nul);
        }
        let turn = self.hasher.turn(Class::Known, &Place::inside()).await;
        turn.map_err(|_| HashError::Busy)?.hash(copy(password)).await
    }

    /// Declares the first owner of a store that has no user; one that has any is left as it is.
    ///
    /// # Errors
    /// The catalog's, or a sentence about the password.
    pub async fn declare_first(&self, name: &str, password: &[u8]) -> Result<(), FirstUserError> {
        if !self.view().is_open() {
            return Ok(());
        }
        let command = Command::DefineUser {
            name: name.to_owned(),
            if_not_exists: false,
            only_first: true,
            scope: ScopeName::Store,
            role: Role::Owner,
            hash: self.hash(password).await?,
        };
        self.catalog.propose(command).await?;
        let node = Caller {
            who: Who::Folder,
            origin: Origin {
                surface: Surface::Node,
                remote: None,
            },
        };
        self.audit.changed(&node, &format!("DEFINE USER {name} ROLE owner"));
        Ok(())
    }

    /// What is declared now: what [`super::standing`] judges by.
    pub fn view(&self) -> Arc<State> {
        self.catalog.view()
    }

    /// Where who did what, or may not, is told.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// How sign-ins went.
    pub fn counts(&self) -> &SignInCounts {
        &self.counts
    }

    pub(super) fn now_ms(&self) -> i64 {
        (self.clock)()
    }
}

/// Why the first owner was not declared.
#[derive(Debug, thiserror::Error)]
pub enum FirstUserError {
    /// Its password.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// The catalog.
    #[error(transparent)]
    Catalog(#[from] CatalogFailure),
}

/// What of a name counts and is told.
fn shortened(name: &str) -> &str {
    let end = (0..=name.len().min(MAX_NAME))
        .rev()
        .find(|at| name.is_char_boundary(*at));
    &name[..end.unwrap_or(0)]
}

/// A copy that is wiped when it goes.
fn copy(password: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(password.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAR: &str = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";

    #[test]
    fn a_wrong_password_takes_the_same_whosever_hash_it_meets() {
        let mut state = State::default();
        for (name, hash) in [("ada", DEAR.to_owned()), ("bob", DEAR.replace("65536", "19456"))] {
            let define = Command::DefineUser {
                name: name.to_owned(),
                if_not_exists: false,
                only_first: false,
                scope: ScopeName::Store,
                role: Role::Owner,
                hash: PasswordHash::new(hash),
            };
            state.apply(define).unwrap();
        }
        let spent = |name: &str| {
            let own = cost(state.user(name).map(|user| &user.hash));
            let mut all = other_costs(&state, own);
            all.push(own);
            all.sort_unstable();
            all
        };
        assert_eq!(spent("nobody"), [(19456, 2, 1), (65536, 2, 1)]);
        assert_eq!(spent("ada"), spent("nobody"));
        assert_eq!(spent("bob"), spent("nobody"));
    }
}
