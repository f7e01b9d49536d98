//! Signing in, on a catalog whose files are in memory and with a clock that stands until it is moved.

use super::*;
use cluster::catalog::{Catalog, CatalogMachine, Command, PasswordHash, Role, ScopeName, UserChange, UserRef};
use cluster::fs::{FileSystem, MemoryFs};
use cluster::ids::{NodeId, SYSTEM_RANGE};
use cluster::meta::MetaStore;
use cluster::raft::{HostConfig, RangeHost, Start};
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

const ORIGIN: Origin = Origin {
    surface: Surface::Kafka,
    remote: None,
};

/// Strangers that may wait.
const WAITING: usize = 60;

/// A catalog of one node. Ends with its host.
pub(crate) async fn catalog() -> (RangeHost, Catalog) {
    let node = NodeId(7);
    let files: Arc<dyn FileSystem> = Arc::new(MemoryFs::new(1));
    files.create_dir(Path::new("/store")).unwrap();
    let meta = Arc::new(MetaStore::open(files.clone(), Path::new("/store/meta")).unwrap());
    let wal = Path::new("/store/wal");
    let host = RangeHost::open(files, wal, node, HostConfig::default()).await.unwrap();
    let machine = CatalogMachine::open(meta).unwrap();
    let source = machine.source();
    let system = host
        .start(SYSTEM_RANGE, Box::new(machine), Start::Bootstrap)
        .await
        .unwrap();
    let catalog = Catalog::new(source, system);
    catalog.propose(Command::JoinNode { node }).await.unwrap();
    (host, catalog)
}

/// A sign-in by HTTP from this address.
fn from(address: &str) -> Origin {
    Origin {
        surface: Surface::Http,
        remote: Some(SocketAddr::new(address.parse().unwrap(), 1)),
    }
}

struct Store {
    host: RangeHost,
    catalog: Catalog,
    now: Arc<AtomicI64>,
    auth: Auth,
}

impl Store {
    async fn new() -> Self {
        let (host, catalog) = catalog().await;
        let now = Arc::new(AtomicI64::new(1_000_000));
        let clock = now.clone();
        let config = AuthConfig {
            parallel: 1,
            waiting: WAITING,
            clock: Arc::new(move || clock.load(Relaxed)),
        };
        let auth = Auth::new(catalog.clone(), config);
        Self {
            host,
            catalog,
            now,
            auth,
        }
    }

    async fn with_ada() -> Self {
        let store = Self::new().await;
        store.auth.declare_first("ada", b"right").await.unwrap();
        store
    }

    async fn try_as(&self, name: &str, password: &str) -> Result<Principal, SignInError> {
        self.auth.sign_in(name, password.as_bytes(), &ORIGIN).await
    }

    /// Until it is dropped, nobody's password is looked at.
    async fn hold_the_turn(&self) -> password::Turn<'_> {
        let place = turns::Place::inside();
        let turn = self.auth.hasher.turn(turns::Class::Stranger, &place).await;
        turn.expect("nobody else has it")
    }

    fn pass(&self, time: Duration) {
        self.now.fetch_add(time.as_millis() as i64, Relaxed);
    }

    fn version(&self) -> u64 {
        self.catalog.view().version()
    }
}

fn user(name: &str) -> UserRef {
    UserRef {
        name: name.into(),
        id: None,
    }
}

fn throttled(seconds: u64) -> Result<Principal, SignInError> {
    let wait = Duration::from_secs(seconds);
    Err(SignInError::Throttled { wait })
}

#[tokio::test]
async fn a_user_signs_in_with_its_password_only() {
    let store = Store::with_ada().await;
    let ada = store.try_as("ada", "right").await.unwrap();
    assert_eq!(&*ada.name, "ada");
    let who = Who::User(ada);
    assert_eq!(standing(&store.catalog.view(), &who).unwrap().name(), Some("ada"));
    assert_eq!(store.try_as("ada", "wrong").await, Err(SignInError::Refused));
    assert_eq!(store.try_as("ada", "").await, Err(SignInError::Refused));
    assert_eq!(store.try_as("Ada", "right").await, Err(SignInError::Refused));
    assert_eq!(store.try_as("", "right").await, Err(SignInError::Refused));
}

