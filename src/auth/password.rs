//! Passwords: Argon2id, off the async threads and bounded in parallel.

use argon2::password_hash::{Output, PasswordHash as Phc, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use cluster::catalog::PasswordHash;
use rand::RngCore;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use zeroize::Zeroizing;

/// Bytes a password may have.
pub const MAX_PASSWORD: usize = 4096;
/// What a new hash costs: OWASP's first choice for Argon2id.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// What a hash brought along may cost at most: verifying it takes this much memory, and time in proportion to both.
const MAX_MEMORY_KIB: u32 = 65_536;
const MAX_PASSES: u32 = 8;
const MAX_LANES: u32 = 8;
const MAX_WORK_KIB: u32 = 262_144;
/// Bytes of a PHC string.
const MAX_PHC: usize = 256;
/// Tries that may wait for each one under way: some seconds' worth.
const WAITING: usize = 256;

/// A hash that is not accepted. Tells nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a hash that is accepted: argon2id in PHC form, version 19, m from {MEMORY_KIB} to {MAX_MEMORY_KIB}, t from \
     {PASSES} to {MAX_PASSES}, p up to {MAX_LANES}, m times t at most {MAX_WORK_KIB}, a salt of 8 bytes or more and 16 to 64 \
     bytes of hash"
)]
pub struct InvalidHash;

/// Why a password was not hashed; `Rejected`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// Too many others wait for the same.
    #[error("too many passwords are being checked; try again")]
    Busy,
    /// Longer than [`MAX_PASSWORD`].
    #[error("a password may have {MAX_PASSWORD} bytes at most")]
    TooLong,
    /// The hash could not be made.
    #[error("the password cannot be hashed")]
    Failed,
}

/// Accepts an Argon2id hash in PHC form whose cost is bounded.
pub fn parse_hash(phc: &str) -> Result<PasswordHash, InvalidHash> {
    parsed(phc)?;
    Ok(PasswordHash::new(phc))
}

fn parsed(phc: &str) -> Result<(Phc<'_>, Params), InvalidHash> {
    if phc.len() > MAX_PHC {
        return Err(InvalidHash);
    }
    let hash = Phc::new(phc).map_err(|_| InvalidHash)?;
    let params = Params::try_from(&hash).map_err(|_| InvalidHash)?;
    let sound = hash.algorithm == Algorithm::Argon2id.ident()
        && hash.version == Some(Version::V0x13.into())
        && (MEMORY_KIB..=MAX_MEMORY_KIB).contains(&params.m_cost())
        && (PASSES..=MAX_PASSES).contains(&params.t_cost())
        && (LANES..=MAX_LANES).contains(&params.p_cost())
        && params.m_cost().saturating_mul(params.t_cost()) <= MAX_WORK_KIB
        && params.keyid().is_empty()
        && params.data().is_empty()
        && hash.salt.is_some_and(|salt| {
            let mut bytes = [0; 64];
            salt.decode_b64(&mut bytes).is_ok_and(|salt| salt.len() >= 8)
        })
        && hash.hash.is_some_and(|output| (16..=64).contains(&output.len()));
    match sound {
        true => Ok((hash, params)),
        false => Err(InvalidHash),
    }
}

