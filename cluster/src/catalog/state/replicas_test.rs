use super::super::super::command::Command;
use super::super::super::model::Acknowledge;
use super::*;
use crate::catalog::{Told, TopicSpec};
use uuid::Uuid;

const FIRST: NodeId = NodeId(7);

fn started() -> State {
    let mut s = State::default();
    s.apply(Command::JoinNode { node: FIRST }).unwrap();
    s
}

fn spec(name: &str, node: Option<u128>) -> ReplicaSpec {
    ReplicaSpec {
        name: name.into(),
        at: format!("{name}.internal:9180"),
        clients_at: None,
        http_at: None,
        kafka_at: None,
        node: node.map(NodeId),
        roles: None,
    }
}

fn define(spec: ReplicaSpec) -> Command {
    Command::Member(MemberCommand::Define {
        spec,
        if_not_exists: false,
    })
}

fn alter(name: &str, change: ReplicaChange) -> Command {
    Command::Member(MemberCommand::Alter {
        name: name.into(),
        change,
    })
}

fn drop_replica(name: &str) -> Command {
    Command::Member(MemberCommand::Drop { name: name.into() })
}

fn joined(node: u128) -> Command {
    Command::Member(MemberCommand::Joined { node: NodeId(node) })
}

fn three() -> State {
    let mut s = started();
    s.apply(define(spec("one", Some(7)))).unwrap();
    for (name, node) in [("two", 8), ("three", 9)] {
        s.apply(define(spec(name, Some(node)))).unwrap();
        s.apply(joined(node)).unwrap();
    }
    s
}

fn namespace(name: &str, replication: Option<u8>) -> Command {
    Command::DefineNamespace {
        name: name.into(),
        if_not_exists: false,
        replication,
        acknowledge: Acknowledge::Majority,
    }
}