#[tokio::test]
async fn three_wrong_passwords_make_a_name_wait_be_it_a_users_or_nobodys() {
    for name in ["ada", "nobody", "not an identifier"] {
        let store = Store::with_ada().await;
        for _ in 0..3 {
            assert_eq!(store.try_as(name, "wrong").await, Err(SignInError::Refused), "{name}");
        }
        let version = store.version();
        for _ in 0..5 {
            assert_eq!(store.try_as(name, "right").await, throttled(1), "{name}");
        }
        assert_eq!(store.version(), version, "a try that is not looked at writes nothing");
        assert!(
            store.try_as("nobody_else", "x").await != throttled(1),
            "each name by itself"
        );
        for seconds in [2, 4, 8] {
            store.pass(Duration::from_secs(seconds / 2));
            assert_eq!(store.try_as(name, "wrong").await, Err(SignInError::Refused), "{name}");
            assert_eq!(store.try_as(name, "wrong").await, throttled(seconds), "{name}");
        }
        store.host.shutdown().await;
    }
}

#[tokio::test]
async fn a_right_password_ends_the_row_of_wrong_ones() {
    let store = Store::with_ada().await;
    for _ in 0..2 {
        for _ in 0..2 {
            assert_eq!(store.try_as("ada", "wrong").await, Err(SignInError::Refused));
        }
        store.try_as("ada", "right").await.unwrap();
        assert_eq!(store.catalog.view().wrong_passwords("ada"), None);
    }
    let version = store.version();
    store.try_as("ada", "right").await.unwrap();
    assert_eq!(
        store.version(),
        version,
        "a sign-in without wrong ones before it writes nothing"
    );
}

#[tokio::test]
async fn the_count_is_the_stores_not_the_nodes() {
    let store = Store::with_ada().await;
    let clock = store.now.clone();
    let config = AuthConfig {
        parallel: 1,
        waiting: WAITING,
        clock: Arc::new(move || clock.load(Relaxed)),
    };
    let other = Auth::new(store.catalog.clone(), config);
    for _ in 0..2 {
        assert_eq!(store.try_as("ada", "wrong").await, Err(SignInError::Refused));
    }
    assert_eq!(other.sign_in("ada", b"wrong", &ORIGIN).await, Err(SignInError::Refused));
    assert_eq!(store.try_as("ada", "right").await, throttled(1));
    assert_eq!(other.sign_in("ada", b"right", &ORIGIN).await, throttled(1));
}

#[tokio::test]
async fn tries_at_once_are_counted_as_they_are_looked_at() {
    let store = Store::with_ada().await;
    let tries = futures::future::join_all((0..50).map(|_| store.try_as("ada", "wrong"))).await;
    let looked_at = tries.iter().filter(|one| **one == Err(SignInError::Refused)).count();
    assert_eq!(looked_at, 3, "{tries:?}");
    assert_eq!(tries.iter().filter(|one| **one == throttled(1)).count(), 47);
}

/// What is answered without anybody's turn coming; those polled for the first time are in line afterwards.
fn at_once<F: Future>(tries: &mut FuturesUnordered<F>) -> Vec<F::Output> {
    let rounds = 2 * tries.len() + 2;
    (0..rounds)
        .filter_map(|_| tries.next().now_or_never().flatten())
        .collect()
}

#[tokio::test]
async fn more_than_may_wait_are_told_to_come_again_at_once() {
    let store = Store::with_ada().await;
    let held = store.hold_the_turn().await;
    let tries = (0..2 * WAITING).map(|n| {
        let store = &store;
        async move { store.try_as(&format!("name{n}"), "x").await }
    });
    let told = at_once(&mut tries.collect());
    assert_eq!(told, vec![Err(SignInError::Crowded); WAITING]);
    assert_eq!(store.auth.counts().busy.load(Relaxed), WAITING as u64);
    drop(held);
    store.try_as("ada", "right").await.unwrap();
    let view = store.catalog.view();
    assert!((0..2 * WAITING).all(|n| view.wrong_passwords(&format!("name{n}")).is_none()));
}

