//! The front door over a real socket, with scripts that are read and not carried out.

use super::*;
use crate::auth::{AuthConfig, Caller, Who};
use crate::ql::exec::{Outcome, Record};
use crate::ql::{Error, ErrorKind, Object, Parameters, Value, parse_bytes};
use bytes::Bytes;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Answers a value for each CREATE, and errors for some names.
struct Fake {
    gate: Semaphore,
    /// Who sent the last script.
    caller: parking_lot::Mutex<Option<Caller>>,
}

#[async_trait::async_trait]
impl Scripts for Fake {
    async fn execute(&self, caller: Caller, script: Bytes, parameters: Parameters) -> Result<Vec<Outcome>, Error> {
        *self.caller.lock() = Some(caller);
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
    _host: cluster::raft::RangeHost,
    catalog: cluster::catalog::Catalog,
    auth: Arc<Auth>,
    fake: Arc<Fake>,
    ready: watch::Sender<bool>,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

async fn start() -> Running {
    start_within(&Budget::new(256 << 20)).await
}

async fn start_within(budget: &Budget) -> Running {
    let fake = Arc::new(Fake {
        gate: Semaphore::new(0),
        caller: parking_lot::Mutex::default(),
    });
    let (host, catalog) = crate::auth::tests::catalog().await;
    let auth = Arc::new(Auth::new(catalog.clone(), AuthConfig::default()));
    let (ready, watched) = watch::channel(true);
    let collector: Collector = Box::new(|out| out.push_str("more 1\n"));
    let server = Server::new(fake.clone(), auth.clone(), watched, vec![collector], Limits::default());
    let server = server.within(budget);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let served = tokio::spawn(server.serve(listener, stop.clone()));
    Running {
        address,
        _host: host,
        catalog,
        auth,
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

/// A request with an `Authorization`: status, head, body.
async fn signed(address: SocketAddr, what: &str, authorization: &str) -> (u16, String, String) {
    let body = "READ FROM t";
    let request = format!(
        "{what} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{authorization}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let text = exchange(address, request.as_bytes()).await;
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().unwrap(), head.to_ascii_lowercase(), body.to_owned())
}

fn basic(pair: &str) -> String {
    use base64::Engine;
    let pair = base64::engine::general_purpose::STANDARD.encode(pair);
    format!("Authorization: Basic {pair}\r\n")
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
async fn who_takes_no_answers_is_closed_while_others_wait_for_memory() {
    let budget = Budget::new(16 << 20);
    let node = start_within(&budget).await;
    let script = format!("CREATE t = {{ a: '{}' }}", "x".repeat(8_000_000));
    let mut greedy = Vec::new();
    for _ in 0..4 {
        // The socket must not take all of it for the client.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(node.address).await.unwrap();
        stream.write_all(&post(&script, "")).await.unwrap();
        greedy.push(stream);
    }
    // They wait for each other, and are closed one by one until nobody does.
    let closed = async {
        let name = "tessaridb_http_connections_closed_total{reason=\"slow_reader\"} ";
        let count = |metrics: &str| {
            metrics
                .lines()
                .find_map(|line| line.strip_prefix(name)?.parse::<u32>().ok())
        };
        while count(&get(node.address, "/metrics").await.1).expect("counted") < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), closed)
        .await
        .expect("two are closed");
    let (status, body) = answer(node.address, &post(&script, "")).await;
    assert_eq!((status, body.len() > 8_000_000), (200, true));
    drop(greedy);
    // What was written, or not, holds nothing.
    let freed = async {
        while budget.answers.try_take(15 << 20).is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), freed)
        .await
        .expect("all is free");
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

#[tokio::test]
async fn a_store_with_users_answers_who_signs_in() {
    let node = start().await;
    node.auth.declare_first("ada", b"pass:word").await.unwrap();
    for authorization in [
        String::new(),
        basic("ada:wrong"),
        basic("nobody:pass:word"),
        basic("ada"),
        basic("\u{0}:"),
        "Authorization: Basic %%%\r\n".to_owned(),
        "Authorization: Digest ada\r\n".to_owned(),
        "Authorization: nonsense\r\n".to_owned(),
        "Authorization: Bearer nonsense\r\n".to_owned(),
        format!("Authorization: Bearer {}\r\n", "A".repeat(43)),
    ] {
        for what in ["POST /script", "GET /metrics", "POST /session"] {
            // A wrong password a name and no more: three would make it wait.
            if what != "POST /script" && authorization.contains("Basic") {
                continue;
            }
            let (status, head, body) = signed(node.address, what, &authorization).await;
            assert_eq!(status, 401, "{what} {authorization}");
            assert!(head.contains("www-authenticate: basic realm="), "{head}");
            assert!(
                body.contains(r#""code":"unauthenticated""#) && !body.contains("pass:"),
                "{body}"
            );
        }
    }
    assert!(node.fake.caller.lock().is_none(), "no script got through");
    for open in ["/health", "/ready", "/"] {
        assert_eq!(get(node.address, open).await.0, 200, "{open}");
    }
    let (status, body) = answer(node.address, &post(&" ".repeat(MAX_BODY), "")).await;
    assert_eq!(
        (status, body.contains("sign in first")),
        (401, true),
        "heard by who sends much"
    );
    let ada = basic("ada:pass:word");
    assert_eq!(signed(node.address, "POST /script", &ada).await.0, 200);
    let caller = node.fake.caller.lock().take().unwrap();
    assert!(matches!(caller.who, Who::User(principal) if &*principal.name == "ada"));
    assert!(caller.origin.remote.is_some_and(|remote| remote.ip().is_loopback()));
    assert_eq!(signed(node.address, "GET /metrics", &ada).await.0, 200);
}

#[tokio::test]
async fn an_open_store_asks_nobody_who_they_are() {
    let node = start().await;
    for authorization in [String::new(), basic("ada:x"), "Authorization: Bearer x\r\n".to_owned()] {
        assert_eq!(signed(node.address, "POST /script", &authorization).await.0, 200);
        let caller = node.fake.caller.lock().take().unwrap();
        assert_eq!(caller.who, Who::Anonymous);
    }
}

#[tokio::test]
async fn a_session_is_opened_used_and_ended() {
    let node = start().await;
    node.auth.declare_first("ada", b"password").await.unwrap();
    let open = async || {
        let (status, head, body) = signed(node.address, "POST /session", &basic("ada:password")).await;
        assert_eq!(status, 200, "{body}");
        assert!(head.contains("cache-control: no-store"), "{head}");
        let opened: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(opened["user"], "ada");
        assert!(opened["expires"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
        format!("Authorization: Bearer {}\r\n", opened["token"].as_str().unwrap())
    };
    let (first, second) = (open().await, open().await);
    for bearer in [&first, &second] {
        assert_eq!(signed(node.address, "POST /script", bearer).await.0, 200);
    }
    assert_eq!(
        signed(node.address, "POST /session", &first).await.0,
        401,
        "a token opens no other"
    );
    assert_eq!(signed(node.address, "DELETE /session", &first).await.0, 200);
    assert_eq!(signed(node.address, "DELETE /session", &first).await.0, 401);
    assert_eq!(signed(node.address, "POST /script", &first).await.0, 401);
    assert_eq!(signed(node.address, "POST /script", &second).await.0, 200);

    let change = cluster::catalog::Command::AlterUser {
        user: cluster::catalog::UserRef {
            name: "ada".into(),
            id: None,
        },
        change: cluster::catalog::UserChange::Password(node.auth.hash(b"other").await.unwrap()),
    };
    node.catalog.propose(change).await.unwrap();
    assert_eq!(
        signed(node.address, "POST /script", &second).await.0,
        401,
        "the user changed"
    );
}

#[tokio::test]
async fn wrong_passwords_are_told_when_to_try_again() {
    let node = start().await;
    node.auth.declare_first("ada", b"password").await.unwrap();
    for what in ["POST /script", "GET /metrics", "POST /session"] {
        assert_eq!(signed(node.address, what, &basic("ada:wrong")).await.0, 401);
    }
    // Another one, as of a clock ahead, so that the wait is whole however slow this test runs.
    let clock = node.catalog.view().wrong_passwords("ada").unwrap();
    assert_eq!(clock.count, 3);
    let further = cluster::catalog::Command::CountWrongPassword {
        name: "ada".into(),
        now_ms: clock.last_ms + 60_000,
    };
    node.catalog.propose(further).await.unwrap();
    for what in ["POST /script", "GET /metrics", "POST /session"] {
        let (status, head, body) = signed(node.address, what, &basic("ada:password")).await;
        assert_eq!(status, 429, "{body}");
        assert!(head.contains("retry-after: 2"), "{head}");
        assert!(body.contains(r#""code":"throttled""#), "{body}");
    }
    assert_eq!(node.catalog.view().wrong_passwords("ada").unwrap().count, 4);
}
