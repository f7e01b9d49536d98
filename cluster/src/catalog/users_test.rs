use super::*;
use crate::catalog::{Acknowledge, Asker, Command, TopicSpec};
use crate::ids::NodeId;
use uuid::Uuid;

const READ: Privileges = Privileges {
    read: true,
    write: false,
};
const WRITE: Privileges = Privileges {
    read: false,
    write: true,
};
const BOTH: Privileges = Privileges {
    read: true,
    write: true,
};

/// A state with `shop.orders` and its topics `a` and `b`, and `shop.other` with a topic `c`.
fn with_topics() -> State {
    let mut s = State::default();
    s.apply(Command::JoinNode { node: NodeId(7) }).unwrap();
    s.apply(Command::DefineNamespace {
        name: "shop".into(),
        if_not_exists: false,
        replication: None,
        acknowledge: Acknowledge::Majority,
    })
    .unwrap();
    for (database, topics) in [("orders", &["a", "b"][..]), ("other", &["c"])] {
        s.apply(Command::DefineDatabase {
            namespace: "shop".into(),
            name: database.into(),
            if_not_exists: false,
        })
        .unwrap();
        for topic in topics {
            s.apply(Command::DefineTopic {
                namespace: "shop".into(),
                database: database.into(),
                name: (*topic).into(),
                if_not_exists: false,
                spec: TopicSpec {
                    partitions: 1,
                    ..TopicSpec::default()
                },
                uuid: Uuid::new_v4(),
                now_ms: 1,
            })
            .unwrap();
        }
    }
    s
}

fn orders() -> ScopeName {
    ScopeName::Database {
        namespace: "shop".into(),
        name: "orders".into(),
    }
}

fn define(name: &str, scope: ScopeName, role: Role) -> Command {
    Command::DefineUser {
        name: name.into(),
        if_not_exists: false,
        only_first: false,
        scope,
        role,
        hash: PasswordHash::new("hash"),
    }
}

fn user(name: &str) -> UserRef {
    UserRef {
        name: name.into(),
        id: None,
    }
}

fn role(name: &str, role: Role) -> Command {
    Command::AlterUser {
        user: user(name),
        change: UserChange::Role(role),
    }
}

fn topic(s: &State, name: &str) -> TopicId {
    s.topics().find(|topic| topic.name == name).unwrap().id
}

fn grant(s: &State, name: &str, on: &str, privileges: Privileges) -> Command {
    Command::Grant {
        user: user(name),
        topic: topic(s, on),
        privileges,
    }
}

fn revoke(s: &State, name: &str, on: &str, privileges: Privileges) -> Command {
    Command::Revoke {
        user: user(name),
        topic: topic(s, on),
        privileges,
    }
}

#[test]
fn identities_of_users_are_never_given_twice() {
    let mut s = with_topics();
    assert!(s.is_open());
    s.apply(define("root", ScopeName::Store, Role::Owner)).unwrap();
    assert!(!s.is_open());
    s.apply(define("ada", orders(), Role::Viewer)).unwrap();
    let first = s.user("ada").unwrap().clone();
    assert!(matches!(
        s.apply(define("ada", ScopeName::Store, Role::Owner)),
        Err(CatalogError::NameTaken { kind: Kind::User, .. })
    ));
    s.apply(Command::DropUser { user: user("ada") }).unwrap();
    s.apply(define("ada", orders(), Role::Viewer)).unwrap();
    assert!(s.user("ada").unwrap().id > first.id);
    let of_before = UserRef {
        name: "ada".into(),
        id: Some(first.id),
    };
    for command in [
        Command::DropUser {
            user: of_before.clone(),
        },
        Command::AlterUser {
            user: of_before.clone(),
            change: UserChange::Role(Role::Owner),
        },
        Command::Grant {
            user: of_before,
            topic: topic(&s, "a"),
            privileges: READ,
        },
    ] {
        assert_eq!(s.apply(command), Err(unknown(Kind::User, "ada")));
    }
}

#[test]
fn each_password_has_a_number_of_its_own() {
    let mut s = with_topics();
    s.apply(define("ada", ScopeName::Store, Role::Owner)).unwrap();
    let change = UserChange::Password(PasswordHash::new("other"));
    s.apply(Command::CountWrongPassword {
        name: "ada".into(),
        now_ms: 5,
    })
    .unwrap();
    s.apply(Command::AlterUser {
        user: user("ada"),
        change,
    })
    .unwrap();
    let ada = s.user("ada").unwrap();
    assert_eq!((ada.credential, ada.hash.expose()), (2, "other"));
    assert_eq!(s.wrong_passwords("ada"), None, "they were wrong for another password");
    s.apply(role("ada", Role::Owner)).unwrap();
    assert_eq!(s.user("ada").unwrap().credential, 2);
}

