//! Users, grants, and who may do what.

use super::*;
use crate::auth::{Principal, SignInError};
use crate::ql::ErrorKind;

/// Argon2id of `password`, as the reference implementation prints it.
const HASH: &str = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";

impl Store {
    /// A user as signed in now.
    fn who(&self, name: &str) -> Who {
        let view = self.broker.catalog().view();
        let user = view.user(name).unwrap_or_else(|| panic!("no user {name}"));
        Who::User(Principal {
            name: name.into(),
            id: user.id,
            credential: user.credential,
        })
    }

    async fn as_user(&self, name: &str, script: &str) -> String {
        match self.run_as(self.who(name), script).await {
            Ok(outcomes) => timeless(&outcomes.iter().map(ToString::to_string).collect::<String>()),
            Err(error) => panic!("{name}: {script}: {error}"),
        }
    }

    async fn refused(&self, name: &str, script: &str) -> ErrorKind {
        match self.run_as(self.who(name), script).await {
            Ok(outcomes) => panic!("{name}: {script}: {outcomes:?}"),
            Err(error) => error.kind,
        }
    }

    /// With `shop.orders` (topics `orders` and `plain`), `shop.stock` and `other.orders` (a topic `orders` each), and `root`,
    /// who owns the store.
    async fn with_root() -> Self {
        let store = Self::with_topic().await;
        store
            .done(&format!(
                "USE NAMESPACE shop; DEFINE DATABASE stock; USE DATABASE stock; DEFINE TOPIC orders;
                 DEFINE NAMESPACE other; USE NAMESPACE other; DEFINE DATABASE orders; USE DATABASE orders; DEFINE TOPIC orders;
                 DEFINE USER root ROLE owner PASSHASH '{HASH}'"
            ))
            .await;
        store
    }

    async fn define(&self, name: &str, on: &str, role: &str) {
        let script = format!("DEFINE USER {name} {on} ROLE {role} PASSHASH '{HASH}'");
        self.as_user("root", &script).await;
    }
}

fn outside(name: &str) -> ErrorKind {
    ErrorKind::OutsideTenancy(name.to_owned())
}

