//! Named readers and their positions.

use super::*;
use crate::broker::{Position, PositionChange};
use crate::ql::exec::Note;
use std::collections::BTreeSet;

async fn info(store: &Store, topic: &str) -> String {
    store.text(&format!("INFO FOR TOPIC {topic}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_goes_on_where_it_stopped() {
    let store = Store::with_topic().await;
    store.text("INSERT INTO plain (n) VALUES (1), (2), (3)").await;
    let next = |n: u32| format!("{n}: {{ appended: T, position: {n}, value: {{ n: {n} }} }}\n");
    let read = "READ FROM plain FOR CONSUMER 'c' LIMIT 2";
    assert_eq!(store.text(read).await, next(1) + &next(2));
    assert!(
        info(&store, "plain")
            .await
            .contains("consumers: { c: { lag: 1, position: 2 } }, first: 1, last: 3")
    );
    let store = store.restart().await;
    assert_eq!(store.text(read).await, next(3));
    assert_eq!(store.text(read).await, "");
    // Another reader has a position of its own; AFTER sets one.
    assert_eq!(store.text("READ FROM plain FOR CONSUMER 'd' LIMIT 1").await, next(1));
    assert_eq!(
        store.text("READ FROM plain FOR CONSUMER 'c' AFTER 1 LIMIT 1").await,
        next(2)
    );
    assert_eq!(store.text(read).await, next(3));
    assert_eq!(store.text("READ FROM plain FOR CONSUMER 'c' AFTER 0 LIMIT 0").await, "");
    assert!(
        info(&store, "plain")
            .await
            .contains("{ c: { lag: 3, position: 0 }, d: { lag: 2, position: 1 } }")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kafka_groups_commit_is_a_readers_position_and_the_reverse() {
    let store = Store::with_topic().await;
    store.produce("orders", 1, values("v", 3, Compression::Zstd)).await;
    let topic = store.topic("orders");
    let id = PartitionId {
        topic: topic.id,
        index: 1,
    };
    let committed = Position {
        offset: 2,
        leader_epoch: 1,
        metadata: "m".to_owned(),
        commit_ms: 5,
    };
    let change = vec![PositionChange::Set(id, committed)];
    store
        .broker
        .change_positions(topic.namespace, "kafka:billing", change)
        .await
        .unwrap();
    assert!(
        info(&store, "orders")
            .await
            .contains("{ consumers: { 'kafka:billing': { lag: 1, position: 2 } }, first: 1, last: 3, partition: 1 }")
    );
    let read = store.text("READ FROM orders FOR CONSUMER 'kafka:billing'").await;
    assert_eq!((read.lines().count(), read.starts_with("1:3: ")), (1, true), "{read}");
    let positions = store.broker.positions(topic.namespace, "kafka:billing").await.unwrap();
    assert_eq!(
        positions.iter().map(|(id, p)| (id.index, p.offset)).collect::<Vec<_>>(),
        [(1, 3)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_several_partitions_moves_in_those_it_read() {
    let store = Store::with_topic().await;
    for partition in 0..3 {
        store
            .produce("orders", partition, values("v", 2, Compression::None))
            .await;
    }
    let mut seen = BTreeSet::new();
    for _ in 0..6 {
        let read = store.text("READ FROM orders FOR CONSUMER 'c' LIMIT 1").await;
        assert!(seen.insert(read.split(' ').next().unwrap().to_owned()), "{read}");
    }
    assert_eq!(store.text("READ FROM orders FOR CONSUMER 'c'").await, "");
    assert_eq!(Vec::from_iter(&seen), ["0:1:", "0:2:", "1:1:", "1:2:", "2:1:", "2:2:"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_one_name_share_messages_and_none_is_read_twice() {
    let store = Store::with_topic().await;
    for n in 0..10 {
        store
            .produce("plain", 0, values(&format!("{n}-"), 20, Compression::None))
            .await;
    }
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let engine = store.engine.clone();
        readers.spawn(async move {
            let mut positions = Vec::new();
            loop {
                let script = b"USE NAMESPACE shop DATABASE orders; READ FROM plain FOR CONSUMER 'c' LIMIT 7";
                let outcomes = match engine.execute(&by(Who::Anonymous), script, &Parameters::new()).await {
                    Ok(outcomes) => outcomes,
                    // The others were faster too often; nothing was read.
                    Err(error) if error.code() == crate::ql::Code::Retry => continue,
                    Err(error) => panic!("{error}"),
                };
                let Outcome::Records { records, .. } = &outcomes[1] else {
                    panic!("{outcomes:?}")
                };
                if records.is_empty() {
                    return positions;
                }
                positions.extend(records.iter().map(|record| record.key.parse::<u32>().unwrap()));
            }
        });
    }
    let mut all: Vec<u32> = readers.join_all().await.concat();
    all.sort_unstable();
    assert_eq!(all, Vec::from_iter(1..=200));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_is_told_once_what_lapsed() {
    let store = Store::with_topic().await;
    store.text("INSERT INTO plain (n) VALUES (1), (2), (3), (4), (5)").await;
    store.text("READ FROM plain FOR CONSUMER 'c' LIMIT 1").await;
    let topic = store.topic("plain");
    store.broker.delete_records(&topic, 0, Some(3)).await.unwrap();
    let lapsed = Note::Lapsed {
        consumer: "c".to_owned(),
        partition: 0,
        passed_over: 2,
    };
    let script = "USE NAMESPACE shop DATABASE orders; READ FROM plain FOR CONSUMER 'c' LIMIT 1";
    let first = store.run(script).await.unwrap();
    assert!(
        matches!(&first[1], Outcome::Records { records, notes } if records[0].key == "4" && *notes == [lapsed]),
        "{first:?}"
    );
    let second = store.run(script).await.unwrap();
    assert!(
        matches!(&second[1], Outcome::Records { records, notes } if records[0].key == "5" && notes.is_empty()),
        "{second:?}"
    );
    // Told also where nothing is left to read, and to no reader that is new.
    store.text("CREATE plain = {}").await;
    store.broker.delete_records(&topic, 0, None).await.unwrap();
    let text = "-- lapsed: retention removed 1 messages of partition 0 before c read them\n";
    assert_eq!(store.text("READ FROM plain FOR CONSUMER 'c'").await, text);
    assert_eq!(store.text("READ FROM plain FOR CONSUMER 'c'").await, "");
    assert_eq!(
        store.text("READ FROM plain FOR CONSUMER 'new'; READ FROM plain").await,
        ""
    );
    assert_eq!(
        store
            .text("CREATE plain = { n: 7 }; READ FROM plain FOR CONSUMER 'new'")
            .await
            .lines()
            .count(),
        2
    );
}
