//! The RESP port: redis-py, unchanged, in both versions of the protocol; users, TLS, kill -9, and what lies between it and the
//! other ports.

use crate::clients::install;
use crate::process::{Certificates, Encrypted, PATIENCE, Process};
use rdkafka::Message;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// No other text of a test contains these.
const ROOTS: &str = "Zr3-root-mV8k";
const ADAS: &str = "Zr3-ada-nW5j";
const WRONG: &str = "Zr3-wrong-tB6h";

/// Waits for what must come.
fn wait(what: &str, mut check: impl FnMut() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < PATIENCE, "{what} in time");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A database `shop.orders` with the topics `t` (one partition) and `wide` (three, by `customer`).
fn declare(process: &Process, user: Option<(&str, &str)>) {
    let script = "DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders; USE DATABASE orders;
                  DEFINE TOPIC t; DEFINE TOPIC wide PARTITIONS 3 BY customer;";
    let (status, body) = process.try_script_as(user, script);
    assert_eq!(status, 200, "{body}");
}

fn node() -> Process {
    let process = Process::start(&["--kafka-database", "shop.orders"]);
    declare(&process, None);
    process
}

/// redis-py, driven line by line.
struct Python {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Python {
    fn start(process: &Process, authority: Option<&str>) -> Self {
        let mut child = Command::new(install::python())
            .arg(install::program("streams.py"))
            .arg(process.resp.to_string())
            .args(authority)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python runs");
        Self {
            input: child.stdin.take().expect("piped"),
            output: BufReader::new(child.stdout.take().expect("piped")),
            child,
        }
    }

    fn send(&mut self, task: &Value) {
        writeln!(self.input, "{task}").expect("python reads");
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("python answers");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("an answer: {line:?}"))
    }

    fn ask(&mut self, task: &Value) -> Value {
        self.send(task);
        self.answer()
    }

    fn connect(&mut self, client: &str, how: Value) -> Value {
        self.ask(&json!({"client": client, "connect": how}))
    }

    /// Calls a method; gives what it returned.
    fn ok(&mut self, client: &str, method: &str, arguments: Value) -> Value {
        let answer = self.ask(&json!({"client": client, "call": method, "args": arguments}));
        assert!(answer.get("ok").is_some(), "{method} {arguments}: {answer}");
        answer["ok"].clone()
    }

    /// Calls a method that raises; gives the exception's class and text.
    fn error(&mut self, client: &str, method: &str, arguments: Value) -> (String, String) {
        let answer = self.ask(&json!({"client": client, "call": method, "args": arguments}));
        let part = |name: &str| answer[name].as_str().map(str::to_owned);
        match (part("error"), part("says")) {
            (Some(class), Some(says)) => (class, says),
            _ => panic!("{method} {arguments}: {answer}"),
        }
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection of raw bytes.
struct Wire<S> {
    stream: S,
}

impl Wire<TcpStream> {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the node listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("nodelay");
        Self { stream }
    }
}

impl<S: Read + Write> Wire<S> {
    /// Sends a command; an error is the node's end.
    fn send(&mut self, arguments: &[&str]) -> std::io::Result<()> {
        let mut out = format!("*{}\r\n", arguments.len());
        for argument in arguments {
            out += &format!("${}\r\n{argument}\r\n", argument.len());
        }
        self.stream.write_all(out.as_bytes())?;
        self.stream.flush()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            match self.stream.read(&mut byte) {
                Ok(1) => line.push(byte[0]),
                _ => return None,
            }
            if line.ends_with(b"\r\n") {
                line.truncate(line.len() - 2);
                return String::from_utf8(line).ok();
            }
        }
    }

