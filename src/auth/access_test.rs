//! The matrix of roles, scopes and grants.

use super::*;
use cluster::catalog::{Acknowledge, Command, PasswordHash, ScopeName, TopicSpec, UserChange, UserRef};
use cluster::ids::NodeId;

use crate::auth::Principal;

const ACTIONS: [Action; 5] = [
    Action::Describe,
    Action::Read,
    Action::Write,
    Action::Declare,
    Action::Administer,
];

/// Namespaces `a` and `b` with databases `x` and `y` each, a topic `t` and one `u` in every one.
fn store() -> State {
    let mut s = State::default();
    s.apply(Command::JoinNode { node: NodeId(7) }).unwrap();
    for namespace in ["a", "b"] {
        s.apply(Command::DefineNamespace {
            name: namespace.into(),
            if_not_exists: false,
            replication: None,
            acknowledge: Acknowledge::Majority,
        })
        .unwrap();
        for database in ["x", "y"] {
            s.apply(Command::DefineDatabase {
                namespace: namespace.into(),
                name: database.into(),
                if_not_exists: false,
            })
            .unwrap();
            for topic in ["t", "u"] {
                s.apply(Command::DefineTopic {
                    namespace: namespace.into(),
                    database: database.into(),
                    name: topic.into(),
                    if_not_exists: false,
                    spec: TopicSpec {
                        partitions: 1,
                        ..TopicSpec::default()
                    },
                    uuid: uuid::Uuid::new_v4(),
                    now_ms: 1,
                })
                .unwrap();
            }
        }
    }
    s
}

fn define(s: &mut State, name: &str, scope: ScopeName, role: Role) {
    s.apply(Command::DefineUser {
        name: name.into(),
        if_not_exists: false,
        only_first: false,
        scope,
        role,
        hash: PasswordHash::new("hash"),
    })
    .unwrap();
}

fn grant(s: &mut State, name: &str, topic: (&str, &str, &str), read: bool, write: bool) {
    let topic = s.topic(topic.0, topic.1, topic.2).unwrap().id;
    let user = UserRef {
        name: name.into(),
        id: None,
    };
    let privileges = Privileges { read, write };
    s.apply(Command::Grant {
        user,
        topic,
        privileges,
    })
    .unwrap();
}

fn who(s: &State, name: &str) -> Who {
    let user = s.user(name).unwrap();
    Who::User(Principal {
        name: name.into(),
        id: user.id,
        credential: user.credential,
    })
}

fn scope(text: &str) -> ScopeName {
    match text.split_once('.') {
        None if text.is_empty() => ScopeName::Store,
        None => ScopeName::Namespace(text.into()),
        Some((namespace, name)) => ScopeName::Database {
            namespace: namespace.into(),
            name: name.into(),
        },
    }
}

/// What the user may on the store (``), a namespace (`a`), a database (`a.x`), a topic (`a.x.t`): first letters.
fn letters(s: &State, name: &str, on: &str, within: bool) -> String {
    let who = who(s, name);
    let standing = standing(s, &who).unwrap();
    let parts: Vec<&str> = on.split('.').filter(|part| !part.is_empty()).collect();
    let on = match parts[..] {
        [] => On::Store,
        [n] => On::Namespace(s.namespace(n).unwrap()),
        [n, d] => On::Database(s.database(n, d).unwrap()),
        [n, d, t] => On::Topic(s.topic(n, d, t).unwrap()),
        _ => panic!("{on}"),
    };
    let may = |action: &Action| match within {
        true => standing.may_within(*action, on),
        false => standing.may(*action, on),
    };
    let word = |action: &Action| match action {
        Action::Describe => 'd',
        Action::Read => 'r',
        Action::Write => 'w',
        Action::Declare => 'D',
        Action::Administer => 'A',
    };
    ACTIONS.iter().filter(|action| may(action)).map(word).collect()
}

#[test]
fn roles_hold_where_the_user_is_on_and_nowhere_else() {
    let all = |role| match role {
        Role::Viewer => "dr",
        Role::Editor => "drwD",
        Role::Owner => "drwDA",
    };
    for role in [Role::Viewer, Role::Editor, Role::Owner] {
        for (scope_of, there, seen, not_there) in [
            (
                "",
                &["", "a", "b", "a.x", "b.y", "a.x.t", "b.y.u"][..],
                &[][..],
                &[][..],
            ),
            (
                "a",
                &["a", "a.x", "a.y", "a.x.t", "a.y.u"],
                &[],
                &["", "b", "b.x", "b.x.t"],
            ),
            (
                "a.x",
                &["a.x", "a.x.t", "a.x.u"],
                &["a"],
                &["", "b", "a.y", "a.y.t", "b.x", "b.x.t"],
            ),
        ] {
            let mut s = store();
            define(&mut s, "user", scope(scope_of), role);
            for on in there {
                assert_eq!(
                    letters(&s, "user", on, false),
                    all(role),
                    "{role:?} on {scope_of:?}: {on:?}"
                );
            }
            for on in seen {
                assert_eq!(letters(&s, "user", on, false), "d", "{role:?} on {scope_of:?}: {on:?}");
                assert_eq!(
                    letters(&s, "user", on, true),
                    all(role),
                    "{role:?} on {scope_of:?}: {on:?}"
                );
            }
            for on in not_there {
                assert_eq!(letters(&s, "user", on, false), "", "{role:?} on {scope_of:?}: {on:?}");
            }
        }
    }
}

