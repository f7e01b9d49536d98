//! Stock clients that sign in: what each may do, and by which exception it learns what it may not.

use super::install;
use super::stock::piped;
use crate::process::Process;
use std::process::Command;

const PASSWORD: &str = "correct horse";
const TOPIC: &str = "shop.orders.orders";

/// A closed store; `orders` is granted to `reader` and `writer`, `tenant` is at home elsewhere.
fn node(arguments: &[&str]) -> Process {
    closed(Process::start(arguments))
}

fn closed(process: Process) -> Process {
    process.script(&format!("DEFINE USER owner ROLE owner PASSWORD '{PASSWORD}'"));
    process.script_as(
        "owner",
        PASSWORD,
        &format!(
            "DEFINE NAMESPACE bank; USE NAMESPACE bank; DEFINE DATABASE accounts;
             DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders; USE DATABASE orders; DEFINE TOPIC orders;
             DEFINE USER tenant ON NAMESPACE bank ROLE editor PASSWORD '{PASSWORD}';
             DEFINE USER guest ROLE viewer PASSWORD '{PASSWORD}';
             DEFINE USER reader ROLE viewer PASSWORD '{PASSWORD}'; GRANT read ON orders TO reader;
             DEFINE USER writer ROLE viewer PASSWORD '{PASSWORD}'; GRANT write ON orders TO writer;"
        ),
    );
    process
}

/// What is to be done, by whom, and what comes of it.
struct Step {
    action: &'static str,
    user: &'static str,
    password: &'static str,
    mechanism: &'static str,
    topic: &'static str,
    group: &'static str,
    outcome: &'static str,
}

fn step(
    action: &'static str,
    user: &'static str,
    topic: &'static str,
    group: &'static str,
    outcome: &'static str,
) -> Step {
    Step {
        action,
        user,
        password: PASSWORD,
        mechanism: "PLAIN",
        topic,
        group,
        outcome,
    }
}

fn check(command: &mut Command, steps: &[Step]) {
    let mut tasks = String::new();
    for s in steps {
        let fields = [s.action, s.user, s.password, s.mechanism, s.topic, s.group];
        tasks.push_str(&fields.join("\t"));
        tasks.push('\n');
    }
    let answer = String::from_utf8(piped(command, tasks.as_bytes())).expect("text");
    let outcomes: Vec<&str> = answer.lines().collect();
    assert_eq!(outcomes.len(), steps.len(), "{answer}");
    for (step, outcome) in steps.iter().zip(outcomes) {
        assert_eq!(
            outcome, step.outcome,
            "{} of {} by {} in {:?}",
            step.action, step.topic, step.user, step.group
        );
    }
}