fn topic(namespace: &str, name: &str, partitions: u32) -> Command {
    Command::DefineTopic {
        namespace: namespace.into(),
        database: "d".into(),
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

#[test]
fn a_row_for_the_first_node_keeps_its_broker_id() {
    let mut s = started();
    let broker = s.member(FIRST).unwrap().broker;
    assert_eq!(s.apply(define(spec("one", Some(7)))), Ok(Reply::Broker(broker)));
    assert_eq!(s.members().count(), 1);
    assert_eq!(s.replica("one").unwrap().standing, Standing::Joined);
}

#[test]
fn a_row_without_a_node_takes_the_one_found_at_its_address() {
    let mut s = started();
    let first = s.member(FIRST).unwrap().broker;
    for (name, node) in [("one", 7), ("two", 8)] {
        let Ok(Reply::Broker(broker)) = s.apply(define(spec(name, None))) else {
            panic!("a row is answered its broker id")
        };
        let node = NodeId(node);
        s.apply(Command::Member(MemberCommand::Bind { broker, node })).unwrap();
        assert_eq!(s.replica(name).unwrap().node, Some(node));
    }
    assert_eq!(s.replica("one").unwrap().broker, first);
    assert_eq!(s.replica("one").unwrap().standing, Standing::Joined);
    assert_eq!(s.replica("two").unwrap().standing, Standing::Declared);
    assert_eq!(s.members().count(), 2);
}

#[test]
fn broker_ids_are_never_given_twice() {
    let mut s = started();
    let mut given = vec![s.member(FIRST).unwrap().broker];
    for node in 20..25 {
        s.apply(define(spec("passing", Some(node)))).unwrap();
        let broker = s.replica("passing").unwrap().broker;
        assert!(!given.contains(&broker));
        given.push(broker);
        s.apply(drop_replica("passing")).unwrap();
    }
}

#[test]
fn a_dropped_node_is_banned_for_ever() {
    let mut s = three();
    s.apply(drop_replica("three")).unwrap();
    assert_eq!(s.replica("three").unwrap().standing, Standing::Leaving);
    assert!(s.is_banned(NodeId(9)));
    s.apply(Command::Member(MemberCommand::Left { node: NodeId(9) }))
        .unwrap();
    assert!(s.replica("three").is_none());
    let refused = Err(CatalogError::NodeTombstoned { node: NodeId(9) });
    assert_eq!(s.apply(define(spec("again", Some(9)))), refused);
    assert_eq!(s.apply(Command::JoinNode { node: NodeId(9) }), refused);
}

#[test]
fn a_row_goes_only_when_nothing_is_left_on_its_node() {
    let mut s = three();
    s.apply(namespace("n", None)).unwrap();
    s.apply(drop_replica("three")).unwrap();
    let left = Command::Member(MemberCommand::Left { node: NodeId(9) });
    assert!(s.apply(left.clone()).is_err());
    for range in s.ranges().map(|row| row.id).collect::<Vec<_>>() {
        s.apply(Command::Member(MemberCommand::Place {
            range,
            voters: vec![NodeId(8), FIRST],
            leader: Some(FIRST),
        }))
        .unwrap();
    }
    s.apply(left).unwrap();
}

#[test]
fn the_last_that_can_vote_or_hold_data_stays() {
    let mut s = started();
    s.apply(define(spec("one", Some(7)))).unwrap();
    s.apply(define(spec("two", Some(8)))).unwrap();
    let roles = |serving, coordinating| Roles {
        serving,
        writable: false,
        coordinating,
    };
    let give = |roles| Command::Member(MemberCommand::NodeRoles { node: FIRST, roles });
    let before = s.clone();
    // The second has not joined yet.
    for refused in [give(roles(true, false)), give(roles(false, true)), drop_replica("one")] {
        assert!(matches!(s.apply(refused), Err(CatalogError::InvalidValue(_))));
        assert_eq!(s, before);
    }
    s.apply(joined(8)).unwrap();
    s.apply(give(roles(true, false))).unwrap();
    assert!(s.apply(drop_replica("two")).is_err());
}

#[test]
fn addresses_are_ones_that_can_be_connected_to() {
    let mut s = three();
    for bad in ["", "h", "h:0", ":9", "0.0.0.0:9", "[::]:9", "a b:9", "::1:9", "h:70000"] {
        let kafka = ReplicaChange::KafkaAt(Some(bad.into()));
        for change in [
            kafka,
            ReplicaChange::At(bad.into()),
            ReplicaChange::ClientsAt(Some(bad.into())),
        ] {
            assert!(s.apply(alter("two", change)).is_err(), "{bad:?}");
        }
    }
    let taken = ReplicaChange::At("three.internal:9180".into());
    assert!(s.apply(alter("two", taken)).is_err());
    assert!(
        s.apply(alter("two", ReplicaChange::HttpAt(Some("db:9080".into()))))
            .is_err()
    );
    let http = ReplicaChange::HttpAt(Some("https://db.example".into()));
    s.apply(alter("two", http)).unwrap();
    // Behind one balancer all have the same.
    for name in ["two", "three"] {
        s.apply(alter(name, ReplicaChange::KafkaAt(Some("[fd00::1]:9092".into()))))
            .unwrap();
        let address = s.replica(name).unwrap().kafka_address().cloned();
        assert_eq!(address, Some(("fd00::1".into(), 9092)));
    }
}

#[test]
fn a_kafka_address_is_the_rows_else_what_the_node_tells() {
    let mut s = three();
    let told = Told {
        kafka: Some(("told".into(), 9092)),
        serve: None,
    };
    s.apply(Command::Member(MemberCommand::Tell { node: FIRST, told }))
        .unwrap();
    let address = |s: &State| s.replica("one").unwrap().kafka_address().map(|(host, _)| host.clone());
    assert_eq!(address(&s).as_deref(), Some("told"));
    s.apply(alter("one", ReplicaChange::KafkaAt(Some("row:9092".into()))))
        .unwrap();
    assert_eq!(address(&s).as_deref(), Some("row"));
    s.apply(alter("one", ReplicaChange::KafkaAt(None))).unwrap();
    assert_eq!(address(&s), None);
}

#[test]
fn a_range_begins_on_as_many_members_as_the_factor_says_and_load_is_even() {
    let mut s = three();
    s.apply(namespace("all", None)).unwrap();
    s.apply(namespace("two", Some(2))).unwrap();
    s.apply(namespace("lone", Some(1))).unwrap();
    let voters = |replication| s.ranges().filter(move |r| r.replication == replication);
    assert_eq!(voters(None).count(), 6);
    assert!(voters(None).all(|r| r.voters.len() == 3 && r.founders() == r.voters));
    assert!(voters(Some(2)).all(|r| r.voters.len() == 2));
    for node in [7, 8, 9] {
        let of = |replication| voters(replication).filter(|r| r.voters.contains(&NodeId(node))).count();
        assert_eq!((of(Some(2)), of(Some(1))), (4, 2));
    }
}

#[test]
fn the_pool_grows_when_members_join() {
    let mut s = started();
    s.apply(namespace("n", None)).unwrap();
    let database = Command::DefineDatabase {
        namespace: "n".into(),
        name: "d".into(),
        if_not_exists: false,
    };
    s.apply(database).unwrap();
    s.apply(topic("n", "a", 4)).unwrap();
    assert_eq!(s.ranges().count(), 2);
    s.apply(define(spec("two", Some(8)))).unwrap();
    s.apply(topic("n", "b", 1)).unwrap();
    assert_eq!(s.ranges().count(), 2, "one that has not joined holds nothing");
    s.apply(joined(8)).unwrap();
    s.apply(topic("n", "c", 4)).unwrap();
    assert_eq!(s.ranges().count(), 4);
    let c = s.topic("n", "d", "c").unwrap();
    assert!(c.partitions.iter().all(|range| range.0 > 2), "the new ones have fewest");
}

#[test]
fn a_range_has_what_its_most_demanding_namespace_wants() {
    let mut s = three();
    s.apply(namespace("n", Some(1))).unwrap();
    s.apply(namespace("m", Some(1))).unwrap();
    let (n, m) = (s.namespace("n").unwrap().home, s.namespace("m").unwrap().home);
    assert_eq!(s.replicas_wanted()[&n], 1);
    let more = Command::AlterNamespace {
        name: "n".into(),
        replication: Some(Some(5)),
        acknowledge: None,
    };
    s.apply(more).unwrap();
    assert_eq!(s.replicas_wanted()[&n], 3, "there are no more members");
    assert_eq!(s.replicas_wanted()[&m], 1);
}

/// Founders that lost a range since could elect each other over an empty log.
#[test]
fn a_range_that_was_given_to_others_is_never_made_anew() {
    let mut s = three();
    s.apply(namespace("n", Some(2))).unwrap();
    let row = s.ranges().next().unwrap().clone();
    let place = |voters: &[NodeId]| {
        Command::Member(MemberCommand::Place {
            range: row.id,
            voters: voters.to_vec(),
            leader: None,
        })
    };
    s.apply(place(&row.voters)).unwrap();
    assert_eq!(s.range(row.id).unwrap().founders(), row.voters);
    s.apply(place(&[FIRST, NodeId(8), NodeId(9)])).unwrap();
    s.apply(place(&row.voters)).unwrap();
    assert!(s.range(row.id).unwrap().founders().is_empty());
}

#[test]
fn rows_of_members_read_back_and_older_ones_are_understood() {
    let mut s = three();
    s.apply(drop_replica("three")).unwrap();
    let text = serde_json::to_vec(&super::super::Rows::from(&s)).unwrap();
    assert_eq!(
        State::from(serde_json::from_slice::<super::super::Rows>(&text).unwrap()),
        s
    );
    let old = r#"{"broker":4,"node":"00000000000000000000000000000007"}"#;
    let member: Member = serde_json::from_str(old).unwrap();
    assert_eq!((member.standing, member.roles), (Standing::Joined, Roles::ALL));
    let old = r#"{"id":1,"voters":["00000000000000000000000000000007"],"partitions":0,"homes":0}"#;
    let row: crate::catalog::RangeRow = serde_json::from_str(old).unwrap();
    assert_eq!(row.founders(), [FIRST]);
}
