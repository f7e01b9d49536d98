//! Passwords: Argon2id, off the async threads and bounded in parallel.

use super::turns::{Class, Line, Place};
use argon2::password_hash::{Output, PasswordHash as Phc, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use cluster::catalog::PasswordHash;
use parking_lot::Mutex;
use rand::RngCore;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;
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
/// How long a turn is waited for. Those known good wait longer: for most clients a refusal is the end, and there are as
/// many of them as the store has clients.
const STRANGERS_WAIT: Duration = Duration::from_secs(20);
const KNOWN_WAIT: Duration = Duration::from_secs(60);
/// Those known good that may wait, for each stranger that may.
const KNOWN_FOR_EACH: usize = 8;

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
    /// It has a NUL, which ends a password in SASL PLAIN (RFC 4616).
    #[error("a password can't have a NUL character: no Kafka client could sign in with it")]
    Nul,
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
    desk: Arc<Desk>,
    nobodys: PasswordHash,
}

/// Why no turn came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoTurn {
    /// Too many wait, and of them too many from the same address or for the same name.
    Crowded,
    /// It took too long.
    Late,
}

/// Who hashes and who waits.
struct Desk {
    state: Mutex<DeskState>,
}

struct DeskState {
    /// Hashes that may begin at once; more than none only while nobody waits.
    free: usize,
    line: Line<oneshot::Sender<Result<Running, NoTurn>>>,
}

/// One of the hashes under way; the next in line has its place when it is dropped.
struct Running(Option<Arc<Desk>>);

impl Drop for Running {
    fn drop(&mut self) {
        let Some(desk) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = desk.state.lock();
                match state.line.next() {
                    Some(next) => next,
                    None => {
                        state.free += 1;
                        return;
                    }
                }
            };
            match next.send(Ok(Self(Some(desk.clone())))) {
                Ok(()) | Err(Err(_)) => return,
                // Gone meanwhile. The place is still ours to give, not its.
                Err(Ok(mut back)) => back.0 = None,
            }
        }
    }
}

/// One in line; leaves it when dropped.
struct Waiting {
    desk: Arc<Desk>,
    place: Place,
    ticket: u64,
    answer: oneshot::Receiver<Result<Running, NoTurn>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let left = self.desk.state.lock().line.leave(&self.place, self.ticket);
        drop(left);
    }
}

/// The right to hash one password. While it is held, no other takes its place.
pub(super) struct Turn<'h> {
    /// Goes along to the thread that hashes: whoever asked may hang up, and the thread goes on.
    running: Arc<Running>,
    hasher: &'h Hasher,
}

