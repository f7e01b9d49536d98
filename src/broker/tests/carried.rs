//! Brokers that are asked for what other members lead.

use super::many::{Many, until};
use super::store::{batch_of, content, partitions, to};
use crate::broker::{AppendError, Broker, Position, PositionChange};
use crate::record::{BatchBuilder, BatchHeader};
use cluster::catalog::{Command, Reply, Topic};
use cluster::ids::PartitionId;
use cluster::range::ProposeError;
use futures::future::join_all;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// An idempotent producer as clients have it: five on their way; what is not surely stored is sent again, in order, with the
/// sequences it had. Answers the offset of each record.
async fn produce(broker: Arc<Broker>, topic: Arc<Topic>, producer: i64, stop: CancellationToken) -> BTreeMap<i32, i64> {
    let batch = |sequence: i32| {
        let bytes = batch_of(BatchBuilder::new().producer(producer, 0, sequence), &[1]);
        vec![to(&topic, 0, bytes)]
    };
    let mut stored = BTreeMap::new();
    let (mut next, mut on_their_way) = (0, VecDeque::new());
    loop {
        while on_their_way.len() < 5 && !stop.is_cancelled() {
            on_their_way.push_back((next, broker.append(batch(next)).await));
            next += 1;
        }
        let Some((sequence, answer)) = on_their_way.pop_front() else {
            return stored;
        };
        match answer.await.remove(0) {
            Ok(appended) => {
                stored.insert(sequence, appended.base_offset);
            }
            // One before it was refused, and will be sent again before it.
            Err(
                AppendError::OutOfOrderSequence { .. }
                | AppendError::Propose(ProposeError::NotLeader { .. } | ProposeError::Unknown(_)),
            ) => {
                let behind = std::mem::take(&mut on_their_way);
                let again: Vec<i32> = std::iter::once(sequence)
                    .chain(behind.iter().map(|(s, _)| *s))
                    .collect();
                join_all(behind.into_iter().map(|(_, answer)| answer)).await;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                for sequence in again {
                    on_their_way.push_back((sequence, broker.append(batch(sequence)).await));
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// (producer, first sequence) of every batch of the partition, by offset.
fn stored(broker: &Broker, topic: &Topic) -> Vec<(i64, i32)> {
    let (mut all, mut at) = (Vec::new(), 0);
    loop {
        let (_, slice) = broker.read(topic, 0, at, 1 << 20, true).unwrap();
        let bytes = content(&slice);
        if bytes.is_empty() {
            return all;
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let header = BatchHeader::parse(rest).unwrap();
            assert_eq!(header.base_offset, all.len() as i64);
            all.push((header.producer_id, header.base_sequence));
            rest = &rest[header.batch_len() as usize..];
        }
        at = slice.next;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_at_any_member_lose_and_double_nothing_while_leaders_change() {
    let many = Many::new().await;
    // Declared where nobody leads the catalog.
    let topic = many.topic(2, "t", partitions(1)).await;
    let range = topic.partitions[0];
    let stop = CancellationToken::new();
    let producers: Vec<_> = (1..=3u128)
        .map(|id| {
            let broker = many.member(id).broker.clone();
            let topic = topic.clone();
            let stop = stop.clone();
            tokio::spawn(async move {
                let producer = broker.producer_id().await.unwrap();
                (producer, produce(broker, topic, producer, stop).await)
            })
        })
        .collect();
    for round in 0..6u128 {
        let end = |id: u128| many.member(id).broker.marks(&topic, 0).map_or(0, |m| m.high_watermark);
        let before = (1..=3).map(end).max().unwrap();
        until("more is stored", || (1..=3).map(end).any(|end| end > before + 60)).await;
        many.hand_over(range, round % 3 + 1).await;
    }
    stop.cancel();
    let mut told = Vec::new();
    for producer in producers {
        let done = tokio::time::timeout(std::time::Duration::from_secs(120), producer);
        told.push(done.await.expect("all is stored").unwrap());
    }
    until("somebody leads", || many.leader(range).is_some()).await;
    let all = stored(&many.member(many.leader(range).unwrap()).broker, &topic);
    let mut counts = 0;
    for (producer, offsets) in &told {
        let mine: Vec<i32> = all.iter().filter(|(p, _)| p == producer).map(|(_, s)| *s).collect();
        assert_eq!(
            mine,
            (0..mine.len() as i32).collect::<Vec<_>>(),
            "lost, doubled or out of order"
        );
        assert_eq!(offsets.len(), mine.len());
        for (sequence, offset) in offsets {
            assert_eq!(all[*offset as usize], (*producer, *sequence));
        }
        counts += mine.len();
    }
    assert_eq!(counts, all.len());
    assert_ne!(told[0].0, told[1].0, "producer ids are given once");
}

/// Members other than the one that answered were told of a topic later, and refused what clients then asked of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_declared_is_known_to_every_member_when_it_is_answered() {
    let mut many = Many::new().await;
    // The ranges are there.
    let first = many.topic(1, "first", partitions(2)).await;
    let define = |name: String| Command::DefineTopic {
        namespace: "shop".into(),
        database: "orders".into(),
        name,
        if_not_exists: false,
        spec: partitions(8),
        uuid: uuid::Uuid::new_v4(),
        now_ms: 1,
    };
    for round in 0..10 {
        for at in 1..=3u128 {
            let declared = many.member(at).broker.declare(define(format!("t_{round}_{at}"))).await;
            let Ok(Reply::Topic(topic)) = declared else {
                panic!("{declared:?}")
            };
            for id in 1..=3 {
                let table = many.member(id).broker.routes().table();
                let known = table.state().topic_by_id(topic.id).expect("known");
                let led = (0..known.partitions.len() as u32).filter(|p| table.partition(known, *p).is_some());
                assert_eq!(led.count(), 8, "declared at {at}, asked at {id}");
            }
        }
    }
    many.member(3).broker.drop_topic(first.clone()).await.unwrap();
    for id in 1..=3 {
        assert!(
            many.member(id).broker.catalog().view().topic_by_id(first.id).is_none(),
            "{id}"
        );
    }
    // One that is gone holds nobody up for good, though it is still taken for living.
    many.stop(3).await;
    let mut declared = Err(());
    for n in 0..100 {
        // The catalog may have to elect.
        declared = many
            .member(2)
            .broker
            .declare(define(format!("after_{n}")))
            .await
            .map_err(|_| ());
        if declared.is_ok() {
            break;
        }
    }
    let Ok(Reply::Topic(topic)) = declared else {
        panic!("nothing is declared by two of three")
    };
    assert!(many.member(1).broker.catalog().view().topic_by_id(topic.id).is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_is_answered_by_the_next_leader_when_one_is_gone() {
    let mut many = Many::new().await;
    let topic = many.topic(3, "t", partitions(1)).await;
    let range = topic.partitions[0];
    many.give(range, 2).await;
    let three = many.member(3).broker.clone();
    let batch = |sequence| {
        vec![to(
            &topic,
            0,
            batch_of(BatchBuilder::new().producer(7, 0, sequence), &[1]),
        )]
    };
    assert_eq!(three.append(batch(0)).await.await[0].as_ref().unwrap().base_offset, 0);
    many.stop(2).await;
    let mut offset = None;
    for _ in 0..200 {
        match three.append(batch(1)).await.await.remove(0) {
            Ok(appended) => {
                offset = Some(appended.base_offset);
                break;
            }
            Err(AppendError::Propose(ProposeError::NotLeader { .. } | ProposeError::Unknown(_))) => {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(offset, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_are_changed_from_any_member_and_by_a_coordinator_in_its_term_only() {
    let many = Many::new().await;
    let topic = many.topic(1, "t", partitions(1)).await;
    let namespace = topic.namespace;
    let home = {
        let view = many.member(1).broker.catalog().view();
        view.namespace_by_id(namespace).unwrap().home
    };
    many.give(home, 1).await;
    let position = |offset| Position {
        offset,
        leader_epoch: -1,
        metadata: String::new(),
        commit_ms: 0,
    };
    let partition = PartitionId {
        topic: topic.id,
        index: 0,
    };
    let set = |offset| vec![PositionChange::Set(partition, position(offset))];
    let (one, three) = (&many.member(1).broker, &many.member(3).broker);
    three.change_positions(namespace, "r", set(5)).await.unwrap();
    assert_eq!(one.positions(namespace, "r").await.unwrap()[0].1.offset, 5);
    let term = one.leadership(home).unwrap().borrow().term;
    one.change_positions_in(term, namespace, "r", set(6)).await.unwrap();
    for (broker, term) in [(one, term + 1), (three, term)] {
        let refused = broker.change_positions_in(term, namespace, "r", set(9)).await;
        assert!(refused.is_err());
    }
    assert_eq!(one.positions(namespace, "r").await.unwrap()[0].1.offset, 6);
}
