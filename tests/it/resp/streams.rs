//! Entries appended and read: by redis-py, by raw commands, and by Kafka clients on the other side.

use super::node;
use super::python::Python;
use super::wire::Wire;
use crate::process::PATIENCE;
use rdkafka::Message;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Instant;

#[test]
fn redis_py_appends_and_reads_in_both_versions_of_the_protocol() {
    let node = node();
    let mut python = Python::start(&node, None);
    // Without a word about the protocol it takes its own way, whatever that is.
    for (client, how) in [
        ("two", json!({"protocol": 2})),
        ("three", json!({"protocol": 3})),
        ("plain", json!({"client_name": "plain"})),
    ] {
        let answer = python.connect(client, how);
        assert_eq!(answer, json!({"ok": true}), "{client}");
    }
    let mut last = 0;
    for client in ["two", "three", "plain"] {
        let total = json!({"total": "120.00", "customer": "c-17"});
        let first = last + 1;
        for _ in 0..3 {
            last += 1;
            let id = python.ok(client, "xadd", json!(["t", total]));
            assert_eq!(id, json!(format!("{last}-0")), "{client}");
        }
        let id = |position: i64| format!("{position}-0");
        let entry = |position: i64| json!([id(position), total]);
        assert_eq!(python.ok(client, "xlen", json!(["t"])), json!(last));
        let three = json!([entry(first), entry(first + 1), entry(last)]);
        assert_eq!(python.ok(client, "xrange", json!(["t", id(first), "+"])), three);
        assert_eq!(
            python.ok(client, "xrevrange", json!(["t", "+", "-", 2])),
            json!([entry(last), entry(last - 1)])
        );
        assert_eq!(
            python.ok(client, "xrange", json!(["t", format!("({}", id(first)), "+", 1])),
            json!([entry(first + 1)])
        );
        let read = python.ok(client, "xread", json!([{"t": id(last - 1)}]));
        let told = match read.is_object() {
            true => read["t"].clone(),
            false => read[0][1].clone(),
        };
        // One list of entries, in whichever way this version of the client nests it.
        assert!(told.to_string().contains(&entry(last).to_string()), "{read}");
        let nothing = python.ok(client, "xread", json!([{"t": id(last)}, null, 1]));
        assert!(
            nothing == json!([]) || nothing == json!({}) || nothing.is_null(),
            "{nothing}"
        );
        let info = python.ok(client, "xinfo_stream", json!(["t"]));
        assert_eq!(info["length"], json!(last), "{info}");
        assert_eq!(info["last-generated-id"], json!(id(last)), "{info}");
        assert_eq!(info["last-entry"], entry(last), "{info}");
        assert_eq!(
            python.ok(client, "exists", json!(["t", "none", "shop.orders.wide"])),
            json!(2)
        );
        assert_eq!(python.ok(client, "type", json!(["t"])), json!("stream"));
        assert_eq!(python.ok(client, "xlen", json!(["none"])), json!(0));
        let (class, says) = python.error(client, "xadd", json!(["none", {"a": "1"}]));
        assert_eq!(class, "ResponseError");
        assert!(says.contains("DEFINE TOPIC"), "{says}");
        let (class, says) = python.error(client, "get", json!(["t"]));
        assert_eq!(
            (class.as_str(), says.as_str()),
            ("ResponseError", "unknown command 'GET'")
        );
        let (_, says) = python.error(client, "xgroup_create", json!(["t", "g"]));
        assert!(says.contains("consumer groups"), "{says}");
    }
    let many: Vec<Value> = (0..200).map(|n| json!(["xadd", "t", {"n": n.to_string()}])).collect();
    let answer = python.ask(&json!({"client": "three", "pipeline": many}));
    let ids: Vec<String> = (1..=200).map(|n| format!("{}-0", last + n)).collect();
    assert_eq!(answer, json!({"ok": ids}));
    let trimmed =
        json!({"client": "two", "call": "xtrim", "args": ["t"], "kwargs": {"minid": format!("{}-0", last + 1)}});
    assert_eq!(python.ask(&trimmed), json!({"ok": last}));
    assert_eq!(python.ok("two", "xlen", json!(["t"])), json!(200));
    assert_eq!(python.ok("two", "command_count", json!([])), json!(19));
    assert!(python.ok("two", "info", json!([]))["redis_version"].is_string());
}

