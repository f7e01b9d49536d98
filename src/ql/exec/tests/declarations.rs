//! Namespaces, databases, topics, and facts about them.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn facts_are_told_as_declared() {
    let store = Store::with_topic().await;
    store
        .text("DEFINE TOPIC t RETAIN 7d RETAIN BYTES 5000 MAX BYTES 1000 PARTITIONS 2 BY 'two words'")
        .await;
    assert_eq!(
        store.text("INFO FOR DATABASE; INFO FOR NAMESPACE; INFO FOR TOPIC plain; INFO FOR TOPIC t").await,
        "{ name: 'orders', namespace: 'shop', topics: ['orders', 'plain', 't'] }
{ acknowledge: 'majority', databases: ['orders'], name: 'shop' }
{ each: [{ consumers: {}, first: 1, last: 0, partition: 0 }], max_bytes: 1048576, name: 'plain', partitions: 1 }
{ by: 'two words', each: [{ consumers: {}, first: 1, last: 0, partition: 0 }, { consumers: {}, first: 1, last: 0, partition: 1 }], max_bytes: 1000, name: 't', partitions: 2, retain: 168h, retain_bytes: 5000 }\n"
    );
    let version = env!("CARGO_PKG_VERSION");
    let node = NODE.to_string();
    assert_eq!(
        store.text("INFO FOR STORE; INFO FOR NODE").await,
        format!(
            "{{ namespaces: ['shop'], node: '{node}', version: '{version}' }}
{{ broker: 1, members: [{{ broker: 1, node: '{node}', roles: ['serving', 'writable', 'coordinating'], state: 'voting' }}], node: '{node}', version: '{version}' }}\n"
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_altered_one_thing_at_a_time() {
    let store = Store::with_topic().await;
    store
        .text("ALTER TOPIC plain RETAIN 1h; ALTER TOPIC plain RETAIN BYTES 9; ALTER TOPIC plain MAX BYTES 5; ALTER TOPIC orders PARTITIONS 4")
        .await;
    let plain = store.topic("plain");
    assert_eq!(
        (plain.retain_ms, plain.retain_bytes, plain.max_bytes),
        (Some(3_600_000), Some(9), Some(5))
    );
    assert_eq!(store.topic("orders").partitions.len(), 4);
    store.text("ALTER TOPIC plain RETAIN NONE; CREATE orders = {}").await;
    assert_eq!(store.topic("plain").retain_ms, None);
    assert_eq!(
        store.refusal("ALTER TOPIC orders PARTITIONS 4").await,
        "4 partitions: the count only grows, and there are 4 now"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_taken_known_selected_and_depended_upon() {
    let store = Store::with_topic().await;
    for (script, sentence) in [
        ("DEFINE NAMESPACE shop", "the namespace shop is there already"),
        ("DEFINE DATABASE orders", "the database orders is there already"),
        ("DEFINE TOPIC orders", "the topic orders is there already"),
        ("USE NAMESPACE nowhere", "the namespace nowhere is not known"),
        ("USE DATABASE nowhere", "the database nowhere is not known"),
        ("DROP TOPIC nowhere", "the topic nowhere is not known"),
        (
            "DROP NAMESPACE shop",
            "the namespace shop still holds 1 database, first orders; drop what is inside first",
        ),
        (
            "DROP DATABASE orders",
            "the database orders still holds 2 topics, first orders; drop what is inside first",
        ),
        (
            "USE NAMESPACE shop; READ FROM orders",
            "no database is selected; USE DATABASE selects one",
        ),
    ] {
        assert_eq!(store.refusal(script).await, sentence, "{script}");
    }
    let none = store.run("DEFINE DATABASE d").await.unwrap_err();
    assert_eq!(
        none.to_string(),
        "no namespace is selected; USE NAMESPACE selects one (at 0..17)"
    );
    store
        .text("DEFINE NAMESPACE IF NOT EXISTS shop; DEFINE DATABASE IF NOT EXISTS orders; DEFINE TOPIC IF NOT EXISTS orders")
        .await;
    assert_eq!(store.topic("orders").partitions.len(), 3);
    store
        .text("DROP TOPIC orders; DROP TOPIC plain; DROP DATABASE orders; DROP NAMESPACE shop")
        .await;
    assert_eq!(store.broker.catalog().view().namespaces().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_topic_comes_back_empty() {
    let store = Store::with_topic().await;
    store
        .text("CREATE plain = {}; READ FROM plain FOR CONSUMER 'c'; DROP TOPIC plain; DEFINE TOPIC plain")
        .await;
    let read =
        store.text("READ FROM plain FOR CONSUMER 'c'; CREATE plain = { a: 1 }; READ FROM plain FOR CONSUMER 'c'");
    let message = "1: { appended: T, position: 1, value: { a: 1 } }\n";
    assert_eq!(read.await, format!("{message}{message}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_stops_where_it_fails_and_what_came_before_stays() {
    let store = Store::with_topic().await;
    assert_eq!(
        store.refusal("DEFINE TOPIC a; DROP TOPIC b; DEFINE TOPIC c").await,
        "the topic b is not known"
    );
    assert_eq!(
        store.text("INFO FOR DATABASE").await,
        "{ name: 'orders', namespace: 'shop', topics: ['a', 'orders', 'plain'] }\n"
    );
    // A script that does not read does nothing at all.
    assert!(store.run("DEFINE NAMESPACE other; DEFINE").await.is_err());
    assert!(store.broker.catalog().view().namespace("other").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn declarations_between_begin_and_commit_are_applied_together() {
    let store = Store::new().await;
    store
        .done("BEGIN; DEFINE NAMESPACE a; USE NAMESPACE a; DEFINE DATABASE d; USE DATABASE d; DEFINE TOPIC t PARTITIONS 2 BY f; COMMIT; CREATE t = { f: 1 }")
        .await;
    let version = store.broker.catalog().view().version();
    let names = || {
        let view = store.broker.catalog().view();
        view.topics().map(|topic| topic.name.clone()).collect::<Vec<_>>()
    };
    for (script, sentence) in [
        (
            "BEGIN; DEFINE TOPIC u; DEFINE TOPIC t; COMMIT",
            "the topic t is there already",
        ),
        (
            "BEGIN; DEFINE TOPIC u; DEFINE TOPIC u; COMMIT",
            "the topic u is there already",
        ),
        (
            "BEGIN; DEFINE TOPIC u; ALTER TOPIC u RETAIN 1h; COMMIT",
            "a topic declared since BEGIN cannot be altered or dropped before COMMIT",
        ),
        (
            "BEGIN; DEFINE TOPIC u; READ FROM t; COMMIT",
            "only USE and declarations may stand between BEGIN and COMMIT",
        ),
        (
            "BEGIN; USE DATABASE nowhere; COMMIT",
            "the database nowhere is not known",
        ),
    ] {
        let error = store
            .run(&format!("USE NAMESPACE a DATABASE d; {script}"))
            .await
            .unwrap_err();
        assert_eq!(error.kind.to_string(), sentence, "{script}");
    }
    store
        .done("USE NAMESPACE a DATABASE d; BEGIN; DEFINE TOPIC u; CANCEL; BEGIN; COMMIT")
        .await;
    assert_eq!(
        (names(), store.broker.catalog().view().version()),
        (vec!["t".to_owned()], version)
    );
    store
        .done("USE NAMESPACE a DATABASE d; BEGIN; DROP TOPIC t; DEFINE TOPIC v; ALTER NAMESPACE a ACKNOWLEDGE LEADER; COMMIT")
        .await;
    assert_eq!(names(), ["v"]);
}