impl Hasher {
    /// `parallel` at once, at least one; `waiting` strangers in line.
    pub(super) fn new(parallel: usize, waiting: usize) -> Self {
        let state = DeskState {
            free: parallel.max(1),
            line: Line::new(waiting.saturating_mul(KNOWN_FOR_EACH), waiting),
        };
        Self {
            desk: Arc::new(Desk {
                state: Mutex::new(state),
            }),
            // Parts of fixed sizes always make one; should they not, the empty hash verifies nothing.
            nobodys: nobodys().unwrap_or_else(|| PasswordHash::new("")),
        }
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self, class: Class, place: &Place) -> Result<Turn<'_>, NoTurn> {
        let turn = |running| Turn {
            running: Arc::new(running),
            hasher: self,
        };
        let (mut waiting, shed) = {
            let mut state = self.desk.state.lock();
            if state.free > 0 {
                state.free -= 1;
                return Ok(turn(Running(Some(self.desk.clone()))));
            }
            let (sender, answer) = oneshot::channel();
            let (ticket, shed) = state.line.join(class, place, sender);
            let waiting = Waiting {
                desk: self.desk.clone(),
                place: place.clone(),
                ticket,
                answer,
            };
            (waiting, shed)
        };
        if let Some(shed) = shed {
            // Whoever is gone needs no answer.
            let _ = shed.send(Err(NoTurn::Crowded));
        }
        let patience = match class {
            Class::Known => KNOWN_WAIT,
            Class::Stranger => STRANGERS_WAIT,
        };
        match timeout(patience, &mut waiting.answer).await {
            Ok(Ok(answer)) => answer.map(turn),
            Ok(Err(_)) | Err(_) => Err(NoTurn::Late),
        }
    }

    /// The place is known good: those that wait for the same go with those known.
    pub(super) fn know(&self, place: &Place) {
        self.desk.state.lock().line.know(place);
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

    fn place(name: &str) -> Place {
        Place::new(None, name)
    }

    fn free(hasher: &Hasher) -> usize {
        hasher.desk.state.lock().free
    }

    fn waiting(hasher: &Hasher) -> usize {
        hasher.desk.state.lock().line.waiting()
    }

    #[tokio::test]
    async fn those_who_wait_are_bounded_and_who_is_shed_is_told_at_once() {
        let hasher = Hasher::new(1, 2);
        let (ada, bob) = (place("ada"), place("bob"));
        let turn = hasher.turn(Class::Stranger, &ada).await.unwrap();
        let mut first = Box::pin(hasher.turn(Class::Stranger, &bob));
        let mut second = Box::pin(hasher.turn(Class::Stranger, &bob));
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
        let mut third = Box::pin(hasher.turn(Class::Stranger, &ada));
        assert!(futures::poll!(&mut third).is_pending());
        // Two of one name wait: the newer makes room.
        assert_eq!(second.await.err(), Some(NoTurn::Crowded));
        // Known ones have room of their own.
        let mut known = Box::pin(hasher.turn(Class::Known, &bob));
        assert!(futures::poll!(&mut known).is_pending());
        drop(turn);
        drop(known.await.unwrap());
        drop(first.await.unwrap());
        drop(third.await.unwrap());
        assert_eq!((free(&hasher), waiting(&hasher)), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_told_and_leaves_the_line() {
        let hasher = Hasher::new(1, 9);
        let turn = hasher.turn(Class::Stranger, &place("ada")).await.unwrap();
        let start = tokio::time::Instant::now();
        let late = hasher.turn(Class::Stranger, &place("bob")).await;
        assert_eq!(late.err(), Some(NoTurn::Late));
        assert_eq!(start.elapsed(), STRANGERS_WAIT);
        let late = hasher.turn(Class::Known, &place("bob")).await;
        assert_eq!(late.err(), Some(NoTurn::Late));
        assert_eq!(start.elapsed(), STRANGERS_WAIT + KNOWN_WAIT);
        assert_eq!(waiting(&hasher), 0);
        drop(turn);
        assert_eq!(free(&hasher), 1);
    }

    #[tokio::test]
    async fn who_gives_up_waiting_costs_nobody_a_turn() {
        let hasher = Hasher::new(1, 9);
        let ada = place("ada");
        let turn = hasher.turn(Class::Stranger, &ada).await.unwrap();
        let mut gone = Box::pin(hasher.turn(Class::Stranger, &ada));
        let mut given = Box::pin(hasher.turn(Class::Stranger, &ada));
        let mut last = Box::pin(hasher.turn(Class::Stranger, &ada));
        for one in [&mut gone, &mut given, &mut last] {
            assert!(futures::poll!(one).is_pending());
        }
        drop(gone);
        // The turn is given to one that is dropped before it looks.
        drop(turn);
        assert_eq!(free(&hasher), 0);
        drop(given);
        drop(last.await.unwrap());
        assert_eq!((free(&hasher), waiting(&hasher)), (1, 0));
    }

    #[tokio::test]
    async fn who_hangs_up_makes_no_room_before_the_hash_is_done() {
        let hasher = Hasher::new(1, 9);
        let ada = place("ada");
        let turn = hasher.turn(Class::Stranger, &ada).await.unwrap();
        let held = turn.running.clone();
        let hashing = turn.hash(Zeroizing::new(b"x".to_vec()));
        assert!(futures::poll!(std::pin::pin!(hashing)).is_pending());
        drop(turn);
        assert_eq!(free(&hasher), 0);
        drop(held);
        // The thread gives it back.
        assert!(hasher.turn(Class::Stranger, &ada).await.is_ok());
    }
}
