//! The ports under TLS: versions, clients, changing certificates, and those who come without TLS or with it unasked.

use crate::clients::install;
use crate::kafka_wire::{batch, create, produce_one};
use crate::process::{Certificates, PATIENCE, Process, http_get, run};
use crate::wire::Wire;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const DATABASE: &str = "DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders;";

fn node() -> Process {
    let node = Process::start_tls(&["--kafka-database", "shop.orders", "--require-client-tls"]);
    node.script(DATABASE);
    node
}

fn wire(node: &Process) -> Wire {
    Wire::over(node.certificates().connect(node.kafka).expect("a handshake"))
}

/// Waits for something that must come.
fn wait(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends bytes in the clear and reads until the node closes.
fn plain(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the node listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
    stream.write_all(bytes).expect("sent");
    let mut answer = Vec::new();
    // The close may be a reset, as there are bytes that the node does not read.
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    answer
}

/// A ClientHello as OpenSSL sends it, made by its Python module; answers what it says of the node's answer.
const SHAKE: &str = "
import socket, ssl, sys
port, authority, version = int(sys.argv[1]), sys.argv[2], sys.argv[3]
context = ssl.create_default_context(cafile=authority)
context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, version)
try:
    with context.wrap_socket(socket.create_connection(('127.0.0.1', port)), server_hostname='127.0.0.1') as s:
        print(s.version())
except ssl.SSLError as error:
    print(error.reason)
except OSError as error:
    print(type(error).__name__)
";

