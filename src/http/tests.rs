//! The front door over a real socket, with scripts that are read and not carried out.

use super::*;
use crate::ql::exec::{Outcome, Record};
use crate::ql::{Error, ErrorKind, Object, Parameters, Value, parse_bytes};
use bytes::Bytes;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Answers a value for each CREATE, and errors for some names.
struct Fake {
    gate: Semaphore,
}

#[async_trait::async_trait]
impl Scripts for Fake {
    async fn execute(&self, script: Bytes, parameters: Parameters) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = Vec::new();
        for one in parse_bytes(&script, &parameters)? {
            let source = one.statement.to_string();
            outcomes.push(match source.as_str() {
                "DROP TOPIC taken" => {
                    return Err(ErrorKind::NameTaken {
                        what: "the topic",
                        name: "taken".to_owned(),
                    }
                    .at(one.span));
                }
                "DROP TOPIC panics" => panic!("as asked"),
                "DROP TOPIC waits" => {
                    self.gate.acquire().await.expect("open").forget();
                    Outcome::Done
                }
                "READ FROM t" => Outcome::Records {
                    records: vec![Record {
                        table: "t".to_owned(),
                        key: "1".to_owned(),
                        fields: Object::from([("value".to_owned(), Value::Bytes(b"\x01\xff".to_vec().into()))]),
                    }],
                    notes: Vec::new(),
                },
                _ => Outcome::Value(source.into()),
            });
        }
        Ok(outcomes)
    }
}

struct Running {
    address: SocketAddr,
    fake: Arc<Fake>,
    ready: watch::Sender<bool>,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

async fn start() -> Running {
    let fake = Arc::new(Fake {
        gate: Semaphore::new(0),
    });
    let (ready, watched) = watch::channel(true);
    let collector: Collector = Box::new(|out| out.push_str("more 1\n"));
    let server = Server::new(fake.clone(), watched, vec![collector], Limits::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let served = tokio::spawn(server.serve(listener, stop.clone()));
    Running {
        address,
        fake,
        ready,
        stop,
        served,
    }
}

/// Sends raw text and reads to the end of the connection.
async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

fn post(body: &str, accept: &str) -> Vec<u8> {
    format!(
        "POST /script HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAccept: {accept}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

async fn answer(address: SocketAddr, request: &[u8]) -> (u16, String) {
    let text = exchange(address, request).await;
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().unwrap(), body.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    answer(address, request.as_bytes()).await
}

#[tokio::test]
async fn a_script_is_answered_in_json_or_in_text() {
    let node = start().await;
    for (body, accept, expected) in [
        (
            "READ FROM t",
            "*/*",
            r#"{"results":[{"kind":"records","records":[{"id":"t:1","value":{"value":"01ff"}}]}]}"#,
        ),
        ("READ FROM t", "text/plain", "1: { value: 0x01ff }\n"),
        (
            "READ FROM t",
            "application/json, text/plain",
            r#"{"results":[{"kind":"records","records":[{"id":"t:1","value":{"value":"01ff"}}]}]}"#,
        ),
        (
            r#" {"script": "INFO FOR GROUP $g", "parameters": {"g": "'a'"}}"#,
            "",
            r#"{"results":[{"kind":"value","value":"INFO FOR GROUP 'a'"}]}"#,
        ),
        ("", "", r#"{"results":[]}"#),
    ] {
        assert_eq!(
            answer(node.address, &post(body, accept)).await,
            (200, expected.to_owned()),
            "{body}"
        );
    }
}

#[tokio::test]
async fn failures_have_one_shape() {
    let node = start().await;
    for (body, status, expected) in [
        (
            "READ",
            400,
            r#"{"error":"FROM was expected, not the end (at 4..4)","code":"invalid"}"#,
        ),
        (
            "DROP TOPIC taken",
            409,
            r#"{"error":"the topic taken is there already (at 0..16)","code":"conflict"}"#,
        ),
        (
            "DROP TOPIC panics",
            500,
            r#"{"error":"the script ended early","code":"internal"}"#,
        ),
        (
            r#"{"script": "READ FROM t", "parameters": {"n": "1 2"}}"#,
            400,
            r#"{"error":"the parameter $n: the end of the literal was expected, not `2` (at 2..3)","code":"invalid"}"#,
        ),
        (
            r#"{"script": "READ FROM t", "parameters": {"1": "1"}}"#,
            400,
            r#"{"error":"\"1\" is not a parameter's name","code":"invalid"}"#,
        ),
    ] {
        assert_eq!(
            answer(node.address, &post(body, "text/plain")).await,
            (status, expected.to_owned()),
            "{body}"
        );
    }
    let (status, body) = answer(node.address, &post("{nonsense", "")).await;
    assert_eq!((status, body.contains("not a script in JSON")), (400, true), "{body}");
    assert_eq!(get(node.address, "/nowhere").await.0, 404);
    assert_eq!(get(node.address, "/script").await.0, 405);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_and_the_sender_hears_it() {
    let node = start().await;
    let large = " ".repeat(MAX_BODY + 1);
    let (status, body) = answer(node.address, &post(&large, "")).await;
    assert_eq!((status, body.contains("bytes at most")), (413, true), "{body}");
    let chunked = format!(
        "POST /script HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
        large.len()
    );
    assert_eq!(answer(node.address, chunked.as_bytes()).await.0, 413);
    let (status, _) = answer(node.address, &post(&large[1..], "")).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_body_cut_short_harms_nobody() {
    let node = start().await;
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    stream
        .write_all(b"POST /script HTTP/1.1\r\nHost: h\r\nContent-Length: 16000000\r\n\r\nREAD")
        .await
        .unwrap();
    drop(stream);
    assert_eq!(answer(node.address, &post("READ FROM t", "")).await.0, 200);
}

#[tokio::test]
async fn ready_leaves_before_the_node_stops_and_requests_under_way_are_finished() {
    let node = start().await;
    assert_eq!(get(node.address, "/ready").await.0, 200);
    node.ready.send(false).unwrap();
    assert_eq!(get(node.address, "/ready").await.0, 503);
    assert_eq!(get(node.address, "/health").await.0, 200);

    let waiting = tokio::spawn({
        let address = node.address;
        async move { answer(address, &post("DROP TOPIC waits", "")).await }
    });
    // The script is under way once a second one behind it in time is answered and the first is not.
    while node.fake.gate.available_permits() == 0 && !waiting.is_finished() {
        let (status, metrics) = get(node.address, "/metrics").await;
        assert_eq!(status, 200);
        if metrics.contains("tessaridb_http_scripts_running 1") {
            break;
        }
    }
    node.stop.cancel();
    node.fake.gate.add_permits(1);
    assert_eq!(waiting.await.unwrap().0, 200);
    node.served.await.unwrap();
    assert!(TcpStream::connect(node.address).await.is_err());
}

#[tokio::test]
async fn metrics_and_console_are_there() {
    let node = start().await;
    answer(node.address, &post("READ", "")).await;
    let (status, metrics) = get(node.address, "/metrics").await;
    assert_eq!(status, 200);
    assert!(
        metrics.contains("tessaridb_http_scripts_total{status=\"400\"} 1\n"),
        "{metrics}"
    );
    assert!(metrics.contains("tessaridb_http_script_seconds_count 1\n"), "{metrics}");
    assert!(metrics.ends_with("more 1\n"), "{metrics}");
    let (status, page) = get(node.address, "/").await;
    assert_eq!((status, page.contains("<textarea")), (200, true));
}
