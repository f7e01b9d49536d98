use super::*;
use proptest::prelude::*;

fn started() -> State {
    let mut s = State::default();
    s.apply(Command::JoinNode { node: NodeId(7) }).unwrap();
    s
}

fn namespace(name: &str) -> Command {
    Command::DefineNamespace {
        name: name.into(),
        if_not_exists: false,
        replication: None,
        acknowledge: Acknowledge::Majority,
    }
}

fn database(namespace: &str, name: &str) -> Command {
    Command::DefineDatabase {
        namespace: namespace.into(),
        name: name.into(),
        if_not_exists: false,
    }
}

fn topic(name: &str, partitions: u32) -> Command {
    Command::DefineTopic {
        namespace: "shop".into(),
        database: "orders".into(),
        name: name.into(),
        if_not_exists: false,
        spec: TopicSpec {
            partitions,
            ..TopicSpec::default()
        },
        uuid: Uuid::new_v4(),
        now_ms: 1,
    }
}

fn with_database() -> State {
    let mut s = started();
    s.apply(namespace("shop")).unwrap();
    s.apply(database("shop", "orders")).unwrap();
    s
}

#[test]
fn partitions_are_dealt_evenly_over_the_pool() {
    let mut s = with_database();
    s.apply(topic("a", 3)).unwrap();
    s.apply(topic("b", 3)).unwrap();
    let loads: Vec<u32> = s.ranges().map(|r| r.partitions).collect();
    assert_eq!(loads, [3, 3]);
    assert_eq!(s.topic("shop", "orders", "a").unwrap().partitions.len(), 3);
}

#[test]
fn a_drop_names_what_is_inside_and_changes_nothing() {
    let mut s = with_database();
    s.apply(topic("a", 1)).unwrap();
    let before = s.clone();
    let e = s.apply(Command::DropNamespace { name: "shop".into() }).unwrap_err();
    assert_eq!(
        e.to_string(),
        "namespace shop still holds 1 database, orders among them"
    );
    let e = s
        .apply(Command::DropDatabase {
            namespace: "shop".into(),
            name: "orders".into(),
        })
        .unwrap_err();
    assert_eq!(e.to_string(), "database orders still holds 1 topic, a among them");
    assert_eq!(s, before);
}

#[test]
fn a_recreated_topic_is_another_incarnation() {
    let mut s = with_database();
    s.apply(topic("a", 1)).unwrap();
    let first = s.topic("shop", "orders", "a").unwrap().clone();
    s.apply(Command::DropTopic { topic: first.id }).unwrap();
    assert!(s.topic_by_uuid(first.uuid).is_none());
    s.apply(topic("a", 1)).unwrap();
    assert!(s.topic("shop", "orders", "a").unwrap().id > first.id);
}

#[test]
fn together_is_all_or_nothing() {
    let mut s = with_database();
    let before = s.clone();
    let both = Command::Together(vec![topic("a", 1), database("shop", "orders")]);
    assert!(matches!(s.apply(both), Err(CatalogError::NameTaken { .. })));
    assert_eq!(s, before);
}

#[test]
fn partitions_only_grow() {
    let mut s = with_database();
    s.apply(topic("a", 2)).unwrap();
    let id = s.topic("shop", "orders", "a").unwrap().id;
    for count in [0, 1, 2, MAX_PARTITIONS + 1] {
        let change = Command::AlterTopic {
            topic: id,
            changes: vec![TopicChange::Partitions(count)],
        };
        assert!(
            matches!(s.apply(change), Err(CatalogError::InvalidPartitions { .. })),
            "{count}"
        );
    }
    let grown = Command::AlterTopic {
        topic: id,
        changes: vec![TopicChange::Partitions(5)],
    };
    s.apply(grown).unwrap();
    assert_eq!(s.topic_by_id(id).unwrap().partitions.len(), 5);
}

#[test]
fn a_group_keeps_the_namespace_recorded_first() {
    let mut s = with_database();
    s.apply(namespace("other")).unwrap();
    let (shop, other) = (s.namespace("shop").unwrap().id, s.namespace("other").unwrap().id);
    let record = |namespace| Command::RecordGroup {
        group: "g".into(),
        namespace,
    };
    assert_eq!(s.apply(record(shop)), Ok(Reply::Namespace(shop)));
    assert_eq!(s.apply(record(other)), Ok(Reply::Namespace(shop)));
}

#[test]
fn producer_id_blocks_never_overlap() {
    let mut s = started();
    let Ok(Reply::ProducerIds(a)) = s.apply(Command::AllocateProducerIds { count: 1000 }) else {
        panic!()
    };
    let Ok(Reply::ProducerIds(b)) = s.apply(Command::AllocateProducerIds { count: 1000 }) else {
        panic!()
    };
    assert_eq!(b, a + 1000);
}

#[test]
fn names_are_identifiers() {
    for bad in ["", "1a", "a b", "a.b", "\u{e4}", "a-b", &"x".repeat(201)] {
        assert!(
            matches!(started().apply(namespace(bad)), Err(CatalogError::BadName { .. })),
            "{bad:?}"
        );
    }
}

proptest! {
    #[test]
    fn rows_read_back_as_the_same_state(counts in proptest::collection::vec(1u32..9, 0..6)) {
        let mut s = with_database();
        for (i, n) in counts.iter().enumerate() {
            s.apply(topic(&format!("t{i}"), *n)).unwrap();
        }
        let text = serde_json::to_vec(&Rows::from(&s)).unwrap();
        let back = State::from(serde_json::from_slice::<Rows>(&text).unwrap());
        prop_assert_eq!(back, s);
    }
}

#[test]
fn every_command_reads_as_it_was_written() {
    let alter = |replication| Command::AlterNamespace {
        name: "shop".into(),
        replication,
        acknowledge: Some(Acknowledge::Leader),
    };
    let changes = vec![
        TopicChange::RetainMs(None),
        TopicChange::RetainBytes(Some(5)),
        TopicChange::LogAppendTime(true),
    ];
    let commands = [
        Command::JoinNode { node: NodeId(7) },
        namespace("shop"),
        alter(None),
        alter(Some(None)),
        alter(Some(Some(3))),
        Command::DropNamespace { name: "shop".into() },
        database("shop", "orders"),
        topic("a", 1),
        Command::AlterTopic {
            topic: TopicId(1),
            changes,
        },
        Command::DropTopic { topic: TopicId(1) },
        Command::AllocateProducerIds { count: 3 },
        Command::Together(vec![namespace("shop"), Command::Together(vec![topic("a", 1)])]),
    ];
    for command in commands {
        let bytes = serde_json::to_vec(&command).unwrap();
        assert_eq!(serde_json::from_slice::<Command>(&bytes).unwrap(), command);
    }
}