fn shake(port: u16, authority: &str, version: &str) -> String {
    let mut python = Command::new("python3");
    python.args(["-W", "ignore", "-c", SHAKE, &port.to_string(), authority, version]);
    let out = python.output().expect("python3 runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

#[test]
fn tls_is_1_3_and_nothing_older_gets_more_than_an_alert() {
    let node = node();
    let authority = node.certificates().path("ca.pem");
    let strange = Certificates::make();
    let stranger = strange.path("ca.pem");
    for port in [node.kafka, node.http] {
        assert_eq!(shake(port, &authority, "TLSv1_3"), "TLSv1.3");
        assert_eq!(shake(port, &authority, "TLSv1_2"), "TLSV1_ALERT_PROTOCOL_VERSION");
        assert_eq!(shake(port, &stranger, "TLSv1_3"), "CERTIFICATE_VERIFY_FAILED");
    }
    assert_eq!(node.get("/health").map(|answer| answer.0), Some(200));
}

#[test]
fn stock_clients_produce_and_consume_under_tls() {
    let mut node = node();
    let authority = node.certificates().path("ca.pem");
    let bootstrap = node.bootstrap();
    let clients = ["confluent-kafka", "kafka-python", "aiokafka"];
    let topic = |client: &str| client.replace('-', "_");
    let exchange = |client: &str, verb: &str| {
        let mut python = Command::new(install::python());
        python.arg(install::program("encrypted.py"));
        python.args([client, verb, &bootstrap, &authority, &topic(client), "40"]);
        let out = python.output().expect("python runs");
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{client} {verb}: {error}");
    };
    for client in clients {
        create(&mut wire(&node), &topic(client), 1, &[]);
        exchange(client, "produce");
    }
    // From memory first, then from the files.
    exchange(clients[0], "consume");
    assert!(node.terminate().success());
    node.restart();
    for client in clients {
        exchange(client, "consume");
    }
}

#[test]
fn clients_without_tls_are_told_and_closed() {
    let node = node();
    let frame = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
    assert_eq!(plain(node.kafka, &frame), b"");
    wait("a line in the log", || {
        node.log().contains("security.protocol must be SSL")
    });
    assert_eq!(plain(node.kafka, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"), b"");
    let (status, body) = http_get(node.http, "/script").expect("an answer in the clear");
    assert_eq!(status, 400);
    assert!(body.contains("https"), "{body}");
    let metrics = node.get("/metrics").expect("metrics").1;
    for counted in [
        "tessaridb_kafka_connections_closed_total{reason=\"no_tls\"} 2",
        "tessaridb_http_connections_closed_total{reason=\"no_tls\"} 1",
    ] {
        assert!(metrics.contains(counted), "{counted} in {metrics}");
    }
}

#[test]
fn tls_clients_on_ports_without_tls_are_told_apart_and_closed() {
    let node = Process::start(&["--max-request-bytes", "1073741824"]);
    let certificates = Certificates::make();
    let authority = certificates.path("ca.pem");
    for port in [node.kafka, node.http] {
        let seen = shake(port, &authority, "TLSv1_3");
        assert!(!seen.starts_with("TLS"), "{seen}");
    }
    wait("a line of each port in the log", || {
        node.log().matches("a TLS client on a port without TLS").count() == 2
    });
    let metrics = node.get("/metrics").expect("metrics").1;
    assert!(metrics.contains("{reason=\"tls_unasked\"} 1"), "{metrics}");
    assert!(
        metrics.contains("kafka_connections_closed_total{reason=\"frame\"} 1"),
        "{metrics}"
    );
}

#[test]
fn certificates_change_under_load_and_no_connection_is_dropped() {
    let node = node();
    create(&mut wire(&node), "t", 1, &[]);
    let certificates = node.certificates();
    let stop = AtomicBool::new(false);
    let produced = std::thread::scope(|scope| {
        let load: Vec<_> = (0..4)
            .map(|_| {
                let mut wire = wire(&node);
                let stop = &stop;
                scope.spawn(move || {
                    let mut produced = 0;
                    while !stop.load(Relaxed) {
                        assert_eq!(produce_one(&mut wire, "t", batch(1)).0, 0);
                        produced += 1;
                    }
                    produced
                })
            })
            .collect();
        // The load ends also where an expectation here is not met.
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..3 {
                certificates.issue("node");
                if round > 0 {
                    // Without it the node looks by itself, every other second.
                    node.signal(libc::SIGHUP);
                }
                let new = certificates.certificate("node.pem");
                wait("the new certificate", || certificates.shown(node.kafka) == new);
                wait("the new certificate", || certificates.shown(node.http) == new);
            }
        }));
        stop.store(true, Relaxed);
        let produced: i64 = load.into_iter().map(|thread| thread.join().expect("the load")).sum();
        changed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        produced
    });
    assert_eq!(produce_one(&mut wire(&node), "t", batch(1)), (0, produced));
}

#[test]
fn a_pair_that_does_not_match_is_told_once_and_the_former_one_stays() {
    let node = node();
    let certificates = node.certificates();
    let former = certificates.certificate("node.pem");
    certificates.issue("other");
    let copy = |from: &str, to: &str| {
        std::fs::copy(certificates.path(from), certificates.path(to)).expect("copied");
    };
    let told = || node.log().matches("the former one stays in use").count();
    copy("other.key", "node.key");
    node.signal(libc::SIGHUP);
    wait("a line in the log", || told() == 1);
    assert_eq!(certificates.shown(node.kafka), former);
    node.signal(libc::SIGHUP);
    copy("other.pem", "node.pem");
    node.signal(libc::SIGHUP);
    let new = certificates.certificate("other.pem");
    wait("the new certificate", || certificates.shown(node.kafka) == new);
    assert_eq!(told(), 1, "{}", node.log());
}

#[test]
fn a_node_that_must_encrypt_does_not_start_in_the_clear() {
    let certificates = Certificates::make();
    certificates.issue("other");
    let (pem, key, other) = (
        certificates.path("node.pem"),
        certificates.path("node.key"),
        certificates.path("other.key"),
    );
    let folder = tempfile::tempdir().expect("a folder");
    for (wrong, says) in [
        (&["--require-client-tls"][..], "in the clear"),
        (&["--tls-cert", &pem], "--tls-key"),
        (&["--tls-key", &key], "--tls-cert"),
        (
            &["--tls-cert", &pem, "--tls-key", &other],
            "is not that of the certificate",
        ),
        (&["--tls-cert", &key, "--tls-key", &key], "no certificate"),
        (&["--tls-cert", "nothing", "--tls-key", &key], "nothing"),
    ] {
        let mut arguments = vec!["data", "--kafka", "127.0.0.1:0"];
        arguments.extend(wrong);
        let (status, _, error) = run(&arguments, folder.path());
        assert_eq!(status, Some(2), "{wrong:?}: {error}");
        assert!(error.contains(says), "{wrong:?}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{wrong:?}: {error}");
    }
    assert!(!folder.path().join("data").exists(), "nothing is left behind");
}

#[test]
fn the_shell_speaks_tls_to_a_node_its_authority_vouches_for() {
    let node = node();
    let folder = tempfile::tempdir().expect("a folder");
    let stranger = Certificates::make();
    let (ours, strange) = (node.certificates().path("ca.pem"), stranger.path("ca.pem"));
    for host in ["localhost", "127.0.0.1"] {
        let at = format!("{host}:{}", node.http);
        let ask = |more: &[&str]| {
            let mut arguments = vec!["--at", &at, "-e", "INFO FOR STORE;"];
            arguments.extend(more);
            run(&arguments, folder.path())
        };
        let (status, out, error) = ask(&["--tls-authority", &ours]);
        assert_eq!(status, Some(0), "{error}");
        assert!(out.contains("shop"), "{out}");
        let (status, out, error) = ask(&["--tls-authority", &strange]);
        assert_eq!((status, out.as_str()), (Some(2), ""), "{error}");
        let (status, _, error) = ask(&[]);
        assert_eq!(status, Some(1));
        assert!(error.contains("https"), "{error}");
    }
    let (status, _, error) = run(&["--at", "https://localhost:1", "-e", ";"], folder.path());
    assert_eq!(status, Some(2));
    assert!(
        error.contains("HOST:PORT") && error.contains("--tls-authority"),
        "{error}"
    );
}

#[test]
fn certs_needs_no_store_and_says_what_it_wrote() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = Command::new(env!("CARGO_BIN_EXE_tessaridb"))
        .args(["certs", "pki", "--node", "one", "two.example"])
        // As in a container made for nodes.
        .env("TESSARIDB_PATH", "/nowhere")
        .env("TESSARIDB_KAFKA", "0.0.0.0:9092")
        .current_dir(folder.path())
        .output()
        .expect("tessaridb runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let written = String::from_utf8_lossy(&out.stdout);
    for name in [
        "ca.pem",
        "ca.key",
        "one.pem",
        "one.key",
        "two.example.pem",
        "two.example.key",
    ] {
        assert!(written.lines().any(|line| line == format!("pki/{name}")), "{written}");
        assert!(folder.path().join("pki").join(name).exists());
    }
    let (status, _, error) = run(&["certs", "pki", "--node", "a/b"], folder.path());
    assert_eq!(status, Some(2), "{error}");
}
