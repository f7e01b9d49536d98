//! Everything that can be said prints as source that reads back as the same; nothing that can be sent panics.

use super::super::ast::*;
use super::super::json::Document;
use super::super::value::Object;
use super::super::*;
use cluster::catalog::MAX_PARTITIONS;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use std::time::Duration;

fn name() -> impl Strategy<Value = String> {
    // Clause words are names too; reserved words are not.
    prop_oneof![
        "t_[A-Za-z0-9_]{0,8}",
        "topic|group|consumer|partition|after|limit|retain|node|by|at|ack|values|into"
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~]{0,12}", any::<String>()]
}

fn duration() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::None),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(Value::Float),
        (any::<i64>(), 0u32..28).prop_map(|(m, s)| Value::Decimal(rust_decimal::Decimal::new(m, s))),
        text().prop_map(Value::String),
        vec(any::<u8>(), 0..20).prop_map(|bytes| Value::Bytes(bytes.into())),
        duration().prop_map(Value::Duration),
        (-62_167_219_200i64..253_000_000_000, 0i32..1_000_000_000)
            .prop_map(|(s, n)| Value::Datetime(jiff::Timestamp::new(s, 0).unwrap() + jiff::SignedDuration::new(0, n))),
        any::<u128>().prop_map(|id| Value::Uuid(uuid::Uuid::from_u128(id))),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::Array),
            btree_map(text(), inner, 0..6).prop_map(Value::Object),
        ]
    })
}

fn object() -> impl Strategy<Value = Object> {
    btree_map(prop_oneof![name(), text()], value(), 0..5)
}

fn id() -> impl Strategy<Value = Option<Value>> {
    of(prop_oneof![
        text().prop_map(Value::String),
        any::<i64>().prop_map(Value::Int)
    ])
}

fn count() -> impl Strategy<Value = u64> {
    1..=i64::MAX as u64
}

fn roles() -> impl Strategy<Value = Vec<MemberRole>> {
    use MemberRole::{Coordinating, Serving, Writable};
    proptest::sample::subsequence(vec![Serving, Writable, Coordinating], 1..=3)
}

fn secret() -> Secret {
    Secret::new(Secret::REDACTED.to_owned())
}

fn declaration() -> impl Strategy<Value = Statement> {
    let replication = prop_oneof![Just(Replication::None), (1u32..=65_535).prop_map(Replication::Factor)];
    let level = prop_oneof![Just(AcknowledgeLevel::Leader), Just(AcknowledgeLevel::Majority)];
    let retain = (1u64..=u64::MAX / 1_000_000).prop_map(Duration::from_millis).boxed();
    let partitions = (1..=MAX_PARTITIONS, prop_oneof![name(), text()]).prop_map(|(count, by)| Partitions { count, by });
    prop_oneof![
        (of(name()), of(name()))
            .prop_filter("one is given", |(n, d)| n.is_some() || d.is_some())
            .prop_map(|(namespace, database)| Statement::Use { namespace, database }),
        (any::<bool>(), name(), of(replication.clone()), of(level.clone())).prop_map(|(if_not_exists, name, r, a)| {
            Statement::DefineNamespace(DefineNamespace {
                if_not_exists,
                name,
                replication: r,
                acknowledge: a,
            })
        }),
        (name(), replication.prop_map(NamespaceChange::Replication).boxed())
            .prop_map(|(name, change)| Statement::AlterNamespace { name, change }),
        (name(), level.prop_map(NamespaceChange::Acknowledge))
            .prop_map(|(name, change)| Statement::AlterNamespace { name, change }),
        (any::<bool>(), name()).prop_map(|(if_not_exists, name)| Statement::DefineDatabase { if_not_exists, name }),
        (
            any::<bool>(),
            name(),
            of(partitions),
            of(retain.clone()),
            of(count()),
            of(1..=i32::MAX as u32)
        )
            .prop_map(|(if_not_exists, name, partitions, retain, retain_bytes, max_bytes)| {
                Statement::DefineTopic(DefineTopic {
                    if_not_exists,
                    name,
                    partitions,
                    retain,
                    retain_bytes,
                    max_bytes,
                })
            }),
        (
            name(),
            prop_oneof![
                (1..=MAX_PARTITIONS).prop_map(TopicChange::Partitions),
                of(retain).prop_map(TopicChange::Retain),
                count().prop_map(TopicChange::RetainBytes),
                (1..=i32::MAX as u32).prop_map(TopicChange::MaxBytes),
            ]
        )
            .prop_map(|(name, change)| Statement::AlterTopic { name, change }),
        name().prop_map(Statement::DropNamespace),
        name().prop_map(Statement::DropDatabase),
        name().prop_map(Statement::DropTopic),
        Just(Statement::Begin),
        Just(Statement::Commit),
        Just(Statement::Cancel),
    ]
}