fn java(node: &Process) -> Command {
    let mut command = Command::new("java");
    command
        .args(["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
        .arg(install::java_clients())
        .arg(install::program("java/SignIn.java"))
        .arg(node.bootstrap());
    command
}

#[test]
fn java_clients_do_what_they_may_and_see_the_usual_exceptions() {
    let node = node(&[]);
    let steps = [
        Step {
            password: "wrong",
            ..step("describe-cluster", "guest", "", "", "SaslAuthenticationException")
        },
        Step {
            mechanism: "SCRAM-SHA-256",
            ..step("describe-cluster", "owner", "", "", "UnsupportedSaslMechanismException")
        },
        step("describe-cluster", "owner", "", "", "ok 1 nodes"),
        step("create-topic", "owner", "shop.orders.made", "", "ok"),
        step("create-topic", "owner", "shop.orders.made", "", "TopicExistsException"),
        step(
            "list-topics",
            "owner",
            "",
            "",
            "ok [shop.orders.made, shop.orders.orders]",
        ),
        step(
            "describe-acls",
            "owner",
            "",
            "",
            "ok [User:guest, User:owner, User:reader, User:tenant, User:writer]",
        ),
        // Writing.
        step("produce", "writer", TOPIC, "", "ok offset 0"),
        step("produce-plainly", "writer", TOPIC, "", "ok offset 1"),
        step("describe-configs", "writer", TOPIC, "", "ok delete"),
        step("consume", "writer", TOPIC, "", "TopicAuthorizationException"),
        step("subscribe", "writer", TOPIC, "billing", "GroupAuthorizationException"),
        step("describe-group", "writer", "", "billing", "GroupAuthorizationException"),
        step("delete-topic", "writer", TOPIC, "", "TopicAuthorizationException"),
        step(
            "create-topic",
            "writer",
            "shop.orders.more",
            "",
            "TopicAuthorizationException",
        ),
        step("describe-acls", "writer", "", "", "ClusterAuthorizationException"),
        // Reading.
        step("consume", "reader", TOPIC, "", "ok value"),
        step("subscribe", "reader", TOPIC, "billing", "ok value"),
        step("list-topics", "reader", "", "", "ok [shop.orders.orders]"),
        step("produce-plainly", "reader", TOPIC, "", "TopicAuthorizationException"),
        step("produce", "reader", TOPIC, "", "ClusterAuthorizationException"),
        // Elsewhere.
        step("list-topics", "tenant", "", "", "ok []"),
        step("describe-topic", "tenant", TOPIC, "", "TopicAuthorizationException"),
        step(
            "describe-topic",
            "tenant",
            "shop.orders.none",
            "",
            "TopicAuthorizationException",
        ),
        step("list-offsets", "tenant", TOPIC, "", "TopicAuthorizationException"),
        step("produce", "tenant", TOPIC, "", "TopicAuthorizationException"),
        step("subscribe", "tenant", TOPIC, "billing", "TopicAuthorizationException"),
        step("delete-topic", "owner", "shop.orders.made", "", "ok"),
    ];
    check(&mut java(&node), &steps);
}

#[test]
fn a_java_producer_signs_in_again_while_it_produces() {
    let node = node(&["--kafka-session-seconds", "2"]);
    check(
        &mut java(&node),
        &[step("keep-producing", "writer", TOPIC, "2", "ok signed in again")],
    );
}

fn python(node: &Process, client: &str) -> Command {
    let mut command = Command::new(install::python());
    command
        .arg(install::program("sign_in.py"))
        .args([client, &node.bootstrap()]);
    command
}

#[test]
fn python_clients_do_what_they_may_and_say_why_not() {
    for (client, refused, mechanism, topic, group) in [
        (
            "confluent-kafka",
            "_AUTHENTICATION",
            "_AUTHENTICATION",
            "TOPIC_AUTHORIZATION_FAILED",
            "GROUP_AUTHORIZATION_FAILED",
        ),
        (
            "kafka-python",
            "KafkaTimeoutError",
            "KafkaTimeoutError",
            "TopicAuthorizationFailedError",
            "GroupAuthorizationFailedError",
        ),
        (
            "aiokafka",
            "KafkaConnectionError",
            "KafkaConnectionError",
            "TopicAuthorizationFailedError",
            "GroupAuthorizationFailedError",
        ),
    ] {
        let node = node(&[]);
        let steps = [
            Step {
                password: "wrong",
                ..step("try", "guest", TOPIC, "", refused)
            },
            Step {
                mechanism: "SCRAM-SHA-256",
                ..step("try", "owner", TOPIC, "", mechanism)
            },
            step("produce", "writer", TOPIC, "", "ok"),
            step("consume", "reader", TOPIC, "billing", "ok value"),
            step("produce", "reader", TOPIC, "", topic),
            step("consume", "writer", TOPIC, "billing", group),
            step("consume", "tenant", TOPIC, "billing", topic),
        ];
        // kafka-python logs that it may not read the topic, and polls on.
        let tried = if client == "kafka-python" {
            steps.len() - 1
        } else {
            steps.len()
        };
        eprintln!("{client}");
        check(&mut python(&node, client), &steps[..tried]);
    }
}

#[test]
fn clients_sign_in_under_tls() {
    let node = closed(Process::start_tls(&["--require-client-tls"]));
    let authority = node.certificates().path("ca.pem");
    let steps = |refused, topic| {
        [
            Step {
                password: "wrong",
                ..step("try", "guest", TOPIC, "", refused)
            },
            step("produce", "writer", TOPIC, "", "ok"),
            step("consume", "reader", TOPIC, "billing", "ok value"),
            step("produce", "reader", TOPIC, "", topic),
        ]
    };
    for (client, refused, topic) in [
        ("confluent-kafka", "_AUTHENTICATION", "TOPIC_AUTHORIZATION_FAILED"),
        ("kafka-python", "KafkaTimeoutError", "TopicAuthorizationFailedError"),
        ("aiokafka", "KafkaConnectionError", "TopicAuthorizationFailedError"),
    ] {
        // The group goes on where the client before it stopped.
        eprintln!("{client}");
        check(python(&node, client).arg(&authority), &steps(refused, topic));
    }
    let steps = [
        Step {
            password: "wrong",
            ..step("describe-cluster", "owner", "", "", "SaslAuthenticationException")
        },
        step("describe-cluster", "owner", "", "", "ok 1 nodes"),
        step("produce", "writer", TOPIC, "", "ok offset 3"),
        step("subscribe", "reader", TOPIC, "billing", "ok value"),
        step("produce-plainly", "reader", TOPIC, "", "TopicAuthorizationException"),
    ];
    check(java(&node).arg(&authority), &steps);
}
