//! Reader positions.

use crate::broker::positions::Positions;
use crate::broker::{Position, PositionChange};
use cluster::ids::{NamespaceId, PartitionId, TopicId};

const NAMESPACE: NamespaceId = NamespaceId(1);

fn partition(topic: u64, index: u32) -> PartitionId {
    PartitionId {
        topic: TopicId(topic),
        index,
    }
}

fn position(offset: i64) -> Position {
    Position {
        offset,
        leader_epoch: 3,
        metadata: "m".into(),
        commit_ms: 1,
    }
}

fn set(topic: u64, index: u32, offset: i64) -> PositionChange {
    PositionChange::Set(partition(topic, index), position(offset))
}

fn set_if(topic: u64, index: u32, seen: Option<i64>, offset: i64) -> PositionChange {
    PositionChange::SetIf(partition(topic, index), seen, position(offset))
}

fn offsets(positions: &Positions, reader: &str) -> Vec<(u64, u32, i64)> {
    let of = positions.of(NAMESPACE, reader).into_iter();
    of.map(|(id, p)| (id.topic.0, id.index, p.offset)).collect()
}

#[test]
fn a_condition_that_fails_leaves_everything_as_it_was() {
    let mut positions = Positions::default();
    let mut change = |changes| positions.change(NAMESPACE, "r", changes, |_| false);
    assert!(change(vec![set_if(1, 0, None, 5)]));
    assert!(!change(vec![set_if(1, 0, None, 6)]), "somebody was there");
    assert!(!change(vec![set(1, 1, 9), set_if(1, 0, Some(4), 6)]));
    assert!(change(vec![set(1, 1, 9), set_if(1, 0, Some(5), 6)]));
    assert!(!change(vec![PositionChange::DeleteAll, set_if(1, 2, Some(0), 6)]));
    assert_eq!(offsets(&positions, "r"), [(1, 0, 6), (1, 1, 9)]);
}

#[test]
fn changes_are_applied_in_order() {
    let mut positions = Positions::default();
    let changes = vec![set(1, 0, 5), PositionChange::DeleteAll, set(1, 1, 6), set(1, 1, 7)];
    assert!(positions.change(NAMESPACE, "r", changes, |_| false));
    assert_eq!(offsets(&positions, "r"), [(1, 1, 7)]);
    let delete = vec![PositionChange::Delete(partition(1, 1))];
    assert!(positions.change(NAMESPACE, "r", delete, |_| false));
    assert!(
        positions.readers(NAMESPACE).is_empty(),
        "a reader without positions is none"
    );
}

#[test]
fn a_dropped_topic_takes_its_positions_along_and_gets_no_new_ones() {
    let mut positions = Positions::default();
    positions.change(NAMESPACE, "both", vec![set(1, 0, 5), set(2, 0, 6)], |_| false);
    positions.change(NAMESPACE, "one", vec![set(1, 0, 5)], |_| false);
    positions.take_changed();
    positions.drop_topic(TopicId(1));
    assert_eq!(offsets(&positions, "both"), [(2, 0, 6)]);
    assert_eq!(positions.readers(NAMESPACE), ["both"]);
    assert_eq!(positions.topics(), [TopicId(2)].into());
    let changed = positions.take_changed();
    assert_eq!(changed, [(NAMESPACE, "both".to_owned()), (NAMESPACE, "one".to_owned())]);
    assert!(positions.change(NAMESPACE, "late", vec![set(1, 0, 5)], |t| t == TopicId(1)));
    assert_eq!(offsets(&positions, "late"), []);
}

#[test]
fn readers_are_apart_by_namespace_and_found_by_topic() {
    let mut positions = Positions::default();
    positions.change(NAMESPACE, "a", vec![set(1, 0, 5), set(1, 7, 6), set(2, 0, 7)], |_| {
        false
    });
    positions.change(NAMESPACE, "b", vec![set(1, 0, 8)], |_| false);
    positions.change(NamespaceId(2), "a", vec![set(1, 0, 9)], |_| false);
    let found = positions.in_topic(NAMESPACE, TopicId(1));
    let found: Vec<_> = found.iter().map(|(r, i, p)| (r.as_str(), *i, p.offset)).collect();
    assert_eq!(found, [("a", 0, 5), ("a", 7, 6), ("b", 0, 8)]);
}

#[test]
fn what_changed_is_told_once_and_can_be_put_back() {
    let mut positions = Positions::default();
    positions.change(NAMESPACE, "a", vec![set(1, 0, 5), set(2, 3, 6)], |_| false);
    positions.change(NAMESPACE, "b", vec![set(1, 0, 5)], |_| false);
    positions.change(NAMESPACE, "b", vec![PositionChange::DeleteAll], |_| false);
    let mut restored = Positions::default();
    for (namespace, reader) in positions.take_changed() {
        if let Some(encoded) = positions.encoded(namespace, &reader) {
            restored.restore(namespace, reader, &encoded).unwrap();
        }
    }
    assert_eq!(restored, positions);
    assert!(positions.take_changed().is_empty());
    let encoded = positions.encoded(NAMESPACE, "a").unwrap();
    for cut in 0..encoded.len() {
        assert!(restored.restore(NAMESPACE, "a".into(), &encoded[..cut]).is_err());
    }
}