fn data() -> impl Strategy<Value = Statement> {
    let verb = prop_oneof![Just(ChangeVerb::Update), Just(ChangeVerb::Upsert)];
    let rows = (1usize..4, 1usize..4).prop_flat_map(|(fields, rows)| {
        let names = proptest::collection::btree_set(prop_oneof![name(), text()], fields..=fields);
        (
            names.prop_map(|names| names.into_iter().collect()),
            vec(vec(value(), fields..=fields), rows..=rows),
        )
    });
    prop_oneof![
        (name(), id(), object()).prop_map(|(table, id, value)| Statement::Create { table, id, value }),
        (name(), rows).prop_map(|(table, (fields, rows))| Statement::Insert { table, fields, rows }),
        (verb, name(), id(), object()).prop_map(|(verb, table, id, value)| Statement::Change {
            verb,
            table,
            id,
            value: Some(value)
        }),
        (name(), id()).prop_map(|(table, id)| Statement::Change {
            verb: ChangeVerb::Delete,
            table,
            id,
            value: None
        }),
        (
            name(),
            of(0u32..=i32::MAX as u32),
            of(text().prop_filter("named", |t| !t.is_empty())),
            of(count()),
            of(count())
        )
            .prop_map(|(topic, partition, consumer, after, limit)| {
                Statement::Read(Read {
                    topic,
                    partition,
                    consumer,
                    after,
                    limit,
                })
            }),
        (
            name(),
            text().prop_filter("named", |t| !t.is_empty()),
            vec(count(), 1..4),
            of(of(duration()).prop_map(|delay| Nack { delay }))
        )
            .prop_map(|(topic, group, positions, nack)| {
                Statement::Acknowledge(AcknowledgeMessages {
                    topic,
                    group,
                    positions,
                    nack,
                })
            }),
    ]
}

fn administration() -> impl Strategy<Value = Statement> {
    let group = || text().prop_filter("named", |text| !text.is_empty());
    let change = prop_oneof![
        text().prop_map(ReplicaChange::At),
        of(text()).prop_map(ReplicaChange::ClientsAt),
        of(text()).prop_map(ReplicaChange::HttpAt),
        of(text()).prop_map(ReplicaChange::KafkaAt),
        roles().prop_map(ReplicaChange::Roles),
        of(any::<u32>()).prop_map(ReplicaChange::Leads),
    ];
    let role = prop_oneof![Just(UserRole::Viewer), Just(UserRole::Editor), Just(UserRole::Owner)];
    let scope = prop_oneof![
        Just(Scope::Store),
        name().prop_map(Scope::Namespace),
        (name(), name()).prop_map(|(namespace, database)| Scope::Database { namespace, database }),
    ];
    let credential = prop_oneof![Just(Credential::Password(secret())), Just(Credential::Hash(secret()))];
    let privileges = proptest::sample::subsequence(vec![Privilege::Read, Privilege::Write], 1..=2);
    let grant = (privileges, name(), name())
        .prop_map(|(privileges, table, user)| Grant {
            privileges,
            table,
            user,
        })
        .boxed();
    let addresses = (text(), of(text()), of(text()), of(text()));
    prop_oneof![
        (
            group(),
            name(),
            duration(),
            of(1..=u32::MAX),
            of(1..=u32::MAX),
            of(name())
        )
            .prop_map(|(group, topic, ack_deadline, deliveries, in_flight, dead_letter)| {
                let define = DefineGroup {
                    group,
                    topic,
                    ack_deadline,
                    deliveries,
                    in_flight,
                    dead_letter,
                };
                Statement::DefineGroup(define)
            }),
        (group(), name(), count()).prop_map(|(group, topic, start)| Statement::AlterGroup { group, topic, start }),
        (group(), name()).prop_map(|(group, topic)| Statement::DropGroup { group, topic }),
        (any::<bool>(), name(), addresses, of("[0-9a-f]{32}"), of(roles())).prop_map(
            |(if_not_exists, name, (at, clients_at, http_at, kafka_at), node, roles)| {
                let define = DefineReplica {
                    if_not_exists,
                    name,
                    at,
                    clients_at,
                    http_at,
                    kafka_at,
                    node,
                    roles,
                };
                Statement::DefineReplica(define)
            }
        ),
        (name(), change).prop_map(|(name, change)| Statement::AlterReplica { name, change }),
        name().prop_map(Statement::DropReplica),
        prop_oneof![Just(Vec::new()), roles()].prop_map(Statement::DefineNodeRoles),
        (any::<bool>(), name(), scope, role.clone(), credential).prop_map(
            |(if_not_exists, name, scope, role, credential)| {
                Statement::DefineUser(DefineUser {
                    if_not_exists,
                    name,
                    scope,
                    role,
                    credential,
                })
            }
        ),
        (
            name(),
            prop_oneof![role.prop_map(UserChange::Role), Just(UserChange::Password(secret()))]
        )
            .prop_map(|(name, change)| Statement::AlterUser { name, change }),
        name().prop_map(Statement::DropUser),
        grant.clone().prop_map(Statement::Grant),
        grant.prop_map(Statement::Revoke),
        prop_oneof![
            Just(Info::Store),
            Just(Info::Namespace),
            Just(Info::Database),
            name().prop_map(Info::Topic),
            Just(Info::Node),
            Just(Info::Users),
            name().prop_map(Info::User),
            text().prop_map(Info::Group),
        ]
        .prop_map(Statement::Info),
    ]
}

