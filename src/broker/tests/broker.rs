//! The broker over real ranges.

use super::store::{Store, batch_at, batch_of, config, content, partitions, to};
use crate::broker::{
    AccessError, AppendError, BrokerConfig, DeleteError, Position, PositionChange, PositionError, now_ms,
};
use crate::log::ReadError;
use crate::record::{BatchBuilder, BatchHeader, TimestampType, batch_crc};
use cluster::catalog::TopicSpec;
use cluster::fs::MemoryFs;
use cluster::ids::{NamespaceId, PartitionId};
use cluster::range::ProposeError;
use futures::FutureExt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_over_many_partitions_is_answered_batch_by_batch() {
    let store = Store::new().await;
    let topic = store.topic("t", partitions(4)).await;
    assert_ne!(topic.partitions[0], topic.partitions[1], "over two ranges");
    let order = [3, 0, 1, 0, 2, 3, 3];
    let batches = order.map(|index| to(&topic, index, batch_at(&[5; 2]))).to_vec();
    let answers = store.broker.append(batches).await.await;
    let offsets: Vec<_> = answers.into_iter().map(|a| a.unwrap().base_offset).collect();
    assert_eq!(offsets, [0, 0, 0, 2, 0, 2, 4]);
    let (marks, slice) = store.broker.read(&topic, 3, 0, 1 << 20, true).unwrap();
    assert_eq!((marks.log_start, marks.high_watermark, marks.log_end), (0, 6, 6));
    assert_eq!((slice.next, slice.bytes as u64), (6, marks.size));
    let header = BatchHeader::parse(&content(&slice)).unwrap();
    assert_eq!(header.leader_epoch, marks.leader_epoch);
    assert!(matches!(
        store.broker.read(&topic, 3, 7, 1, true),
        Err(AccessError::Read(ReadError::OutOfRange { asked: 7, .. }))
    ));
    assert!(store.broker.append(Vec::new()).await.await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untouched_partition_reads_as_empty() {
    let store = Store::new().await;
    let topic = store.topic("t", partitions(1)).await;
    let (marks, slice) = store.broker.read(&topic, 0, 0, 1 << 20, true).unwrap();
    assert_eq!((marks.log_end, slice.bytes), (0, 0));
    assert!(store.broker.read(&topic, 0, 1, 1, true).is_err());
    assert!(matches!(store.broker.marks(&topic, 1), Err(AccessError::NotLeader)));
    assert_eq!(store.broker.offset_by_timestamp(&topic, 0, 0).unwrap(), None);
    assert_eq!(store.broker.offset_of_max_timestamp(&topic, 0).unwrap(), None);
    assert_eq!(store.broker.epoch_end(&topic, 0, 0).unwrap(), None);
    assert!(
        store
            .logs
            .get(PartitionId {
                topic: topic.id,
                index: 0
            })
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn submissions_are_in_order_though_nobody_waits_in_between() {
    let store = Store::new().await;
    let topic = store.topic("t", partitions(1)).await;
    let mut answers = Vec::new();
    for _ in 0..200 {
        answers.push(store.broker.append(vec![to(&topic, 0, batch_at(&[5]))]).await);
    }
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.await[0].as_ref().unwrap().base_offset, n as i64);
    }
    assert_eq!(store.broker.metrics().appended_records.load(Relaxed), 200);
    assert_eq!(store.broker.metrics().in_flight_bytes.load(Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_with_append_time_is_stamped_with_a_crc_that_holds() {
    let store = Store::new().await;
    let spec = TopicSpec {
        log_append_time: true,
        ..partitions(1)
    };
    let topic = store.topic("t", spec).await;
    let before = now_ms();
    let sent = batch_of(BatchBuilder::new().producer(9, 0, 0), &[5, 7]);
    let answer = store.broker.append(vec![to(&topic, 0, sent.clone())]).await.await;
    let appended = answer[0].clone().unwrap();
    assert!((before..=now_ms()).contains(&appended.log_append_time));
    let (_, slice) = store.broker.read(&topic, 0, 0, 1, true).unwrap();
    let stored = content(&slice);
    let header = BatchHeader::parse(&stored).unwrap();
    assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(header.max_timestamp, appended.log_append_time);
    assert_eq!(header.crc, batch_crc(&stored));
    // A repeat is answered with the time of the first.
    let again = store.broker.append(vec![to(&topic, 0, sent)]).await.await;
    assert_eq!(again[0], Ok(appended));
    let found = store.broker.offset_by_timestamp(&topic, 0, before).unwrap();
    assert_eq!(found, Some((0, appended.log_append_time, header.leader_epoch)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acknowledged_survives_a_crash_and_so_do_producers() {
    let store = Store::new().await;
    let topic = store.topic("t", partitions(3)).await;
    let sent = |sequence| batch_of(BatchBuilder::new().producer(9, 0, sequence), &[5]);
    for sequence in 0..4 {
        let batches = (0..3).map(|index| to(&topic, index, sent(sequence))).collect();
        for answer in store.broker.append(batches).await.await {
            assert_eq!(answer.unwrap().base_offset, i64::from(sequence));
        }
    }
    let store = store.crash().await;
    for index in 0..3 {
        assert_eq!(store.broker.marks(&topic, index).unwrap().log_end, 4);
        let answers = store
            .broker
            .append(vec![
                to(&topic, index, sent(3)),
                to(&topic, index, sent(5)),
                to(&topic, index, sent(4)),
            ])
            .await
            .await;
        assert_eq!(answers[0].as_ref().unwrap().base_offset, 3);
        assert_eq!(answers[1], Err(AppendError::OutOfOrderSequence { expected: 4, got: 5 }));
        assert_eq!(answers[2].as_ref().unwrap().base_offset, 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_waits_for_a_range_that_is_starting() {
    let store = Store::new().await;
    let topic = store.topic("t", partitions(2)).await;
    let files = store.files.clone();
    drop(store.crash().await);
    files.crash();
    let store = Store::open_without_ranges(files, config()).await;
    let broker = store.broker.clone();
    let batches = vec![to(&topic, 0, batch_at(&[5]))];
    let mut append = Box::pin(async move { broker.append(batches).await.await });
    assert!(append.as_mut().now_or_never().is_none());
    assert!(matches!(store.broker.marks(&topic, 0), Err(AccessError::NotLeader)));
    store.serve().await;
    assert_eq!(append.await[0].as_ref().unwrap().base_offset, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_does_not_come_is_answered_as_not_led() {
    let impatient = BrokerConfig {
        range_wait: Duration::from_millis(1),
        ..config()
    };
    let store = Store::with(impatient.clone()).await;
    let topic = store.topic("t", partitions(1)).await;
    let files = MemoryFs::new(2);
    let empty = Store::open_without_ranges(files, impatient).await;
    let answers = empty.broker.append(vec![to(&topic, 0, batch_at(&[5]))]).await.await;
    let not_leader = ProposeError::NotLeader {
        range: topic.partitions[0],
        leader: None,
    };
    assert_eq!(answers, [Err(AppendError::Propose(not_leader))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_larger_than_the_budget_goes_alone() {
    let store = Store::with(BrokerConfig {
        in_flight_bytes: 10,
        ..config()
    })
    .await;
    let topic = store.topic("t", partitions(1)).await;
    let first = store.broker.append(vec![to(&topic, 0, batch_at(&[5]))]).await;
    let second = store.broker.append(vec![to(&topic, 0, batch_at(&[5]))]);
    let mut second = Box::pin(second);
    assert!(
        second.as_mut().now_or_never().is_none(),
        "no room while the first is not answered"
    );
    assert_eq!(first.await[0].as_ref().unwrap().base_offset, 0);
    assert_eq!(second.await.await[0].as_ref().unwrap().base_offset, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_found_by_time() {
    let store = Store::new().await;
    let topic = store.topic("t", partitions(1)).await;
    for timestamps in [[2, 4], [6, 8], [7, 3]] {
        store
            .broker
            .append(vec![to(&topic, 0, batch_at(&timestamps))])
            .await
            .await[0]
            .clone()
            .unwrap();
    }
    let epoch = store.broker.marks(&topic, 0).unwrap().leader_epoch;
    let found = |timestamp| {
        let found = store.broker.offset_by_timestamp(&topic, 0, timestamp).unwrap();
        found.map(|(offset, timestamp, leader_epoch)| {
            assert_eq!(leader_epoch, epoch);
            (offset, timestamp)
        })
    };
    let expected = [
        (1, (0, 2)),
        (2, (0, 2)),
        (3, (1, 4)),
        (4, (1, 4)),
        (5, (2, 6)),
        (6, (2, 6)),
        (7, (3, 8)),
        (8, (3, 8)),
    ];
    for (timestamp, record) in expected {
        assert_eq!(found(timestamp), Some(record), "{timestamp}");
    }
    assert_eq!(found(9), None);
    assert_eq!(
        store.broker.offset_of_max_timestamp(&topic, 0).unwrap(),
        Some((3, 8, epoch))
    );
    let at = store.broker.batch_at(&topic, 0, 3).unwrap().unwrap();
    assert_eq!(at.base_offset, 2);
    assert!(at.append_ms > 1_000_000_000_000);
    // From the middle of a batch on: what was deleted is not found.
    assert_eq!(store.broker.delete_records(&topic, 0, Some(1)).await.unwrap(), 1);
    assert_eq!(found(1), Some((1, 4)));
    assert_eq!(store.broker.delete_records(&topic, 0, Some(4)).await.unwrap(), 4);
    assert_eq!(found(1), Some((4, 7)));
    assert_eq!(found(8), None);
    assert_eq!(
        store.broker.offset_of_max_timestamp(&topic, 0).unwrap(),
        Some((4, 7, epoch))
    );
    assert_eq!(store.broker.delete_records(&topic, 0, Some(5)).await.unwrap(), 5);
    assert_eq!(found(4), None);
    assert_eq!(found(3), Some((5, 3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_deleted_up_to_the_high_watermark() {
    let store = Store::new().await;
    let topic = store.topic("t", partitions(1)).await;
    store.broker.append(vec![to(&topic, 0, batch_at(&[5; 4]))]).await.await[0]
        .clone()
        .unwrap();
    let beyond = store.broker.delete_records(&topic, 0, Some(5)).await;
    assert!(matches!(
        beyond,
        Err(DeleteError::Access(AccessError::Read(ReadError::OutOfRange {
            asked: 5,
            ..
        })))
    ));
    assert_eq!(store.broker.delete_records(&topic, 0, Some(2)).await.unwrap(), 2);
    assert_eq!(store.broker.delete_records(&topic, 0, Some(1)).await.unwrap(), 2);
    assert_eq!(store.broker.delete_records(&topic, 0, None).await.unwrap(), 4);
    let store = store.crash().await;
    assert_eq!(store.broker.marks(&topic, 0).unwrap().log_start, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn epochs_end_where_the_next_begins() {
    let store = Store::new().await;
    let topic = store.topic("t", partitions(1)).await;
    let batch = || vec![to(&topic, 0, batch_at(&[5; 3]))];
    store.broker.append(batch()).await.await[0].clone().unwrap();
    let first = store.broker.marks(&topic, 0).unwrap().leader_epoch;
    assert_eq!(store.broker.epoch_end(&topic, 0, first).unwrap(), Some((first, 3)));
    let store = store.crash().await;
    let second = store.broker.marks(&topic, 0).unwrap().leader_epoch;
    assert!(second > first);
    assert_eq!(store.broker.epoch_end(&topic, 0, first).unwrap(), Some((first, 3)));
    assert_eq!(
        store.broker.epoch_end(&topic, 0, second).unwrap(),
        Some((second, 3)),
        "led, nothing written yet"
    );
    store.broker.append(batch()).await.await[0].clone().unwrap();
    assert_eq!(store.broker.epoch_end(&topic, 0, first).unwrap(), Some((first, 3)));
    assert_eq!(store.broker.epoch_end(&topic, 0, second).unwrap(), Some((second, 6)));
    assert_eq!(store.broker.epoch_end(&topic, 0, second + 1).unwrap(), None);
    // As Kafka: an epoch before the first ends where the first begins.
    assert_eq!(
        store.broker.epoch_end(&topic, 0, first - 1).unwrap(),
        Some((first - 1, 0))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_wakes_after_an_append_and_finds_it() {
    let store = Store::new().await;
    let topic = store.topic("t", partitions(2)).await;
    let id = |index| PartitionId { topic: topic.id, index };
    let mut waiting = store.broker.subscribe(&[id(0)]);
    let mut other = store.broker.subscribe(&[id(1)]);
    let append = store.broker.append(vec![to(&topic, 0, batch_at(&[5]))]).await;
    waiting.changed().await;
    assert_eq!(store.broker.marks(&topic, 0).unwrap().high_watermark, 1);
    append.await[0].clone().unwrap();
    assert!(other.changed().now_or_never().is_none());
}

fn position(offset: i64) -> Position {
    Position {
        offset,
        leader_epoch: 1,
        metadata: "m".into(),
        commit_ms: 5,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_are_kept_per_reader_and_survive() {
    let store = Store::new().await;
    let topic = store.topic("t", partitions(2)).await;
    let id = |index| PartitionId { topic: topic.id, index };
    let broker = &store.broker;
    let set = vec![
        PositionChange::Set(id(0), position(3)),
        PositionChange::SetIf(id(1), None, position(4)),
    ];
    broker
        .change_positions(topic.namespace, "kafka:billing", set.clone())
        .await
        .unwrap();
    let moved = broker.change_positions(topic.namespace, "kafka:billing", set).await;
    assert_eq!(moved, Err(PositionError::Moved));
    assert_eq!(broker.readers(topic.namespace).await.unwrap(), ["kafka:billing"]);
    let nowhere = broker.positions(NamespaceId(99), "kafka:billing").await;
    assert_eq!(nowhere, Err(PositionError::NoNamespace));
    let store = store.crash().await;
    let found = store.broker.positions(topic.namespace, "kafka:billing").await.unwrap();
    assert_eq!(found, [(id(0), position(3)), (id(1), position(4))]);
    let found = store.broker.positions_in(&topic).await.unwrap();
    assert_eq!(found[1], ("kafka:billing".to_owned(), 1, position(4)));
    assert_eq!(store.broker.positions(topic.namespace, "other").await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_topic_is_gone_with_data_and_positions() {
    let store = Store::new().await;
    let topic = store.topic("t", partitions(4)).await;
    let kept = store.topic("kept", partitions(1)).await;
    let broker = &store.broker;
    let batches = (0..4).map(|index| to(&topic, index, batch_at(&[5]))).collect();
    broker.append(batches).await.await[0].clone().unwrap();
    let positions = [&topic, &kept].map(|t| PositionChange::Set(PartitionId { topic: t.id, index: 0 }, position(1)));
    broker
        .change_positions(topic.namespace, "r", positions.to_vec())
        .await
        .unwrap();
    broker.drop_topic(topic.clone()).await.unwrap();
    let late = (0..4).map(|index| to(&topic, index, batch_at(&[5]))).collect();
    for answer in broker.append(late).await.await {
        assert_eq!(answer, Err(AppendError::Gone));
    }
    let left = broker.positions(topic.namespace, "r").await.unwrap();
    assert_eq!(left.iter().map(|(id, _)| id.topic).collect::<Vec<_>>(), [kept.id]);
    assert!(broker.drop_topic(topic).await.is_err(), "it is not there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drop_that_a_crash_cut_short_is_finished_later() {
    let store = Store::new().await;
    let topic = store.topic("t", partitions(4)).await;
    let batches = (0..4).map(|index| to(&topic, index, batch_at(&[5]))).collect();
    store.broker.append(batches).await.await[0].clone().unwrap();
    let set = vec![PositionChange::Set(
        PartitionId {
            topic: topic.id,
            index: 0,
        },
        position(1),
    )];
    store.broker.change_positions(topic.namespace, "r", set).await.unwrap();
    // The catalog's row alone.
    let drop = cluster::catalog::Command::DropTopic { topic: topic.id };
    store.broker.catalog().propose(drop).await.unwrap();
    let store = store.crash().await;
    store.broker.let_go(now_ms()).await;
    let late = (0..4).map(|index| to(&topic, index, batch_at(&[5]))).collect();
    for answer in store.broker.append(late).await.await {
        assert_eq!(answer, Err(AppendError::Gone));
    }
    assert_eq!(store.broker.positions(topic.namespace, "r").await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_lets_old_records_go_and_nothing_else() {
    let store = Store::new().await;
    let hour_ms = 60 * 60 * 1000;
    let spec = TopicSpec {
        retain_ms: Some(hour_ms),
        ..partitions(1)
    };
    let short = store.topic("short", spec).await;
    let kept = store.topic("kept", partitions(1)).await;
    for topic in [&short, &kept] {
        store.broker.append(vec![to(topic, 0, batch_at(&[5; 3]))]).await.await[0]
            .clone()
            .unwrap();
    }
    let now = now_ms();
    let start = |topic| store.broker.marks(topic, 0).unwrap().log_start;
    store.broker.let_go(now + hour_ms as i64 / 2).await;
    assert_eq!((start(&short), start(&kept)), (0, 0));
    store.broker.let_go(now + 2 * hour_ms as i64).await;
    assert_eq!((start(&short), start(&kept)), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_by_bytes_keeps_about_as_many() {
    let store = Store::new().await;
    let spec = TopicSpec {
        retain_bytes: Some(10_000),
        ..partitions(1)
    };
    let topic = store.topic("t", spec).await;
    for _ in 0..300 {
        store.broker.append(vec![to(&topic, 0, batch_at(&[5; 3]))]).await.await[0]
            .clone()
            .unwrap();
    }
    let before = store.broker.marks(&topic, 0).unwrap();
    assert!(before.size > 20_000);
    store.broker.let_go(now_ms()).await;
    let after = store.broker.marks(&topic, 0).unwrap();
    assert!((10_000..=14_000).contains(&after.size), "{}", after.size);
    assert_eq!(after.log_end, before.log_end);
}

#[tokio::test(flavor = "multi_thread")]
async fn producer_ids_are_never_given_twice() {
    let mut store = Store::new().await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        for _ in 0..1500 {
            assert!(seen.insert(store.broker.producer_id().await.unwrap()));
        }
        store = store.crash().await;
    }
}