fn not_granted(action: &'static str, what: &str) -> ErrorKind {
    ErrorKind::NotGranted {
        user: "ada".to_owned(),
        action,
        table: what.to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_user_closes_the_store_within_the_script_that_declares_it() {
    let store = Store::with_topic().await;
    let script = format!("DEFINE USER ada ON shop.orders ROLE viewer PASSHASH '{HASH}'; INFO FOR STORE");
    let error = store.run(&script).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotSignedIn);
    assert!(
        error
            .span
            .is_some_and(|span| &script[span.start..span.end] == "INFO FOR STORE")
    );
    for script in ["", "INFO FOR STORE", "BEGIN; COMMIT", "nonsense"] {
        assert_eq!(
            store.run(script).await.unwrap_err().kind,
            ErrorKind::NotSignedIn,
            "{script}"
        );
    }
    store.run_as(Who::Folder, "INFO FOR STORE").await.unwrap();
    store.as_user("ada", "INFO FOR STORE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_told_of_as_declared() {
    let store = Store::with_root().await;
    store.define("ada", "ON shop.orders", "editor").await;
    store.define("bob", "ON NAMESPACE shop", "viewer").await;
    store
        .as_user(
            "root",
            "USE NAMESPACE shop DATABASE orders; GRANT read, write ON orders TO bob; GRANT read ON plain TO bob;
             REVOKE write ON orders FROM bob; ALTER USER ada SET ROLE owner",
        )
        .await;
    let ada = "{ name: 'ada', on: 'shop.orders', role: 'owner' }";
    let bob = "{ grants: { 'shop.orders.orders': ['read'], 'shop.orders.plain': ['read'] }, name: 'bob', on: 'shop', role: 'viewer' }";
    let root = "{ name: 'root', role: 'owner' }";
    assert_eq!(
        store.as_user("root", "INFO FOR USERS; INFO FOR USER bob").await,
        format!("[{ada}, {bob}, {root}]\n{bob}\n")
    );
    assert_eq!(
        store.as_user("ada", "INFO FOR USERS").await,
        format!("[{ada}]\n"),
        "of its scope"
    );
    assert_eq!(
        store.as_user("bob", "INFO FOR USER bob").await,
        format!("{bob}\n"),
        "of oneself"
    );
    store.as_user("root", "DROP USER bob").await;
    assert!(store.broker.catalog().view().user("bob").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_allows_what_it_says_and_no_more() {
    let store = Store::with_root().await;
    let forbids = |role| ErrorKind::RoleForbids { role };
    store.define("viewer", "", "viewer").await;
    store.define("editor", "", "editor").await;
    let prefix = "USE NAMESPACE shop DATABASE orders; ";
    let read = [
        "READ FROM plain",
        "INFO FOR TOPIC plain",
        "INFO FOR DATABASE",
        "INFO FOR NODE",
    ];
    let write = ["CREATE plain = {}", "INSERT INTO plain (a) VALUES (1)"];
    let declare = [
        "DEFINE TOPIC t",
        "ALTER TOPIC t RETAIN 1h",
        "DROP TOPIC t",
        "DEFINE DATABASE d",
        "DROP DATABASE d",
        "DEFINE NAMESPACE n",
        "ALTER NAMESPACE n ACKNOWLEDGE LEADER",
        "DROP NAMESPACE n",
    ];
    let administer = [
        format!("DEFINE USER ada ROLE viewer PASSHASH '{HASH}'"),
        "ALTER USER ada SET ROLE editor".to_owned(),
        "GRANT read ON plain TO ada".to_owned(),
        "GRANT read ON orders TO ada".to_owned(),
        "REVOKE read ON plain FROM ada".to_owned(),
        "INFO FOR USERS".to_owned(),
        "INFO FOR USER ada".to_owned(),
        "DROP USER ada".to_owned(),
    ];
    for script in read {
        for name in ["viewer", "editor", "root"] {
            store.as_user(name, &format!("{prefix}{script}")).await;
        }
    }
    for script in write {
        assert_eq!(
            store.refused("viewer", &format!("{prefix}{script}")).await,
            forbids("viewer")
        );
        for name in ["editor", "root"] {
            store.as_user(name, &format!("{prefix}{script}")).await;
        }
    }
    for script in declare {
        // What the statement speaks of need not be there for the refusal, unless the user may see that it is not.
        let refused = store.refused("viewer", &format!("{prefix}{script}")).await;
        let known = !script.starts_with("ALTER") && script != "DROP TOPIC t";
        match known {
            true => assert_eq!(refused, forbids("viewer"), "{script}"),
            false => assert!(matches!(refused, ErrorKind::Unknown { .. }), "{script}: {refused:?}"),
        }
    }
    for name in ["editor", "root"] {
        for script in declare {
            store.as_user(name, &format!("{prefix}{script}")).await;
        }
    }
    for script in &administer {
        for name in ["viewer", "editor"] {
            assert_eq!(
                store.refused(name, &format!("{prefix}{script}")).await,
                forbids(name),
                "{script}"
            );
        }
        store.as_user("root", &format!("{prefix}{script}")).await;
    }
    for name in ["viewer", "editor"] {
        for script in ["DEFINE NODE ROLES serving", "DROP REPLICA r", "ALTER REPLICA r LEADS 1"] {
            assert_eq!(store.refused(name, script).await, forbids(name), "{script}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_reaches_what_it_is_on_and_learns_nothing_of_the_rest() {
    let store = Store::with_root().await;
    store.define("ada", "ON shop.orders", "owner").await;
    store.define("sue", "ON NAMESPACE shop", "owner").await;
    // Where the user is ON is selected as its script begins.
    store
        .as_user("ada", "DEFINE TOPIC t; CREATE t = { a: 1 }; DROP TOPIC t")
        .await;
    store
        .as_user(
            "sue",
            "USE DATABASE stock; CREATE orders = {}; DEFINE DATABASE d; DROP DATABASE d",
        )
        .await;
    let here = "USE NAMESPACE shop DATABASE orders; ";
    for (there, not_there) in [
        ("USE NAMESPACE other", "USE NAMESPACE nowhere"),
        (
            "USE NAMESPACE shop DATABASE stock",
            "USE NAMESPACE shop DATABASE nowhere",
        ),
        (
            "USE NAMESPACE other DATABASE orders",
            "USE NAMESPACE nowhere DATABASE orders",
        ),
        ("DROP NAMESPACE other", "DROP NAMESPACE nowhere"),
        (
            "ALTER NAMESPACE other ACKNOWLEDGE LEADER",
            "ALTER NAMESPACE nowhere ACKNOWLEDGE LEADER",
        ),
        ("DROP DATABASE stock", "DROP DATABASE nowhere"),
        ("DEFINE DATABASE stock", "DEFINE DATABASE IF NOT EXISTS nowhere"),
        ("DEFINE NAMESPACE other", "DEFINE NAMESPACE IF NOT EXISTS nowhere"),
        (
            &format!("DEFINE USER u ON other.orders ROLE viewer PASSHASH '{HASH}'"),
            &format!("DEFINE USER u ON nowhere.orders ROLE viewer PASSHASH '{HASH}'"),
        ),
        ("INFO FOR NODE", "DEFINE NODE ROLES serving"),
    ] {
        assert_eq!(store.refused("ada", there).await, outside("ada"), "{there}");
        assert_eq!(store.refused("ada", not_there).await, outside("ada"), "{not_there}");
    }
    // Users elsewhere are as if they were not.
    for name in ["root", "sue", "nobody"] {
        for script in ["DROP USER ", "INFO FOR USER ", "GRANT read ON plain TO "] {
            assert_eq!(
                store.refused("ada", &format!("{here}{script}{name}")).await.to_string(),
                format!("the user {name} is not known"),
                "{script}"
            );
        }
        let script = format!("ALTER USER {name} SET ROLE owner");
        assert_eq!(
            store.refused("ada", &script).await.to_string(),
            format!("the user {name} is not known")
        );
    }
    // Within its own it is told what is not there.
    assert_eq!(
        store.refused("ada", "READ FROM nothing").await.to_string(),
        "the topic nothing is not known"
    );
    assert_eq!(
        store.refused("sue", "USE DATABASE nothing").await.to_string(),
        "the database nothing is not known"
    );
    assert_eq!(
        store.as_user("ada", "INFO FOR STORE").await,
        format!(
            "{{ namespaces: ['shop'], node: '{NODE}', version: '{}' }}\n",
            env!("CARGO_PKG_VERSION")
        )
    );
    assert!(
        store
            .as_user("ada", "INFO FOR NAMESPACE")
            .await
            .contains("databases: ['orders'], ")
    );
    assert!(
        store
            .as_user("sue", "INFO FOR NAMESPACE")
            .await
            .contains("databases: ['orders', 'stock'], ")
    );
    // Owners decide about the users of what they own.
    store
        .as_user(
            "sue",
            "ALTER USER ada SET ROLE viewer; USE DATABASE orders; GRANT read ON plain TO ada",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_granted_user_has_its_grants_and_learns_nothing_of_the_rest() {
    let store = Store::with_root().await;
    store.define("ada", "", "owner").await;
    let here = "USE NAMESPACE shop DATABASE orders; ";
    store
        .as_user("root", &format!("{here}GRANT read ON plain TO ada"))
        .await;
    store
        .as_user(
            "ada",
            &format!("{here}READ FROM plain; READ FROM plain FOR CONSUMER 'c'; INFO FOR TOPIC plain"),
        )
        .await;
    for (script, refusal) in [
        ("CREATE plain = {}", not_granted("write", "plain")),
        ("CREATE orders = {}", not_granted("write", "orders")),
        ("CREATE nothing = {}", not_granted("write", "nothing")),
        ("READ FROM orders", not_granted("read", "orders")),
        ("READ FROM nothing", not_granted("read", "nothing")),
        ("INFO FOR TOPIC orders", not_granted("read", "orders")),
        ("DEFINE TOPIC nothing", not_granted("declaring", "nothing")),
        ("DROP TOPIC plain", not_granted("declaring", "plain")),
        ("DROP TOPIC nothing", not_granted("declaring", "nothing")),
        ("USE DATABASE stock", not_granted("read", "stock")),
        ("USE DATABASE nowhere", not_granted("read", "nowhere")),
        ("USE NAMESPACE other", not_granted("read", "other")),
        ("USE NAMESPACE nowhere", not_granted("read", "nowhere")),
        ("DEFINE NAMESPACE other", not_granted("declaring", "other")),
        ("GRANT write ON plain TO ada", not_granted("administering", "plain")),
        ("DROP USER root", not_granted("administering", "root")),
        ("DROP USER nobody", not_granted("administering", "nobody")),
        ("INFO FOR USERS", not_granted("administering", "users")),
        ("INFO FOR NODE", not_granted("read", "the store")),
    ] {
        assert_eq!(
            store.refused("ada", &format!("{here}{script}")).await,
            refusal,
            "{script}"
        );
    }
    assert_eq!(
        store.as_user("ada", &format!("{here}INFO FOR DATABASE")).await,
        "{ name: 'orders', namespace: 'shop', topics: ['plain'] }\n"
    );
    assert!(
        store
            .as_user("ada", "INFO FOR STORE")
            .await
            .contains("namespaces: ['shop']")
    );
    store
        .as_user("root", &format!("{here}GRANT write ON plain TO ada"))
        .await;
    store.as_user("ada", &format!("{here}CREATE plain = {{}}")).await;
    store
        .as_user("root", &format!("{here}REVOKE read ON plain FROM ada"))
        .await;
    assert_eq!(
        store.refused("ada", &format!("{here}READ FROM plain")).await,
        not_granted("read", "plain")
    );
    // Its last topic gone, it has nothing left; not its role.
    store
        .as_user("root", &format!("{here}DROP TOPIC plain; DEFINE TOPIC plain"))
        .await;
    assert_eq!(store.refused("ada", here).await, not_granted("read", "shop"));
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_and_roles_that_cannot_be_are_refused() {
    let store = Store::with_root().await;
    store.define("ada", "ON shop.orders", "editor").await;
    let here = "USE NAMESPACE shop DATABASE orders; ";
    store
        .as_user("root", &format!("{here}GRANT read ON plain TO ada"))
        .await;
    for (script, refusal) in [
        (
            "REVOKE read, write ON plain FROM ada",
            ErrorKind::LastGrant("ada".to_owned()),
        ),
        ("USE DATABASE stock; GRANT read ON orders TO ada", outside("ada")),
        ("DROP USER root", ErrorKind::LastOwner("root".to_owned())),
        (
            "ALTER USER root SET ROLE editor",
            ErrorKind::LastOwner("root".to_owned()),
        ),
        ("GRANT read ON plain TO root", ErrorKind::LastOwner("root".to_owned())),
    ] {
        assert_eq!(
            store.refused("root", &format!("{here}{script}")).await,
            refusal,
            "{script}"
        );
    }
    for (script, sentence) in [
        ("GRANT read ON nothing TO ada", "the topic nothing is not known"),
        ("GRANT read ON plain TO nobody", "the user nobody is not known"),
        ("DROP DATABASE nothing", "the database nothing is not known"),
        (
            &format!("DEFINE USER ada ROLE viewer PASSHASH '{HASH}'"),
            "the user ada is there already",
        ),
        (
            &format!("DEFINE USER u ON shop.nothing ROLE viewer PASSHASH '{HASH}'"),
            "the database nothing is not known",
        ),
        (
            "DROP TOPIC orders; DROP TOPIC plain; DROP DATABASE orders",
            "the database orders still holds 1 user, first ada; drop what is inside first",
        ),
    ] {
        assert_eq!(
            store.refused("root", &format!("{here}{script}")).await.to_string(),
            sentence,
            "{script}"
        );
    }
    store
        .as_user(
            "root",
            &format!("DEFINE USER IF NOT EXISTS ada ROLE owner PASSHASH '{HASH}'"),
        )
        .await;
    assert!(
        store
            .as_user("root", "INFO FOR USER ada")
            .await
            .contains("role: 'editor'"),
        "as it was"
    );
    let secret = "$argon2id$v=19$m=4294967295,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
    let refused = store
        .refused("root", &format!("DEFINE USER u ROLE viewer PASSHASH '{secret}'"))
        .await;
    assert!(refused.to_string().contains("not a hash"), "{refused}");
    assert!(!refused.to_string().contains("c29tZ"), "{refused}");
    let long = "x".repeat(5000);
    let refused = store
        .refused("root", &format!("ALTER USER ada SET PASSWORD '{long}'"))
        .await;
    assert_eq!(refused.to_string(), "a password may have 4096 bytes at most");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_declared_together_with_their_grants() {
    let store = Store::with_root().await;
    let here = "USE NAMESPACE shop DATABASE orders; ";
    let together = format!(
        "{here}BEGIN; DEFINE USER ada ON shop.orders ROLE editor PASSHASH '{HASH}'; GRANT read ON plain TO ada;
         DEFINE USER second ROLE owner PASSHASH '{HASH}'; DROP USER root; COMMIT"
    );
    store.as_user("root", &together).await;
    let view = store.broker.catalog().view();
    assert!(view.user("root").is_none() && view.user("second").is_some());
    let ada = view.user("ada").unwrap();
    assert!(ada.granted && ada.grants.len() == 1);
    for (script, sentence) in [
        (
            "BEGIN; DEFINE TOPIC t; GRANT read ON t TO ada; COMMIT",
            "a topic declared since BEGIN cannot be granted before COMMIT",
        ),
        (
            "BEGIN; GRANT read ON orders TO ada; REVOKE read ON orders FROM ada; REVOKE read ON plain FROM ada; COMMIT",
            "this is the last grant of ada; DROP USER ends a user",
        ),
        (
            "BEGIN; DROP USER second; COMMIT",
            "second is the last owner of the store; declare another one first",
        ),
        (
            "BEGIN; INFO FOR USERS; COMMIT",
            "only USE and declarations may stand between BEGIN and COMMIT",
        ),
    ] {
        assert_eq!(
            store.refused("second", &format!("{here}{script}")).await.to_string(),
            sentence,
            "{script}"
        );
    }
    store.as_user("second", "BEGIN; DROP USER ada; CANCEL").await;
    assert!(store.broker.catalog().view().user("ada").is_some());
    // What is pending gives no rights yet.
    let eve = format!("DEFINE USER eve ROLE viewer PASSHASH '{HASH}'");
    store.as_user("second", &eve).await;
    let error = store
        .refused("eve", "BEGIN; ALTER USER eve SET ROLE owner; COMMIT")
        .await;
    assert_eq!(error, ErrorKind::RoleForbids { role: "viewer" });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_its_users_to_change_and_ends_what_was_signed_in_before() {
    let store = Store::with_root().await;
    let sign_in = async |password: &str| store.auth.sign_in("ada", password.as_bytes(), &ORIGIN).await;
    store
        .as_user("root", "DEFINE USER ada ON shop.orders ROLE viewer PASSWORD 'first'")
        .await;
    let ada = Who::User(sign_in("first").await.unwrap());
    store
        .run_as(ada.clone(), "READ FROM plain; ALTER USER ada SET PASSWORD 'second'")
        .await
        .unwrap();
    let ended = store.run_as(ada, "READ FROM plain").await.unwrap_err();
    assert_eq!(ended.kind, ErrorKind::NotSignedIn);
    assert_eq!(sign_in("first").await, Err(SignInError::Refused));
    let ada = Who::User(sign_in("second").await.unwrap());
    for script in [
        "ALTER USER ada SET PASSWORD 'a\\0b'",
        "DEFINE USER eve ROLE viewer PASSWORD 'a\\0b'",
    ] {
        let refused = store.refused("root", script).await;
        assert!(
            matches!(&refused, ErrorKind::InvalidValue(why) if why.contains("NUL")),
            "{refused:?}"
        );
    }
    for script in [
        "ALTER USER ada SET ROLE owner",
        "ALTER USER root SET PASSWORD 'x'",
        "DROP USER ada",
    ] {
        let refused = store.run_as(ada.clone(), script).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::RoleForbids { role: "viewer" }, "{script}");
    }
    store.as_user("root", "DROP USER ada").await;
    assert_eq!(
        store.run_as(ada, "READ FROM plain").await.unwrap_err().kind,
        ErrorKind::NotSignedIn
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_grants_are_there_after_a_restart_and_without_the_last_the_store_is_open() {
    let store = Store::with_root().await;
    store.define("ada", "ON shop.orders", "viewer").await;
    store
        .as_user(
            "root",
            "USE NAMESPACE shop DATABASE orders; GRANT write ON plain TO ada",
        )
        .await;
    let before = store.as_user("root", "INFO FOR USERS").await;
    let store = store.restart().await;
    assert_eq!(store.as_user("root", "INFO FOR USERS").await, before);
    store.as_user("ada", "CREATE plain = {}").await;
    store.as_user("root", "DROP USER ada; DROP USER root").await;
    store.text("READ FROM plain").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_declare_the_first_user_at_once_one_does() {
    let store = Store::with_topic().await;
    let tries = (0..6).map(|n| {
        let script = format!("DEFINE USER u{n} ROLE owner PASSWORD 'correct horse'");
        let store = &store;
        async move { store.run_as(Who::Anonymous, &script).await.map_err(|error| error.kind) }
    });
    let outcomes = futures::future::join_all(tries).await;
    let refused = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Err(ErrorKind::NotSignedIn)));
    assert_eq!(refused.count(), 5, "{outcomes:?}");
    assert_eq!(store.broker.catalog().view().users().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_without_quotes_is_not_shown() {
    let store = Store::with_root().await;
    for script in [
        "ALTER USER root SET PASSWORD hunter2secret",
        "DEFINE USER ada ROLE owner PASSWORD hunter2secret",
        "DEFINE USER ada ROLE owner PASSWORD 0xhunter2secret",
        "DEFINE USER ada ROLE owner PASSWORD hunter2secret.x",
    ] {
        let error = store.run_as(store.who("root"), script).await.unwrap_err();
        assert!(!error.to_string().contains("hunter2secret"), "{error}");
    }
}
