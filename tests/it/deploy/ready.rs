//! `tessaridb ready`, which the image's health check runs.

use crate::process::{Process, free_port};
use std::process::{Command, Output};

fn ready(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessaridb"));
    // As in a container of a member, where every process has the node's variables.
    command
        .args(arguments)
        .env("TESSARIDB_SERVE", "0.0.0.0:9080")
        .env("TESSARIDB_CLUSTER_ADDRESS", "0.0.0.0:9180")
        .env("TESSARIDB_CLUSTER_CREDENTIAL", "node.pem")
        .env("TESSARIDB_CLUSTER_KEY", "node.key")
        .env("TESSARIDB_CLUSTER_AUTHORITY", "ca.pem");
    command.output().expect("tessaridb runs")
}

fn error(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn a_node_is_ready_until_it_stops() {
    let mut node = Process::start(&[]);
    let address = format!("127.0.0.1:{}", node.http);
    let out = ready(&["ready", &address]);
    assert_eq!(
        (out.status.code(), &*out.stdout),
        (Some(0), &b"ready\n"[..]),
        "{}",
        error(&out)
    );
    node.terminate();
    let out = ready(&["ready", &address]);
    assert_eq!(out.status.code(), Some(1), "{}", error(&out));
    assert_eq!(
        error(&out).trim_end().lines().count(),
        1,
        "one sentence: {}",
        error(&out)
    );
}

#[test]
fn a_node_under_tls_is_asked_by_who_knows_its_authority() {
    let node = Process::start_tls(&[]);
    let address = format!("localhost:{}", node.http);
    let authority = node.certificates().path("ca.pem");
    let out = ready(&["ready", &address, "--tls-authority", &authority]);
    assert_eq!(out.status.code(), Some(0), "{}", error(&out));
    assert_eq!(ready(&["ready", &address]).status.code(), Some(1));
    let out = ready(&["ready", &address, "--tls-authority", "nothing.pem"]);
    assert_eq!(out.status.code(), Some(2), "{}", error(&out));
}

#[test]
fn nobody_at_the_address_is_not_ready() {
    let out = ready(&["ready", &format!("127.0.0.1:{}", free_port())]);
    assert_eq!(out.status.code(), Some(1), "{}", error(&out));
}

#[test]
fn a_script_is_run_on_a_node_where_the_nodes_variables_are_set() {
    let node = Process::start(&[]);
    let out = ready(&["--at", &format!("127.0.0.1:{}", node.http), "-e", "INFO FOR STORE"]);
    assert_eq!(out.status.code(), Some(0), "{}", error(&out));
}