fn algorithm() -> Option<Argon2<'static>> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).ok()?;
    Some(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn salt() -> Option<SaltString> {
    let mut salt = [0; 16];
    rand::rng().fill_bytes(&mut salt);
    SaltString::encode_b64(&salt).ok()
}

fn hash(password: &[u8]) -> Option<PasswordHash> {
    let salt = salt()?;
    let hash = algorithm()?.hash_password(password, &salt).ok()?;
    Some(PasswordHash::new(hash.to_string()))
}

/// A hash no password is known for, that takes as long to verify as one made here.
fn nobodys() -> Option<PasswordHash> {
    let (salt, mut output) = (salt()?, [0; 32]);
    rand::rng().fill_bytes(&mut output);
    let output = Output::new(&output).ok()?;
    Some(PasswordHash::new(format!(
        "$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${output}"
    )))
}

/// What verifying takes: memory in KiB, passes, lanes.
pub(super) type Cost = (u32, u32, u32);

/// What verifying `hash` takes; of a hash made here where there is none.
pub(super) fn cost(hash: Option<&PasswordHash>) -> Cost {
    let params = hash
        .and_then(|hash| parsed(hash.expose()).ok())
        .map(|(_, params)| params);
    params.map_or((MEMORY_KIB, PASSES, LANES), |params| {
        (params.m_cost(), params.t_cost(), params.p_cost())
    })
}

/// Takes as long as verifying a hash of that cost does.
fn spend((memory, passes, lanes): Cost, password: &[u8]) {
    if let Ok(params) = Params::new(memory, passes, lanes, None) {
        let mut output = [0; 32];
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        // What comes out, or why not, is nobody's.
        let _ = argon2.hash_password_into(password, &[0; 16], &mut output);
    }
}

fn verify(hash: &PasswordHash, password: &[u8]) -> bool {
    let Ok((hash, params)) = parsed(hash.expose()) else {
        return false;
    };
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.verify_password(password, &hash).is_ok()
}

/// Hashes and verifies, so many at once, so many waiting.
pub(super) struct Hasher {
    running: Arc<Semaphore>,
    waiting: Semaphore,
    nobodys: PasswordHash,
}

/// The right to hash one password. While it is held, no other takes its place.
pub(super) struct Turn<'h> {
    /// Goes along to the thread that hashes: whoever asked may hang up, and the thread goes on.
    running: Arc<OwnedSemaphorePermit>,
    _waiting: SemaphorePermit<'h>,
    hasher: &'h Hasher,
}

impl Hasher {
    /// `parallel` at once, at least one.
    pub(super) fn new(parallel: usize) -> Self {
        let parallel = parallel.max(1);
        Self {
            running: Arc::new(Semaphore::new(parallel)),
            waiting: Semaphore::new(parallel.saturating_mul(WAITING + 1).min(Semaphore::MAX_PERMITS)),
            // Parts of fixed sizes always make one; should they not, the empty hash verifies nothing.
            nobodys: nobodys().unwrap_or_else(|| PasswordHash::new("")),
        }
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self) -> Result<Turn<'_>, HashError> {
        let waiting = self.waiting.try_acquire().map_err(|_| HashError::Busy)?;
        let running = self.running.clone().acquire_owned().await;
        Ok(Turn {
            running: Arc::new(running.map_err(|_| HashError::Busy)?),
            _waiting: waiting,
            hasher: self,
        })
    }
}

