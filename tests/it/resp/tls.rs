//! The port under TLS, and who takes it for another.

use super::python::Python;
use super::wire::Wire;
use super::{declare, node, wait};
use crate::process::{Certificates, Encrypted, Process};
use serde_json::json;
use std::io::Write;

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
