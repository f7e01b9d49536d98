//! Starting, stopping, and what the command line says.

use crate::process::{Process, http_get, run};
use std::net::TcpListener;

#[test]
fn a_node_starts_on_an_empty_folder_and_stops_on_sigterm() {
    let mut node = Process::start(&[]);
    assert_eq!(http_get(node.http, "/health").map(|r| r.0), Some(200));
    let status = node.terminate();
    assert!(status.success(), "{status:?}: {}", node.log());
    let log = node.log();
    assert!(log.contains(&node.bootstrap()), "the addresses are logged: {log}");
    node.restart();
}

#[test]
fn a_second_process_on_the_same_folder_is_refused() {
    let node = Process::start(&[]);
    let data = node.data();
    let (status, _, error) = run(
        &[data.to_str().unwrap(), "-e", "INFO FOR STORE;"],
        data.parent().unwrap(),
    );
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("in use"), "{error}");
    assert_eq!(error.trim_end().lines().count(), 1, "one sentence: {error}");
}

#[test]
fn a_taken_port_is_one_sentence_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--kafka", "--serve", "--resp"] {
        let (status, _, error) = run(&["data", flag, &address], folder.path());
        assert_eq!(status, Some(2), "{error}");
        assert!(error.contains(&address), "{error}");
        assert_eq!(error.trim_end().lines().count(), 1, "one sentence: {error}");
    }
}

#[test]
fn a_wrong_flag_is_one_sentence_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    for wrong in [
        &["data", "--kafke", "x"][..],
        &["data", "--kafka", "9092"],
        &["data", "--node-id", "7"],
        &[],
    ] {
        let (status, _, error) = run(wrong, folder.path());
        assert_eq!(status, Some(2), "{wrong:?}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{wrong:?}: {error}");
    }
}

#[test]
fn help_and_version_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (status, help, _) = run(&["--help"], folder.path());
    assert_eq!(status, Some(0));
    for flag in [
        "--serve",
        "--kafka",
        "--resp",
        "--kafka-database",
        "--kafka-advertise",
        "TESSARIDB_KAFKA_DATABASE",
    ] {
        assert!(help.contains(flag), "{flag} in {help}");
    }
    let (status, version, _) = run(&["--version"], folder.path());
    assert_eq!(status, Some(0));
    assert!(version.starts_with("tessaridb "), "{version}");
}
