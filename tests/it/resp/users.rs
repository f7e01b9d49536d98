//! Who signs in, what each may do, and what becomes of passwords.

use super::python::Python;
use super::wire::Wire;
use super::{declare, node};
use crate::process::{PATIENCE, Process};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;

/// No other text of a test contains these.
const ROOTS: &str = "Zr3-root-mV8k";
const ADAS: &str = "Zr3-ada-nW5j";
const WRONG: &str = "Zr3-wrong-tB6h";

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