#[test]
fn a_read_that_waits_is_woken_by_an_append_of_any_port() {
    let node = node();
    let mut python = Python::start(&node, None);
    python.connect("reader", json!({"protocol": 3}));
    let mut writer = Wire::connect(node.resp);
    let wait = json!({"client": "reader", "call": "xread", "args": [{"t": "$", "wide/1": "$"}, 10, 0]});
    let waits = || {
        let metrics = node.get("/metrics").expect("metrics").1;
        // Its connection stands; a command that waits is not counted yet.
        metrics.contains("tessaridb_resp_connections 2")
    };
    for (from, what) in [("resp", "XADD"), ("http", "CREATE")] {
        python.send(&wait);
        super::wait("the read is under way", waits);
        // Appended until the read answers: it may not have begun yet.
        let answer = std::thread::scope(|scope| {
            let reading = scope.spawn(|| python.answer());
            while !reading.is_finished() {
                match from {
                    "resp" => drop(writer.ask(&["XADD", "t", "*", "by", what])),
                    _ => drop(node.script("USE NAMESPACE shop DATABASE orders; CREATE t = { by: 'CREATE' };")),
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            reading.join().expect("an answer")
        });
        assert!(answer["ok"].to_string().contains(what), "{answer}");
    }
}

#[test]
fn keys_name_topics_and_their_partitions() {
    let node = node();
    let mut wire = Wire::connect(node.resp);
    // Of these customers the documentation says where they go.
    assert_eq!(wire.ask(&["XADD", "wide", "*", "customer", "c-42"]), "1-0");
    assert_eq!(wire.ask(&["XADD", "wide", "*", "customer", "c-17"]), "1-1");
    assert_eq!(wire.ask(&["XADD", "wide/2", "*", "customer", "c-17"]), "1-2");
    assert_eq!(wire.ask(&["XLEN", "wide"]), ":3");
    assert_eq!(wire.ask(&["XLEN", "shop.orders.wide/1"]), ":1");
    assert_eq!(wire.ask(&["XRANGE", "wide/2", "1-2", "1-2"]), "[[1-2 [customer c-17]]]");
    assert_eq!(
        wire.ask(&["XREAD", "STREAMS", "wide/0", "wide/1", "wide/2", "0", "1-1", "+"]),
        "[[wide/0 [[1-0 [customer c-42]]]] [wide/2 [[1-2 [customer c-17]]]]]"
    );
    for (command, says) in [
        (
            &["XRANGE", "wide", "-", "+"][..],
            "-ERR wide has 3 partitions, each a stream of its own: wide/0 to wide/2",
        ),
        (
            &["XLEN", "wide/3"],
            "-ERR wide has no partition 3: it has 3, numbered from 0",
        ),
        (&["XLEN", "a.b"], "-ERR a topic name is"),
        (&["XLEN", "wide/x"], "-ERR a key is"),
        (&["DEL", "t"], "-ERR del is not done here: a topic is append-only"),
        (&["MULTI"], "-ERR multi is not done here"),
        (&["XADD", "t", "MAXLEN", "10", "*", "a", "b"], "-ERR XADD does not trim"),
        (&["XADD", "t", "*", "a", "1", "a", "2"], "-ERR a field is given twice"),
        (
            &["XADD", "t", "*", "a"],
            "-ERR wrong number of arguments for 'xadd' command",
        ),
        (&["XRANGE", "t", "x", "+"], "-ERR Invalid stream ID"),
        (&["SELECT", "1"], "-ERR DB index is out of range"),
        (&["AUTH", "secret"], "-ERR AUTH takes a user and a password"),
        (&["HELLO", "4"], "-NOPROTO"),
    ] {
        let answer = wire.ask(command);
        assert!(answer.starts_with(says), "{command:?}: {answer}");
    }
    assert_eq!(wire.ask(&["XADD", "none", "NOMKSTREAM", "*", "a", "1"]), "$-1");
    assert_eq!(wire.ask(&["RESET"]), "+RESET");
    assert_eq!(wire.ask(&["QUIT"]), "+OK");
    assert!(wire.is_closed());
    let mut words = Wire::connect(node.resp);
    words.stream.write_all(b"ECHO \"a b\"\r\nPING\n").expect("taken");
    assert_eq!(
        (words.next(), words.next()),
        (Some("a b".to_owned()), Some("+PONG".to_owned()))
    );
}

#[test]
fn what_kafka_writes_resp_reads_and_the_reverse() {
    let node = node();
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", node.bootstrap())
        .set("compression.type", "lz4")
        .create()
        .expect("a producer");
    let headers = || {
        OwnedHeaders::new().insert(Header {
            key: "source",
            value: Some("web"),
        })
    };
    let record = || BaseRecord::<str, [u8]>::to("t");
    let send = |record: BaseRecord<'_, str, [u8]>| {
        producer.send(record).map_err(|(error, _)| error).expect("taken");
        // One at a time, so that the order is known.
        producer.flush(PATIENCE).expect("acknowledged");
    };
    send(record().key("c-17").payload(b"120.00").headers(headers()));
    send(record().key("k").payload(br#"{"z": 1.50, "a": {"b": [1]}}"#));
    send(record().payload(br#"{"z":"\u00e9"}"#));
    send(record().key("gone"));
    let mut wire = Wire::connect(node.resp);
    assert_eq!(
        wire.ask(&["XRANGE", "t", "-", "+"]),
        "[[1-0 [value 120.00 kafka.key c-17 kafka.header.source web]] \
          [2-0 [z 1.50 a {\"b\": [1]} kafka.key k]] [3-0 [z é]] [4-0 [kafka.key gone]]]"
    );
    assert_eq!(
        wire.ask(&["XADD", "t", "*", "total", "33.10", "customer", "c-17"]),
        "5-0"
    );
    let told = node.script("USE NAMESPACE shop DATABASE orders; READ FROM t AFTER 4;");
    assert!(told.contains("value: { customer: 'c-17', total: '33.10' }"), "{told}");
    node.script("USE NAMESPACE shop DATABASE orders; CREATE t = { customer: 'c-42', total: 8.5, at: 1h };");
    assert_eq!(
        wire.ask(&["XRANGE", "t", "6", "6"]),
        "[[6-0 [at 1h customer c-42 total 8.5]]]"
    );

    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", node.bootstrap())
        .set("group.id", "unused")
        .set("enable.auto.commit", "false")
        .create()
        .expect("a consumer");
    let mut partitions = TopicPartitionList::new();
    partitions
        .add_partition_offset("t", 0, Offset::Offset(4))
        .expect("an offset");
    consumer.assign(&partitions).expect("assigned");
    let start = Instant::now();
    let message = loop {
        if let Some(message) = consumer.poll(PATIENCE) {
            break message.expect("a message");
        }
        assert!(start.elapsed() < PATIENCE, "a message in time");
    };
    assert_eq!((message.offset(), message.key()), (4, None));
    assert_eq!(message.payload(), Some(&br#"{"customer":"c-17","total":"33.10"}"#[..]));
    assert!(message.timestamp().to_millis().is_some_and(|at| at > 1_600_000_000_000));
}
