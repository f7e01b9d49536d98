//! Messages in and out.

use super::*;
use crate::ql::{ErrorKind, Value};

#[tokio::test(flavor = "multi_thread")]
async fn a_kafka_record_reads_as_its_parts() {
    let store = Store::with_topic().await;
    let mut builder = BatchBuilder::new();
    builder
        .push(NewRecord {
            timestamp: 1_792_669_547_184,
            key: Some(b"c-17"),
            value: Some(b"120.00"),
            headers: &[("source", Some(b"web"))],
        })
        .unwrap();
    builder
        .push(NewRecord {
            timestamp: -1,
            key: None,
            value: None,
            headers: &[("empty", None)],
        })
        .unwrap();
    store.produce("orders", 1, builder.build().unwrap()).await;
    assert_eq!(
        store.text("READ FROM orders PARTITION 1 LIMIT 1;").await,
        "1: { appended: T, position: 1, value: { headers: [{ key: 'source', value: 0x776562 }], key: 0x632d3137, timestamp: datetime '2026-10-22T11:45:47.184Z', value: 0x3132302e3030 } }\n"
    );
    assert_eq!(
        store.text("READ FROM orders PARTITION 1 AFTER 1;").await,
        "2: { appended: T, position: 2, value: { headers: [{ key: 'empty', value: NULL }], key: NULL, timestamp: NULL, value: NULL } }\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_reads_as_it_was_written_also_after_a_restart() {
    let store = Store::with_topic().await;
    let value = "{ at: datetime '2026-10-22T11:45:47.225Z', for: 1h30m, id: uuid '9f2c4e1a-70bb-43d5-a1c6-e2f480937d55', list: [1, 2.5, NULL, { b: 0x00ff }], total: dec 19.90 }";
    let created = store.text(&format!("CREATE plain = {value};")).await;
    assert_eq!(created, format!("1: {{ appended: T, position: 1, value: {value} }}\n"));
    assert_eq!(store.text("READ FROM plain;").await, created);
    let store = store.restart().await;
    assert_eq!(store.text("READ FROM plain;").await, created);
    store
        .done("USE NAMESPACE shop DATABASE orders; CREATE plain = { a: NONE };")
        .await;
    assert_eq!(
        store.text("READ FROM plain AFTER 1").await,
        "2: { appended: T, position: 2, value: {} }\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kafka_consumer_gets_plain_json_without_a_key() {
    let store = Store::with_topic().await;
    store.text("CREATE orders = { customer: 'c-42', total: 19.99 };").await;
    let topic = store.topic("orders");
    let (_, slice) = store.broker.read(&topic, 0, 0, 1 << 20, true).unwrap();
    let stored = crate::broker::tests::store::content(&slice);
    let mut reader = crate::record::RecordReader::new(&stored, 1 << 20).unwrap();
    assert_eq!(
        reader.header().timestamp_type(),
        crate::record::TimestampType::LogAppendTime
    );
    let record = reader.next().unwrap().unwrap();
    assert_eq!((record.key, record.headers.len()), (None, 0));
    assert_eq!(record.value, Some(&br#"{"customer":"c-42","total":19.99}"#[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_placed_by_their_field_and_in_turn_without_it() {
    let store = Store::with_topic().await;
    assert_eq!(
        store
            .text("INSERT INTO orders (customer, n) VALUES ('c-42', 1), ('c-17', 2), ('c-42', 3); CREATE orders = { customer: 'c-17' }")
            .await,
        "0:1: { appended: T, partition: 0, position: 1, value: { customer: 'c-42', n: 1 } }
1:1: { appended: T, partition: 1, position: 1, value: { customer: 'c-17', n: 2 } }
0:2: { appended: T, partition: 0, position: 2, value: { customer: 'c-42', n: 3 } }
1:2: { appended: T, partition: 1, position: 2, value: { customer: 'c-17' } }\n"
    );
    let turns = store.text("INSERT INTO orders (n) VALUES (1), (2), (3), (4);").await;
    let keys: Vec<&str> = turns.lines().map(|line| &line[..3]).collect();
    assert_eq!(keys, ["0:3", "1:3", "2:1", "0:4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_merged_by_append_time_each_in_its_order() {
    let store = Store::with_topic().await;
    for (n, partition) in [2, 0, 0, 1, 2, 0].into_iter().enumerate() {
        store
            .produce("orders", partition, values(&format!("{n}-"), 2, Compression::None))
            .await;
    }
    let read = store
        .run("USE NAMESPACE shop DATABASE orders; READ FROM orders")
        .await
        .unwrap();
    let Outcome::Records { records, .. } = &read[1] else {
        panic!("{read:?}")
    };
    assert_eq!(records.len(), 12);
    let times: Vec<String> = records
        .iter()
        .map(|record| record.fields["appended"].to_string())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    for partition in 0..3 {
        let positions: Vec<&Value> = records
            .iter()
            .filter(|record| record.fields["partition"] == Value::Int(partition))
            .map(|record| &record.fields["position"])
            .collect();
        let expected: Vec<Value> = (1..=positions.len() as i64).map(Value::Int).collect();
        assert_eq!(positions, expected.iter().collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_positions_fall_inside_batches_of_every_codec() {
    let store = Store::with_topic().await;
    use Compression::{Gzip, Lz4, None, Snappy, Zstd};
    for codec in [None, Gzip, Snappy, Lz4, Zstd] {
        store.produce("plain", 0, values("v", 4, codec)).await;
    }
    for after in 0..=21u64 {
        for limit in [0, 1, 3, 4, 5, 30] {
            let text = store
                .text(&format!("READ FROM plain AFTER {after} LIMIT {limit};"))
                .await;
            let expected: Vec<String> = (after + 1..=20)
                .take(limit)
                .map(|position| format!("{position}:"))
                .collect();
            let found: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
            assert_eq!(found, expected, "AFTER {after} LIMIT {limit}");
        }
    }
    let last = store.text("READ FROM plain AFTER 19").await;
    assert!(last.contains("value: 0x7633 }"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_topic_cannot_do_is_refused_by_name() {
    let store = Store::with_topic().await;
    store.text("DEFINE TOPIC small MAX BYTES 10").await;
    for (script, sentence) in [
        (
            "CREATE small = { a: 'too long' }",
            "a message is larger than the 10 bytes the topic small takes",
        ),
        (
            "CREATE plain:'id' = {}",
            "the topic plain is append-only: a message is never changed, and the store gives it its position",
        ),
        (
            "UPDATE plain = {}",
            "the topic plain is append-only: a message is never changed, and the store gives it its position",
        ),
        (
            "DELETE FROM plain:1",
            "the topic plain is append-only: a message is never changed, and the store gives it its position",
        ),
        ("CREATE nowhere = {}", "the topic nowhere is not known"),
        ("READ FROM nowhere", "the topic nowhere is not known"),
        ("READ FROM orders PARTITION 3", "the partition 3 of orders is not known"),
        (
            "READ FROM orders AFTER 1",
            "AFTER needs PARTITION: orders has 3 partitions, each with positions of its own",
        ),
        (
            "READ FROM plain FOR CONSUMER 'c' AFTER 1",
            "the position 1 was not given yet; the last is 0",
        ),
        (
            "DEFINE GROUP 'g' ON TOPIC plain ACK DEADLINE 1s",
            "this version does not have groups that acknowledge messages yet",
        ),
    ] {
        assert_eq!(store.refusal(script).await, sentence, "{script}");
    }
    assert_eq!(store.text("READ FROM small; READ FROM plain").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_bounded_but_never_stuck() {
    let store = Store::with_topic().await;
    store.text("ALTER TOPIC plain MAX BYTES 100000000").await;
    // Each message takes the better part of what one answer may carry.
    let third = "x".repeat(ANSWER_BYTES * 2 / 5);
    for _ in 0..3 {
        store.text(&format!("CREATE plain = {{ a: '{third}' }}")).await;
    }
    let found = |text: &str| text.lines().count();
    assert_eq!(found(&store.text("READ FROM plain").await), 2);
    assert_eq!(found(&store.text("READ FROM plain AFTER 2").await), 1);
    let twice = store
        .run("USE NAMESPACE shop DATABASE orders; READ FROM plain LIMIT 2; READ FROM plain;")
        .await;
    assert_eq!(twice.unwrap_err().kind, ErrorKind::AnswerTooLarge(ANSWER_BYTES));
    // A Kafka client's batch may hold one message larger than all that.
    let large = vec![b'x'; ANSWER_BYTES + 1];
    let mut builder = BatchBuilder::new();
    builder
        .push(NewRecord {
            timestamp: 1,
            value: Some(&large),
            ..NewRecord::default()
        })
        .unwrap();
    store.produce("orders", 0, builder.build().unwrap()).await;
    assert_eq!(found(&store.text("READ FROM orders").await), 1);
}