#[test]
fn the_first_user_is_declared_first_only() {
    let mut s = with_topics();
    let first = |name: &str| match define(name, ScopeName::Store, Role::Owner) {
        Command::DefineUser {
            name,
            scope,
            role,
            hash,
            ..
        } => Command::DefineUser {
            name,
            if_not_exists: false,
            only_first: true,
            scope,
            role,
            hash,
        },
        other => other,
    };
    s.apply(first("ada")).unwrap();
    s.apply(first("bob")).unwrap();
    s.apply(first("ada")).unwrap();
    assert_eq!(s.users().map(|u| u.name.as_str()).collect::<Vec<_>>(), ["ada"]);
}

#[test]
fn grants_add_up_and_the_last_one_stays() {
    let mut s = with_topics();
    s.apply(define("root", ScopeName::Store, Role::Owner)).unwrap();
    s.apply(define("ada", orders(), Role::Owner)).unwrap();
    let held = |s: &State, on| s.user("ada").unwrap().grants.get(&topic(s, on)).copied();
    s.apply(grant(&s, "ada", "a", Privileges::default())).unwrap();
    assert!(!s.user("ada").unwrap().granted, "nothing was granted");
    s.apply(grant(&s, "ada", "a", READ)).unwrap();
    assert_eq!(held(&s, "a"), Some(READ));
    s.apply(grant(&s, "ada", "a", WRITE)).unwrap();
    assert_eq!(held(&s, "a"), Some(BOTH));
    let last = CatalogError::LastGrant { name: "ada".into() };
    assert_eq!(s.apply(revoke(&s, "ada", "a", BOTH)), Err(last.clone()));
    assert_eq!(held(&s, "a"), Some(BOTH), "refused, nothing changed");
    s.apply(revoke(&s, "ada", "a", READ)).unwrap();
    assert_eq!(s.apply(revoke(&s, "ada", "a", WRITE)), Err(last.clone()));
    s.apply(revoke(&s, "ada", "a", READ)).unwrap();
    s.apply(revoke(&s, "ada", "b", READ)).unwrap();
    s.apply(grant(&s, "ada", "b", READ)).unwrap();
    s.apply(revoke(&s, "ada", "a", WRITE)).unwrap();
    assert_eq!((held(&s, "a"), held(&s, "b")), (None, Some(READ)));
    assert_eq!(
        s.apply(grant(&s, "ada", "c", READ)),
        Err(CatalogError::OutsideTenancy { name: "ada".into() })
    );
}

#[test]
fn grants_go_with_their_topic_and_the_user_keeps_being_a_granted_one() {
    let mut s = with_topics();
    s.apply(define("root", ScopeName::Store, Role::Owner)).unwrap();
    s.apply(define("ada", ScopeName::Namespace("shop".into()), Role::Owner))
        .unwrap();
    s.apply(grant(&s, "ada", "a", READ)).unwrap();
    s.apply(grant(&s, "ada", "c", WRITE)).unwrap();
    for name in ["a", "c"] {
        let topic = topic(&s, name);
        s.apply(Command::DropTopic { topic }).unwrap();
        assert!(!s.user("ada").unwrap().grants.contains_key(&topic));
    }
    let ada = s.user("ada").unwrap();
    assert!(ada.grants.is_empty() && ada.granted && !ada.owns_store());
}

#[test]
fn the_last_owner_of_the_store_stays_while_it_has_users() {
    let mut s = with_topics();
    s.apply(define("root", ScopeName::Store, Role::Owner)).unwrap();
    s.apply(define("ada", orders(), Role::Owner)).unwrap();
    let before = s.clone();
    let last = Err(CatalogError::LastOwner { name: "root".into() });
    let drop_root = Command::DropUser { user: user("root") };
    assert_eq!(s.apply(drop_root.clone()), last);
    assert_eq!(s.apply(role("root", Role::Editor)), last);
    assert_eq!(
        s.apply(grant(&s, "root", "a", BOTH)),
        last,
        "a grant takes the place of the role"
    );
    assert_eq!(s, before);
    let second = define("second", ScopeName::Store, Role::Owner);
    s.apply(Command::Together(vec![drop_root.clone(), second])).unwrap();
    assert!(s.user("root").is_none());
    s.apply(Command::DropUser { user: user("ada") }).unwrap();
    s.apply(Command::DropUser { user: user("second") }).unwrap();
    assert!(s.is_open(), "without the last user the store is open");
}

/// Nothing is taken away there, and whoever holds the folder can declare an owner.
#[test]
fn a_store_may_begin_with_users_none_of_whom_owns_it() {
    let mut s = with_topics();
    s.apply(define("ada", orders(), Role::Viewer)).unwrap();
    s.apply(define("bob", ScopeName::Store, Role::Editor)).unwrap();
    s.apply(Command::DropUser { user: user("ada") }).unwrap();
    s.apply(role("bob", Role::Owner)).unwrap();
}