fn reads_back(statement: &Statement) {
    let printed = match statement {
        Statement::Commit | Statement::Cancel => format!("BEGIN; {statement}"),
        Statement::Begin => format!("{statement}; COMMIT"),
        _ => statement.to_string(),
    };
    let read = parse(&printed, &Parameters::new()).unwrap_or_else(|error| panic!("{printed}: {error}"));
    assert!(read.iter().any(|one| one.statement == *statement), "{printed}");
}

proptest! {
    #[test]
    fn values_read_back(value in value()) {
        let printed = value.to_string();
        prop_assert_eq!(parse_literal(&printed).map_err(|e| format!("{printed}: {e}")), Ok(value));
    }

    #[test]
    fn documents_read_back(value in object()) {
        fn without_absent(fields: Object) -> Object {
            let mut kept = Object::new();
            for (name, value) in fields {
                match value {
                    Value::None => {}
                    other => { kept.insert(name, stored(other)); }
                }
            }
            kept
        }
        fn stored(value: Value) -> Value {
            match value {
                Value::Object(fields) => Value::Object(without_absent(fields)),
                Value::Array(items) => Value::Array(items.into_iter().map(stored).collect()),
                other => other,
            }
        }
        let document = Document::encode(&value, usize::MAX).unwrap();
        let back = Document::decode(&document.json, document.types.as_deref());
        prop_assert_eq!(back, Some(Value::Object(without_absent(value))));
    }

    #[test]
    fn declarations_read_back(statement in declaration()) {
        reads_back(&statement);
    }

    #[test]
    fn data_statements_read_back(statement in data()) {
        reads_back(&statement);
    }

    #[test]
    fn administration_reads_back(statement in administration()) {
        reads_back(&statement);
    }

    #[test]
    fn no_bytes_panic(script in vec(any::<u8>(), 0..200)) {
        let _ = parse_bytes(&script, &Parameters::new());
    }

    #[test]
    fn no_soup_of_tokens_panics(words in vec(prop_oneof![
        "[A-Z]{1,9}", "[a-z0-9.:;,=$'\"\\\\(){}\\[\\]-]{1,4}", any::<String>(),
        "USE|DEFINE|ALTER|DROP|TOPIC|READ|FROM|CREATE|INSERT|INTO|VALUES|PARTITIONS|BY|RETAIN|GROUP|REPLICA|USER|ROLES",
    ], 0..30)) {
        let script = words.join(" ");
        if let Err(error) = parse(&script, &Parameters::new())
            && let Some(span) = error.span
        {
            prop_assert!(script.get(span.start..span.end).is_some(), "{error} cuts a character");
        }
    }
}