    /// The next answer, its parts separated by a space; nothing where the node closed.
    fn next(&mut self) -> Option<String> {
        let line = self.line()?;
        let count = || line[1..].parse::<i64>().expect("a number");
        match line.as_bytes().first()? {
            b'$' if count() >= 0 => {
                let mut bytes = vec![0; count() as usize + 2];
                self.stream.read_exact(&mut bytes).ok()?;
                bytes.truncate(bytes.len() - 2);
                String::from_utf8(bytes).ok()
            }
            b'*' if count() >= 0 => {
                let parts: Option<Vec<String>> = (0..count()).map(|_| self.next()).collect();
                Some(format!("[{}]", parts?.join(" ")))
            }
            _ => Some(line),
        }
    }

    fn ask(&mut self, arguments: &[&str]) -> String {
        self.send(arguments).expect("the node takes it");
        self.next().expect("an answer")
    }

    fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        // Closed, or reset where it sent more than was read.
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

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
        self::wait("the read is under way", waits);
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

/// A closed store with `ada` (editor), `reader` and `writer` (granted), `tenant` (at home elsewhere).
fn closed(arguments: &[&str]) -> Process {
    let mut all = vec!["--kafka-database", "shop.orders"];
    all.extend(arguments);
    let process = Process::start(&all);
    process.script(&format!("DEFINE USER root ROLE owner PASSWORD '{ROOTS}'"));
    declare(&process, Some(("root", ROOTS)));
    process.script_as(
        "root",
        ROOTS,
        &format!(
            "DEFINE NAMESPACE bank; USE NAMESPACE bank; DEFINE DATABASE accounts; USE NAMESPACE shop DATABASE orders;
             DEFINE USER ada ON shop.orders ROLE editor PASSWORD '{ADAS}';
             DEFINE USER guest ROLE viewer PASSWORD '{ADAS}';
             DEFINE USER reader ROLE viewer PASSWORD '{ADAS}'; GRANT read ON t TO reader;
             DEFINE USER writer ROLE viewer PASSWORD '{ADAS}'; GRANT write ON t TO writer;
             DEFINE USER tenant ON NAMESPACE bank ROLE editor PASSWORD '{ADAS}';"
        ),
    );
    process
}

fn signed_in(node: &Process, user: &str, password: &str) -> Wire<TcpStream> {
    let mut wire = Wire::connect(node.resp);
    assert_eq!(wire.ask(&["AUTH", user, password]), "+OK", "{user}");
    wire
}

#[test]
fn redis_py_signs_in_and_learns_by_its_usual_exceptions_what_it_may_not() {
    let node = closed(&[]);
    let mut python = Python::start(&node, None);
    for protocol in [2, 3] {
        let how = |user: &str, password: &str| json!({"protocol": protocol, "username": user, "password": password});
        assert_eq!(python.connect("ada", how("ada", ADAS)), json!({"ok": true}));
        python.ok("ada", "xadd", json!(["t", {"a": "1"}]));
        assert_eq!(
            python.connect("wrong", how("guest", WRONG))["error"],
            json!("AuthenticationError")
        );
        assert_eq!(
            python.connect("nobody", json!({"protocol": protocol}))["error"],
            json!("AuthenticationError")
        );
        assert_eq!(python.connect("reader", how("reader", ADAS)), json!({"ok": true}));
        assert_eq!(python.ok("reader", "xlen", json!(["t"])), json!(protocol - 1));
        let (class, says) = python.error("reader", "xadd", json!(["t", {"a": "1"}]));
        assert_eq!(class, "NoPermissionError", "{says}");
    }
    node.script_as(
        "root",
        ROOTS,
        "USE NAMESPACE shop DATABASE orders; GRANT write ON t TO reader;",
    );
    python.ok("reader", "xadd", json!(["t", {"a": "1"}]));
    node.script_as(
        "root",
        ROOTS,
        "USE NAMESPACE shop DATABASE orders; REVOKE write ON t FROM reader;",
    );
    let (class, _) = python.error("reader", "xadd", json!(["t", {"a": "1"}]));
    assert_eq!(class, "NoPermissionError", "on a connection that is open");
}

#[test]
fn each_command_asks_for_its_right_and_tells_nobody_else_what_there_is() {
    let node = closed(&[]);
    let reads: [&[&str]; 5] = [
        &["XLEN", "t"],
        &["XRANGE", "t", "-", "+"],
        &["XREVRANGE", "t", "+", "-"],
        &["XREAD", "STREAMS", "t", "0"],
        &["XINFO", "STREAM", "t"],
    ];
    let write: &[&str] = &["XADD", "t", "*", "a", "1"];
    let describe: [&[&str]; 2] = [&["EXISTS", "t"], &["TYPE", "t"]];
    let declare: &[&str] = &["XTRIM", "t", "MAXLEN", "1000"];
    for (user, password, reads_it, writes_it, sees_it, declares_it) in [
        ("root", ROOTS, true, true, true, true),
        ("ada", ADAS, true, true, true, true),
        ("guest", ADAS, true, false, true, false),
        ("reader", ADAS, true, false, true, false),
        ("writer", ADAS, false, true, true, false),
        ("tenant", ADAS, false, false, false, false),
    ] {
        let mut wire = signed_in(&node, user, password);
        let mut judge = |commands: &[&[&str]], may: bool| {
            for command in commands {
                let answer = wire.ask(command);
                assert_eq!(!answer.starts_with("-NOPERM "), may, "{user}: {command:?}: {answer}");
                assert!(!answer.starts_with('-') || !may, "{user}: {command:?}: {answer}");
                if !may {
                    // What is not there is refused in the same words.
                    let mut other = command.to_vec();
                    for argument in &mut other {
                        if *argument == "t" {
                            *argument = "u";
                        }
                    }
                    let unknown = wire.ask(&other);
                    assert_eq!(unknown, answer.replace(" on t", " on u"), "{user}: {other:?}");
                }
            }
        };
        judge(&reads, reads_it);
        judge(&[write], writes_it);
        judge(&describe, sees_it);
        judge(&[declare], declares_it);
    }
    let mut nobody = Wire::connect(node.resp);
    for command in reads
        .into_iter()
        .chain(describe)
        .chain([write, declare, &["PING"], &["COMMAND"], &["GET", "x"]])
    {
        assert_eq!(nobody.ask(command), "-NOAUTH Authentication required.", "{command:?}");
    }
    assert!(nobody.ask(&["HELLO", "3"]).starts_with("-NOAUTH HELLO must be called"));
    assert_eq!(nobody.ask(&["RESET"]), "+RESET");
}

#[test]
fn users_that_go_take_their_connections_along_and_the_first_one_closes_the_store() {
    let node = node();
    let mut early = Wire::connect(node.resp);
    assert_eq!(early.ask(&["PING"]), "+PONG");
    // Nobody to ask: who signs in is as anonymous as the others.
    assert_eq!(early.ask(&["AUTH", "anybody", "anything"]), "+OK");
    let mut waiting = Wire::connect(node.resp);
    waiting
        .send(&["XREAD", "BLOCK", "0", "STREAMS", "t", "$"])
        .expect("taken");
    node.script(&format!("DEFINE USER root ROLE owner PASSWORD '{ROOTS}'"));
    assert_eq!(waiting.next().as_deref(), Some("-NOAUTH Authentication required."));
    assert_eq!(early.ask(&["PING"]), "-NOAUTH Authentication required.");
    assert_eq!(early.ask(&["AUTH", "root", ROOTS]), "+OK");
    assert_eq!(early.ask(&["PING"]), "+PONG");

    node.script_as(
        "root",
        ROOTS,
        &format!("DEFINE USER ada ON shop.orders ROLE editor PASSWORD '{ADAS}'; DEFINE USER eve ON shop.orders ROLE editor PASSWORD '{ADAS}';"),
    );
    let (mut idle, mut reads) = (signed_in(&node, "ada", ADAS), signed_in(&node, "ada", ADAS));
    reads
        .send(&["XREAD", "BLOCK", "0", "STREAMS", "t", "$"])
        .expect("taken");
    let mut stays = signed_in(&node, "eve", ADAS);
    node.script_as("root", ROOTS, "DROP USER ada;");
    assert!(idle.is_closed() && reads.is_closed());
    assert_eq!(stays.ask(&["PING"]), "+PONG");
    node.script_as("root", ROOTS, &format!("ALTER USER eve SET PASSWORD '{ROOTS}';"));
    assert!(stays.is_closed());
    let mut again = Wire::connect(node.resp);
    assert!(again.ask(&["AUTH", "ada", ADAS]).starts_with("-WRONGPASS"));
}

#[test]
fn wrong_passwords_make_a_name_wait_on_every_port_and_strangers_have_little_room() {
    let node = closed(&[]);
    let mut wire = Wire::connect(node.resp);
    let mut answer = String::new();
    for _ in 0..PATIENCE.as_secs() {
        answer = wire.ask(&["AUTH", "guest", WRONG]);
        if answer.starts_with("-TRYAGAIN too many wrong passwords") {
            break;
        }
        assert!(answer.starts_with("-WRONGPASS"), "{answer}");
    }
    assert!(answer.starts_with("-TRYAGAIN too many wrong passwords"), "{answer}");
    let large = "x".repeat(20_000);
    let mut stranger = Wire::connect(node.resp);
    let answer = stranger.ask(&["AUTH", "ada", &large]);
    assert_eq!(answer, "-ERR Protocol error: a command has 16384 bytes at most here");
    assert!(stranger.is_closed());
    let mut user = signed_in(&node, "ada", ADAS);
    assert_eq!(user.ask(&["ECHO", &large]), large);
}

#[test]
fn passwords_sent_here_appear_nowhere_and_who_signed_in_does() {
    let mut node = closed(&["--log-format", "json", "--log", "debug,openraft=warn,audit=info"]);
    let mut told = String::new();
    for (user, password) in [("ada", ADAS), ("guest", WRONG), ("nobody", WRONG)] {
        let mut wire = Wire::connect(node.resp);
        told += &wire.ask(&["AUTH", user, password]);
        told += &wire.ask(&["HELLO", "3", "AUTH", user, password, "SETNAME", "a b"]);
        told += &wire.ask(&["HELLO", "2", "AUTH", user, password, password]);
        told += &wire.ask(&["AUTH", password]);
        told += &wire.ask(&["CLIENT", "AUTH"]);
        wire.stream
            .write_all(format!("AUTH {user} \"{password}\n").as_bytes())
            .expect("taken");
        told += &wire.next().expect("an answer");
    }
    let mut reader = signed_in(&node, "reader", ADAS);
    told += &reader.ask(&["XADD", "t", "*", "a", "1"]);
    told += &reader.ask(&["CLIENT", "INFO"]);
    told += &node.script_as("root", ROOTS, "INFO FOR USERS;");
    assert!(node.terminate().success());
    let log = node.log();
    for secret in [ADAS, WRONG] {
        assert!(!told.contains(secret), "{secret} in {told}");
        assert!(!log.contains(secret), "{secret} in {log}");
    }
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for (name, value, user) in [
        ("outcome", "good", "ada"),
        ("outcome", "refused", "nobody"),
        ("what", "xadd: Write t", "reader"),
    ] {
        let told = lines
            .iter()
            .map(|line| &line["fields"])
            .any(|fields| fields["surface"] == "resp" && fields[name] == value && fields["user"] == user);
        assert!(told, "{name} {value} {user} in {log}");
    }
}

#[test]
fn redis_py_speaks_tls_and_who_does_not_is_told_apart_and_closed() {
    let node = Process::start_tls(&["--kafka-database", "shop.orders", "--require-client-tls"]);
    declare(&node, None);
    let authority = node.certificates().path("ca.pem");
    let mut python = Python::start(&node, Some(&authority));
    assert_eq!(python.connect("a", json!({"protocol": 3})), json!({"ok": true}));
    // More than one record of TLS each way.
    let large = "x".repeat(100_000);
    assert_eq!(python.ok("a", "xadd", json!(["t", {"a": large}])), json!("1-0"));
    assert_eq!(python.ok("a", "xrange", json!(["t"])), json!([["1-0", {"a": large}]]));
    let mut wire: Wire<Encrypted> = Wire {
        stream: node.certificates().connect(node.resp).expect("a handshake"),
    };
    assert_eq!(wire.ask(&["PING"]), "+PONG");
    let mut plain = Wire::connect(node.resp);
    plain.send(&["PING"]).expect("taken");
    assert!(plain.is_closed());
    wait("a line in the log", || {
        node.log()
            .contains("RESP connection closed: a client without TLS on a port with TLS")
    });
    let metrics = node.get("/metrics").expect("metrics").1;
    assert!(
        metrics.contains("tessaridb_resp_connections_closed_total{reason=\"no_tls\"} 1"),
        "{metrics}"
    );
}

#[test]
fn tls_and_http_clients_on_a_plain_port_are_told_apart_and_closed() {
    let node = node();
    assert!(Certificates::make().connect(node.resp).is_none());
    wait("a line in the log", || {
        node.log().contains("a TLS client on a port without TLS")
    });
    let mut http = Wire::connect(node.resp);
    http.stream
        .write_all(b"POST / HTTP/1.1\r\nHost: h\r\n\r\nXADD t * a 1\r\n")
        .expect("taken");
    let answer = http.next().expect("an answer");
    assert_eq!(answer, "-ERR Protocol error: an HTTP client on the RESP port");
    assert!(http.is_closed());
    assert_eq!(Wire::connect(node.resp).ask(&["XLEN", "t"]), ":0");
    wait("both are counted", || {
        let metrics = node.get("/metrics").expect("metrics").1;
        metrics.contains("tessaridb_resp_connections_closed_total{reason=\"frame\"} 2")
    });
}

#[test]
fn a_stop_answers_reads_that_wait_and_closes() {
    let mut node = node();
    let mut wire = Wire::connect(node.resp);
    wire.send(&["XREAD", "BLOCK", "0", "STREAMS", "t", "$"]).expect("taken");
    // Once it is answered on another connection that came later, the first one was read.
    assert_eq!(Wire::connect(node.resp).ask(&["PING"]), "+PONG");
    assert!(node.terminate().success(), "{}", node.log());
    // A read that had not begun by then is closed without an answer.
    let answer = wire.next();
    assert!(answer.is_none() || answer.as_deref() == Some("*-1"), "{answer:?}");
    assert!(wire.is_closed());
}

#[test]
fn kill_9_takes_nothing_that_an_xadd_was_answered_for() {
    let mut node = node();
    let mut answered: Vec<(String, u64)> = Vec::new();
    let mut next = 0u64;
    for round in 0..3 {
        let mut wire = Wire::connect(node.resp);
        let before = answered.len();
        let mut sent = std::collections::VecDeque::new();
        // Always some on their way.
        while answered.len() < before + 150 {
            while sent.len() < 20 {
                wire.send(&["XADD", "t", "*", "n", &next.to_string()]).expect("taken");
                sent.push_back(next);
                next += 1;
            }
            let id = wire.next().expect("an answer");
            assert!(!id.starts_with('-'), "{id}");
            answered.push((id, sent.pop_front().expect("sent")));
        }
        node.kill();
        // What was answered before the end came counts, too.
        while let (Some(id), Some(n)) = (wire.next(), sent.pop_front()) {
            answered.push((id, n));
        }
        node.restart();
        let mut wire = Wire::connect(node.resp);
        for (id, n) in &answered {
            let held = wire.ask(&["XRANGE", "t", id, id]);
            assert_eq!(held, format!("[[{id} [n {n}]]]"), "round {round}");
        }
        let length: usize = wire.ask(&["XLEN", "t"])[1..].parse().expect("a number");
        assert!(length >= answered.len() && length <= next as usize, "{length}");
    }
    let mut ids: Vec<&String> = answered.iter().map(|(id, _)| id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), answered.len(), "no id is given twice");
}