#[test]
fn what_a_user_is_on_is_not_dropped_before_the_user() {
    let mut s = with_topics();
    s.apply(define("root", ScopeName::Store, Role::Owner)).unwrap();
    s.apply(define("ada", orders(), Role::Viewer)).unwrap();
    for name in ["a", "b"] {
        let topic = topic(&s, name);
        s.apply(Command::DropTopic { topic }).unwrap();
    }
    let drop_orders = Command::DropDatabase {
        namespace: "shop".into(),
        name: "orders".into(),
    };
    let refused = s.apply(drop_orders.clone()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "database orders still holds 1 user, ada among them"
    );
    s.apply(Command::DropUser { user: user("ada") }).unwrap();
    s.apply(drop_orders).unwrap();
    let nowhere = define("bob", orders(), Role::Viewer);
    assert_eq!(s.apply(nowhere), Err(unknown(Kind::Database, "orders")));
}

#[test]
fn users_and_wrong_passwords_are_stored_and_old_rows_without_them_are_read() {
    use super::super::state::Rows;
    let mut s = with_topics();
    let bare = serde_json::to_value(Rows::from(&s)).unwrap();
    s.apply(define("root", ScopeName::Store, Role::Owner)).unwrap();
    s.apply(define("ada", orders(), Role::Editor)).unwrap();
    s.apply(grant(&s, "ada", "a", READ)).unwrap();
    s.apply(grant(&s, "ada", "b", BOTH)).unwrap();
    s.apply(Command::CountWrongPassword {
        name: "nobody".into(),
        now_ms: 5,
    })
    .unwrap();
    let text = serde_json::to_vec(&Rows::from(&s)).unwrap();
    assert_eq!(State::from(serde_json::from_slice::<Rows>(&text).unwrap()), s);

    let serde_json::Value::Object(mut old) = bare else {
        panic!()
    };
    old.remove("users");
    old.remove("sign_ins");
    old["next"].as_object_mut().unwrap().remove("user");
    let mut s = State::from(serde_json::from_value::<Rows>(old.into()).unwrap());
    assert!(s.is_open());
    s.apply(define("root", ScopeName::Store, Role::Owner)).unwrap();
    assert_eq!(s.user("root").unwrap().id, UserId(1));
}

#[test]
fn commands_about_users_read_as_they_were_written() {
    let s = with_topics();
    for command in [
        define("ada", ScopeName::Store, Role::Owner),
        define("ada", ScopeName::Namespace("shop".into()), Role::Editor),
        define("ada", orders(), Role::Viewer),
        role("ada", Role::Editor),
        Command::AlterUser {
            user: UserRef {
                name: "ada".into(),
                id: Some(UserId(3)),
            },
            change: UserChange::Password(PasswordHash::new("hash")),
        },
        Command::DropUser { user: user("ada") },
        grant(&s, "ada", "a", READ),
        revoke(&s, "ada", "a", BOTH),
        Command::CountWrongPassword {
            name: "\u{e4}\n".into(),
            now_ms: 7,
        },
        Command::ForgetWrongPasswords { name: "ada".into() },
    ] {
        let bytes = serde_json::to_vec(&command).unwrap();
        assert_eq!(serde_json::from_slice::<Command>(&bytes).unwrap(), command);
    }
}

fn asked(by: Asker, command: Command) -> Command {
    Command::Asked {
        by,
        command: Box::new(command),
    }
}

#[test]
fn of_those_who_race_to_be_the_first_user_one_is() {
    let mut s = with_topics();
    let first = |name| asked(Asker::Nobody, define(name, ScopeName::Store, Role::Owner));
    s.apply(first("ada")).unwrap();
    assert_eq!(s.apply(first("bob")), Err(CatalogError::AskerChanged));
    assert_eq!(s.users().count(), 1);
}

#[test]
fn what_a_user_asked_for_is_not_done_once_it_is_not_who_it_was() {
    let mut s = with_topics();
    s.apply(define("root", ScopeName::Store, Role::Owner)).unwrap();
    for change in [
        role("mallory", Role::Editor),
        Command::AlterUser {
            user: user("mallory"),
            change: UserChange::Password(PasswordHash::new("other")),
        },
        grant(&s, "mallory", "a", READ),
        Command::DropUser { user: user("mallory") },
    ] {
        let mut s = s.clone();
        s.apply(define("mallory", ScopeName::Store, Role::Owner)).unwrap();
        let by = Asker::from(s.user("mallory").map(|user| &**user));
        s.apply(asked(by, define("in_time", ScopeName::Store, Role::Owner)))
            .unwrap();
        s.apply(change).unwrap();
        let late = asked(by, define("late", ScopeName::Store, Role::Owner));
        assert_eq!(s.apply(late), Err(CatalogError::AskerChanged));
        assert!(s.user("late").is_none());
    }
}