/// Five hundred wrong passwords at once kept everybody else waiting behind them, or turned them away.
#[tokio::test]
async fn a_flood_of_wrong_passwords_waits_behind_itself() {
    let store = Store::with_ada().await;
    for name in ["bob", "eve"] {
        let define = Command::DefineUser {
            name: name.into(),
            if_not_exists: false,
            only_first: false,
            scope: ScopeName::Store,
            role: Role::Viewer,
            hash: store.auth.hash(b"right").await.unwrap(),
        };
        store.catalog.propose(define).await.unwrap();
    }
    let (flood, elsewhere) = (from("10.0.0.1"), from("10.0.0.2"));
    // Ada signed in from where the flood comes from.
    store.auth.sign_in("ada", b"right", &flood).await.unwrap();
    let held = store.hold_the_turn().await;
    let sign_in = |name: String, password: &'static str, origin: Origin| {
        let auth = &store.auth;
        async move {
            let outcome = auth.sign_in(&name, password.as_bytes(), &origin).await;
            (name, outcome)
        }
    };
    let mut all: FuturesUnordered<_> = (0..WAITING)
        .map(|n| sign_in(format!("guess{n}"), "wrong", flood))
        .collect();
    assert_eq!(at_once(&mut all), []);
    all.push(sign_in("ada".into(), "right", flood));
    all.push(sign_in("bob".into(), "right", elsewhere));
    all.push(sign_in("eve".into(), "right", flood));
    let told = at_once(&mut all);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told.iter()
            .all(|(name, outcome)| name.starts_with("guess") && *outcome == Err(SignInError::Crowded))
    );
    drop(held);
    let answers: Vec<_> = all.collect().await;
    for good in ["ada", "bob", "eve"] {
        let at = answers.iter().position(|(name, _)| name == good).unwrap();
        assert!(answers[at].1.is_ok(), "{good}: {:?}", answers[at].1);
        assert!(at < 12, "{good} came after {at} others");
    }
    let refused = answers
        .iter()
        .filter(|(_, outcome)| *outcome == Err(SignInError::Refused));
    assert_eq!(refused.count(), WAITING - 2, "the flood has its turns, too");
}

/// A client that signs in again (KIP-368) must not lose its connection to strangers.
#[tokio::test]
async fn who_signs_in_again_does_not_wait_with_strangers() {
    let store = Store::with_ada().await;
    let held = store.hold_the_turn().await;
    let strangers = (0..WAITING).map(|n| {
        let store = &store;
        async move { store.try_as(&format!("name{n}"), "x").await }
    });
    let mut strangers: FuturesUnordered<_> = strangers.collect();
    assert_eq!(at_once(&mut strangers), []);
    let again = store.auth.sign_in_again("ada", b"right", &ORIGIN);
    let mut again: FuturesUnordered<_> = [again].into_iter().collect();
    assert_eq!(at_once(&mut again), []);
    assert_eq!(at_once(&mut strangers), [], "its room is not theirs");
    drop(held);
    // Nobody else is polled: the turn is its own.
    assert!(again.next().await.unwrap().is_ok());
}

#[tokio::test]
async fn a_password_with_a_nul_is_refused_as_no_kafka_client_could_send_it() {
    let store = Store::new().await;
    assert_eq!(store.auth.hash(b"a\0b").await, Err(HashError::Nul));
    assert!(HashError::Nul.to_string().contains("NUL"));
}