impl Turn<'_> {
    /// Whether `password` is the one of `hash`; for nobody's hash it takes as long and is not. A wrong one takes as long
    /// again as hashes of the `other` costs do, so that the time does not tell whose hash it was.
    pub(super) async fn verify(
        &self,
        hash: Option<PasswordHash>,
        password: Zeroizing<Vec<u8>>,
        other: impl FnOnce() -> Vec<Cost> + Send + 'static,
    ) -> bool {
        let known = hash.is_some();
        let hash = hash.unwrap_or_else(|| self.hasher.nobodys.clone());
        let running = self.running.clone();
        let right = tokio::task::spawn_blocking(move || {
            let right = verify(&hash, &password);
            if !right {
                other().into_iter().for_each(|cost| spend(cost, &password));
            }
            drop(running);
            right
        });
        let right = right.await;
        right.unwrap_or(false) && known
    }

    /// The hash of a new password.
    pub(super) async fn hash(&self, password: Zeroizing<Vec<u8>>) -> Result<PasswordHash, HashError> {
        let running = self.running.clone();
        let made = tokio::task::spawn_blocking(move || {
            let made = hash(&password);
            drop(running);
            made
        });
        made.await.ok().flatten().ok_or(HashError::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_made_here_is_accepted_and_holds_for_its_password_only() {
        let made = hash(b"correct horse").unwrap();
        assert!(made.expose().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert_eq!(parse_hash(made.expose()), Ok(made.clone()));
        assert!(verify(&made, b"correct horse"));
        assert!(!verify(&made, b"correct horsf"));
        assert!(!verify(&made, b""));
        assert_ne!(made, hash(b"correct horse").unwrap(), "another salt");
    }

    #[test]
    fn nobodys_hash_costs_what_a_users_does() {
        let made = hash(b"x").unwrap();
        let nobodys = nobodys().unwrap();
        let (_, ours) = parsed(made.expose()).unwrap();
        let (_, theirs) = parsed(nobodys.expose()).unwrap();
        assert_eq!(ours, theirs);
        assert_eq!(made.expose().len(), nobodys.expose().len());
    }

    /// As the reference implementation's tool prints it: `echo -n password | argon2 somesalt -id -t 2 -k 65536 -p 1`.
    #[test]
    fn a_hash_of_the_reference_implementation_is_verified() {
        let phc = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        let given = parse_hash(phc).unwrap();
        assert!(verify(&given, b"password"));
        assert!(!verify(&given, b"passwore"));
    }

    #[test]
    fn hashes_of_other_kinds_or_unbounded_cost_are_refused() {
        let hash = "c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        assert!(parse_hash(&format!("$argon2id$v=19$m=19456,t=2,p=1${hash}")).is_ok());
        for head in [
            "$argon2id$v=19$m=4294967295,t=2,p=1$",
            "$argon2id$v=19$m=65537,t=2,p=1$",
            "$argon2id$v=19$m=19455,t=2,p=1$",
            "$argon2id$v=19$m=19456,t=1,p=1$",
            "$argon2id$v=19$m=19456,t=9,p=1$",
            "$argon2id$v=19$m=65536,t=5,p=1$",
            "$argon2id$v=19$m=19456,t=4294967295,p=1$",
            "$argon2id$v=19$m=19456,t=2,p=9$",
            "$argon2id$v=16$m=19456,t=2,p=1$",
            "$argon2id$m=19456,t=2,p=1$",
            "$argon2i$v=19$m=19456,t=2,p=1$",
            "$scrypt$v=19$m=19456,t=2,p=1$",
            "",
        ] {
            assert_eq!(parse_hash(&format!("{head}{hash}")), Err(InvalidHash), "{head}");
        }
        for phc in [
            "",
            "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ",
            "$argon2id$v=19$m=19456,t=2,p=1$c29t$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
            "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO0",
            &format!("$argon2id$v=19$m=19456,t=2,p=1${hash}{}", "A".repeat(300)),
        ] {
            assert_eq!(parse_hash(phc), Err(InvalidHash), "{phc}");
        }
    }

    #[tokio::test]
    async fn those_who_wait_are_bounded() {
        let hasher = Hasher::new(1);
        let turn = hasher.turn().await.unwrap();
        let waiting: Vec<_> = (0..WAITING).map(|_| hasher.waiting.try_acquire().unwrap()).collect();
        assert!(matches!(hasher.turn().await, Err(HashError::Busy)));
        drop((turn, waiting));
        assert!(hasher.turn().await.is_ok());
    }

    #[tokio::test]
    async fn who_hangs_up_makes_no_room_before_the_hash_is_done() {
        let hasher = Hasher::new(1);
        let turn = hasher.turn().await.unwrap();
        let held = turn.running.clone();
        let hashing = turn.hash(Zeroizing::new(b"x".to_vec()));
        assert!(futures::poll!(std::pin::pin!(hashing)).is_pending());
        drop(turn);
        assert_eq!(hasher.running.available_permits(), 0);
        drop(held);
        // The thread gives it back.
        assert!(hasher.turn().await.is_ok());
    }
}