#[test]
fn a_grant_takes_the_place_of_the_role() {
    for role in [Role::Viewer, Role::Editor, Role::Owner] {
        for (read, write, letter) in [(true, false, "dr"), (false, true, "dw"), (true, true, "drw")] {
            for scope_of in ["", "a", "a.x"] {
                let mut s = store();
                define(&mut s, "root", ScopeName::Store, Role::Owner);
                define(&mut s, "user", scope(scope_of), role);
                grant(&mut s, "user", ("a", "x", "t"), read, write);
                assert_eq!(letters(&s, "user", "a.x.t", false), letter);
                for way in ["a", "a.x"] {
                    assert_eq!(letters(&s, "user", way, false), "d", "the way there");
                    assert_eq!(letters(&s, "user", way, true), letter);
                }
                assert_eq!(letters(&s, "user", "", true), letter);
                for other in ["", "a.x.u", "a.y", "a.y.t", "b", "b.x", "b.x.t"] {
                    assert_eq!(letters(&s, "user", other, false), "", "{other}");
                }
            }
        }
    }
}

#[test]
fn who_was_granted_once_does_not_get_its_role_back() {
    let mut s = store();
    define(&mut s, "root", ScopeName::Store, Role::Owner);
    define(&mut s, "user", ScopeName::Store, Role::Owner);
    grant(&mut s, "user", ("a", "x", "t"), true, true);
    let topic = s.topic("a", "x", "t").unwrap().id;
    s.apply(Command::DropTopic { topic }).unwrap();
    for on in ["", "a", "a.x", "a.x.u"] {
        assert_eq!(letters(&s, "user", on, false), "", "{on}");
        assert_eq!(letters(&s, "user", on, true), "", "{on}");
    }
    grant(&mut s, "user", ("a", "x", "u"), true, false);
    assert_eq!(letters(&s, "user", "a.x.u", false), "dr");
}

#[test]
fn an_open_store_is_everybodys_and_the_first_user_closes_it() {
    let mut s = store();
    let topic = s.topic("a", "x", "t").unwrap().clone();
    let all = |s: &State, who: &Who| {
        let standing = standing(s, who)?;
        assert!(standing.name().is_none() && standing.user().is_none());
        Ok(ACTIONS
            .iter()
            .all(|a| standing.may(*a, On::Store) && standing.may(*a, On::Topic(&topic))))
    };
    assert_eq!(all(&s, &Who::Anonymous), Ok(true));
    define(
        &mut s,
        "ada",
        ScopeName::Database {
            namespace: "a".into(),
            name: "x".into(),
        },
        Role::Viewer,
    );
    assert_eq!(all(&s, &Who::Anonymous), Err(NotStanding::SignInWanted));
    assert_eq!(all(&s, &Who::Folder), Ok(true));
    let ada = who(&s, "ada");
    assert_eq!(standing(&s, &ada).unwrap().name(), Some("ada"));
}

#[test]
fn a_sign_in_ends_with_the_user_its_password_or_its_declaration() {
    let ada = UserRef {
        name: "ada".into(),
        id: None,
    };
    let mut s = store();
    define(&mut s, "root", ScopeName::Store, Role::Owner);
    define(&mut s, "ada", ScopeName::Store, Role::Viewer);
    let before = who(&s, "ada");
    s.apply(Command::AlterUser {
        user: ada.clone(),
        change: UserChange::Role(Role::Editor),
    })
    .unwrap();
    let topic = s.topic("a", "x", "t").unwrap().clone();
    assert!(
        standing(&s, &before).unwrap().may(Action::Write, On::Topic(&topic)),
        "at once"
    );
    let change = UserChange::Password(PasswordHash::new("other"));
    s.apply(Command::AlterUser {
        user: ada.clone(),
        change,
    })
    .unwrap();
    assert_eq!(standing(&s, &before).unwrap_err(), NotStanding::Ended);

    let before = who(&s, "ada");
    s.apply(Command::DropUser { user: ada }).unwrap();
    assert_eq!(standing(&s, &before).unwrap_err(), NotStanding::Ended);
    define(&mut s, "ada", ScopeName::Store, Role::Owner);
    assert_eq!(standing(&s, &before).unwrap_err(), NotStanding::Ended, "another ada");
}

#[test]
fn who_was_dropped_has_ended_though_the_store_is_open_again() {
    let mut s = store();
    define(&mut s, "ada", ScopeName::Store, Role::Owner);
    let before = who(&s, "ada");
    let user = UserRef {
        name: "ada".into(),
        id: None,
    };
    s.apply(Command::DropUser { user }).unwrap();
    assert!(s.is_open());
    assert_eq!(standing(&s, &before).unwrap_err(), NotStanding::Ended);
}