#[tokio::test]
async fn failures_count_though_the_catalog_takes_nothing() {
    let store = Store::with_ada().await;
    store.host.shutdown().await;
    for _ in 0..3 {
        assert_eq!(store.try_as("ada", "wrong").await, Err(SignInError::Refused));
    }
    assert_eq!(store.try_as("ada", "right").await, throttled(1));
    store.pass(Duration::from_secs(1));
    store.try_as("ada", "right").await.unwrap();
    assert_eq!(store.try_as("ada", "wrong").await, Err(SignInError::Refused));
}

#[tokio::test]
async fn the_first_owner_is_declared_once() {
    let store = Store::with_ada().await;
    store.auth.declare_first("bob", b"x").await.unwrap();
    let view = store.catalog.view();
    assert_eq!(view.users().map(|u| u.name.as_str()).collect::<Vec<_>>(), ["ada"]);
    assert!(view.user("ada").unwrap().owns_store());
}

#[tokio::test]
async fn a_password_too_long_is_nobodys() {
    let store = Store::new().await;
    let long = vec![b'x'; MAX_PASSWORD + 1];
    assert_eq!(store.auth.hash(&long).await, Err(HashError::TooLong));
    store.auth.declare_first("ada", &long[1..]).await.unwrap();
    assert_eq!(
        store.auth.sign_in("ada", &long, &ORIGIN).await,
        Err(SignInError::Refused)
    );
    store.auth.sign_in("ada", &long[1..], &ORIGIN).await.unwrap();
}

#[tokio::test]
async fn a_session_stands_for_its_user_until_it_ends() {
    let store = Store::with_ada().await;
    let ada = store.try_as("ada", "right").await.unwrap();
    let first = store.auth.open_session(ada.clone());
    let second = store.auth.open_session(ada.clone());
    assert_ne!(first.token, second.token);
    assert_eq!(store.auth.session(&first.token), Some(ada.clone()));
    assert_eq!(store.auth.session(&first.token[1..]), None);
    assert_eq!(store.auth.session(&"A".repeat(43)), None);
    assert!(store.auth.end_session(&first.token));
    assert!(!store.auth.end_session(&first.token));
    assert_eq!(store.auth.session(&first.token), None);
    store.pass(SESSION_TIME - Duration::from_millis(1));
    assert_eq!(store.auth.session(&second.token), Some(ada.clone()));
    store.pass(Duration::from_millis(1));
    assert_eq!(store.auth.session(&second.token), None);

    let third = store.auth.open_session(ada);
    let change = UserChange::Password(PasswordHash::new("other"));
    let alter = Command::AlterUser {
        user: user("ada"),
        change,
    };
    store.catalog.propose(alter).await.unwrap();
    let who = Who::User(store.auth.session(&third.token).unwrap());
    assert_eq!(standing(&store.catalog.view(), &who).unwrap_err(), NotStanding::Ended);
}

#[tokio::test]
async fn sessions_of_a_user_are_bounded() {
    let store = Store::with_ada().await;
    let ada = store.try_as("ada", "right").await.unwrap();
    let mut open = Vec::new();
    for _ in 0..65 {
        open.push(store.auth.open_session(ada.clone()));
        store.pass(Duration::from_millis(1));
    }
    assert_eq!(store.auth.session(&open[0].token), None, "the oldest made room");
    assert!(open[1..].iter().all(|one| store.auth.session(&one.token).is_some()));
}

#[tokio::test]
async fn nothing_shows_a_secret_in_debug() {
    let store = Store::with_ada().await;
    let view = store.catalog.view();
    let hash = view.user("ada").unwrap().hash.clone();
    let session = store.auth.open_session(store.try_as("ada", "right").await.unwrap());
    let command = Command::DefineUser {
        name: "bob".into(),
        if_not_exists: false,
        only_first: false,
        scope: ScopeName::Store,
        role: Role::Viewer,
        hash: hash.clone(),
    };
    let change = UserChange::Password(hash.clone());
    let shown = format!(
        "{view:?} {:?} {command:?} {change:?} {session:?} {:?}",
        view.user("ada"),
        SignInError::Refused
    );
    assert!(shown.contains("ada"));
    for secret in [hash.expose(), "right", "argon2", session.token.as_str()] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}
